package rulvar_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// smallModel is a model with a window of 1000 tokens. It answers its n-th
// request with the n-th list of events, and keeps the requests.
type smallModel struct {
	wildProvider
	mu       sync.Mutex
	requests []*llm.Request
}

func newSmallModel(answers ...[]llm.StreamEvent) *smallModel {
	m := &smallModel{}
	m.stream = func(_ context.Context, n int64, yield yieldFunc) {
		for _, ev := range answers[n] {
			if !yield(ev, nil) {
				return
			}
		}
	}
	return m
}

func (m *smallModel) Capabilities(string) llm.Capabilities {
	return llm.Capabilities{ContextWindow: 1000}
}

func (m *smallModel) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	m.mu.Lock()
	m.requests = append(m.requests, req)
	m.mu.Unlock()
	return m.wildProvider.Stream(ctx, req)
}

func toolTurn(id string, tokens int64) []llm.StreamEvent {
	end := finishWith(llm.FinishToolCalls)
	end.Usage.InputTokens = tokens
	return []llm.StreamEvent{callEvent(id, deployArgs), end}
}

func textTurn(text string) []llm.StreamEvent {
	return []llm.StreamEvent{say(text), finishWith(llm.FinishStop)}
}

func TestCompaction(t *testing.T) {
	share := func(f float64) *rulvar.UsageLimits { return &rulvar.UsageLimits{CompactAt: f} }
	for _, c := range []struct {
		name    string
		limits  *rulvar.UsageLimits
		answers [][]llm.StreamEvent
		status  rulvar.RunStatus
		lengths []int // of the conversations that were sent
	}{
		{"at 80 percent", nil, [][]llm.StreamEvent{toolTurn("c1", 800), textTurn("sum"), toolTurn("c2", 10), textTurn("done")}, rulvar.RunOK, []int{1, 4, 2, 4}},
		{"below", nil, [][]llm.StreamEvent{toolTurn("c1", 799), textTurn("done")}, rulvar.RunOK, []int{1, 3}},
		{"at another share", share(0.5), [][]llm.StreamEvent{toolTurn("c1", 500), textTurn("sum"), textTurn("done")}, rulvar.RunOK, []int{1, 4, 2}},
		{"twice", nil, [][]llm.StreamEvent{toolTurn("c1", 900), textTurn("sum"), toolTurn("c2", 900), textTurn("sum"), textTurn("done")}, rulvar.RunOK, []int{1, 4, 2, 5, 2}},
		{"an empty summary is the last", nil, [][]llm.StreamEvent{toolTurn("c1", 900), textTurn(" "), toolTurn("c2", 900), textTurn("done")}, rulvar.RunOK, []int{1, 4, 3, 5}},
		{"a refused summary is the last", nil, [][]llm.StreamEvent{toolTurn("c1", 900), {finishWith(llm.FinishRefusal)}, toolTurn("c2", 900), textTurn("done")}, rulvar.RunOK, []int{1, 4, 3, 5}},
		{"calls in a summary are dropped", nil, [][]llm.StreamEvent{toolTurn("c1", 900), {say("sum"), callEvent("c2", deployArgs), finishWith(llm.FinishToolCalls)}, textTurn("done")}, rulvar.RunOK, []int{1, 4, 2}},
		{"a call id from before is still used", nil, [][]llm.StreamEvent{toolTurn("c1", 900), textTurn("sum"), toolTurn("c1", 10)}, rulvar.RunError, []int{1, 4, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testCtx(t)
			var runs atomic.Int64
			model := newSmallModel(c.answers...)
			tool := literalTool(t, rulvar.ToolConfig{Name: "deploy"}, anyObject, &runs, 1)
			engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:m", Limits: c.limits})
			h, err := rulvar.Run(ctx, engine, askShip(tool), "api", nil)
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.Equal(t, c.status, out.Status, "%v", err)
			var lengths []int
			for _, r := range model.requests {
				lengths = append(lengths, len(r.Messages))
			}
			require.Equal(t, c.lengths, lengths)
		})
	}
}

// A run that parks after a summary goes on from the summary elsewhere, and
// knows the calls that were made before it.
func TestCompactionIsCheckpointed(t *testing.T) {
	ctx := testCtx(t)
	store := fileStore(t)
	var runs atomic.Int64
	open := func(model *smallModel) *rulvar.Engine {
		return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:m"})
	}
	w := askShip(deployTool(t, &runs), literalTool(t, rulvar.ToolConfig{Name: "look"}, anyObject, nil, 1))
	look := llm.StreamEvent{Type: llm.StreamToolCall, ID: "c1", Name: "look", Arguments: "{}"}
	end := finishWith(llm.FinishToolCalls)
	end.Usage.OutputTokens = 900
	h, err := rulvar.Run(ctx, open(newSmallModel([]llm.StreamEvent{look, end}, textTurn("sum"), toolTurn("c2", 1))), w, "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)

	blob, err := store.Get(ctx, "r1/ckpt/0")
	require.NoError(t, err)
	var state struct {
		Turns      int
		Compaction []int
		CallIDs    []string `json:"callIds"`
		Messages   []llm.Message
	}
	require.NoError(t, json.Unmarshal(blob[1:], &state))
	require.Equal(t, []int{2}, state.Compaction)
	require.Equal(t, []string{"c1"}, state.CallIDs)
	require.Len(t, state.Messages, 3)
	require.True(t, strings.HasSuffix(state.Messages[1].Parts[0].Text, "\n\nsum"))

	again := newSmallModel(toolTurn("c1", 1))
	engine := open(again)
	_, err = engine.Resolve(ctx, "r1", out.Pending[0].Key, rulvar.Approve(""))
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.ErrorContains(t, err, "c1", "the id was used before the summary")
	require.EqualValues(t, 1, runs.Load())
	require.Len(t, again.requests[0].Messages, 4)
}

func TestCompactAtIsAShare(t *testing.T) {
	for _, f := range []float64{-0.1, 1.1} {
		_, err := rulvar.NewEngine(rulvar.Config{Limits: &rulvar.UsageLimits{CompactAt: f}})
		require.ErrorIs(t, err, rulvar.ErrConfig)
	}
}
