//go:build unix

package executor_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// dyingLedger comes by the places where a host may die.
type dyingLedger struct{ executor.Ledger }

func (l dyingLedger) Intent(ctx context.Context, in *executor.Intent) error {
	rulvartest.Point("intent:before")
	err := l.Ledger.Intent(ctx, in)
	rulvartest.Point("intent:after")
	return err
}

func (l dyingLedger) Outcome(ctx context.Context, out *executor.Outcome) error {
	rulvartest.Point("outcome:before")
	err := l.Ledger.Outcome(ctx, out)
	rulvartest.Point("outcome:after")
	return err
}

// host is one process: it starts the run in dir, or resumes it, and tells what
// the model saw of the call.
func host(dir string, risk rulvar.Risk) (string, error) {
	ctx := context.Background()
	store, err := rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
	if err != nil {
		return "", err
	}
	ledger, err := executor.OpenFileLedger(filepath.Join(dir, "effects.jsonl"))
	if err != nil {
		return "", err
	}
	defer ledger.Close()
	programs, err := executor.NewSubprocess(&executor.SubprocessOptions{Ledger: dyingLedger{ledger}, WorkDir: dir})
	if err != nil {
		return "", err
	}
	tool, err := executor.NewTool[struct {
		To string `json:"to"`
	}](rulvar.ToolConfig{Name: "pay", Risk: risk}, executor.Program{Command: "/bin/sh", Args: []string{"-c", `echo "$` + executor.EnvIdempotencyKey + `" >> ` + dir + `/paid; echo '"paid"'`}})
	if err != nil {
		return "", err
	}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{ID: "c1", Tool: "pay", Args: map[string]any{"to": "x"}}}}, {Text: "done"},
	}})
	engine, err := rulvar.NewEngine(rulvar.Config{
		Store: store, Providers: []llm.Provider{model}, Model: "test:model",
		Executors: map[rulvar.ExecutorKind]rulvar.ToolExecutor{rulvar.ExecutorSubprocess: programs},
	})
	if err != nil {
		return "", err
	}
	workflow := rulvar.DefineWorkflow("pay", func(c *rulvar.Ctx, _ string) (string, error) {
		return rulvar.Agent[string](c, "Pay", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
	meta, _, err := store.Load(ctx, "r1", -1)
	if err != nil {
		return "", err
	}
	var run *rulvar.RunHandle[string]
	if meta == nil {
		run, err = rulvar.Run(ctx, engine, workflow, "", &rulvar.RunOptions{RunID: "r1"})
	} else {
		run, err = rulvar.Resume(ctx, engine, workflow, "r1", (*rulvar.ResumeOptions[string])(nil))
	}
	if err != nil {
		return "", err
	}
	if _, err := run.Result(ctx); err != nil {
		return "", err
	}
	requests := model.Requests()
	last := requests[len(requests)-1].Messages
	return string(last[len(last)-1].Parts[0].Result), nil
}

// The host is killed around the effect of a call, and the next one resumes: an
// effect that may have happened does not happen twice, unless the tool says that
// it may.
func TestHostIsKilled(t *testing.T) {
	effectful := rulvartest.NewChild(t, "effectful", func(args []string) (string, error) { return host(args[0], rulvar.RiskExecute) })
	reading := rulvartest.NewChild(t, "reading", func(args []string) (string, error) { return host(args[0], rulvar.RiskRead) })
	for _, row := range []struct {
		name, killAt string
		child        *rulvartest.Child
		paid         int
		sees         string
		open         int
	}{
		{"before the intent", "intent:before", effectful, 1, `"paid"`, 0},
		{"between intent and effect", "intent:after", effectful, 0, "has no outcome", 1},
		{"between effect and outcome", "outcome:before", effectful, 1, "has no outcome", 1},
		{"after the outcome", "outcome:after", effectful, 1, "was executed before", 0},
		{"idempotent, between intent and effect", "intent:after", reading, 1, `"paid"`, 1},
		{"idempotent, between effect and outcome", "outcome:before", reading, 2, `"paid"`, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			visit := row.child.RunTo(t, row.killAt, dir)
			require.Equal(t, row.killAt, visit.Killed)
			result := row.child.Run(t, dir).Result
			require.Contains(t, result, row.sees)
			text, _ := os.ReadFile(filepath.Join(dir, "paid"))
			keys := strings.Fields(string(text))
			require.Len(t, keys, row.paid)
			for _, key := range keys {
				require.Len(t, key, 64)
				require.Equal(t, keys[0], key, "each try has the same key")
			}
			rep, err := executor.ReadLedger(filepath.Join(dir, "effects.jsonl"), nil)
			require.NoError(t, err)
			require.Len(t, rep.Open, row.open)
		})
	}
}
