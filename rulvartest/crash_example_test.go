package rulvartest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

type shipment struct {
	Service string `json:"service"`
}

// shipIn does what one process does with the run in dir: it starts it, answers
// what waits, or resumes it.
func shipIn(dir string) (string, error) {
	ctx := context.Background()
	store, err := rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
	if err != nil {
		return "", err
	}
	ship := rulvar.MustTool(rulvar.NewTool(
		rulvar.ToolConfig{Name: "ship", Description: "Ship a service.", Risk: rulvar.RiskExecute, NeedsApproval: true},
		func(_ *rulvar.ToolContext, in shipment) (string, error) {
			rulvartest.Point("tool:ship:before")
			err := os.WriteFile(filepath.Join(dir, in.Service+".shipped"), nil, 0o600)
			rulvartest.Point("tool:ship:after")
			return "shipped", err
		}))
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{ID: "c1", Tool: "ship", Args: shipment{"api"}}}},
		{Text: "it is shipped"},
	}})
	engine, err := rulvar.NewEngine(rulvar.Config{
		Store: rulvartest.CrashStore(store), Providers: []llm.Provider{rulvartest.CrashProvider(model)}, Model: "test:model",
	})
	if err != nil {
		return "", err
	}
	workflow := rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, service string) (string, error) {
		return rulvar.Agent[string](c, "Ship "+service, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{ship}})
	})
	meta, _, err := store.Load(ctx, "r1", -1)
	if err != nil {
		return "", err
	}
	pending, err := engine.PendingOf(ctx, "r1")
	if err != nil {
		return "", err
	}
	var run *rulvar.RunHandle[string]
	switch {
	case meta == nil:
		run, err = rulvar.Run(ctx, engine, workflow, "api", &rulvar.RunOptions{RunID: "r1"})
	case len(pending) > 0:
		_, err = engine.Resolve(ctx, "r1", pending[0].Key, rulvar.Approve("fine"))
		return "", err
	default:
		run, err = rulvar.Resume[string](ctx, engine, workflow, "r1", nil)
	}
	if err != nil {
		return "", err
	}
	outcome, err := run.Result(ctx)
	return outcome.Value, err
}

// testShip is TestShip in a test file of yours.
func testShip(t *testing.T) {
	child := rulvartest.NewChild(t, "ship", func(args []string) (string, error) { return shipIn(args[0]) })
	matrix := &rulvartest.KillMatrix{
		Process: child,
		// What the checkpoint holds must not run again.
		Recorded: func(t testing.TB, dir string) []string {
			store, err := rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, agent := range rulvartest.ReadAgents(t, store, "r1") {
				if len(agent.Calls) > 0 {
					return []string{"tool:ship:before"}
				}
			}
			return nil
		},
		Check: func(t testing.TB, dir string, _ []rulvartest.Visit) {
			if _, err := os.Stat(filepath.Join(dir, "api.shipped")); err != nil {
				t.Error(err)
			}
		},
		Limit: 4, // 0 kills everywhere
	}
	matrix.Run(t)
}

// A run is killed at its points, and further processes finish it.
func ExampleKillMatrix() {
	_ = testShip // go test runs it, under the name TestShip
}
