package rulvar_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// rerun runs w under "r1" and resumes it n times; every outcome must be the same.
func rerun[A, R any](t *testing.T, e *rulvar.Engine, w *rulvar.Workflow[A, R], args A, n int) rulvar.Outcome[R] {
	t.Helper()
	ctx := testCtx(t)
	h, err := rulvar.Run(ctx, e, w, args, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	first, err := h.Result(ctx)
	require.NoError(t, err)
	for range n {
		h, err = rulvar.Resume(ctx, e, w, "r1", nil)
		require.NoError(t, err)
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, first.Value, out.Value)
		require.Zero(t, out.Preview.Misses)
		require.Zero(t, out.Preview.Reruns)
	}
	return first
}

func counted(c *rulvar.Ctx, label string, runs *atomic.Int64, v int) (int, error) {
	return rulvar.Step(c, label, func(context.Context) (int, error) { runs.Add(1); return v, nil }, nil)
}

func TestChildWorkflow(t *testing.T) {
	engine := rulvartest.NewEngine(t, rulvar.Config{MaxDepth: 2})
	var runs atomic.Int64
	leaf := rulvar.DefineWorkflow("leaf", func(c *rulvar.Ctx, n int) (int, error) { return counted(c, "s", &runs, n*2) })
	mid := rulvar.DefineWorkflow("mid", func(c *rulvar.Ctx, n int) (int, error) {
		a, err := rulvar.CallWorkflow(c, leaf, n, "")
		if err != nil {
			return 0, err
		}
		b, err := rulvar.CallWorkflow(c, leaf, n+1, "")
		return a + b, err
	})
	top := rulvar.DefineWorkflow("top", func(c *rulvar.Ctx, n int) (int, error) {
		v, err := rulvar.CallWorkflow(c, mid, n, "")
		if err != nil {
			return 0, err
		}
		w, err := counted(c, "s", &runs, 1)
		return v + w, err
	})
	out := rerun(t, engine, top, 3, 2)
	require.Equal(t, 6+8+1, out.Value)
	require.EqualValues(t, 3, runs.Load())
}

func TestChildWorkflowDepth(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	var self *rulvar.Workflow[int, int]
	self = rulvar.DefineWorkflow("self", func(c *rulvar.Ctx, n int) (int, error) { return rulvar.CallWorkflow(c, self, n+1, "") })
	h, err := rulvar.Run(ctx, engine, self, 0, nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrAdmissionRejected)
}

// A child that failed runs again with what it had completed.
func TestChildWorkflowRetries(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	var runs atomic.Int64
	fail := true
	child := rulvar.DefineWorkflow("child", func(c *rulvar.Ctx, _ int) (int, error) {
		n, err := counted(c, "first", &runs, 5)
		if err == nil && fail {
			err = errors.New("not yet")
		}
		return n, err
	})
	top := rulvar.DefineWorkflow("top", func(c *rulvar.Ctx, n int) (int, error) { return rulvar.CallWorkflow(c, child, n, "") })
	h, err := rulvar.Run(ctx, engine, top, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorContains(t, err, "not yet")
	fail = false
	for range 2 {
		h, err = rulvar.Resume(ctx, engine, top, "r1", nil)
		require.NoError(t, err)
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, out.Value)
	}
	require.EqualValues(t, 1, runs.Load())
}

func TestPipeline(t *testing.T) {
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	var runs atomic.Int64
	double := func(c *rulvar.Ctx, n int) (int, error) { return counted(c, "work", &runs, n*2) }
	name := func(c *rulvar.Ctx, n int) (string, error) {
		v, err := counted(c, "work", &runs, n+1)
		if v == 5 {
			return "", errors.New("no five")
		}
		return fmt.Sprint("#", v), err
	}
	shout := func(_ *rulvar.Ctx, s string) (string, error) { return s + "!", nil }
	w := rulvar.DefineWorkflow("line", func(c *rulvar.Ctx, items []int) ([]string, error) {
		settled, err := rulvar.Pipeline(c, items, rulvar.Then(rulvar.Then(double, name), shout))
		if err != nil {
			return nil, err
		}
		var out []string
		for _, s := range settled {
			if s.Err != nil {
				out = append(out, s.Err.Error())
			} else {
				out = append(out, s.Value)
			}
		}
		return out, nil
	})
	out := rerun(t, engine, w, []int{1, 2, 3}, 2)
	require.Equal(t, []string{"#3!", "no five", "#7!"}, out.Value)
	require.EqualValues(t, 6, runs.Load())
}

func TestParallelNested(t *testing.T) {
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	var runs atomic.Int64
	w := rulvar.DefineWorkflow("nested", func(c *rulvar.Ctx, n int) ([][]int, error) {
		branch := func(base int) func(*rulvar.Ctx) ([]int, error) {
			return func(c *rulvar.Ctx) ([]int, error) {
				return rulvar.Parallel(c,
					func(c *rulvar.Ctx) (int, error) { return counted(c, "s", &runs, base) },
					func(c *rulvar.Ctx) (int, error) { return counted(c, "s", &runs, base+1) })
			}
		}
		return rulvar.Parallel(c, branch(10), branch(20))
	})
	out := rerun(t, engine, w, 0, 3)
	require.Equal(t, [][]int{{10, 11}, {20, 21}}, out.Value)
	require.EqualValues(t, 4, runs.Load())
}

func TestAgentTimeoutCancelsARunningTool(t *testing.T) {
	var ended atomic.Bool
	slow := rulvar.MustTool(rulvar.NewTool(rulvar.ToolConfig{Name: "slow"}, func(tc *rulvar.ToolContext, _ struct{}) (int, error) {
		<-tc.Done()
		ended.Store(true)
		return 0, tc.Err()
	}))
	p := runProbe(t, rulvar.Config{}, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{slow}, Limits: &rulvar.UsageLimits{Timeout: 30 * time.Millisecond}},
		rulvartest.Turn{Calls: []rulvartest.Call{call("slow", nil), call("slow", nil)}}, rulvartest.Turn{Text: "never"})
	var e *rulvar.Error
	require.ErrorAs(t, p.err, &e)
	require.Equal(t, "limit", e.Data["status"])
	require.True(t, ended.Load())
	require.Len(t, p.model.Requests(), 1)
}

func TestTimeWaitingForApprovalDoesNotCount(t *testing.T) {
	p := park(t, rulvar.Config{Limits: &rulvar.UsageLimits{Timeout: 3 * time.Second}})
	p.resolve(t, rulvar.Approve(""))
	require.Equal(t, rulvar.RunOK, p.resume(t).Status)
}

func TestSilentModelIsCut(t *testing.T) {
	p := runProbe(t, rulvar.Config{Limits: &rulvar.UsageLimits{StreamIdleTimeout: 20 * time.Millisecond}}, nil, rulvartest.Turn{Hang: true})
	require.ErrorContains(t, p.err, "sent nothing")
	require.Len(t, p.model.Requests(), 3, "and is worth another try")
}

func TestFallbackModel(t *testing.T) {
	ctx := testCtx(t)
	busy := &llm.Error{Kind: llm.KindOverloaded, Message: "busy", Retryable: true}
	first := rulvartest.NewProvider("first", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "x", Errs: []error{busy, busy, busy, busy}}}})
	second := rulvartest.NewProvider("second", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "from the second"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{first, second}, Model: "first:m"})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (rulvar.AgentResult[string], error) {
		return rulvar.AgentFull[string](c, "go", &rulvar.AgentOptions{Fallbacks: []string{"second:m"}})
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "from the second", out.Value.Output)
	require.Equal(t, "second:m", out.Value.ServedBy)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "second:m", out.Value.ServedBy)
	require.Len(t, first.Requests(), 3)
	require.Len(t, second.Requests(), 1)
}

func TestReplayModes(t *testing.T) {
	for mode, want := range map[rulvar.ReplayMode]int{rulvar.ReplayScoped: 2, rulvar.ReplayCache: 1, rulvar.ReplayNever: 4} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := testCtx(t)
			model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "hi"}}})
			engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
			twice := false
			ask := func(c *rulvar.Ctx) (string, error) {
				return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Replay: mode})
			}
			w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
				if !twice {
					return ask(c)
				}
				a, err := rulvar.Parallel(c, ask)
				if err != nil {
					return "", err
				}
				return a[0], nil
			})
			h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
			require.NoError(t, err)
			_, err = h.Result(ctx)
			require.NoError(t, err)
			for _, twice = range []bool{false, true, true} { // in its scope, then in another, twice
				h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
				require.NoError(t, err)
				_, err = h.Result(ctx)
				require.NoError(t, err)
			}
			require.Len(t, model.Requests(), want)
		})
	}
}
