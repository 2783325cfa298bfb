//go:build unix

package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
)

// container makes an executor over a stand-in engine.
func container(t testing.TB, engine string, o executor.ContainerOptions) *executor.Container {
	t.Helper()
	o.Engine = filepath.Join(engine, "docker")
	if o.Image == "" {
		o.Image = "tools@sha256:" + strings.Repeat("0a", 32)
	}
	if o.WorkDir == "" {
		o.WorkDir = t.TempDir()
	}
	if o.KillDelay == 0 {
		o.KillDelay = 300 * time.Millisecond
	}
	if o.WaitDelay == 0 {
		o.WaitDelay = time.Minute
	}
	x, err := executor.NewContainer(&o)
	require.NoError(t, err)
	t.Cleanup(func() {
		left, err := os.ReadDir(o.WorkDir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	return x
}

func TestContainerArguments(t *testing.T) {
	t.Setenv("RULVAR_TEST_PASSED", "passed value")
	t.Setenv("RULVAR_TEST_SECRET", "never")
	t.Setenv("DOCKER_HOST", "unix:///nosuch")
	engine := newStandIn(t)
	x := container(t, engine, executor.ContainerOptions{
		ForwardEnv: []string{"RULVAR_TEST_PASSED", "RULVAR_TEST_UNSET"}, ExtraArgs: []string{"--gpus=all"}, CapAdd: []string{"CHOWN"}, User: "1000:1000",
		Credentials: func(*rulvar.ToolContext, rulvar.ExecutorCall) (map[string]string, error) {
			return map[string]string{"TOKEN": "t0ken-value"}, nil
		},
	})
	call := scriptCall(t, `echo "\"$RULVAR_TEST_PASSED/$TOKEN/$RULVAR_TOOL/${HOME-none}/${DOCKER_HOST-none}\""`)
	out, err := run(t, x, call)
	require.NoError(t, err)
	require.Equal(t, `"passed value/t0ken-value/probe/none/none"`, out)
	log := engineLog(t, engine)
	require.Len(t, log, 1, "a container that has ended needs no more")
	args := log[0].Args
	name, cid := args[4], args[5]
	require.Regexp(t, `^--name=rulvar-[0-9a-f-]{36}$`, name)
	require.Regexp(t, `^--cidfile=/.*/rulvar-cexec-probe-[0-9]+\.cid$`, cid)
	require.Equal(t, []string{
		"run", "--rm", "-i", "--init", name, cid, "--pull=never", "--network=none", "--memory=256m", "--memory-swap=256m", "--cpus=1.0", "--pids-limit=128",
		"--read-only", "--tmpfs=/tmp:rw,nosuid,nodev,size=64m", "--cap-drop=ALL", "--cap-add=CHOWN", "--security-opt=no-new-privileges", "--user=1000:1000",
		"--label=rulvar.tool=probe", "--label=rulvar.key=" + call.IdempotencyKey,
		"--env=RULVAR_IDEMPOTENCY_KEY", "--env=RULVAR_RUN_ID", "--env=RULVAR_TEST_PASSED", "--env=RULVAR_TOOL", "--env=TOKEN",
	}, args[:25])
	require.Equal(t, strings.TrimSuffix(strings.TrimPrefix(cid, "--cidfile="), ".cid")+":/work", strings.TrimPrefix(args[25], "--volume="))
	require.Equal(t, []string{"--workdir=/work", "--gpus=all"}, args[26:28])
	require.Equal(t, "/bin/sh", args[29])
	require.NotContains(t, strings.Join(args, " "), "t0ken")
	for _, v := range log[0].Env {
		name, _, _ := strings.Cut(v, "=")
		require.Contains(t, []string{
			"PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST",
			"RULVAR_TEST_PASSED", "TOKEN", "RULVAR_TOOL", "RULVAR_RUN_ID", "RULVAR_IDEMPOTENCY_KEY",
		}, name)
	}
}

// Ending the call ends the container, which the engine's command does not
// carry with it.
func TestContainerIsKilled(t *testing.T) {
	for _, row := range []struct {
		name, script string
		code         rulvar.Code
		stdout       string
	}{
		{"it does not end", `echo $$ > "$PIDS/pid"; echo partial; exec sleep 3600`, executor.ErrTimeout, "partial\n"},
		{"SIGTERM is ignored", `trap '' TERM; echo $$ > "$PIDS/pid"; sleep 3600; sleep 3600`, executor.ErrTimeout, ""},
		{"a grandchild", `sh -c 'echo $$ > "$PIDS/pid"; exec sleep 3600' | cat`, executor.ErrTimeout, ""},
		{"endless output", `echo $$ > "$PIDS/pid"; exec yes`, executor.ErrOutputCap, strings.Repeat("y\n", 50)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			engine, pids := newStandIn(t), t.TempDir()
			ledger := executor.NewMemoryLedger()
			o := executor.ContainerOptions{
				Timeout: time.Hour, MaxOutput: 100, Ledger: ledger, User: strconv.Itoa(os.Getuid()), Credentials: given(map[string]string{"PIDS": pids}),
			}
			if row.code == executor.ErrTimeout {
				o.Timeout = 500 * time.Millisecond
			}
			var text []byte
			for range 5 { // on a busy machine a program may need a while to begin
				_, err := run(t, container(t, engine, o), scriptCall(t, row.script))
				require.ErrorIs(t, err, row.code)
				var reading error
				if text, reading = os.ReadFile(pids + "/pid"); reading == nil && len(text) > 0 && dataOf(t, err)["stdout"] == row.stdout {
					break
				}
				text = nil
				o.Timeout *= 4
			}
			require.NotEmpty(t, text)
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(text), ") Z ")
			}, 20*time.Second, 5*time.Millisecond)
			log := engineLog(t, engine)
			last := ledger.Intents()[len(ledger.Intents())-1]
			require.Equal(t, []string{"rm", "--force", "--volumes", "rulvar-" + last.AttemptID}, log[len(log)-1].Args)
		})
	}
}

func TestContainerErrors(t *testing.T) {
	for _, row := range []struct {
		name, script, fail string
		code               rulvar.Code
		noEffect           bool
		text               string
	}{
		{"the engine is not there", "echo 1", "docker: Cannot connect to the Docker daemon", executor.ErrSpawn, true, "Cannot connect"},
		{"a status of the program like the engine's", "exit 125", "", executor.ErrExit, false, "125"},
		{"a status", "echo oops >&2; exit 3", "", executor.ErrExit, false, "oops"},
		{"a signal inside", "kill -9 $$", "", executor.ErrExit, false, "137"},
		{"no JSON", "echo hello", "", executor.ErrProtocol, false, "hello"},
	} {
		t.Run(row.name, func(t *testing.T) {
			engine, ledger := newStandIn(t), executor.NewMemoryLedger()
			if row.fail != "" {
				require.NoError(t, os.WriteFile(engine+"/fail-run", []byte(row.fail), 0o600))
			}
			x := container(t, engine, executor.ContainerOptions{Ledger: ledger, User: strconv.Itoa(os.Getuid())})
			_, err := run(t, x, scriptCall(t, row.script))
			require.ErrorIs(t, err, row.code)
			require.ErrorContains(t, err, row.text)
			require.Equal(t, executor.OutcomeError, ledger.Outcomes()[0].Outcome)
			require.Equal(t, row.noEffect, ledger.Outcomes()[0].NoEffect)
			require.Equal(t, rulvar.ExecutorContainer, ledger.Outcomes()[0].Executor)
		})
	}
}

// A credential that would change the engine's command is refused before
// anything runs.
func TestContainerCredentialNames(t *testing.T) {
	for _, name := range []string{"PATH", "HOME", "DOCKER_HOST", "DOCKER_ANYTHING", "LD_PRELOAD", "https_proxy", "a=b", ""} {
		t.Run(name, func(t *testing.T) {
			engine := newStandIn(t)
			x := container(t, engine, executor.ContainerOptions{Credentials: func(*rulvar.ToolContext, rulvar.ExecutorCall) (map[string]string, error) {
				return map[string]string{name: "x"}, nil
			}})
			_, err := run(t, x, scriptCall(t, "echo 1"))
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.NoFileExists(t, engine+"/log")
		})
	}
}

// The container of an attempt whose host has died is removed before the next.
func TestContainerOfAnEarlierAttempt(t *testing.T) {
	engine, ledger := newStandIn(t), executor.NewMemoryLedger()
	x := container(t, engine, executor.ContainerOptions{Ledger: ledger, User: strconv.Itoa(os.Getuid())})
	call := scriptCall(t, "echo 1")
	call.Idempotent = true
	const id = "01234567-89ab-4def-8123-456789abcdef"
	require.NoError(t, ledger.Intent(t.Context(), &executor.Intent{AttemptID: id, IdempotencyKey: call.IdempotencyKey, Executor: rulvar.ExecutorContainer}))
	require.NoError(t, ledger.Intent(t.Context(), &executor.Intent{AttemptID: "--all", IdempotencyKey: call.IdempotencyKey, Executor: rulvar.ExecutorContainer}))
	_, err := run(t, x, call)
	require.NoError(t, err)
	log := engineLog(t, engine)
	require.Len(t, log, 2)
	require.Equal(t, []string{"rm", "--force", "--volumes", "rulvar-" + id}, log[0].Args)
}

func TestContainerOptions(t *testing.T) {
	engine := filepath.Join(newStandIn(t), "docker")
	for _, row := range []struct {
		name string
		o    executor.ContainerOptions
	}{
		{"no image", executor.ContainerOptions{}},
		{"an option as image", executor.ContainerOptions{Image: "--privileged"}},
		{"not pinned", executor.ContainerOptions{Image: "tools:latest", RequireDigest: true}},
		{"pull", executor.ContainerOptions{Image: "a", Pull: "sometimes"}},
		{"no engine", executor.ContainerOptions{Image: "a", Engine: "/nosuch/docker"}},
		{"the engine's variable", executor.ContainerOptions{Image: "a", ForwardEnv: []string{"DOCKER_HOST"}}},
		{"a variable of the engine's own list", executor.ContainerOptions{Image: "a", EngineEnv: []string{"MINE"}, ForwardEnv: []string{"MINE"}}},
		{"a value", executor.ContainerOptions{Image: "a", ForwardEnv: []string{"A=b"}}},
		{"a relative mount", executor.ContainerOptions{Image: "a", WorkMount: "work"}},
		{"a mount with options", executor.ContainerOptions{Image: "a", WorkMount: "/work:ro"}},
		{"negative", executor.ContainerOptions{Image: "a", PIDs: -1}},
		{"results without a ledger", executor.ContainerOptions{Image: "a", KeepResults: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.o.Engine == "" {
				row.o.Engine = engine
			}
			_, err := executor.NewContainer(&row.o)
			require.ErrorIs(t, err, rulvar.ErrConfig)
		})
	}
	_, err := executor.NewContainer(nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
}

func TestContainerProbe(t *testing.T) {
	engine := newStandIn(t)
	x := container(t, engine, executor.ContainerOptions{Image: "a"})
	require.NoError(t, x.Probe(t.Context()))
	require.Equal(t, []string{"image", "inspect", "a"}, engineLog(t, engine)[0].Args)
	require.NoError(t, os.WriteFile(engine+"/fail-image", []byte("No such image: a"), 0o600))
	err := x.Probe(t.Context())
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "No such image")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, x.Probe(ended), context.Canceled)
}

// Against a real engine, where one runs and has the image; name another image
// that has a shell with RULVAR_TEST_IMAGE.
func TestRealEngine(t *testing.T) {
	image := os.Getenv("RULVAR_TEST_IMAGE")
	if image == "" {
		image = "busybox"
	}
	var x *executor.Container
	for _, name := range []string{"docker", "podman"} {
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		c, err := executor.NewContainer(&executor.ContainerOptions{Engine: name, Image: image, Timeout: 20 * time.Second})
		require.NoError(t, err)
		if c.Probe(t.Context()) == nil {
			x = c
		}
	}
	if x == nil {
		t.Skip("no engine runs here that has the image " + image)
	}
	out, err := run(t, x, scriptCall(t, "cat > in; echo \"[$(cat in),\\\"$(pwd)\\\",$(id -u)]\""))
	require.NoError(t, err)
	var got []any
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, "/work", got[1])
	require.NotEqual(t, 0.0, got[2])
	for _, script := range []string{"touch /x", "ping -c 1 127.0.0.2", "chown 1 ."} {
		_, err := run(t, x, scriptCall(t, script))
		require.ErrorIs(t, err, executor.ErrExit, script)
	}
}
