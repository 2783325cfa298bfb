package rulvar_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// A provider that never returns does not hold a run that is cancelled, its
// engine, or an agent whose time is over.
func TestBreakProviderNeverReturns(t *testing.T) {
	defer rulvar.Hurry(10 * time.Millisecond)()
	for name, row := range map[string]struct {
		limits rulvar.UsageLimits
		stop   func(e *rulvar.Engine, h *rulvar.RunHandle[string])
		want   rulvar.RunStatus
	}{
		"cancelled":   {rulvar.UsageLimits{}, func(_ *rulvar.Engine, h *rulvar.RunHandle[string]) { h.Cancel("enough") }, rulvar.RunCancelled},
		"closed":      {rulvar.UsageLimits{}, func(e *rulvar.Engine, _ *rulvar.RunHandle[string]) { _ = e.Close(context.Background()) }, rulvar.RunCancelled},
		"out of time": {rulvar.UsageLimits{Timeout: 5 * time.Millisecond}, func(*rulvar.Engine, *rulvar.RunHandle[string]) {}, rulvar.RunError},
		"idle":        {rulvar.UsageLimits{StreamIdleTimeout: 5 * time.Millisecond}, func(*rulvar.Engine, *rulvar.RunHandle[string]) {}, rulvar.RunError},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			begun, free := make(chan struct{}, 9), make(chan struct{})
			defer close(free)
			model := &wildProvider{stream: func(context.Context, int64, yieldFunc) {
				begun <- struct{}{}
				<-free
			}}
			engine := rulvartest.NewEngine(t, rulvar.Config{
				Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:m", Limits: &row.limits, Logger: quietLog(),
				ProviderConcurrency: map[string]int{"test": 1},
			})
			h, err := rulvar.Run(ctx, engine, askShip(), "api", nil)
			require.NoError(t, err)
			<-begun
			row.stop(engine, h)
			out, err := h.Result(ctx)
			require.NoError(t, ctx.Err())
			require.Error(t, err)
			require.Equal(t, row.want, out.Status, "%v", err)
		})
	}
}

// A provider that has said all and does not return costs a wait, not the answer.
func TestBreakProviderStays(t *testing.T) {
	defer rulvar.Hurry(10 * time.Millisecond)()
	ctx := testCtx(t)
	free := make(chan struct{})
	defer close(free)
	model := &wildProvider{stream: func(_ context.Context, _ int64, yield yieldFunc) {
		_ = yield(say("done"), nil) && yield(finishWith(llm.FinishStop), nil)
		<-free
	}}
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:m", Logger: quietLog()})
	h, err := rulvar.Run(ctx, engine, askShip(), "api", nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "done", out.Value)
}

// A listener that never returns delays a run and does not hold it, nor those
// who read its events.
func TestBreakListenerNeverReturns(t *testing.T) {
	defer rulvar.Hurry(10 * time.Millisecond)()
	ctx := testCtx(t)
	free := make(chan struct{})
	defer close(free)
	var seen atomic.Int64
	engine := rulvartest.NewEngine(t, rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m", Logger: quietLog(),
	})
	h, err := rulvar.Run(ctx, engine, askShip(literalTool(t, rulvar.ToolConfig{Name: "deploy"}, anyObject, nil, 1)), "api", &rulvar.RunOptions{OnEvent: func(rulvar.Event) {
		if seen.Add(1) == 2 {
			<-free
		}
	}})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "shipped", out.Value)
	var types []string
	for ev := range h.Events() {
		types = append(types, ev.Body.EventType())
	}
	require.Equal(t, []string{"run:start", "agent:start", "budget:update", "tool:start", "tool:end", "budget:update", "agent:end", "run:end"}, types, "the buffer has what the listener has not")
	require.EqualValues(t, 2, seen.Load())
	require.NoError(t, engine.Close(ctx))
}

// panickyModel panics when it is asked what a model can do, but for the first
// few times.
type panickyModel struct {
	*rulvartest.Provider
	good atomic.Int64
}

func (p *panickyModel) Capabilities(model string) llm.Capabilities {
	if p.good.Add(-1) < 0 {
		panic("no idea")
	}
	caps := p.Provider.Capabilities(model)
	caps.Pricing = &llm.Pricing{InputUSD: 1, OutputUSD: 1}
	return caps
}

// A panic in Capabilities is an error of the call that needed them, wherever it
// comes, and nothing is left locked.
func TestBreakCapabilitiesPanics(t *testing.T) {
	for good := range int64(8) {
		ctx := testCtx(t)
		store := rulvar.NewMemoryStore()
		model := &panickyModel{Provider: rulvartest.NewProvider("test", shipScript)}
		model.good.Store(good)
		var runs atomic.Int64
		engine := rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:m", Logger: quietLog()})
		w := askShip(deployTool(t, &runs))
		h, err := rulvar.Run(ctx, engine, w, "api", &rulvar.RunOptions{RunID: "r1", BudgetUSD: 5})
		require.NoError(t, err)
		out, _ := h.Result(ctx)
		require.NoError(t, ctx.Err())
		if good == 0 {
			require.ErrorIs(t, out.Err, rulvar.ErrConfig)
		}
		model.good.Store(0)
		if h, err := rulvar.Resume(ctx, engine, w, "r1", nil); err == nil {
			_, _ = h.Result(ctx)
			require.NoError(t, ctx.Err())
		}
		model.good.Store(1000)
		h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
		require.NoError(t, err, "after %d answers the run is still locked", good)
		out, _ = h.Result(ctx)
		require.NoError(t, ctx.Err())
		require.Equal(t, rulvar.RunSuspended, out.Status)
		require.Zero(t, runs.Load())
	}
}
