//go:build unix

package shell

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// fakePolicy denies and asks by the first word of an argv, and by the operator
// and any name of a file.
type fakePolicy struct {
	deny, ask string
	seen      []string // what it was asked about
}

func (p *fakePolicy) answer(word string) rulvar.Verdict {
	switch {
	case strings.Contains(" "+p.deny+" ", " "+word+" "):
		return rulvar.VerdictDeny
	case strings.Contains(" "+p.ask+" ", " "+word+" "):
		return rulvar.VerdictAsk
	}
	return rulvar.VerdictPass
}

func (p *fakePolicy) JudgeArgv(argv []string) (rulvar.Verdict, rulvar.Rule) {
	p.seen = append(p.seen, strings.Join(argv, "|"))
	return p.answer(argv[0]), rulvar.Rule{}
}

func (p *fakePolicy) JudgeRedirect(op, target string, aliases ...string) (rulvar.Verdict, rulvar.Rule) {
	p.seen = append(p.seen, op+target)
	for _, name := range append(aliases, target) {
		if v := p.answer(op + name); v != rulvar.VerdictPass {
			return v, rulvar.Rule{}
		}
	}
	return rulvar.VerdictPass, rulvar.Rule{}
}

// long is a time-out for commands that end by themselves.
const long = time.Minute

// testRunner makes a runner that ends commands quickly.
func testRunner(t *testing.T, o Options) *runner {
	t.Helper()
	o.KillDelay, o.WaitDelay = 200*time.Millisecond, 200*time.Millisecond
	r, err := newRunner(o)
	require.NoError(t, err)
	return r
}

// runIn runs a command in a directory.
func runIn(t *testing.T, r *runner, dir string, p judging, command string, timeout time.Duration) *Result {
	t.Helper()
	res, err := r.run(t.Context(), &job{command: command, dir: dir, timeout: timeout, judge: testJudge(t, p)})
	require.NoError(t, err)
	return res
}

func testJudge(t *testing.T, p judging) *judge {
	return &judge{by: p, log: func(level slog.Level, msg string, data ...any) {
		text := msg + " " + fmt.Sprint(data...)
		if level >= slog.LevelError {
			t.Log(text)
		}
		if strings.Contains(text, "DATA RACE") { // what the race detector says in the interpreter's process
			t.Error(text)
		}
	}}
}

func TestStatusAndOutput(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "script", "#!/bin/sh\necho from a script: $1\nexit 4\n", 0o755)
	write(t, dir, "headless", "echo no interpreter named\n", 0o755)
	write(t, dir, "plain", "data\n", 0o644)
	r := testRunner(t, Options{})
	rows := []struct {
		name, command  string
		code           int
		stdout, stderr string
	}{
		{"success", "echo hello", 0, "hello\n", ""},
		{"both streams", "echo out; echo err >&2", 0, "out\n", "err\n"},
		{"the status of the last command", "true; false", 1, "", ""},
		{"exit", "exit 3; echo no", 3, "", ""},
		{"exit wraps", "exit 300", 44, "", ""},
		{"a program's status", "./script x", 4, "from a script: x\n", ""},
		{"a signal", "sh -c 'kill -9 $$'", 137, "", ""},
		{"pipeline", "printf 'b\\na\\n' | sort | head -1", 0, "a\n", ""},
		{"nothing to read", "cat; read x || echo none", 0, "none\n", ""},
		{"directory", "pwd", 0, dir + "\n", ""},
		{"cd lasts for the command", "mkdir -p sub && cd sub && basename $(pwd)", 0, "sub\n", ""},
		{"loops and functions", "f() { echo \"<$1>\"; }; for i in 1 2; do f $i; done", 0, "<1>\n<2>\n", ""},
		{"here-document", "cat <<EOF\na $((1+1))\nEOF\n", 0, "a 2\n", ""},
		{"process substitution", "cat <(echo a) <(echo b)", 0, "a\nb\n", ""},
		{"redirections", "echo 1 > f; echo 2 >> f; cat < f; ls nope 2>/dev/null", 2, "1\n2\n", ""},
		{"variables of one command", "A=1 B=2 env | grep '^[AB]=' | sort", 0, "A=1\nB=2\n", ""},
		{"unset reaches programs", "export A=1; unset A; env | grep ^A= || echo none", 0, "none\n", ""},
		{"set -e", "set -e; false; echo no", 1, "", ""},
		{"trap", "trap 'echo bye' EXIT; exit 5", 5, "bye\n", ""},
		{"unknown command", "nosuchcommand", 127, "", "shell: nosuchcommand: command not found\n"},
		{"unknown file", "./nosuchfile", 127, "", "shell: ./nosuchfile: no such file\n"},
		{"no program", "./plain", 126, "", "shell: ./plain: permission denied\n"},
		{"a directory", "./", 126, "", "shell: ./: is a directory\n"},
		{"no interpreter named", "./headless", 126, "", "shell: ./headless: it is no program and names none that reads it; begin it with #! or give it to a shell\n"},
		{"no terminal", "sh -c 'exec < /dev/tty' 2>/dev/null || echo none", 0, "none\n", ""},
		{"nobody reads the builtin's pipe", "while :; do echo y; done | head -1", 0, "y\n", ""},
		{"nobody reads the program's pipe", "yes | head -1", 0, "y\n", ""},
		{"kill is a program", "sleep 3600 & sh -c 'kill -0 $$' && kill -0 1 2>/dev/null; echo done", 0, "done\n", ""},
		{"TMPDIR is the host's", "test \"$TMPDIR\" = '" + os.Getenv("TMPDIR") + "' && echo same", 0, "same\n", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			res := runIn(t, r, dir, &fakePolicy{}, row.command, long)
			require.Empty(t, res.Error)
			require.Equal(t, row.code, res.ExitCode, "%+v", res)
			require.Equal(t, row.stdout, res.Stdout)
			require.Equal(t, row.stderr, res.Stderr)
			require.False(t, res.Truncated || res.TimedOut || res.Cancelled)
			require.Empty(t, res.Refused)
		})
	}
	// Where the interpreter has nothing of its own to say, bash agrees.
	if _, err := os.Stat("/bin/bash"); err == nil {
		bash := testRunner(t, Options{Shell: "/bin/bash"})
		for _, row := range rows {
			if row.stderr != "" && row.name != "both streams" {
				continue
			}
			res := runIn(t, bash, dir, &fakePolicy{}, row.command, long)
			require.Equal(t, row.code, res.ExitCode, "%s: %+v", row.name, res)
			require.Equal(t, row.stdout, res.Stdout, row.name)
			require.Equal(t, row.stderr, res.Stderr, row.name)
		}
	}
	t.Run("no shell command", func(t *testing.T) {
		res := runIn(t, r, dir, &fakePolicy{}, "echo 'open", long)
		require.Equal(t, 2, res.ExitCode)
		require.Contains(t, res.Stderr, "quote")
	})
}

func write(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

// A command finds what it is meant to find in its environment, and no more.
func TestEnvironment(t *testing.T) {
	t.Setenv("RULVAR_TEST_SECRET", "s3cret")
	t.Setenv("RULVAR_TEST_PASSED", "passed")
	for _, row := range []struct {
		name string
		env  []string
		want string
	}{
		{"default", nil, "HOME=x PATH=x"},
		{"nothing", []string{}, ""},
		{"by name", []string{"PATH", "RULVAR_TEST_PASSED", "RULVAR_TEST_UNSET"}, "PATH=x RULVAR_TEST_PASSED=x"},
		{"by value", []string{"RULVAR_TEST_PASSED", "RULVAR_TEST_PASSED=a=b", "E="}, "E=x RULVAR_TEST_PASSED=x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, shell := range []string{"", "/bin/sh"} {
				r := testRunner(t, Options{Env: row.env, Shell: shell})
				res := runIn(t, r, t.TempDir(), &fakePolicy{}, "/usr/bin/env | /usr/bin/sort", long)
				var names []string
				for line := range strings.Lines(res.Stdout) {
					name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
					require.NotContains(t, value, "s3cret")
					switch name { // what shells themselves set
					case "PWD", "OLDPWD", "SHLVL", "_", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR":
						continue
					}
					names = append(names, name+"=x")
				}
				require.Equal(t, row.want, strings.Join(names, " "), "with %q: %s%s", shell, res.Stdout, res.Stderr)
			}
		})
	}
	res := runIn(t, testRunner(t, Options{Env: []string{"PATH", "V=a b=c"}}), t.TempDir(), &fakePolicy{}, `echo "$V"`, long)
	require.Equal(t, "a b=c\n", res.Stdout)
}

func TestOptions(t *testing.T) {
	for _, row := range []struct {
		name string
		opts Options
		path string
	}{
		{"tool name", Options{Name: "a b"}, ""},
		{"negative time", Options{Timeout: -1}, ""},
		{"time-out over the maximum", Options{Timeout: time.Hour, MaxTimeout: time.Minute}, "Options.Timeout"},
		{"output", Options{MaxOutput: 3}, "Options.MaxOutput"},
		{"negative output", Options{MaxOutput: -1}, "Options.MaxOutput"},
		{"relative shell", Options{Shell: "bash"}, "Options.Shell"},
		{"no shell", Options{Shell: "/nosuch"}, "Options.Shell"},
		{"a shell that is a directory", Options{Shell: "/"}, "Options.Shell"},
		{"relative directory", Options{Dir: "x"}, "Options.Dir"},
		{"environment", Options{Env: []string{"PATH", "A B"}}, "Options.Env[1]"},
		{"environment with NUL", Options{Env: []string{"A=\x00"}}, "Options.Env[0]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := New(row.opts)
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.path)
		})
	}
	tool, err := New(Options{})
	require.NoError(t, err)
	require.Equal(t, "shell", tool.Name())
	require.Equal(t, rulvar.RiskExecute, tool.Risk())
	require.False(t, tool.NeedsApproval())
	other, err := New(Options{Name: "sh", NeedsApproval: true, Timeout: time.Hour, MaxOutput: 100})
	require.NoError(t, err)
	require.True(t, other.NeedsApproval())
	require.JSONEq(t, string(tool.Schema()), string(other.Schema()), "options leave the contract alone")
}

// Many commands at once do not meet.
func TestConcurrentCommands(t *testing.T) {
	r := testRunner(t, Options{})
	dir := t.TempDir()
	type answer struct {
		want string
		res  *Result
		err  error
	}
	answers := make(chan answer)
	for i := range 6 {
		n := strconv.Itoa(i)
		go func() {
			res, err := r.run(context.Background(), &job{
				command: "x=" + n + "; for i in a b c; do echo $x$i | cat; done", dir: dir, timeout: long, judge: testJudge(t, &fakePolicy{}),
			})
			answers <- answer{n + "a\n" + n + "b\n" + n + "c\n", res, err}
		}()
	}
	for range 6 {
		a := <-answers
		require.NoError(t, a.err)
		require.Equal(t, a.want, a.res.Stdout, "%+v", a.res)
	}
}

// A directory that is not there is an error of the call, as is a run that has
// been cancelled already.
func TestNotStarted(t *testing.T) {
	r := testRunner(t, Options{Dir: filepath.Join(t.TempDir(), "gone")})
	_, err := r.handle(&rulvar.ToolContext{Context: t.Context()}, Input{Command: "true"})
	require.ErrorContains(t, err, "is not there")
	_, err = testRunner(t, Options{}).handle(&rulvar.ToolContext{Context: t.Context()}, Input{Command: "true"})
	require.ErrorContains(t, err, "Options.Dir")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.run(ctx, &job{command: "true", dir: "/", timeout: long, judge: testJudge(t, &fakePolicy{})})
	require.ErrorIs(t, err, context.Canceled)
}

// A ToolContext that no engine made has no policy, and nothing may run.
func TestWithoutEngine(t *testing.T) {
	r := testRunner(t, Options{Dir: t.TempDir()})
	res, err := r.handle(&rulvar.ToolContext{Context: t.Context()}, Input{Command: "touch x; echo x > y"})
	require.NoError(t, err)
	require.Len(t, res.Refused, 2)
	entries, err := os.ReadDir(r.opts.Dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// logTo keeps what is logged.
func logTo(lines *[]string) func(slog.Level, string, ...any) {
	return func(_ slog.Level, msg string, data ...any) {
		*lines = append(*lines, msg+" "+fmt.Sprint(data...))
	}
}
