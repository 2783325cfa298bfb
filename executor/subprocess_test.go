//go:build unix

package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
)

var calls atomic.Int64

// scriptCall is a call of a tool that is a shell script.
func scriptCall(t testing.TB, script string) rulvar.ExecutorCall {
	spec, err := executor.Program{Command: "/bin/sh", Args: []string{"-c", script}}.Spec()
	require.NoError(t, err)
	return rulvar.ExecutorCall{Tool: "probe", Input: json.RawMessage(`{"a":1}`), Spec: spec, IdempotencyKey: fmt.Sprintf("key-%d", calls.Add(1))}
}

func subprocess(t testing.TB, o executor.SubprocessOptions) *executor.Subprocess {
	t.Helper()
	if o.KillDelay == 0 {
		o.KillDelay = 200 * time.Millisecond
	}
	if o.WaitDelay == 0 {
		o.WaitDelay = time.Minute
	}
	if o.WorkDir == "" {
		o.WorkDir = t.TempDir()
	}
	x, err := executor.NewSubprocess(&o)
	require.NoError(t, err)
	t.Cleanup(func() {
		left, err := os.ReadDir(o.WorkDir)
		require.NoError(t, err)
		require.Empty(t, left, "directories are left")
	})
	return x
}

func run(t testing.TB, x rulvar.ToolExecutor, call rulvar.ExecutorCall) (string, error) {
	t.Helper()
	out, err := x.Execute(&rulvar.ToolContext{Context: t.Context()}, call)
	return string(out), err
}

func dataOf(t testing.TB, err error) map[string]any {
	t.Helper()
	e, ok := errors.AsType[*rulvar.Error](err)
	require.True(t, ok, "%v", err)
	return e.Data
}

func TestProgramResults(t *testing.T) {
	for _, row := range []struct {
		name, script, result string
		code                 rulvar.Code
		data                 map[string]any
	}{
		{"the request", "cat", `{"tool":"probe","args":{"a":1},"idempotencyKey":"KEY"}`, "", nil},
		{"blanks around", `printf ' \n {"x":[1, 2]}\n\n'`, `{"x":[1, 2]}`, "", nil},
		{"nothing", ":", "null", "", nil},
		{"blanks", "echo; echo", "null", "", nil},
		{"a big number", "echo 12345678901234567890", "12345678901234567890", "", nil},
		{"a status", "echo partial; echo oops >&2; exit 3", "", executor.ErrExit, map[string]any{"exitCode": 3, "stdout": "partial\n", "stderr": "oops\n"}},
		{"a signal", "kill -9 $$", "", executor.ErrExit, map[string]any{"signal": "SIGKILL", "stdout": "", "stderr": ""}},
		{"text", "echo hello", "", executor.ErrProtocol, map[string]any{"exitCode": 0, "stdout": "hello\n", "stderr": ""}},
		{"two values", "echo 1 2", "", executor.ErrProtocol, nil},
		{"a value and a log line", `echo '{"x":1}'; echo done`, "", executor.ErrProtocol, nil},
		{"bytes", `printf '\377\376\000\001'`, "", executor.ErrProtocol, map[string]any{"exitCode": 0, "stdout": "[4 bytes that are no text; the first are ff fe 00 01]", "stderr": ""}},
		{"a string that is not UTF-8", `printf '"\377"'`, "", executor.ErrProtocol, nil},
		{"half a surrogate", `printf '"\\ud800"'`, "", executor.ErrProtocol, nil},
		{"closed input", `exec 0<&-; echo '"ok"'`, `"ok"`, "", nil},
		{"closed output", `exec 1>&-; sleep 0.05`, "null", "", nil},
		{"it leaves a child", "sleep 3600 & echo 1", "1", "", nil},
		{"it takes away its own directory", `rmdir "$PWD"; echo 1`, "1", "", nil},
		{"it takes away its rights", `mkdir -p a/b; touch a/b/c; chmod 0 a/b a .; echo 1`, "1", "", nil},
		{"an unknown program", "exec /nosuch/program", "", executor.ErrExit, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			call := scriptCall(t, row.script)
			o := executor.SubprocessOptions{AllowEnv: []string{"PATH"}}
			if row.name == "it leaves a child" {
				o.WaitDelay = 200 * time.Millisecond
			}
			out, err := run(t, subprocess(t, o), call)
			if row.code == "" {
				require.NoError(t, err)
				require.Equal(t, strings.ReplaceAll(row.result, "KEY", call.IdempotencyKey), out)
				return
			}
			require.ErrorIs(t, err, row.code)
			require.ErrorContains(t, err, "probe")
			require.Empty(t, out)
			if row.data != nil {
				require.Equal(t, row.data, dataOf(t, err))
			}
		})
	}
}

// What a program does to go on for ever, or to leave something running, ends in
// bounded time, and what it wrote is kept. A mistake takes an hour.
func TestProgramIsEnded(t *testing.T) {
	const hour = "sleep 3600"
	for _, row := range []struct {
		name, script, stdout string
		code                 rulvar.Code
	}{
		{"it does not end", "echo partial; " + hour, "partial\n", executor.ErrTimeout},
		{"a grandchild holds the output", "echo partial; sh -c 'echo $$ > \"$PIDS/pid1\"; " + hour + "' | cat", "partial\n", executor.ErrTimeout},
		{"SIGTERM is ignored", "trap '' TERM; echo partial; echo $$ > \"$PIDS/pid1\"; " + hour + "; " + hour, "partial\n", executor.ErrTimeout},
		{"endless output", "yes", strings.Repeat("y\n", 1000), executor.ErrOutputCap},
		{"endless output, SIGTERM ignored", "trap '' TERM; while :; do echo y; done", strings.Repeat("y\n", 1000), executor.ErrOutputCap},
		{"endless complaints", "echo partial; yes >&2", "partial\n", executor.ErrTimeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			pids := t.TempDir()
			o := executor.SubprocessOptions{
				AllowEnv: []string{"PATH"}, Timeout: time.Hour, MaxOutput: 2000,
				Credentials: given(map[string]string{"PIDS": pids}),
			}
			if row.code == executor.ErrTimeout {
				o.Timeout = 200 * time.Millisecond
			}
			var err error
			for range 5 { // on a busy machine a program may need a while to begin
				_, err = run(t, subprocess(t, o), scriptCall(t, row.script))
				require.ErrorIs(t, err, row.code)
				if dataOf(t, err)["stdout"] != "" {
					break
				}
				o.Timeout *= 4
			}
			require.Equal(t, row.stdout, dataOf(t, err)["stdout"])
			require.LessOrEqual(t, len(dataOf(t, err)["stderr"].(string)), 2100)
			files, err := filepath.Glob(pids + "/pid*")
			require.NoError(t, err)
			for _, f := range files {
				text, err := os.ReadFile(f)
				require.NoError(t, err)
				pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
				require.NoError(t, err)
				require.Eventually(t, func() bool {
					text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
					return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(text), ") Z ")
				}, 20*time.Second, 5*time.Millisecond)
			}
		})
	}
}

func TestProgramIsAborted(t *testing.T) {
	x := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Timeout: time.Hour})
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := filepath.Join(t.TempDir(), "begun")
	go func() {
		for {
			if _, err := os.Stat(begun); err == nil {
				cancel(errors.New("somebody said stop"))
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err := x.Execute(&rulvar.ToolContext{Context: ctx}, scriptCall(t, "echo partial; : > "+begun+"; sleep 3600"))
	require.ErrorIs(t, err, executor.ErrAborted)
	require.ErrorContains(t, err, "somebody said stop")
	require.Equal(t, "partial\n", dataOf(t, err)["stdout"])
	_, err = x.Execute(&rulvar.ToolContext{Context: ctx}, scriptCall(t, "touch "+begun+"2"))
	require.ErrorIs(t, err, executor.ErrAborted)
	require.NoFileExists(t, begun+"2")
}

// A program finds what it is meant to find in its environment, and no more.
func TestProgramEnvironment(t *testing.T) {
	t.Setenv("RULVAR_TEST_SECRET", "s3cret-of-the-host")
	t.Setenv("RULVAR_TEST_PASSED", "passed")
	x := subprocess(t, executor.SubprocessOptions{
		AllowEnv: []string{"RULVAR_TEST_PASSED", "RULVAR_TEST_UNSET", "RULVAR_TOOL"},
		Credentials: func(_ *rulvar.ToolContext, call rulvar.ExecutorCall) (map[string]string, error) {
			if call.Tool == "none" {
				return nil, errors.New("no token for you")
			}
			return map[string]string{"TOKEN": "tok-12345", "RULVAR_TEST_PASSED": "mine", executor.EnvIdempotencyKey: "forged"}, nil
		},
	})
	call := scriptCall(t, `/usr/bin/env | /usr/bin/sort | /usr/bin/awk 'BEGIN{printf "["} {printf "%s\"%s\"", (NR>1 ? "," : ""), $0} END{print "]"}'`)
	out, err := run(t, x, call)
	require.NoError(t, err)
	var env []string
	require.NoError(t, json.Unmarshal([]byte(out), &env))
	got := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		switch name { // what a shell itself sets
		case "PWD", "OLDPWD", "SHLVL", "_":
			continue
		}
		got[name] = value
	}
	want := map[string]string{
		"TOKEN": "tok-12345", "RULVAR_TEST_PASSED": "mine", executor.EnvTool: "probe", executor.EnvRunID: "", executor.EnvIdempotencyKey: call.IdempotencyKey,
	}
	require.True(t, maps.Equal(want, got), "%v", got)

	_, err = run(t, x, scriptCall(t, `echo "my token is $TOKEN" >&2; echo "$TOKEN"; exit 1`))
	require.ErrorIs(t, err, executor.ErrExit)
	require.NotContains(t, err.Error()+fmt.Sprint(dataOf(t, err)), "tok-12345")
	require.ErrorContains(t, err, "my token is [masked-secret]")

	call = scriptCall(t, "echo 1")
	call.Tool = "none"
	_, err = run(t, x, call)
	require.ErrorIs(t, err, executor.ErrSpawn)
	require.ErrorContains(t, err, "no token for you")
}

func TestProgramIsFound(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(bin+"/hello", []byte("#!/bin/sh\necho '\"hi\"'\n"), 0o755))
	require.NoError(t, os.WriteFile(bin+"/plain", []byte("x"), 0o644))
	t.Setenv("PATH", bin+":relative:"+os.Getenv("PATH"))
	withPath := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}})
	bare := subprocess(t, executor.SubprocessOptions{})
	fixed := subprocess(t, executor.SubprocessOptions{Program: &executor.Program{Command: "/bin/echo", Args: []string{"1"}}})
	for _, row := range []struct {
		name, spec string
		x          *executor.Subprocess
		result     string
		code       rulvar.Code
	}{
		{"in PATH", `{"command":"hello"}`, withPath, `"hi"`, ""},
		{"no PATH", `{"command":"hello"}`, bare, "", executor.ErrSpawn},
		{"by its path", `{"command":"` + bin + `/hello"}`, bare, `"hi"`, ""},
		{"nowhere", `{"command":"nosuchprogram"}`, withPath, "", executor.ErrSpawn},
		{"no program", `{"command":"plain"}`, withPath, "", executor.ErrSpawn},
		{"no such file", `{"command":"/nosuch"}`, bare, "", executor.ErrSpawn},
		{"a directory", `{"command":"/usr"}`, bare, "", executor.ErrSpawn},
		{"a relative path", `{"command":"./x"}`, bare, "", rulvar.ErrConfig},
		{"no spec", "", bare, "", rulvar.ErrConfig},
		{"null", "null", bare, "", rulvar.ErrConfig},
		{"no command", `{}`, bare, "", rulvar.ErrConfig},
		{"an unknown member", `{"command":"/bin/echo","arg":["1"]}`, bare, "", rulvar.ErrConfig},
		{"wrong case", `{"Command":"/bin/echo"}`, bare, "", rulvar.ErrConfig},
		{"a number among the arguments", `{"command":"/bin/echo","args":[1]}`, bare, "", rulvar.ErrConfig},
		{"null among the arguments", `{"command":"/bin/echo","args":["1",null]}`, bare, "", rulvar.ErrConfig},
		{"the word null", `{"command":"/bin/echo","args":["null"]}`, bare, "null", ""},
		{"a list", `["/bin/echo"]`, bare, "", rulvar.ErrConfig},
		{"no JSON", `{"command":`, bare, "", rulvar.ErrConfig},
		{"the fallback", "", fixed, "1", ""},
		{"arguments behind the fallback's", `{"args":["2"]}`, fixed, "", executor.ErrProtocol},
	} {
		t.Run(row.name, func(t *testing.T) {
			call := scriptCall(t, "")
			call.Spec = json.RawMessage(row.spec)
			out, err := run(t, row.x, call)
			if row.code != "" {
				require.ErrorIs(t, err, row.code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.result, out)
		})
	}
}

// The bound of the output counts: one byte less is a result.
func TestOutputBound(t *testing.T) {
	x := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}})
	for n, code := range map[int]rulvar.Code{1<<20 - 1: "", 1 << 20: executor.ErrOutputCap, 1<<20 + 1: executor.ErrOutputCap} {
		out, err := run(t, x, scriptCall(t, fmt.Sprintf(`printf '"'; head -c %d /dev/zero | tr '\0' x; printf '"'`, n-2)))
		if code != "" {
			require.ErrorIs(t, err, code)
			require.Len(t, dataOf(t, err)["stdout"], 1<<20)
			continue
		}
		require.NoError(t, err)
		require.Len(t, out, n)
	}
}

func TestSubprocessOptions(t *testing.T) {
	for _, row := range []struct {
		name string
		o    executor.SubprocessOptions
	}{
		{"negative time", executor.SubprocessOptions{Timeout: -1}},
		{"negative output", executor.SubprocessOptions{MaxOutput: -1}},
		{"a value among the names", executor.SubprocessOptions{AllowEnv: []string{"A=b"}}},
		{"no directory", executor.SubprocessOptions{WorkDir: "/nosuch"}},
		{"a relative program", executor.SubprocessOptions{Program: &executor.Program{Command: "a/b"}}},
		{"results without a ledger", executor.SubprocessOptions{KeepResults: true}},
		{"the zero Sandbox", executor.SubprocessOptions{Sandbox: &executor.Sandbox{}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := executor.NewSubprocess(&row.o)
			require.ErrorIs(t, err, rulvar.ErrConfig)
		})
	}
	_, err := executor.NewSubprocess(nil)
	require.NoError(t, err)
}

func TestNewTool(t *testing.T) {
	type in struct {
		Text string `json:"text"`
	}
	tool, err := executor.NewTool[in](rulvar.ToolConfig{Name: "lint", Risk: rulvar.RiskRead}, executor.Program{Command: "lint", Args: []string{"--json"}})
	require.NoError(t, err)
	require.Equal(t, rulvar.ExecutorSubprocess, tool.Executor())
	tool, err = executor.NewTool[in](rulvar.ToolConfig{Name: "lint", Executor: rulvar.ExecutorContainer}, executor.Program{Command: "lint"})
	require.NoError(t, err)
	require.Equal(t, rulvar.ExecutorContainer, tool.Executor())
	for _, row := range []struct {
		name string
		cfg  rulvar.ToolConfig
		p    executor.Program
	}{
		{"no command", rulvar.ToolConfig{Name: "a"}, executor.Program{}},
		{"a relative one", rulvar.ToolConfig{Name: "a"}, executor.Program{Command: "bin/x"}},
		{"NUL", rulvar.ToolConfig{Name: "a"}, executor.Program{Command: "x", Args: []string{"a\x00b"}}},
		{"in process", rulvar.ToolConfig{Name: "a", Executor: rulvar.ExecutorInProcess}, executor.Program{Command: "x"}},
		{"two specs", rulvar.ToolConfig{Name: "a", ExecutorSpec: json.RawMessage(`{}`)}, executor.Program{Command: "x"}},
		{"a bad name", rulvar.ToolConfig{Name: "a b"}, executor.Program{Command: "x"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := executor.NewTool[in](row.cfg, row.p)
			require.ErrorIs(t, err, rulvar.ErrConfig)
		})
	}
}
