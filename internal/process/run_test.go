//go:build unix

package process_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/process"
)

const hour = "sleep 3600"

// script is a shell script to run in dir, in short delays.
func script(dir, text string) *process.Spec {
	return &process.Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", text}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: dir,
		MaxStdout: 1 << 20, MaxStderr: 1 << 10, KillDelay: 200 * time.Millisecond, WaitDelay: time.Minute,
	}
}

func run(t *testing.T, s *process.Spec) *process.Result {
	t.Helper()
	res, err := process.Run(t.Context(), s)
	require.NoError(t, err)
	require.False(t, res.Lost)
	return res
}

// pids reads the process ids that a script has left in files named pid*.
func pids(t *testing.T, dir string) (list []int) {
	files, err := filepath.Glob(filepath.Join(dir, "pid*"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		list = append(list, pid)
	}
	return list
}

func requireDead(t *testing.T, list []int) {
	t.Helper()
	for _, pid := range list {
		require.Eventually(t, func() bool {
			if syscall.Kill(pid, 0) != nil {
				return true
			}
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err == nil && bytes.Contains(text, []byte(") Z "))
		}, 20*time.Second, 5*time.Millisecond, "process %d still runs", pid)
	}
}

func TestRunToItsEnd(t *testing.T) {
	for _, row := range []struct {
		name, script, stdin string
		code                int
		signal              string
		stdout, stderr      string
	}{
		{"success", "echo out; echo err >&2", "", 0, "", "out\n", "err\n"},
		{"a status", "exit 7", "", 7, "", "", ""},
		{"a signal", "kill -9 $$", "", -1, "SIGKILL", "", ""},
		{"input", "cat", "in", 0, "", "in", ""},
		{"no input", "cat", "", 0, "", "", ""},
		{"input that is not read", "exec 0<&-; echo ok", strings.Repeat("x", 1<<20), 0, "", "ok\n", ""},
		{"much input", "wc -c | tr -d ' '", strings.Repeat("x", 1<<20), 0, "", "1048576\n", ""},
		{"an environment of its own", "echo ${HOME-none}", "", 0, "", "none\n", ""},
		{"no terminal", "(exec < /dev/tty) 2>/dev/null || echo none", "", 0, "", "none\n", ""},
		{"bytes", `printf '\377\000\376'`, "", 0, "", "\xff\x00\xfe", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := script(t.TempDir(), row.script)
			s.Stdin = []byte(row.stdin)
			res := run(t, s)
			require.Equal(t, row.code, res.ExitCode)
			require.Equal(t, row.signal, res.Signal)
			require.Equal(t, row.stdout, string(res.Stdout))
			stderr, _, _ := res.Stderr.Text()
			require.Equal(t, row.stderr, stderr)
			require.False(t, res.Stopped || res.Overflow || res.Left)
		})
	}
}

// A program is ended with all that it has started; a mistake takes an hour.
func TestRunIsEnded(t *testing.T) {
	for _, row := range []struct {
		name, script, stdout string
		linuxOnly            bool
	}{
		{"a program", "echo partial; echo $$ > pid1; : > begun; exec " + hour, "partial\n", false},
		{"a grandchild holds the pipe", "echo partial; sh -c 'echo $$ > pid1; : > begun; exec " + hour + "' | cat", "partial\n", false},
		{"SIGTERM is heard", "trap 'echo heard; exit' TERM; : > begun; while :; do sleep 0.01; done", "heard\n", false},
		{"SIGTERM ignored", "trap '' TERM; echo partial; echo $$ > pid1; : > begun; " + hour + "; " + hour, "partial\n", false},
		{"SIGTERM ignored by a child alone", "sh -c 'trap \"\" TERM; echo $$ > pid1; : > begun; exec " + hour + "' & wait", "", false},
		{"stopped", "echo $$ > pid1; : > begun; kill -STOP $$", "", false},
		{"left the session", "setsid -w sh -c 'echo $$ > pid1; : > begun; exec " + hour + "'", "", true},
		{"left the session, and starts others meanwhile", "setsid sh -c 'trap \"\" TERM; echo $$ > pid1; : > begun; while :; do sleep 3600 & sleep 0.02; done' & wait", "", true},
		{"left the session, SIGTERM ignored", "setsid sh -c 'trap \"\" TERM; echo $$ > pid1; : > begun; " + hour + "' & wait", "", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.linuxOnly && runtime.GOOS != "linux" {
				t.Skip("the process would be left")
			}
			t.Parallel()
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
						cancel()
					}
					time.Sleep(time.Millisecond)
				}
			}()
			killed := 0
			s := script(dir, row.script)
			s.Kill = func() { killed++ }
			if strings.HasSuffix(row.name, "is heard") {
				s.KillDelay = time.Minute
			}
			res, err := process.Run(ctx, s)
			require.NoError(t, err)
			require.True(t, res.Stopped)
			require.False(t, res.Left || res.Overflow || res.Lost)
			require.Equal(t, 1, killed)
			require.Equal(t, row.stdout, string(res.Stdout))
			requireDead(t, pids(t, dir))
		})
	}
}

// Endless output ends a program, and so does exactly as much as the bound.
func TestRunOutputBound(t *testing.T) {
	for _, row := range []struct {
		name, script string
		kept         int
		overflow     bool
	}{
		{"endless", "yes", 1000, true},
		{"endless, SIGTERM ignored", "trap '' TERM; while :; do echo yyyyyyyyyyyyyyyyyyyy; done", 1000, true},
		{"one below", "printf %999s x", 999, false},
		{"the bound", "printf %1000s x", 1000, true},
		{"one above", "printf %1001s x", 1000, true},
		{"endless complaints", "i=0; while [ $i -lt 1000 ]; do echo eeeeeeeeeeeeeeeeee >&2; i=$((i+1)); done; echo ok", 3, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := script(t.TempDir(), row.script)
			s.MaxStdout, s.MaxStderr = 1000, 100
			res := run(t, s)
			require.Equal(t, row.overflow, res.Overflow)
			require.Len(t, res.Stdout, row.kept)
			stderr, _, _ := res.Stderr.Text()
			require.Less(t, len(stderr), 200)
			require.False(t, res.Stopped)
		})
	}
}

// What a program leaves behind does not hold up the call and does not outlive
// it.
func TestRunLeavesNothing(t *testing.T) {
	for _, row := range []struct {
		name, script string
		left         bool
	}{
		{"a child that holds the output", "sh -c 'echo $$ > pid1; exec " + hour + "' & while ! test -s pid1; do :; done; echo ok", true},
		{"a child with its output elsewhere", "sh -c 'echo $$ > pid1; exec " + hour + "' >/dev/null 2>&1 & while ! test -s pid1; do :; done; echo ok", false},
		{"one that ignores SIGTERM", "sh -c 'trap \"\" TERM; echo $$ > pid1; " + hour + "' & while ! test -s pid1; do :; done; echo ok", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := script(dir, row.script)
			if row.left {
				s.WaitDelay = 200 * time.Millisecond
			}
			res := run(t, s)
			require.Equal(t, "ok\n", string(res.Stdout))
			require.Zero(t, res.ExitCode)
			require.Equal(t, row.left, res.Left)
			requireDead(t, pids(t, dir))
		})
	}
}

func TestRunNotStarted(t *testing.T) {
	s := script(t.TempDir(), "true")
	s.Path = "/nosuch"
	_, err := process.Run(t.Context(), s)
	require.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = process.Run(ctx, script(t.TempDir(), "true"))
	require.ErrorIs(t, err, context.Canceled)
}

// Many at once do not meet, and leave no descriptor behind.
func TestRunConcurrently(t *testing.T) {
	answers := make(chan error)
	dir := t.TempDir()
	for i := range 8 {
		go func() {
			res, err := process.Run(context.Background(), script(dir, fmt.Sprintf("echo %d | cat", i)))
			if err == nil && string(res.Stdout) != fmt.Sprintf("%d\n", i) {
				err = fmt.Errorf("%d: %q", i, res.Stdout)
			}
			answers <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-answers)
	}
}
