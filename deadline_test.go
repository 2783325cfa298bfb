package rulvar_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

func withDeadline(d time.Duration) rulvar.Config {
	return rulvar.Config{Permissions: &rulvar.PermissionConfig{ApprovalDeadline: d}}
}

// A parked run that is resumed again and again has one timer.
func TestDeadlinesDoNotPileUp(t *testing.T) {
	p := park(t, withDeadline(time.Hour))
	for range 3 {
		require.Equal(t, rulvar.RunSuspended, p.resume(t).Status)
		require.Equal(t, 1, p.engine.ArmedDeadlines())
	}
	p.resolve(t, rulvar.Approve(""))
	require.Equal(t, rulvar.RunOK, p.resume(t).Status)
}

func TestDeadlineOfADeletedRun(t *testing.T) {
	p := park(t, withDeadline(time.Hour))
	require.Equal(t, 1, p.engine.ArmedDeadlines())
	require.NoError(t, p.engine.DeleteRun(p.ctx, "r1"))
	require.Zero(t, p.engine.ArmedDeadlines())
}

// A timer of a run that another process has deleted denies nothing in the run
// that has its id now.
func TestDeadlineKnowsItsRun(t *testing.T) {
	p := park(t, withDeadline(200*time.Millisecond))
	other := rulvartest.NewEngine(t, rulvar.Config{Store: p.store, Providers: []llm.Provider{p.model}, Model: "test:m"})
	require.NoError(t, other.DeleteRun(p.ctx, "r1"))
	h, err := rulvar.Run(p.ctx, other, p.w, "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(p.ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.engine.ArmedDeadlines() == 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, p.engine.Close(p.ctx))
	open, err := other.PendingOf(p.ctx, "r1")
	require.NoError(t, err)
	require.Len(t, open, 1)
}

// Nobody answers in a run that is being made or removed.
func TestUnfinishedRunsTakeNoAnswers(t *testing.T) {
	p := park(t, rulvar.Config{})
	meta, _, err := p.store.Load(p.ctx, "r1", -1)
	require.NoError(t, err)
	lock, err := p.store.Lock(p.ctx, "r1", "test")
	require.NoError(t, err)
	meta.WorkflowName, meta.Status = "rulvar/unfinished", string(rulvar.RunImporting)
	require.NoError(t, p.store.PutMeta(p.ctx, meta, lock))
	require.NoError(t, lock.Release())
	before := readStore(t, p.dir)
	_, err = p.engine.Resolve(p.ctx, "r1", p.pending.Key, rulvar.Approve(""))
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = p.engine.RevokeApproval(p.ctx, "r1", p.pending.Key, "ann", "no")
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = p.engine.PendingOf(p.ctx, "r1")
	require.ErrorIs(t, err, rulvar.ErrConfig)
	all, err := p.engine.Pending(p.ctx)
	require.NoError(t, err)
	require.Empty(t, all)
	require.Equal(t, before, readStore(t, p.dir))
}
