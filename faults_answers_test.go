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

// Answers that do not decide are refused, and nothing is written.
func faultNoDecision(t *testing.T) {
	p := park(t, rulvar.Config{})
	before := readStore(t, p.dir)
	for _, value := range []any{
		rulvar.ApprovalDecision{}, nil, true, "allow", 1, []string{"allow"}, map[string]any{}, map[string]any{"decision": nil},
		map[string]any{"decision": "Allow"}, map[string]any{"decision": true}, map[string]any{"approved": true}, json.RawMessage(`{"decision":"maybe"}`),
	} {
		_, err := p.engine.Resolve(p.ctx, "r1", p.pending.Key, value)
		require.ErrorIs(t, err, rulvar.ErrInvalidResolution, "%v", value)
	}
	require.Equal(t, before, readStore(t, p.dir))
	require.Equal(t, rulvar.RunSuspended, p.resume(t).Status)
	require.Zero(t, p.runs.Load())
}

// A rule asks; the process that goes on has no such rule: an open request stays
// open, and a rejection stands.
func faultPolicyGone(t *testing.T) {
	ctx := testCtx(t)
	store := fileStore(t)
	var runs atomic.Int64
	plain := literalTool(t, rulvar.ToolConfig{Name: "deploy", Risk: rulvar.RiskExecute}, deploySchema, &runs, "done")
	engine := func(p *rulvar.PermissionConfig) *rulvar.Engine {
		return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m", Permissions: p})
	}
	h, err := rulvar.Run(ctx, engine(&rulvar.PermissionConfig{Ask: []rulvar.Rule{rulvar.ToolRule("deploy")}}), askShip(plain), "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	lax := engine(nil)
	for _, want := range []rulvar.RunStatus{rulvar.RunSuspended, rulvar.RunOK} {
		h, err := rulvar.Resume[string](ctx, lax, askShip(plain), "r1", nil)
		require.NoError(t, err)
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, want, out.Status)
		require.Zero(t, runs.Load())
		if want == rulvar.RunSuspended {
			_, err = lax.Resolve(ctx, "r1", out.Pending[0].Key, rulvar.Reject("no"))
			require.NoError(t, err)
		}
	}
	require.Len(t, out.Pending, 1)
}

// An answer does not depend on how the run is resumed.
func faultResumeOptions(t *testing.T) {
	args := "api"
	for name, opts := range map[string]*rulvar.ResumeOptions[string]{
		"none": nil, "empty": {}, "all": {Args: &args, BudgetUSD: 5, ConfigFingerprint: "x", RefuseVersion: true, OnEvent: func(rulvar.Event) {}},
	} {
		p := park(t, rulvar.Config{})
		p.resolve(t, rulvar.Approve(""))
		h, err := rulvar.Resume(p.ctx, p.engine, p.w, "r1", opts)
		require.NoError(t, err, name)
		out, err := h.Result(p.ctx)
		require.NoError(t, err, name)
		require.Equal(t, "shipped", out.Value, name)
		require.EqualValues(t, 1, p.runs.Load(), name)
	}
}

func faultNamesNothing(t *testing.T) {
	p := park(t, rulvar.Config{})
	before := readStore(t, p.dir)
	for _, key := range []string{"", "approval:", "approval:0", "approval:99", "c1", "deploy", "approval:01"} {
		_, err := p.engine.Resolve(p.ctx, "r1", key, rulvar.Approve(""))
		require.ErrorIs(t, err, rulvar.ErrInvalidResolution, key)
	}
	require.Equal(t, before, readStore(t, p.dir))
}

// scriptedTurn runs an agent over one turn of calls, approves what waits, and
// returns the model's requests.
func scriptedTurn(t *testing.T, tools []rulvar.ToolSource, calls ...rulvartest.Call) []rulvartest.Request {
	t.Helper()
	ctx := testCtx(t)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Calls: calls}, {Text: "done"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	h, err := rulvar.Run(ctx, engine, askShip(tools...), "api", &rulvar.RunOptions{RunID: "r1"})
	for range 5 {
		require.NoError(t, err)
		var out rulvar.Outcome[string]
		out, err = h.Result(ctx)
		require.NoError(t, err)
		if out.Status != rulvar.RunSuspended {
			return model.Requests()
		}
		require.Len(t, out.Pending, 1)
		_, err = engine.Resolve(ctx, "r1", out.Pending[0].Key, rulvar.Approve(""))
		require.NoError(t, err)
		h, err = rulvar.Resume[string](ctx, engine, askShip(tools...), "r1", nil)
	}
	t.Fatal("it suspends again and again")
	return nil
}

func faultDoneAgain(t *testing.T) {
	var before, after, deployed atomic.Int64
	args := map[string]string{"service": "api"}
	scriptedTurn(t, []rulvar.ToolSource{
		literalTool(t, rulvar.ToolConfig{Name: "first"}, deploySchema, &before, 1), deployTool(t, &deployed),
		literalTool(t, rulvar.ToolConfig{Name: "last"}, deploySchema, &after, 1),
	}, rulvartest.Call{Tool: "first", Args: args}, rulvartest.Call{Tool: "deploy", Args: args}, rulvartest.Call{Tool: "last", Args: args})
	require.Equal(t, []int64{1, 1, 1}, []int64{before.Load(), deployed.Load(), after.Load()})
}

func faultSiblingResults(t *testing.T) {
	args := map[string]string{"service": "api"}
	requests := scriptedTurn(t, []rulvar.ToolSource{
		literalTool(t, rulvar.ToolConfig{Name: "list"}, deploySchema, nil, "a, b"), deployTool(t, nil),
	}, rulvartest.Call{ID: "c1", Tool: "list", Args: args}, rulvartest.Call{ID: "c2", Tool: "deploy", Args: args}, rulvartest.Call{ID: "c3", Tool: "list", Args: args})
	require.Len(t, requests, 2)
	last := requests[1].Messages[len(requests[1].Messages)-1]
	var ids []string
	for _, p := range last.Parts {
		require.Equal(t, llm.PartToolResult, p.Type)
		require.False(t, p.IsError)
		ids = append(ids, p.ID)
	}
	require.Equal(t, []string{"c1", "c2", "c3"}, ids)
}

// slowStore makes each record take its time.
type slowStore struct{ rulvar.Store }

func (s slowStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	time.Sleep(20 * time.Millisecond)
	return s.Store.AppendAll(ctx, runID, entries, lock)
}

// Whoever hears of a request can answer it at once, from elsewhere.
func faultToldTooEarly(t *testing.T) {
	ctx := testCtx(t)
	file := fileStore(t)
	var runs atomic.Int64
	approver := rulvartest.NewEngine(t, rulvar.Config{Store: file})
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: slowStore{file}, Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m"})
	answered := make(chan error, 1)
	h, err := rulvar.Run(ctx, engine, askShip(deployTool(t, &runs)), "api", &rulvar.RunOptions{RunID: "r1", OnEvent: func(ev rulvar.Event) {
		if b, ok := ev.Body.(rulvar.ApprovalPending); ok {
			out, err := approver.Resolve(ctx, "r1", b.Key, rulvar.Approve(""))
			if err == nil && !out.Applied {
				err = errors.New("it was not taken")
			}
			answered <- err
		}
	}})
	require.NoError(t, err)
	require.NoError(t, <-answered)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "shipped", out.Value, "the segment looks once more before it settles")
	require.EqualValues(t, 1, runs.Load())
}

func faultFoundAfterRestart(t *testing.T) {
	p := park(t, rulvar.Config{})
	list, err := rulvartest.NewEngine(t, rulvar.Config{Store: must(rulvar.OpenFileStore(p.dir, nil))}).Pending(p.ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, p.pending.Key, list[0].Key)
	require.Equal(t, "r1", list[0].RunID)
	require.Equal(t, "c1", list[0].Call.ToolCallID)
	require.Equal(t, "deploy", list[0].Call.Tool)
	require.JSONEq(t, `{"service":"api"}`, string(list[0].Call.Input))
	require.NotEmpty(t, list[0].Call.Reason)
	require.WithinDuration(t, time.Now(), list[0].Since, time.Hour)
}

// The input that runs is the recorded one, whatever comes with an allow.
func faultForeignInput(t *testing.T) {
	p := park(t, rulvar.Config{})
	_, err := p.engine.Resolve(p.ctx, "r1", p.pending.Key, map[string]any{"decision": "allow", "input": map[string]string{"service": "prod"}, "toolCallId": "c9"})
	if err != nil {
		require.ErrorIs(t, err, rulvar.ErrInvalidResolution)
		p.resolve(t, rulvar.Approve(""))
	}
	require.Equal(t, rulvar.RunOK, p.resume(t).Status)
	require.Equal(t, []string{`{"service":"api"}`}, p.inputs)
}

// failingApprovals is a store that cannot write requests for approval.
type failingApprovals struct{ rulvar.Store }

func (s failingApprovals) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	if entries[0].Kind == "approval" {
		return errFaulty
	}
	return s.Store.AppendAll(ctx, runID, entries, lock)
}

func faultNotWritten(t *testing.T) {
	ctx := testCtx(t)
	var runs, asked atomic.Int64
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: failingApprovals{rulvar.NewMemoryStore()}, Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m", Logger: quietLog()})
	h, err := rulvar.Run(ctx, engine, askShip(deployTool(t, &runs)), "api", &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if _, ok := ev.Body.(rulvar.ApprovalPending); ok {
			asked.Add(1)
		}
	}})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrJournalIntegrity)
	require.Equal(t, rulvar.RunError, out.Status)
	require.Zero(t, asked.Load())
	require.Zero(t, runs.Load())
}

// Answers that come too late are told so, and are recorded up to a bound.
func faultLateAnswers(t *testing.T) {
	ctx := testCtx(t)
	store := rulvar.NewMemoryStore()
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: store})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
		return rulvar.AwaitExternal[string](c, "k", "", nil)
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	first, err := engine.Resolve(ctx, "r1", "k", "first")
	require.NoError(t, err)
	recorded := 0
	for range 300 {
		out, err := engine.Resolve(ctx, "r1", "k", "late")
		require.NoError(t, err)
		require.False(t, out.Applied)
		require.Equal(t, first.EntryRef, out.SupersededBy)
		require.Equal(t, "already_resolved", out.Reason)
		if out.EntryRef >= 0 {
			recorded++
		}
	}
	require.Equal(t, 100, recorded)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "first", out.Value)
}
