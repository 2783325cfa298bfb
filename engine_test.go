package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

const deploySchema = `{"type":"object","properties":{"service":{"type":"string"}},"required":["service"],"additionalProperties":false}`

// literalTool makes a tool with an explicit schema that counts its executions.
func literalTool(t *testing.T, cfg rulvar.ToolConfig, schema string, runs *atomic.Int64, result any) *rulvar.Tool {
	t.Helper()
	s, err := rulvar.SchemaLiteral(json.RawMessage(schema))
	require.NoError(t, err)
	tool, err := rulvar.NewToolWithSchema(cfg, s, func(_ *rulvar.ToolContext, in json.RawMessage) (any, error) {
		if runs != nil {
			runs.Add(1)
		}
		if err, ok := result.(error); ok {
			return nil, err
		}
		return result, nil
	})
	require.NoError(t, err)
	return tool
}

func deployTool(t *testing.T, runs *atomic.Int64) *rulvar.Tool {
	return literalTool(t, rulvar.ToolConfig{Name: "deploy", Description: "Deploy a service.", Risk: rulvar.RiskExecute, NeedsApproval: true},
		deploySchema, runs, map[string]string{"deployed": "api"})
}

func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func askShip(tools ...rulvar.ToolSource) *rulvar.Workflow[string, string] {
	return rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, service string) (string, error) {
		return rulvar.Agent[string](c, "Ship "+service, &rulvar.AgentOptions{Tools: tools})
	})
}

var shipScript = rulvartest.Script{Turns: []rulvartest.Turn{
	{Calls: []rulvartest.Call{{ID: "c1", Tool: "deploy", Args: map[string]string{"service": "api"}}}},
	{Text: "shipped"},
}}

func fileStore(t *testing.T) *rulvar.FileStore {
	t.Helper()
	store, err := rulvar.OpenFileStore(t.TempDir(), nil)
	require.NoError(t, err)
	return store
}

// The whole way in one test: run, suspend, approve in an engine that has
// neither tools nor models, resume in a third one in the middle of the turn.
func TestSuspendApproveElsewhereResume(t *testing.T) {
	ctx := testCtx(t)
	store := fileStore(t)
	var runs atomic.Int64
	deploy := deployTool(t, &runs)
	model := rulvartest.NewProvider("test", shipScript)
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:m"})
	var asked atomic.Int64
	h, err := rulvar.Run(ctx, engine, askShip(deploy), "api", &rulvar.RunOptions{RunID: "r1", OnEvent: func(ev rulvar.Event) {
		if p, ok := ev.Body.(rulvar.ApprovalPending); ok {
			asked.Add(1)
			require.Equal(t, "deploy", p.ToolName)
		}
	}})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	require.Len(t, out.Pending, 1)
	require.Equal(t, "c1", out.Pending[0].Call.ToolCallID)
	require.JSONEq(t, `{"service":"api"}`, string(out.Pending[0].Call.Input))
	require.EqualValues(t, 1, asked.Load())
	require.EqualValues(t, 0, runs.Load())

	approver := rulvartest.NewEngine(t, rulvar.Config{Store: store})
	pending, err := approver.Pending(ctx)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	_, err = approver.Resolve(ctx, "r1", pending[0].Key, rulvar.ApprovalDecision{})
	require.ErrorIs(t, err, rulvar.ErrInvalidResolution, "the zero decision is no decision")
	_, err = approver.Resolve(ctx, "r1", "approval:99", rulvar.Approve(""))
	require.ErrorIs(t, err, rulvar.ErrInvalidResolution)
	res, err := approver.Resolve(ctx, "r1", pending[0].Key, rulvar.Approve("fine"))
	require.NoError(t, err)
	require.True(t, res.Applied)
	again, err := approver.Resolve(ctx, "r1", pending[0].Key, rulvar.Reject("too late"))
	require.NoError(t, err)
	require.False(t, again.Applied)
	require.Equal(t, res.EntryRef, again.SupersededBy)

	fresh := rulvartest.NewProvider("test", shipScript)
	third := rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{fresh}, Model: "test:m"})
	h, err = rulvar.Resume(ctx, third, askShip(deploy), "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunOK, out.Status)
	require.Equal(t, "shipped", out.Value)
	require.EqualValues(t, 1, runs.Load())
	require.Len(t, model.Requests(), 1, "the paid turn")
	require.Len(t, fresh.Requests(), 1, "only the remaining turn")

	h, err = rulvar.Resume(ctx, third, askShip(deploy), "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "shipped", out.Value)
	require.Len(t, fresh.Requests(), 1, "a replay asks nobody")
}

func TestApproveWhileLive(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	model := rulvartest.NewProvider("test", shipScript)
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	var h *rulvar.RunHandle[string]
	ready := make(chan struct{})
	h, err := rulvar.Run(ctx, engine, askShip(deployTool(t, &runs)), "api", &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if p, ok := ev.Body.(rulvar.ApprovalPending); ok {
			<-ready
			_, err := h.ResolveExternal(ctx, p.Key, rulvar.Approve(""))
			require.NoError(t, err)
		}
	}})
	require.NoError(t, err)
	close(ready)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunOK, out.Status)
	require.EqualValues(t, 1, runs.Load())
}

func TestRejectedToolNeverRuns(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	model := rulvartest.NewProvider("test", shipScript)
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	w := askShip(deployTool(t, &runs))
	h, err := rulvar.Run(ctx, engine, w, "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	_, err = engine.Resolve(ctx, "r1", out.Pending[0].Key, rulvar.Reject("not on Fridays"))
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunOK, out.Status)
	require.Zero(t, runs.Load())
	last := model.Requests()[1].Messages
	require.Contains(t, string(last[len(last)-1].Parts[0].Result), "not on Fridays")
}

func TestStepsReplay(t *testing.T) {
	ctx := testCtx(t)
	var first, second atomic.Int64
	boom := errors.New("boom")
	fail := true
	w := rulvar.DefineWorkflow("steps", func(c *rulvar.Ctx, n int) (int, error) {
		a, err := rulvar.Step(c, "a", func(context.Context) (int, error) { first.Add(1); return n + 1, nil }, nil)
		if err != nil {
			return 0, err
		}
		return rulvar.Step(c, "b", func(context.Context) (int, error) {
			second.Add(1)
			if fail {
				return 0, boom
			}
			return a * 10, nil
		}, &rulvar.StepOptions{Deps: []any{a}})
	})
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	h, err := rulvar.Run(ctx, engine, w, 4, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorIs(t, err, boom)
	fail = false
	for range 3 {
		h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
		require.NoError(t, err)
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 50, out.Value)
	}
	require.EqualValues(t, 1, first.Load())
	require.EqualValues(t, 2, second.Load(), "a failed step runs again, and its success is kept")
}

func TestRunRefusesExistingID(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	w := rulvar.DefineWorkflow("w", func(*rulvar.Ctx, int) (int, error) { return 1, nil })
	h, err := rulvar.Run(ctx, engine, w, 1, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	_, err = rulvar.Run(ctx, engine, w, 2, &rulvar.RunOptions{RunID: "r1"})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = rulvar.Resume(ctx, engine, w, "missing", nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	metas, err := engine.Runs(ctx, nil)
	require.NoError(t, err)
	require.Len(t, metas, 1)
	require.Equal(t, "ok", metas[0].Status)
}

// Who passes over the error of a constructor is told so, in place of a panic.
func TestWhatAConstructorRefused(t *testing.T) {
	ctx := testCtx(t)
	var model *rulvartest.Provider
	_, err := rulvar.NewEngine(rulvar.Config{Providers: []llm.Provider{model}})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "Providers[0]: the provider is a nil *rulvartest.Provider")
	w := rulvar.DefineWorkflow("w", func(*rulvar.Ctx, int) (int, error) { return 1, nil })
	for _, e := range []*rulvar.Engine{nil, {}} {
		_, err = rulvar.Run(ctx, e, w, 1, nil)
		require.ErrorIs(t, err, rulvar.ErrConfig)
		_, err = rulvar.Resume(ctx, e, w, "r", nil)
		require.ErrorIs(t, err, rulvar.ErrConfig)
	}
}

func TestWrongModelReferences(t *testing.T) {
	model := rulvartest.NewProvider("test")
	for want, cfg := range map[string]rulvar.Config{
		`Model: `:                      {Model: "tset:m"},
		`Pricing["gpt"]: `:             {Pricing: map[string]llm.Pricing{"gpt": {InputUSD: 1}}},
		`Profiles["a"].Model: `:        {Profiles: map[string]*rulvar.AgentProfile{"a": {Model: "tset:m"}}},
		`Profiles["a"].Fallbacks[1]: `: {Profiles: map[string]*rulvar.AgentProfile{"a": {Fallbacks: []string{"test:m", "tset:m"}}}},
	} {
		cfg.Providers = []llm.Provider{model}
		_, err := rulvar.NewEngine(cfg)
		require.ErrorIs(t, err, rulvar.ErrConfig)
		require.ErrorContains(t, err, "NewEngine: "+want)
	}
}

func TestCancelWhileParked(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	model := rulvartest.NewProvider("test",
		rulvartest.Script{Prompt: "Ship api", Turns: shipScript.Turns},
		rulvartest.Script{Prompt: "wait", Turns: []rulvartest.Turn{{Hang: true}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	deploy := deployTool(t, &runs)
	w := rulvar.DefineWorkflow("two", func(c *rulvar.Ctx, _ int) ([]string, error) {
		return rulvar.Parallel(c,
			func(c *rulvar.Ctx) (string, error) {
				return rulvar.Agent[string](c, "Ship api", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
			},
			func(c *rulvar.Ctx) (string, error) { return rulvar.Agent[string](c, "wait", nil) })
	})
	parked := make(chan struct{})
	h, err := rulvar.Run(ctx, engine, w, 1, &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if _, ok := ev.Body.(rulvar.ApprovalPending); ok {
			close(parked)
		}
	}})
	require.NoError(t, err)
	<-parked
	h.Cancel("enough")
	out, err := h.Result(ctx)
	require.Error(t, err)
	require.Equal(t, rulvar.RunCancelled, out.Status)
	require.Contains(t, err.Error(), "enough")
}
