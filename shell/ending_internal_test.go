//go:build unix

package shell

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/shell/internal/interpreter"
)

// soon is a time-out that strikes; what it strikes would take an hour.
const soon = 150 * time.Millisecond

// alive reports whether a process runs: a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	state := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
	return state != "Z" && state != "X"
}

// pidsIn returns the process ids that a command has written to files named
// pid*, one each.
func pidsIn(t *testing.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "pid*"))
	require.NoError(t, err)
	var pids []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func requireDead(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !alive(pid) }, 20*time.Second, 5*time.Millisecond, "process %d still runs", pid)
	}
}

// note makes a command leave its process id, and say that it has come this far.
func note(n int) string { return fmt.Sprintf("echo $$ > pid%d; : > begun; ", n) }

// runUntilBegun runs a command that does not end by itself and cancels it when
// it has begun.
func runUntilBegun(t *testing.T, r *runner, dir, command string) *Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	})
	res, err := r.run(ctx, &job{command: command, dir: dir, timeout: long, judge: testJudge(t, &fakePolicy{})})
	require.NoError(t, err)
	require.True(t, res.Cancelled, "%+v", res)
	require.False(t, res.TimedOut || res.Background)
	require.Equal(t, -1, res.ExitCode)
	require.Contains(t, res.Error, "cancelled")
	return res
}

const hour = "sleep 3600"

// Left in the middle, a command and all that it has started are gone, and what
// it wrote is there.
func TestCancelled(t *testing.T) {
	for _, row := range []struct {
		name, command, stdout string
		linuxOnly             bool // a process that leaves the session is found on Linux only
	}{
		{"a program", "echo partial; sh -c '" + note(1) + "exec " + hour + "'", "partial\n", false},
		{"a grandchild holds the pipe", "sh -c 'echo partial; " + note(1) + hour + " | cat'", "partial\n", false},
		{"a pipeline", "echo partial; sh -c '" + note(1) + "exec " + hour + "' | cat", "partial\n", false},
		{"SIGTERM ignored", "sh -c 'trap \"\" TERM; echo partial; " + note(1) + hour + "'", "partial\n", false},
		{"SIGTERM ignored by all", "sh -c 'trap \"\" TERM; " + hour + " & echo $! > pid2; " + note(1) + hour + "; " + hour + "'", "", false},
		{"SIGTERM is heard", "sh -c 'trap \"echo heard; exit\" TERM; " + note(1) + "while :; do sleep 0.01; done'", "heard\n", false},
		{"left the session", "setsid -w sh -c '" + note(1) + "exec " + hour + "'", "", true},
		{"a substitution", "x=$(echo a; sh -c '" + note(1) + "exec " + hour + "'); echo $x", "", false},
		{"a pipe that nobody opens", "mkfifo p; echo partial; : > begun; echo x > p", "partial\n", false},
		{"stopped", "sh -c '" + note(1) + "kill -STOP $$'", "", false},
		{"a trap that never ends", "trap ': > begun; " + hour + "' EXIT", "", false},
		{"a background command is waited for", hour + " & : > begun; wait", "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.linuxOnly && runtime.GOOS != "linux" {
				t.Skip("the process would be left")
			}
			t.Parallel()
			dir := t.TempDir()
			res := runUntilBegun(t, testRunner(t, Options{}), dir, row.command)
			require.Equal(t, row.stdout, res.Stdout)
			requireDead(t, pidsIn(t, dir))
		})
	}
}

// A command that has no end is given one. A mistake here takes an hour, or the
// test binary's time-out.
func TestTimedOut(t *testing.T) {
	for _, row := range []struct{ name, command string }{
		{"a program", hour},
		{"a grandchild holds the pipe", "sh -c '" + hour + " | cat'"},
		{"a loop", "while :; do :; done"},
		{"a loop without a call", "while ((1)); do x=1; done"},
		{"endless output", "yes"},
		{"endless output of a builtin", "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			res := runIn(t, testRunner(t, Options{}), t.TempDir(), &fakePolicy{}, row.command, soon)
			require.True(t, res.TimedOut, "%+v", res)
			require.False(t, res.Cancelled || res.Background)
			require.Equal(t, -1, res.ExitCode)
			require.Contains(t, res.Error, "it had not ended after")
			require.LessOrEqual(t, len(res.Stdout), DefaultMaxOutput+100)
		})
	}
}

// What a command leaves in the background does not hold up the call, and does
// not outlive it.
func TestBackground(t *testing.T) {
	for _, row := range []struct {
		name, command, stdout string
		linuxOnly             bool
	}{
		{"a child", hour + " & echo ok", "ok\n", false},
		{"with its output elsewhere", "sh -c '" + note(1) + "exec " + hour + "' > /dev/null 2>&1 & echo ok", "ok\n", false},
		{"a grandchild", "sh -c '" + note(1) + hour + " & echo $! > pid2; echo ok'", "ok\n", false},
		{"a grandchild with its output elsewhere", "sh -c '" + note(1) + hour + " > /dev/null 2>&1 & echo $! > pid2; echo ok'", "ok\n", false},
		{"SIGTERM ignored", "sh -c 'trap \"\" TERM; " + hour + " & echo $! > pid1; echo ok'", "ok\n", false},
		{"left the session", "setsid sh -c '" + note(1) + "exec " + hour + "' & while ! test -f begun; do :; done; echo ok", "ok\n", true},
		{"left the session and its parent", "sh -c 'setsid sh -c \"" + strings.ReplaceAll(note(1), "$", "\\$") + "exec " + hour + "\" > /dev/null 2>&1 &'; while ! test -f begun; do :; done; echo ok", "ok\n", true},
	} {
		for _, shell := range []string{"", "/bin/sh"} {
			t.Run(row.name+" "+shell, func(t *testing.T) {
				if runtime.GOOS != "linux" && (row.linuxOnly || strings.Contains(row.name, "elsewhere")) {
					t.Skip("nobody would notice the process")
				}
				t.Parallel()
				dir := t.TempDir()
				res := runIn(t, testRunner(t, Options{Shell: shell}), dir, &fakePolicy{}, row.command, long)
				require.True(t, res.Background, "%+v", res)
				require.False(t, res.TimedOut || res.Cancelled)
				require.Zero(t, res.ExitCode)
				require.Empty(t, res.Error)
				require.Equal(t, row.stdout, res.Stdout)
				requireDead(t, pidsIn(t, dir))
			})
		}
	}
	t.Run("one that ends", func(t *testing.T) {
		t.Parallel()
		r := testRunner(t, Options{})
		r.opts.WaitDelay = long
		res := runIn(t, r, t.TempDir(), &fakePolicy{}, "sh -c 'echo late' & echo ok > f", long)
		require.Equal(t, "late\n", res.Stdout)
		require.False(t, res.Background)
	})
}

// With KeepBackground a server goes on, and its output goes where it was sent.
func TestKeepBackground(t *testing.T) {
	for _, shell := range []string{"", "/bin/sh"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := testRunner(t, Options{KeepBackground: true, Shell: shell})
			res := runIn(t, r, dir, &fakePolicy{}, "sh -c 'echo $$ > pid1; exec sleep 3600' > log 2>&1 & while ! test -s pid1; do :; done; echo ok", long)
			require.Equal(t, "ok\n", res.Stdout)
			pids := pidsIn(t, dir)
			require.Len(t, pids, 1)
			require.True(t, alive(pids[0]))
			require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
			runUntilBegun(t, r, dir, "sh -c '"+note(1)+"exec sleep 3600'") // what is ended is not kept
			requireDead(t, pidsIn(t, dir))
		})
	}
}

// When the host is gone, which its end of the pipe tells, so is the command.
func TestHostDies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, shell string
		keep        bool
	}{{"interpreter", "", false}, {"real shell", "/bin/sh", false}, {"background may be kept", "", true}} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			r := testRunner(t, Options{Shell: row.shell, KeepBackground: row.keep})
			p, err := r.start(testJudge(t, &fakePolicy{}))
			require.NoError(t, err)
			require.Equal(t, interpreter.KindReady, (<-p.messages).Kind)
			j := &job{command: "sh -c 'trap \"\" TERM; echo $$ > pid1; sleep 3600 & echo $! > pid2; sleep 3600' & sh -c 'echo $$ > pid3; sleep 3600'", dir: dir}
			require.NoError(t, p.conn.Send(r.startMessage(j, p.temp)))
			require.Eventually(t, func() bool { return len(pidsIn(t, dir)) == 3 }, 20*time.Second, time.Millisecond)
			p.toShell.Close()
			requireDead(t, append(pidsIn(t, dir), p.cmd.Process.Pid))
			require.Error(t, p.cmd.Wait())
			p.wg.Wait()
			for _, f := range p.closing {
				f.Close()
			}
			require.NoDirExists(t, p.temp)
		})
	}
}

// What goes wrong in the interpreter ends its process and is told.
func TestInterpreterFails(t *testing.T) {
	for _, row := range []struct{ name, command, failure string }{
		{"a variable that doubles", "x=a; while :; do x=$x$x; done", "more than 16 MiB of memory"},
		{"a doubling without a call", "x=aaaaaaaaaaaaaaaa; while [[ 1 ]]; do x=$x$x; done", "more than 16 MiB of memory"},
		{"a substitution without an end", "x=$(cat /dev/zero)", "more than 16 MiB of memory"},
		{"an array without an end", "mapfile a < <(yes)", "more than 16 MiB of memory"},
		{"a function that calls itself", "echo first > f; f() { f; }; f", "ended unexpectedly"},
		{"a text nested too deep", "x='('; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do x=$x$x; done; eval \"$x\"", "ended unexpectedly"},
		{"killed", "kill -9 $$", "ended unexpectedly"},
		{"its group killed", "sleep 3600 & kill 0; sleep 3600", "signal to all its processes"},
		{"its group killed for good", "sleep 3600 & kill -9 0; sleep 3600", "ended unexpectedly"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := testRunner(t, Options{})
			r.limits.memory, r.limits.stack = 16<<20, 1<<20
			var logged []string
			res, err := r.run(t.Context(), &job{command: row.command, dir: t.TempDir(), timeout: long, judge: &judge{by: &fakePolicy{}, log: logTo(&logged)}})
			require.NoError(t, err)
			require.Equal(t, -1, res.ExitCode, "%+v", res)
			require.Contains(t, res.Error, row.failure)
			require.NotContains(t, res.Stdout+res.Stderr, "goroutine", "the model sees no stack")
			if strings.Contains(row.name, "calls itself") {
				require.Contains(t, strings.Join(logged, "\n"), "stack")
			}
		})
	}
	t.Run("the host is not killed by $PPID", func(t *testing.T) {
		if _, err := exec.LookPath("kill"); err != nil {
			t.Skip("there is no kill")
		}
		res := runIn(t, testRunner(t, Options{}), t.TempDir(), &fakePolicy{}, "kill -9 $PPID; kill -- -$PPID; command -v kill", long)
		require.Contains(t, res.Stderr, "that is the process that runs this agent")
	})
	t.Run("many processes", func(t *testing.T) {
		r := testRunner(t, Options{})
		r.limits.processes = 8
		res := runIn(t, r, t.TempDir(), &fakePolicy{}, "for ((i=0; i<12; i++)); do sleep 3600 2>> err & done; while ! test -s err; do :; done; read x < err; echo $x", long)
		require.Equal(t, "shell: sleep: 8 processes of this command are running already\n", res.Stdout)
	})
}

// A real shell is ended like the interpreter; nothing that it executes is
// judged.
func TestRealShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := testRunner(t, Options{Shell: "/bin/sh"})
	p := &fakePolicy{deny: "touch"}
	res := runIn(t, r, dir, p, "X=touch; $X made; echo out; echo err >&2; exit 7", long)
	require.Equal(t, 7, res.ExitCode)
	require.Equal(t, "out\n", res.Stdout)
	require.Equal(t, "err\n", res.Stderr)
	require.FileExists(t, filepath.Join(dir, "made"))
	require.Empty(t, p.seen)
	res = runIn(t, r, dir, p, "kill -9 $$", long)
	require.Equal(t, 137, res.ExitCode)
	res = runUntilBegun(t, r, dir, "echo partial; : > begun; sleep 3600 | cat")
	require.Equal(t, "partial\n", res.Stdout)
}
