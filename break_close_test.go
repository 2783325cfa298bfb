package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// quietLog keeps the log out of tests whose engine outlives what they wait for.
func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A listener may do anything with the handle and the engine, may panic and may
// end its goroutine: the run settles, and as it would have.
func TestBreakListeners(t *testing.T) {
	rows := map[string]func(ctx context.Context, e *rulvar.Engine, h *rulvar.RunHandle[string]){
		"asks for the pending": func(ctx context.Context, e *rulvar.Engine, _ *rulvar.RunHandle[string]) { _, _ = e.Pending(ctx) },
		"listens":              func(_ context.Context, _ *rulvar.Engine, h *rulvar.RunHandle[string]) { h.On(func(rulvar.Event) {})() },
		"reads one event": func(_ context.Context, _ *rulvar.Engine, h *rulvar.RunHandle[string]) {
			go func() {
				for range h.Events() {
					return
				}
			}()
		},
		"resolves nothing": func(ctx context.Context, _ *rulvar.Engine, h *rulvar.RunHandle[string]) {
			_, _ = h.ResolveExternal(ctx, "no", 1)
		},
		"panics":             func(context.Context, *rulvar.Engine, *rulvar.RunHandle[string]) { panic("broken") },
		"ends its goroutine": func(context.Context, *rulvar.Engine, *rulvar.RunHandle[string]) { exitGoroutine() },
		"resumes the run": func(ctx context.Context, e *rulvar.Engine, h *rulvar.RunHandle[string]) {
			_, err := rulvar.Resume[string](ctx, e, askShip(), h.RunID(), nil)
			if err == nil {
				panic("a second segment")
			}
		},
	}
	for name, act := range rows {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			var runs atomic.Int64
			engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m"})
			w := askShip(deployTool(t, &runs))
			handle := make(chan *rulvar.RunHandle[string], 1)
			var h *rulvar.RunHandle[string]
			listen := func(rulvar.Event) {
				if h == nil {
					h = <-handle
				}
				act(ctx, engine, h)
			}
			started, err := rulvar.Run(ctx, engine, w, "api", &rulvar.RunOptions{OnEvent: listen})
			require.NoError(t, err)
			handle <- started
			out, err := started.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, rulvar.RunSuspended, out.Status)
			_, err = engine.Resolve(ctx, started.RunID(), out.Pending[0].Key, rulvar.Approve(""))
			require.NoError(t, err)
			h = nil
			started, err = rulvar.Resume(ctx, engine, w, started.RunID(), &rulvar.ResumeOptions[string]{OnEvent: listen})
			require.NoError(t, err)
			handle <- started
			out, err = started.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, "shipped", out.Value)
			require.EqualValues(t, 1, runs.Load())
		})
	}
}

// A closure that waits until the run is cancelled, ends its goroutine or panics
// never lets the tool run.
func TestBreakClosures(t *testing.T) {
	for name, act := range map[string]func(tc *rulvar.ToolContext, inside func()) (rulvar.Decision, error){
		"waits": func(tc *rulvar.ToolContext, inside func()) (rulvar.Decision, error) {
			inside()
			<-tc.Done()
			return rulvar.Allow(), nil
		},
		"ends its goroutine": func(_ *rulvar.ToolContext, inside func()) (rulvar.Decision, error) {
			exitGoroutine()
			return rulvar.Allow(), nil
		},
		"panics": func(*rulvar.ToolContext, func()) (rulvar.Decision, error) { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			var runs atomic.Int64
			reached := make(chan struct{}, 1)
			decide := func(tc *rulvar.ToolContext, _ rulvar.Call) (rulvar.Decision, error) {
				return act(tc, func() { reached <- struct{}{} })
			}
			engine := rulvartest.NewEngine(t, rulvar.Config{
				Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m",
				Permissions: &rulvar.PermissionConfig{CanUseTool: decide},
			})
			h, err := rulvar.Run(ctx, engine, askShip(deployTool(t, &runs)), "api", nil)
			require.NoError(t, err)
			if name == "waits" {
				<-reached
				h.Cancel("enough")
			}
			out, _ := h.Result(ctx)
			require.NoError(t, ctx.Err())
			require.NotEqual(t, rulvar.RunSuspended, out.Status)
			require.Zero(t, runs.Load())
		})
	}
}

// A tool that ends its goroutine fails the run, and a resume runs it again; one
// that keeps its context uses it afterwards without harm.
func TestBreakTools(t *testing.T) {
	ctx := testCtx(t)
	schema := must(rulvar.SchemaLiteral(json.RawMessage(cellSchema)))
	var calls atomic.Int64
	late := make(chan struct{})
	var users sync.WaitGroup
	tool := must(rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "deploy", Risk: rulvar.RiskExecute}, schema,
		func(tc *rulvar.ToolContext, _ json.RawMessage) (string, error) {
			if calls.Add(1) == 1 {
				exitGoroutine()
			}
			users.Go(func() {
				<-late
				tc.Log(slog.LevelError, "late", "err", tc.Err())
				_ = tc.CallID()
			})
			return "done", nil
		}))
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m", Logger: quietLog()})
	w := askShip(tool)
	var ends []rulvar.ToolEnded
	h, err := rulvar.Run(ctx, engine, w, "api", &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if end, ok := ev.Body.(rulvar.ToolEnded); ok {
			ends = append(ends, end)
		}
	}})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.Error(t, err)
	require.Equal(t, rulvar.RunError, out.Status)
	require.Len(t, ends, 1, "a start has an end")
	require.Equal(t, rulvar.ToolError, ends[0].Outcome)
	require.Equal(t, "interrupted", ends[0].ErrorCode)
	h, err = rulvar.Resume[string](ctx, engine, w, h.RunID(), nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "shipped", out.Value)
	close(late)
	users.Wait()
	require.EqualValues(t, 2, calls.Load())
}

// A run whose context ends, or whose engine closes, at any event settles, and a
// later resume finishes it.
func TestBreakCancelAtEachEvent(t *testing.T) {
	for _, how := range []string{"context", "handle", "engine"} {
		t.Run(how, func(t *testing.T) {
			for at := int64(1); breakCancelAt(t, how, at); at++ {
				require.Less(t, at, int64(200))
			}
		})
	}
}

// breakCancelAt reports whether there was such an event.
func breakCancelAt(t *testing.T, how string, at int64) bool {
	ctx := testCtx(t)
	store := rulvar.NewMemoryStore()
	c := newCell(t)
	cfg := rulvar.Config{Store: store, Providers: []llm.Provider{c.model}, Model: "test:m", Logger: quietLog()}
	engine := rulvartest.NewEngine(t, cfg)
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var seen atomic.Int64
	closed := make(chan error, 1)
	handle := make(chan *rulvar.RunHandle[[]string], 1)
	h, err := rulvar.Run(runCtx, engine, c.w, "x", &rulvar.RunOptions{RunID: "r1", OnEvent: func(rulvar.Event) {
		if seen.Add(1) != at {
			return
		}
		switch how {
		case "context":
			cancel()
		case "handle":
			(<-handle).Cancel("enough")
		case "engine":
			go func() { closed <- engine.Close(ctx) }()
		}
	}})
	require.NoError(t, err)
	handle <- h
	out, err := h.Result(ctx)
	require.NoError(t, ctx.Err())
	reached := seen.Load() >= at
	if reached && how == "engine" {
		require.NoError(t, <-closed)
	}
	if err != nil {
		require.Equal(t, rulvar.RunCancelled, out.Status, "event %d: %v", at, err)
	}
	got, err := c.carry(ctx, rulvartest.NewEngine(t, cfg))
	require.NoError(t, err, "event %d", at)
	require.Equal(t, cellResult, got)
	require.Len(t, c.runs, 4)
	return reached
}

// Runs that start while the engine closes are refused or settle; afterwards
// nothing is left that works.
func TestBreakCloseWhileRunsStart(t *testing.T) {
	for range 20 {
		ctx := testCtx(t)
		engine := must(rulvar.NewEngine(rulvar.Config{Store: rulvar.NewMemoryStore(), Logger: quietLog()}))
		w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, n int) (int, error) {
			return rulvar.Step(c, "s", func(context.Context) (int, error) { return n, nil }, nil)
		})
		begin := make(chan struct{})
		var all sync.WaitGroup
		var working atomic.Int64
		for i := range 8 {
			all.Go(func() {
				<-begin
				h, err := rulvar.Run(ctx, engine, w, i, &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
					switch ev.Body.(type) {
					case rulvar.RunStarted:
						working.Add(1)
					case rulvar.RunEnded:
						working.Add(-1)
					}
				}})
				if err != nil {
					if !errors.Is(err, rulvar.ErrConfig) {
						t.Error(err)
					}
					return
				}
				if out, err := h.Result(ctx); err != nil && out.Status != rulvar.RunCancelled {
					t.Error(out.Status, err)
				}
			})
		}
		all.Go(func() {
			<-begin
			if err := engine.Close(ctx); err != nil {
				t.Error(err)
			}
			if n := working.Load(); n != 0 {
				t.Errorf("%d runs work after Close", n)
			}
		})
		close(begin)
		all.Wait()
	}
}

// Of many that start, or resume, one run at once, one works.
func TestBreakManyAtOnce(t *testing.T) {
	stores := map[string]func(t *testing.T) rulvar.Store{
		"memory": func(*testing.T) rulvar.Store { return rulvar.NewMemoryStore() },
		"files":  func(t *testing.T) rulvar.Store { return must(rulvar.OpenFileStore(t.TempDir(), nil)) },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			var bodies atomic.Int64
			hold := make(chan struct{})
			w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
				bodies.Add(1)
				select {
				case <-hold:
				case <-c.Done():
				}
				return rulvar.AwaitExternal[string](c, "k", "", nil)
			})
			engine := rulvartest.NewEngine(t, rulvar.Config{Store: open(t), Logger: quietLog()})
			race := func(start func() (*rulvar.RunHandle[string], error), allowed ...error) *rulvar.RunHandle[string] {
				var all sync.WaitGroup
				won := make(chan *rulvar.RunHandle[string], 10)
				for range 10 {
					all.Go(func() {
						h, err := start()
						if err == nil {
							won <- h
							return
						}
						for _, a := range allowed {
							if errors.Is(err, a) {
								return
							}
						}
						t.Error(err)
					})
				}
				all.Wait()
				require.Len(t, won, 1)
				return <-won
			}
			h := race(func() (*rulvar.RunHandle[string], error) {
				return rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
			}, rulvar.ErrLeaseHeld, rulvar.ErrConfig)
			close(hold)
			out, err := h.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, rulvar.RunSuspended, out.Status)
			hold = make(chan struct{})
			h = race(func() (*rulvar.RunHandle[string], error) { return rulvar.Resume[int](ctx, engine, w, "r1", nil) }, rulvar.ErrLeaseHeld)
			close(hold)
			var all sync.WaitGroup
			var applied atomic.Int64
			for i := range 10 {
				all.Go(func() {
					r, err := engine.Resolve(ctx, "r1", "k", fmt.Sprint(i))
					if err != nil {
						t.Error(err)
					}
					if r.Applied {
						applied.Add(1)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, applied.Load())
			out, err = h.Result(ctx)
			require.NoError(t, err)
			if out.Status == rulvar.RunSuspended { // it had looked just before the answer came
				h, err = rulvar.Resume[int](ctx, engine, w, "r1", nil)
				require.NoError(t, err)
				out, err = h.Result(ctx)
				require.NoError(t, err)
			}
			require.Equal(t, rulvar.RunOK, out.Status)
			require.NotEmpty(t, out.Value)
			require.GreaterOrEqual(t, bodies.Load(), int64(2))
		})
	}
}

// A context that is done before the start starts nothing.
func TestBreakDeadContext(t *testing.T) {
	p := park(t, rulvar.Config{})
	before := readStore(t, p.dir)
	dead, cancel := context.WithDeadline(p.ctx, time.Unix(0, 0))
	defer cancel()
	_, err := rulvar.Run(dead, p.engine, p.w, "api", &rulvar.RunOptions{RunID: "r2"})
	require.Error(t, err)
	_, err = rulvar.Resume[string](dead, p.engine, p.w, "r1", nil)
	require.Error(t, err)
	_, err = p.engine.Resolve(dead, "r1", p.pending.Key, rulvar.Approve(""))
	require.Error(t, err)
	after := readStore(t, p.dir)
	require.Equal(t, before["r1.jsonl"], after["r1.jsonl"])
	require.NotContains(t, after, "r2.jsonl")
	require.NotContains(t, after, "r2.meta.json")
	p.resolve(t, rulvar.Approve(""))
	require.Equal(t, rulvar.RunOK, p.resume(t).Status)
	require.EqualValues(t, 1, p.runs.Load())
}
