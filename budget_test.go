package rulvar_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// Two agents of which the first uses nearly all: the second is not admitted,
// also not by a resume, until the ceiling is raised.
func TestBudgetCeiling(t *testing.T) {
	ctx := testCtx(t)
	model := rulvartest.NewProvider("test",
		rulvartest.Script{Prompt: "One", Turns: []rulvartest.Turn{{Text: "1", Usage: &llm.Usage{InputTokens: 9500, OutputTokens: 40}}}},
		rulvartest.Script{Prompt: "Two", Turns: []rulvartest.Turn{{Text: "2"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m", ReserveUSD: 0.001,
		Pricing: map[string]llm.Pricing{"test:m": {InputUSD: 1, OutputUSD: 10}}})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
		a, err := rulvar.Agent[string](c, "One", nil)
		if err != nil {
			return "", err
		}
		b, err := rulvar.Agent[string](c, "Two", nil)
		return a + b, err
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1", BudgetUSD: 0.01})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrBudgetExhausted)
	require.Equal(t, rulvar.RunExhausted, out.Status)
	require.InDelta(t, 0.0099, out.Cost.TotalUSD, 1e-9)
	require.Len(t, model.Requests(), 1)
	require.Positive(t, model.Requests()[0].MaxOutputTokens, "the answer is cut to what is left")
	require.LessOrEqual(t, model.Requests()[0].MaxOutputTokens, 1000)

	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrBudgetExhausted, "the ceiling is the run's")
	_, err = rulvar.Resume(ctx, engine, w, "r1", &rulvar.ResumeOptions[int]{BudgetUSD: 0.001})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	h, err = rulvar.Resume(ctx, engine, w, "r1", &rulvar.ResumeOptions[int]{BudgetUSD: 1})
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "12", out.Value)
	require.Len(t, model.Requests(), 2)
}

// An agent in the middle of its turns is stopped before a request it cannot pay.
func TestBudgetStopsBetweenTurns(t *testing.T) {
	ctx := testCtx(t)
	ok := literalTool(t, rulvar.ToolConfig{Name: "ok"}, anyObject, nil, 1)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{call("ok", nil)}, Usage: &llm.Usage{InputTokens: 1, OutputTokens: 1000}}, {Text: "never"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m", ReserveUSD: 0.001,
		Pricing: map[string]llm.Pricing{"test:m": {OutputUSD: 10}}})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{ok}})
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{BudgetUSD: 0.01})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrBudgetExhausted)
	require.Equal(t, rulvar.RunExhausted, out.Status)
	require.Len(t, model.Requests(), 1)
}

func TestUnpricedUsageIsReported(t *testing.T) {
	p := runProbe(t, rulvar.Config{}, nil, rulvartest.Turn{Text: "x"})
	require.NoError(t, p.err)
	require.Zero(t, p.out.Cost.TotalUSD)
	require.Equal(t, map[string]llm.Usage{"test:m": {InputTokens: 10, OutputTokens: 5}}, p.out.Cost.Unpriced)
}

// gauge counts how many requests are under way at once.
type gauge struct {
	*rulvartest.Provider
	now, most atomic.Int64
}

func (g *gauge) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		n := g.now.Add(1)
		defer g.now.Add(-1)
		for {
			m := g.most.Load()
			if n <= m || g.most.CompareAndSwap(m, n) {
				break
			}
		}
		time.Sleep(5 * time.Millisecond)
		g.Provider.Stream(ctx, req)(yield)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	for name, cfg := range map[string]rulvar.Config{
		"of a run":      {Concurrency: 2},
		"of a provider": {ProviderConcurrency: map[string]int{"test": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			g := &gauge{Provider: rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "x"}}})}
			cfg.Providers, cfg.Model = []llm.Provider{g}, "test:m"
			engine := rulvartest.NewEngine(t, cfg)
			w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) ([]string, error) {
				ask := func(c *rulvar.Ctx) (string, error) { return rulvar.Agent[string](c, "go", nil) }
				return rulvar.Parallel(c, ask, ask, ask, ask, ask, ask)
			})
			h, err := rulvar.Run(ctx, engine, w, 0, nil)
			require.NoError(t, err)
			_, err = h.Result(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 2, g.most.Load())
		})
	}
}

// Many agents that wait for approvals hold nothing: the run settles although
// only one request may be under way.
func TestParkedAgentsHoldNoSlot(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	deploy := deployTool(t, &runs)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "deploy", Args: map[string]string{"service": "api"}}}}, {Text: "x"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m", Concurrency: 1})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) ([]string, error) {
		branches := make([]func(*rulvar.Ctx) (string, error), 20)
		for i := range branches {
			branches[i] = func(c *rulvar.Ctx) (string, error) {
				return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
			}
		}
		return rulvar.Parallel(c, branches...)
	})
	h, err := rulvar.Run(ctx, engine, w, 0, nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	require.Len(t, out.Pending, 20)
}

// A ceiling does not see what a model without a price costs: the run says so,
// once.
func TestBudgetWarnsOfUnpricedModels(t *testing.T) {
	ctx := testCtx(t)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "1"}, {Text: "2"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
		a, err := rulvar.Agent[string](c, "One", nil)
		if err != nil {
			return "", err
		}
		b, err := rulvar.Agent[string](c, "Two", nil)
		return a + b, err
	})
	for _, c := range []struct {
		budget   float64
		warnings int
	}{{0, 0}, {1, 1}} {
		var warnings atomic.Int64
		h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{BudgetUSD: c.budget, OnEvent: func(e rulvar.Event) {
			if l, ok := e.Body.(rulvar.LogEmitted); ok && l.Data["model"] == "test:m" {
				warnings.Add(1)
			}
		}})
		require.NoError(t, err)
		_, err = h.Result(ctx)
		require.NoError(t, err)
		require.EqualValues(t, c.warnings, warnings.Load())
	}
}
