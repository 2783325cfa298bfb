package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

func exitGoroutine() { runtime.Goexit() }

type yieldFunc = func(llm.StreamEvent, error) bool

// wildProvider answers its n-th request, from 0, with what the test says.
type wildProvider struct {
	n      atomic.Int64
	stream func(ctx context.Context, n int64, yield yieldFunc)
}

func (p *wildProvider) ID() string { return "test" }

func (p *wildProvider) Capabilities(string) llm.Capabilities { return llm.Capabilities{} }

func (p *wildProvider) Stream(ctx context.Context, _ *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) { p.stream(ctx, p.n.Add(1)-1, yield) }
}

func say(text string) llm.StreamEvent {
	return llm.StreamEvent{Type: llm.StreamText, Text: text}
}

func callEvent(id, args string) llm.StreamEvent {
	return llm.StreamEvent{Type: llm.StreamToolCall, ID: id, Name: "deploy", Arguments: args}
}

func finishWith(r llm.FinishReason) llm.StreamEvent {
	return llm.StreamEvent{Type: llm.StreamFinish, Finish: r}
}

const deployArgs = `{"service":"api"}`

// A provider that breaks its contract fails the agent or is put up with. It
// never makes the run hang, and never makes a tool run without an approval.
func TestBreakProviders(t *testing.T) {
	finish := func(yield yieldFunc) { yield(finishWith(llm.FinishStop), nil) }
	type provide = func(ctx context.Context, n int64, yield yieldFunc)
	rows := map[string]struct {
		stream provide
		want   rulvar.RunStatus
	}{
		"yields after the end": {func(_ context.Context, _ int64, yield yieldFunc) {
			finish(yield)
			yield(callEvent("c1", deployArgs), nil)
		}, rulvar.RunError},
		"yields after an error": {func(_ context.Context, _ int64, yield yieldFunc) {
			yield(llm.StreamEvent{}, errors.New("broken"))
			yield(finishWith(llm.FinishStop), nil)
		}, rulvar.RunError},
		"yields nothing":    {func(context.Context, int64, yieldFunc) {}, rulvar.RunError},
		"panics mid-stream": {func(_ context.Context, _ int64, yield yieldFunc) { yield(say("x"), nil); panic("broken") }, rulvar.RunError},
		"ends its goroutine": {func(_ context.Context, _ int64, yield yieldFunc) {
			yield(say("x"), nil)
			exitGoroutine()
		}, rulvar.RunError},
		"empty call id": {func(_ context.Context, _ int64, yield yieldFunc) {
			_ = yield(callEvent("", deployArgs), nil) && yield(finishWith(llm.FinishToolCalls), nil)
		}, rulvar.RunError},
		"call id twice": {func(_ context.Context, _ int64, yield yieldFunc) {
			again := callEvent("c1", `{"service":"docs"}`)
			_ = yield(callEvent("c1", deployArgs), nil) && yield(again, nil) && yield(finishWith(llm.FinishToolCalls), nil)
		}, rulvar.RunError},
		"call id that is no UTF-8": {func(_ context.Context, _ int64, yield yieldFunc) {
			_ = yield(callEvent("c\xff", deployArgs), nil) && yield(callEvent("c\xfe", deployArgs), nil) && yield(finishWith(llm.FinishToolCalls), nil)
		}, rulvar.RunError},
		"unknown finish": {func(_ context.Context, _ int64, yield yieldFunc) { yield(finishWith("bored"), nil) }, rulvar.RunError},
		"no finish": {func(_ context.Context, _ int64, yield yieldFunc) {
			yield(llm.StreamEvent{Type: llm.StreamFinish}, nil)
		}, rulvar.RunError},
		"unknown event": {func(_ context.Context, _ int64, yield yieldFunc) { yield(llm.StreamEvent{Type: "wave"}, nil) }, rulvar.RunError},
		"a call, stopped": {func(_ context.Context, _ int64, yield yieldFunc) {
			_ = yield(callEvent("c1", deployArgs), nil) && yield(finishWith(llm.FinishStop), nil)
		}, rulvar.RunSuspended},
		"a call, refused": {func(_ context.Context, _ int64, yield yieldFunc) {
			_ = yield(callEvent("c1", deployArgs), nil) && yield(finishWith(llm.FinishRefusal), nil)
		}, rulvar.RunError},
		"negative usage": {func(_ context.Context, _ int64, yield yieldFunc) {
			yield(llm.StreamEvent{Type: llm.StreamFinish, Finish: llm.FinishStop, Usage: llm.Usage{InputTokens: -1}}, nil)
		}, rulvar.RunError},
		"deep block": {func(_ context.Context, _ int64, yield yieldFunc) {
			block := strings.Repeat("[", 999) + strings.Repeat("]", 999)
			_ = yield(llm.StreamEvent{Type: llm.StreamRaw, Block: json.RawMessage(block)}, nil) && yield(callEvent("c1", deployArgs), nil) && yield(finishWith(llm.FinishToolCalls), nil)
		}, rulvar.RunError},
		"block with half a character": {func(_ context.Context, _ int64, yield yieldFunc) {
			_ = yield(llm.StreamEvent{Type: llm.StreamRaw, Block: json.RawMessage(`"\ud800"`)}, nil) && yield(callEvent("c1", deployArgs), nil) && yield(finishWith(llm.FinishToolCalls), nil)
		}, rulvar.RunError},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			var runs atomic.Int64
			engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{&wildProvider{stream: row.stream}}, Model: "test:m"})
			h, err := rulvar.Run(ctx, engine, askShip(deployTool(t, &runs)), "api", nil)
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.NoError(t, ctx.Err())
			require.Equal(t, row.want, out.Status, "%v", err)
			require.Zero(t, runs.Load())
			require.GreaterOrEqual(t, out.Usage.InputTokens, int64(0))
		})
	}
}

// Whatever a failed attempt or the arguments of a call hold, a run that has
// suspended can go on: its checkpoint and its journal stay readable.
func TestBreakProvidersThenResume(t *testing.T) {
	deep := func(n int) string { return `{"service":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	ask := func(args string, usage llm.Usage) func(int64, yieldFunc) {
		return func(_ int64, yield yieldFunc) {
			_ = yield(callEvent("c1", args), nil) && yield(llm.StreamEvent{Type: llm.StreamFinish, Finish: llm.FinishToolCalls, Usage: usage}, nil)
		}
	}
	rows := map[string]struct {
		first func(n int64, yield yieldFunc)
		runs  int64 // with any input that the schema takes
	}{
		"plain": {ask(`{"service":"api"}`, llm.Usage{}), 1},
		"negative usage of a cut answer": {func(n int64, yield yieldFunc) {
			if n == 0 {
				yield(llm.StreamEvent{Type: llm.StreamUsage, Usage: llm.Usage{OutputTokens: -1000}}, nil)
				return
			}
			ask(`{"service":"api"}`, llm.Usage{})(n, yield)
		}, 1},
		"usage at its limit": {func(n int64, yield yieldFunc) {
			if n == 0 {
				yield(llm.StreamEvent{Type: llm.StreamUsage, Usage: llm.Usage{OutputTokens: math.MaxInt64}}, nil)
				return
			}
			ask(`{"service":"api"}`, llm.Usage{OutputTokens: math.MaxInt64})(n, yield)
		}, 1},
		"deep arguments":          {ask(deep(850), llm.Usage{}), 1},
		"too deep arguments":      {ask(deep(998), llm.Usage{}), 0},
		"much too deep":           {ask(deep(20000), llm.Usage{}), 0},
		"deep and not quite JSON": {ask(deep(998)+",", llm.Usage{}), 0},
		"half a character":        {ask(`{"service":"\ud800"}`, llm.Usage{}), 0},
		"no UTF-8":                {ask("{\"service\":\"\xff\"}", llm.Usage{}), 0},
		"a number without end":    {ask(`{"service":1e999}`, llm.Usage{}), 0},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			var runs, asked atomic.Int64
			answered := func(req *llm.Request) bool { return len(req.Messages) > 1 }
			model := &respondingProvider{respond: func(req *llm.Request, yield yieldFunc) {
				if answered(req) {
					_ = yield(say("end"), nil) && yield(finishWith(llm.FinishStop), nil)
					return
				}
				row.first(asked.Add(1)-1, yield)
			}}
			store := must(rulvar.OpenFileStore(t.TempDir(), nil))
			schema := must(rulvar.SchemaLiteral(json.RawMessage(`{"type":"object","properties":{"service":{}}}`)))
			tool := must(rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "deploy", Risk: rulvar.RiskExecute, NeedsApproval: true}, schema,
				func(_ *rulvar.ToolContext, in json.RawMessage) (json.RawMessage, error) { runs.Add(1); return in, nil }))
			engine := func() *rulvar.Engine {
				return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:m"})
			}
			e, w := engine(), askShip(tool)
			h, err := rulvar.Run(ctx, e, w, "api", &rulvar.RunOptions{RunID: "r1"})
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.NoError(t, err)
			if row.runs > 0 {
				require.Equal(t, rulvar.RunSuspended, out.Status)
				_, err = e.Resolve(ctx, "r1", out.Pending[0].Key, rulvar.Approve("fine"))
				require.NoError(t, err)
				h, err = rulvar.Resume[string](ctx, engine(), w, "r1", nil)
				require.NoError(t, err)
				out, err = h.Result(ctx)
				require.NoError(t, err)
			}
			require.Equal(t, rulvar.RunOK, out.Status)
			require.Equal(t, "end", out.Value)
			require.Equal(t, row.runs, runs.Load())
		})
	}
}

// respondingProvider answers each request from what it holds.
type respondingProvider struct {
	respond func(req *llm.Request, yield yieldFunc)
}

func (p *respondingProvider) ID() string { return "test" }

func (p *respondingProvider) Capabilities(string) llm.Capabilities { return llm.Capabilities{} }

func (p *respondingProvider) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) { p.respond(req, yield) }
}

// A provider that goes on sending when its context is done does not keep the
// run alive.
func TestBreakProviderIgnoresContext(t *testing.T) {
	ctx := testCtx(t)
	begun := make(chan struct{})
	model := &wildProvider{stream: func(_ context.Context, _ int64, yield yieldFunc) {
		for i := 0; yield(say("and on "), nil); i++ {
			if i == 0 {
				close(begun)
			}
			runtime.Gosched()
		}
	}}
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:m"})
	h, err := rulvar.Run(ctx, engine, askShip(), "api", nil)
	require.NoError(t, err)
	<-begun
	h.Cancel("enough")
	out, _ := h.Result(ctx)
	require.NoError(t, ctx.Err())
	require.Equal(t, rulvar.RunCancelled, out.Status)
}

// Not a number is no ceiling and no price.
func TestBreakBudgets(t *testing.T) {
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore()})
	for _, usd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		_, err := rulvar.Run(testCtx(t), engine, askShip(), "api", &rulvar.RunOptions{BudgetUSD: usd})
		require.ErrorIs(t, err, rulvar.ErrConfig, fmt.Sprint(usd))
	}
	_, err := rulvar.NewEngine(rulvar.Config{ReserveUSD: math.NaN()})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = rulvar.NewEngine(rulvar.Config{Pricing: map[string]llm.Pricing{"a:b": {InputUSD: math.NaN()}}})
	require.ErrorIs(t, err, rulvar.ErrConfig)
}
