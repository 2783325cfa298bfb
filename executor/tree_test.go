//go:build unix

package executor_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// A program that works in the tree of its agent is not started without one.
func TestProgramInTreeNeedsATree(t *testing.T) {
	spec, err := executor.Program{Command: "/bin/echo", Args: []string{"1"}, InTree: true}.Spec()
	require.NoError(t, err)
	require.JSONEq(t, `{"command":"/bin/echo","args":["1"],"inTree":true}`, string(spec))
	ledger := executor.NewMemoryLedger()
	x := subprocess(t, executor.SubprocessOptions{Ledger: ledger})
	_, err = run(t, x, rulvar.ExecutorCall{Tool: "probe", Spec: spec, IdempotencyKey: "k"})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "rulvar.Worktree")
	require.Empty(t, ledger.Intents())
}

// A tool that an executor cannot serve is refused when it is registered.
func TestToolIsChecked(t *testing.T) {
	subprocesses := subprocess(t, executor.SubprocessOptions{})
	fixed := subprocess(t, executor.SubprocessOptions{Program: &executor.Program{Command: "/bin/echo"}})
	containers := container(t, newStandIn(t), executor.ContainerOptions{Image: "a"})
	for _, row := range []struct {
		name, spec string
		kind       rulvar.ExecutorKind
		x          rulvar.ToolExecutor
		text       string // "" where it is served
	}{
		{"a program", `{"command":"/bin/echo","args":["1"],"inTree":true}`, rulvar.ExecutorSubprocess, subprocesses, ""},
		{"a program in a container", `{"command":"echo"}`, rulvar.ExecutorContainer, containers, ""},
		{"no spec", "", rulvar.ExecutorSubprocess, subprocesses, "names no program"},
		{"no spec, where there is a default", "", rulvar.ExecutorSubprocess, fixed, ""},
		{"an unknown member", `{"command":"/bin/echo","arg":["1"]}`, rulvar.ExecutorSubprocess, subprocesses, "unknown member"},
		{"a wrong word", `{"command":"/bin/echo","inTree":"yes"}`, rulvar.ExecutorSubprocess, subprocesses, "wrong inTree"},
		{"null", `{"command":"/bin/echo","inTree":null}`, rulvar.ExecutorContainer, containers, "wrong inTree"},
		{"a relative path", `{"command":"./x"}`, rulvar.ExecutorSubprocess, subprocesses, "absolute path"},
		{"programs where containers are asked for", `{"command":"/bin/echo"}`, rulvar.ExecutorContainer, subprocesses, `runs "subprocess"`},
		{"a zero value", `{"command":"/bin/echo"}`, rulvar.ExecutorSubprocess, &executor.Subprocess{}, "zero value"},
		{"none", `{"command":"/bin/echo"}`, rulvar.ExecutorSubprocess, (*executor.Subprocess)(nil), "panicked"},
		{"an executor that answers at the call", `{"anything":1}`, rulvar.ExecutorSubprocess, plain{}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := rulvar.ToolConfig{Name: "probe", Executor: row.kind}
			if row.spec != "" {
				cfg.ExecutorSpec = json.RawMessage(row.spec)
			}
			tool, err := rulvar.NewTool(cfg, func(*rulvar.ToolContext, struct{}) (string, error) { return "", nil })
			require.NoError(t, err)
			if row.spec == "" {
				require.Empty(t, tool.ExecutorSpec())
			} else {
				require.JSONEq(t, row.spec, string(tool.ExecutorSpec()))
			}
			store, err := rulvar.OpenFileStore(t.TempDir(), nil)
			require.NoError(t, err)
			model := rulvartest.NewProvider("test", rulvartest.Script{})
			engine, err := rulvar.NewEngine(rulvar.Config{
				Store: store, Providers: []llm.Provider{model}, Model: "test:model",
				Executors: map[rulvar.ExecutorKind]rulvar.ToolExecutor{row.kind: row.x},
				Profiles:  map[string]*rulvar.AgentProfile{"worker": {Tools: []rulvar.ToolSource{tool}}},
			})
			if row.text == "" {
				require.NoError(t, err)
				require.NoError(t, engine.Close(t.Context()))
				return
			}
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.text)
			require.ErrorContains(t, err, "probe")
		})
	}
}

// plain is an executor without a CheckTool.
type plain struct{}

func (plain) Execute(*rulvar.ToolContext, rulvar.ExecutorCall) (json.RawMessage, error) {
	return json.RawMessage("1"), nil
}
