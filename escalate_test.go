package rulvar_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

func escalate(kind string) rulvartest.Call {
	return rulvartest.Call{ID: "e-" + kind, Tool: "escalate", Args: map[string]any{
		"kind": kind, "scopeDelta": "twice as large", "revisedEstimate": map[string]any{"usd": 2, "turns": 9}, "blockers": []string{"no access"},
		"proposedDecomposition": []any{map[string]any{"part": 1}},
	}}
}

// escalating runs one agent that escalates and returns its full result.
func escalating(t *testing.T, cfg rulvar.Config, opts *rulvar.EscalationOptions, turns ...rulvartest.Turn) (*rulvar.Engine, *rulvartest.Provider, *rulvar.Workflow[int, rulvar.AgentResult[string]]) {
	t.Helper()
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: turns})
	cfg.Providers, cfg.Model = []llm.Provider{model}, "test:m"
	return rulvartest.NewEngine(t, cfg), model, rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (rulvar.AgentResult[string], error) {
		return rulvar.AgentFull[string](c, "go", &rulvar.AgentOptions{Escalation: opts})
	})
}

func TestEscalationEndsTheAgent(t *testing.T) {
	ctx := testCtx(t)
	engine, model, w := escalating(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskUndeclared)}}}, &rulvar.EscalationOptions{},
		do(escalate("blocked_with_evidence"), rulvartest.Call{Tool: "other"}))
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	check := func(got rulvar.AgentResult[string]) {
		require.Equal(t, rulvar.AgentEscalated, got.Status)
		require.Equal(t, "escalated", got.Err.Data["status"])
		e := got.Escalation
		require.NotNil(t, e)
		require.Equal(t, "blocked_with_evidence", e.Kind)
		require.Equal(t, []string{"no access"}, e.Blockers)
		require.Equal(t, 2.0, e.RevisedEstimate.USD)
		require.Equal(t, 9.0, e.RevisedEstimate.Turns)
		require.Equal(t, 1.0, e.CostToDate.Turns)
		require.Equal(t, got.TranscriptRef, e.Salvage.TranscriptRef)
		require.JSONEq(t, `[]`, string(e.Salvage.Artifacts))
		require.Empty(t, e.Salvage.WorktreePatchRef)
		require.Len(t, e.ProposedDecomposition, 1)
	}
	check(out.Value)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	check(out.Value)
	require.Len(t, model.Requests(), 1, "it is replayed")
}

func TestEscalationIsRefusedBeforeMinSpend(t *testing.T) {
	ctx := testCtx(t)
	engine, model, w := escalating(t, rulvar.Config{Pricing: map[string]llm.Pricing{"test:m": {InputUSD: 1, OutputUSD: 1}}}, &rulvar.EscalationOptions{MinSpendUSD: 0.00002},
		do(escalate("scope_bigger")), do(rulvartest.Call{ID: "again", Tool: "escalate", Args: escalate("scope_bigger").Args}))
	h, err := rulvar.Run(ctx, engine, w, 0, nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.AgentEscalated, out.Value.Status)
	last := model.Requests()[1].Messages
	require.Contains(t, string(last[len(last)-1].Parts[0].Result), "go on")
	require.InDelta(t, 0.00003, out.Value.Escalation.CostToDate.USD, 1e-12)
}

// Under flavor B the agent is parked; what is decided holds, or the default
// when nobody decides in time.
func TestEscalationWaits(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer any
		status rulvar.AgentStatus
		kind   string
	}{
		{"retry", rulvar.EscalationDecision{Kind: "retry", Reason: "you have access now"}, rulvar.AgentOK, ""},
		{"accept", rulvar.EscalationDecision{Kind: "accept"}, rulvar.AgentEscalated, "accept"},
		{"cancel", rulvar.EscalationDecision{Kind: "cancel"}, rulvar.AgentEscalated, "cancel"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := testCtx(t)
			engine, model, w := escalating(t, rulvar.Config{}, &rulvar.EscalationOptions{Flavor: "B", Deadline: time.Hour, DefaultDecision: "cancel"},
				do(escalate("scope_different")), rulvartest.Turn{Text: "fine"})
			h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, rulvar.RunSuspended, out.Status)
			require.Len(t, out.Pending, 1)
			require.Contains(t, out.Pending[0].Prompt, "escalation")
			require.NotNil(t, out.Pending[0].DeadlineAt)
			key := out.Pending[0].Key
			_, err = engine.Resolve(ctx, "r1", key, rulvar.Approve("that is no decision"))
			require.ErrorIs(t, err, rulvar.ErrInvalidResolution)
			_, err = engine.RevokeApproval(ctx, "r1", key, "me", "no")
			require.ErrorIs(t, err, rulvar.ErrInvalidResolution)
			_, err = engine.Resolve(ctx, "r1", key, row.answer)
			require.NoError(t, err)
			h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
			require.NoError(t, err)
			out, err = h.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, row.status, out.Value.Status)
			require.Empty(t, out.Preview.Orphaned)
			if row.kind != "" {
				require.Equal(t, row.kind, out.Value.Escalation.Decision.Kind)
				return
			}
			require.Equal(t, "fine", out.Value.Output)
			last := model.Requests()[1].Messages
			require.Contains(t, string(last[len(last)-1].Parts[0].Result), "you have access now")
		})
	}
	t.Run("nobody decides", func(t *testing.T) {
		ctx := testCtx(t)
		engine, _, w := escalating(t, rulvar.Config{}, &rulvar.EscalationOptions{Flavor: "B", Deadline: time.Millisecond, DefaultDecision: "decompose"}, do(escalate("scope_bigger")))
		h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
		require.NoError(t, err)
		out, err := h.Result(ctx)
		require.NoError(t, err)
		if out.Status == rulvar.RunSuspended {
			time.Sleep(5 * time.Millisecond)
			h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
			require.NoError(t, err)
			out, err = h.Result(ctx)
			require.NoError(t, err)
		}
		require.Equal(t, "decompose", out.Value.Escalation.Decision.Kind)
	})
	t.Run("it is judged like any tool", func(t *testing.T) {
		ctx := testCtx(t)
		engine, _, w := escalating(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{Ask: []rulvar.Rule{rulvar.ToolRule("escalate")}}},
			&rulvar.EscalationOptions{Flavor: "B", Deadline: time.Hour, DefaultDecision: "cancel"}, do(escalate("scope_different")))
		h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
		require.NoError(t, err)
		for _, answer := range []any{rulvar.Approve("ask"), rulvar.EscalationDecision{Kind: "accept"}} {
			out, err := h.Result(ctx)
			require.NoError(t, err)
			require.Len(t, out.Pending, 1)
			_, err = engine.Resolve(ctx, "r1", out.Pending[0].Key, answer)
			require.NoError(t, err)
			h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
			require.NoError(t, err)
		}
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "accept", out.Value.Escalation.Decision.Kind)
	})
}

func TestEscalationOptionsAreChecked(t *testing.T) {
	for path, o := range map[string]*rulvar.EscalationOptions{
		"Flavor":          {Flavor: "C"},
		"Deadline":        {Flavor: "B", DefaultDecision: "cancel"},
		"DefaultDecision": {Flavor: "B", Deadline: time.Hour, DefaultDecision: "perhaps"},
		"MinSpendUSD":     {MinSpendUSD: -1},
		"Deadline, Defau": {Deadline: time.Hour},
	} {
		_, err := rulvar.NewEngine(rulvar.Config{Store: rulvar.NewMemoryStore(), Profiles: map[string]*rulvar.AgentProfile{"p": {Escalation: o}}})
		require.ErrorIs(t, err, rulvar.ErrConfig)
		require.ErrorContains(t, err, path)
	}
}

// The agent that spawned a child hears its report.
func TestEscalationOfAChild(t *testing.T) {
	f := newFleet(t, rulvar.Config{Profiles: map[string]*rulvar.AgentProfile{"worker": {Escalation: &rulvar.EscalationOptions{}}}}, nil,
		goal(do(spawn("worker", "w")), do(await("await_all", "$1")), do(finish("done"))),
		rulvartest.Script{Prompt: "w", Turns: []rulvartest.Turn{do(escalate("scope_bigger"))}})
	_, err := f.run(t)
	require.NoError(t, err)
	got := f.results(t, "await_all")[0]
	require.Contains(t, got, `"status":"escalated"`)
	require.Contains(t, got, `"scopeDelta":"twice as large"`)
}

// Who reads the report finds what the agent has done in its worktree, also
// after a replay.
func TestEscalationLeavesWhatWasDone(t *testing.T) {
	ctx := testCtx(t)
	write := toolWithHandler(t, "write", func(tc *rulvar.ToolContext) error {
		return os.WriteFile(filepath.Join(tc.Cwd(), "half.txt"), []byte("half\n"), 0o600)
	})
	tree := rulvar.Worktree()
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{do(call("write", map[string]any{})), do(escalate("scope_different"))}})
	engine := rulvartest.NewEngine(t, rulvar.Config{
		Providers: []llm.Provider{model}, Model: "test:m", Isolation: newFixtureTrees(t, json.RawMessage(`{"files":{"a.txt":"one\n"},"message":"base"}`)),
	})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (rulvar.AgentResult[string], error) {
		return rulvar.AgentFull[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{write}, Isolation: &tree, Escalation: &rulvar.EscalationOptions{}})
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	for range 2 {
		out, err := h.Result(ctx)
		require.NoError(t, err)
		e := out.Value.Escalation
		require.NotNil(t, e)
		var left []rulvar.Artifact
		require.NoError(t, json.Unmarshal(e.Salvage.Artifacts, &left))
		have, err := json.Marshal(out.Value.Artifacts)
		require.NoError(t, err)
		require.JSONEq(t, string(have), string(e.Salvage.Artifacts))
		require.Equal(t, []string{"half.txt"}, left[0].Files)
		require.Equal(t, left[0].Ref, e.Salvage.WorktreePatchRef)
		h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
		require.NoError(t, err)
	}
	_, err = h.Result(ctx)
	require.NoError(t, err)
	require.Len(t, model.Requests(), 2)
}
