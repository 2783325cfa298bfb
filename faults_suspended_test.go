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

// A goroutine of the body's own waits for an approval when the body returns:
// the run ends with what the body said, and the goroutine ends too.
func faultBodyReturns(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m"})
	asked, left := make(chan struct{}), make(chan struct{})
	deploy := deployTool(t, &runs)
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
		go func() {
			defer close(left)
			_, _ = rulvar.Agent[string](c, "Ship api", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
		}()
		<-asked
		return "returned", nil
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if _, ok := ev.Body.(rulvar.ApprovalPending); ok {
			close(asked)
		}
	}})
	require.NoError(t, err)
	_, _ = h.Result(ctx) // suspended, or ok: which of the two comes first is open
	require.NoError(t, ctx.Err(), "it hangs")
	<-left
	require.Zero(t, runs.Load())
}

// The deadline is in the event, in the list, and in what a resume tells.
func faultDeadlineTold(t *testing.T) {
	ctx := testCtx(t)
	var told []*time.Time
	listen := func(ev rulvar.Event) {
		switch b := ev.Body.(type) {
		case rulvar.ApprovalPending:
			told = append(told, b.DeadlineAt)
		case rulvar.ExternalWaiting:
			require.NotEmpty(t, b.Key)
			told = append(told, b.DeadlineAt)
		}
	}
	store := fileStore(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{
		Store: store, Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m",
		Permissions: &rulvar.PermissionConfig{ApprovalDeadline: time.Hour},
	})
	w := askShip(deployTool(t, nil))
	h, err := rulvar.Run(ctx, engine, w, "api", &rulvar.RunOptions{RunID: "r1", OnEvent: listen})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, engine, w, "r1", &rulvar.ResumeOptions[string]{OnEvent: listen})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	pending, err := rulvartest.NewEngine(t, rulvar.Config{Store: store}).Pending(ctx)
	require.NoError(t, err)
	require.NotNil(t, pending[0].DeadlineAt)
	require.GreaterOrEqual(t, len(told), 3)
	for _, at := range told {
		require.NotNil(t, at)
		require.True(t, at.Equal(*pending[0].DeadlineAt))
	}
}

// A branch that works without any primitive keeps the segment alive; what is
// left of a body after the segment has settled journals nothing.
func faultPlainWork(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	waiting, work := make(chan struct{}), make(chan struct{})
	var worked atomic.Bool
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) ([]string, error) {
		return rulvar.Parallel(c,
			func(c *rulvar.Ctx) (string, error) { return rulvar.AwaitExternal[string](c, "k", "", nil) },
			func(*rulvar.Ctx) (string, error) {
				<-work
				worked.Store(true)
				return "plain", nil
			})
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1", OnEvent: func(ev rulvar.Event) {
		if _, ok := ev.Body.(rulvar.ExternalWaiting); ok && !worked.Load() {
			close(waiting)
		}
	}})
	require.NoError(t, err)
	<-waiting
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = h.Result(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it has settled under a branch that works")
	close(work)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	require.True(t, worked.Load())
}

// Who listens from the start of a resume, by function or by iterator, sees its
// first events.
func faultFirstEvents(t *testing.T) {
	p := park(t, rulvar.Config{})
	var first []string
	h, err := rulvar.Resume(p.ctx, p.engine, p.w, "r1", &rulvar.ResumeOptions[string]{OnEvent: func(ev rulvar.Event) {
		first = append(first, ev.Body.EventType())
	}})
	require.NoError(t, err)
	_, err = h.Result(p.ctx)
	require.NoError(t, err)
	var read []string
	for ev := range h.Events() {
		read = append(read, ev.Body.EventType())
	}
	require.Equal(t, []string{"run:start", "external:waiting"}, first[:2])
	require.Equal(t, first, read)
}
