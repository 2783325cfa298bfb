//go:build unix

package executor_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// given hands fixed credentials to every call.
func given(values map[string]string) executor.Credentials {
	return func(*rulvar.ToolContext, rulvar.ExecutorCall) (map[string]string, error) { return values, nil }
}

func TestSubprocessConforms(t *testing.T) {
	for _, kind := range []executor.SandboxKind{"", executor.SandboxLandlock} {
		t.Run("sandbox "+string(kind), func(t *testing.T) {
			var box *executor.Sandbox
			if kind != "" {
				var err error
				if box, err = executor.NewSandbox(&executor.SandboxOptions{Kind: kind}); err != nil {
					t.Skip(err)
				}
			}
			rulvartest.RunExecutorSuite(t, func(t *testing.T, s *rulvartest.ExecutorSetup) rulvar.ToolExecutor {
				return subprocess(t, executor.SubprocessOptions{
					AllowEnv: s.AllowEnv, Credentials: given(s.Credentials), Timeout: s.Timeout, KillDelay: s.KillDelay,
					WaitDelay: executor.DefaultWaitDelay, MaxOutput: s.MaxOutput, Ledger: s.Ledger, Sandbox: box,
				})
			})
		})
	}
}

func TestContainerConforms(t *testing.T) {
	engine := newStandIn(t)
	rulvartest.RunExecutorSuite(t, func(t *testing.T, s *rulvartest.ExecutorSetup) rulvar.ToolExecutor {
		forward := s.AllowEnv
		if len(forward) > 0 && forward[0] == "PATH" {
			forward = nil // the image's
		}
		x, err := executor.NewContainer(&executor.ContainerOptions{
			Engine: engine + "/docker", Image: "a", User: strconv.Itoa(os.Getuid()),
			ForwardEnv: forward, Credentials: given(s.Credentials), Timeout: s.Timeout, KillDelay: s.KillDelay,
			MaxOutput: s.MaxOutput, Ledger: s.Ledger, WorkDir: t.TempDir(),
		})
		require.NoError(t, err)
		return x
	})
}
