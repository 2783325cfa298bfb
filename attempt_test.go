package rulvar_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// twoModels are two providers for the two attempts of a call.
type twoModels struct{ one, two *rulvartest.Provider }

func newTwoModels(one, two []rulvartest.Turn) twoModels {
	return twoModels{rulvartest.NewProvider("one", rulvartest.Script{Turns: one}), rulvartest.NewProvider("two", rulvartest.Script{Turns: two})}
}

func (m twoModels) requests() [2]int {
	return [2]int{len(m.one.Requests()), len(m.two.Requests())}
}

// segment runs or resumes run r1, whose workflow makes one call.
func (m twoModels) segment(t *testing.T, store rulvar.Store, opts rulvar.AgentOptions, resume *rulvar.ResumeOptions[int]) rulvar.Outcome[string] {
	t.Helper()
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{m.one, m.two}, Model: "one:m", Logger: quietLog()})
	w := rulvar.DefineWorkflow("attempts", func(c *rulvar.Ctx, _ int) (string, error) { return rulvar.Agent[string](c, "go", &opts) })
	var h *rulvar.RunHandle[string]
	var err error
	if resume == nil {
		h, err = rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	} else {
		h, err = rulvar.Resume(ctx, engine, w, "r1", resume)
	}
	require.NoError(t, err)
	out, _ := h.Result(ctx)
	require.NoError(t, ctx.Err())
	return out
}

func breaks() rulvartest.Turn {
	return rulvartest.Turn{Errs: []error{&llm.Error{Kind: llm.KindTerminal, Message: "no"}, &llm.Error{Kind: llm.KindTerminal, Message: "no"}}, Text: "at last"}
}

func fallbacksIn(t *testing.T, store rulvar.Store) (triggers []string) {
	t.Helper()
	_, entries, err := store.Load(t.Context(), "r1", -1)
	require.NoError(t, err)
	for _, en := range entries {
		var d struct {
			DecisionType, Trigger string
		}
		if json.Unmarshal(en.Value, &d) == nil && d.DecisionType == "model.fallback" {
			triggers = append(triggers, d.Trigger)
		}
	}
	return triggers
}

func TestSecondAttempt(t *testing.T) {
	zero := 0
	look := literalTool(t, rulvar.ToolConfig{Name: "look"}, anyObject, nil, 1)
	limited := rulvar.AgentOptions{Tools: []rulvar.ToolSource{look}, Limits: &rulvar.UsageLimits{MaxToolCalls: &zero}}
	typed := rulvar.AgentOptions{Schema: json.RawMessage(`{"type":"string","enum":["good"]}`)}
	calls := []rulvartest.Turn{{Calls: []rulvartest.Call{call("look", nil)}}}
	misfit := []rulvartest.Turn{{Text: "1"}, {Text: "2"}, {Text: "3"}}
	good := []rulvartest.Turn{{Text: "good"}}
	quoted := []rulvartest.Turn{{JSON: "good"}}
	after := func(ends ...rulvar.AttemptEnd) []rulvar.AttemptEnd { return ends }
	for _, c := range []struct {
		name     string
		opts     rulvar.AgentOptions
		on       []rulvar.AttemptEnd
		one, two []rulvartest.Turn
		trigger  string // "" where there is no second attempt
	}{
		{"no failure", rulvar.AgentOptions{}, nil, good, nil, ""},
		{"an error", rulvar.AgentOptions{}, nil, []rulvartest.Turn{breaks()}, good, "error"},
		{"an error, where limits count", rulvar.AgentOptions{}, after(rulvar.AfterLimit), []rulvartest.Turn{breaks()}, good, ""},
		{"a limit", limited, after(rulvar.AfterError, rulvar.AfterLimit), calls, good, "limit"},
		{"a limit, where errors count", limited, nil, calls, good, ""},
		{"no answer that fits", typed, after(rulvar.AfterSchemaExhausted), misfit, quoted, "schema-exhausted"},
		{"no answer that fits is an error", typed, nil, misfit, quoted, "error"},
		{"an error, where answers that do not fit count", typed, after(rulvar.AfterSchemaExhausted), []rulvartest.Turn{breaks()}, quoted, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, models := rulvar.NewMemoryStore(), newTwoModels(c.one, c.two)
			c.opts.SecondAttempt = &rulvar.SecondAttempt{Model: "two:m", On: c.on}
			out := models.segment(t, store, c.opts, nil)
			if c.trigger == "" {
				require.Zero(t, models.requests()[1])
				require.Empty(t, fallbacksIn(t, store))
				return
			}
			require.Equal(t, "good", out.Value, "%v", out.Err)
			require.Equal(t, []string{c.trigger}, fallbacksIn(t, store))
			before := models.requests()
			out = models.segment(t, store, c.opts, &rulvar.ResumeOptions[int]{})
			require.Equal(t, "good", out.Value)
			require.Equal(t, before, models.requests(), "a replay asks nobody")
			out = models.segment(t, store, c.opts, &rulvar.ResumeOptions[int]{DryRun: true})
			require.Equal(t, "good", out.Value)
		})
	}
}

// Where both attempts have failed the call begins again with the first.
func TestSecondAttemptFailsToo(t *testing.T) {
	store, models := rulvar.NewMemoryStore(), newTwoModels([]rulvartest.Turn{breaks()}, []rulvartest.Turn{breaks()})
	opts := rulvar.AgentOptions{SecondAttempt: &rulvar.SecondAttempt{Model: "two:m"}}
	require.Equal(t, rulvar.RunError, models.segment(t, store, opts, nil).Status)
	require.Equal(t, [2]int{1, 1}, models.requests())
	require.Equal(t, rulvar.RunError, models.segment(t, store, opts, &rulvar.ResumeOptions[int]{}).Status)
	require.Equal(t, [2]int{2, 2}, models.requests())
	out := models.segment(t, store, opts, &rulvar.ResumeOptions[int]{})
	require.Equal(t, "at last", out.Value)
	require.Equal(t, [2]int{3, 2}, models.requests())
}

// A process that dies in the second attempt goes on with it. One that dies
// before the decision for it is durable begins with the first.
func TestSecondAttemptInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		lose     func(*rulvar.Entry) bool
		requests [2]int
	}{
		"in it":     {func(en *rulvar.Entry) bool { return en.Ref != nil && en.ServedBy == "two:m" }, [2]int{1, 2}},
		"before it": {ofDecision("model.fallback"), [2]int{2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			store, models := rulvar.NewMemoryStore(), newTwoModels([]rulvartest.Turn{breaks()}, []rulvartest.Turn{{Text: "good"}})
			opts := rulvar.AgentOptions{SecondAttempt: &rulvar.SecondAttempt{Model: "two:m"}}
			require.Equal(t, rulvar.RunError, models.segment(t, &deafStore{store, c.lose}, opts, nil).Status)
			out := models.segment(t, store, opts, &rulvar.ResumeOptions[int]{})
			require.Equal(t, rulvar.RunOK, out.Status, "%v", out.Err)
			require.Equal(t, "good", out.Value)
			require.Equal(t, c.requests, models.requests())
		})
	}
}

// An invalidated first attempt is made again, and a changed second one too.
func TestSecondAttemptThatNoLongerHolds(t *testing.T) {
	for name, change := range map[string]func(*rulvar.AgentOptions, *rulvar.ResumeOptions[int]){
		"invalidated":   func(_ *rulvar.AgentOptions, r *rulvar.ResumeOptions[int]) { r.Invalidate = []int64{0} },
		"another model": func(o *rulvar.AgentOptions, _ *rulvar.ResumeOptions[int]) { o.SecondAttempt.Model = "two:other" },
	} {
		t.Run(name, func(t *testing.T) {
			store, models := rulvar.NewMemoryStore(), newTwoModels([]rulvartest.Turn{breaks()}, []rulvartest.Turn{{Text: "good"}})
			opts := rulvar.AgentOptions{SecondAttempt: &rulvar.SecondAttempt{Model: "two:m"}}
			require.Equal(t, "good", models.segment(t, store, opts, nil).Value)
			resume := &rulvar.ResumeOptions[int]{}
			change(&opts, resume)
			models.segment(t, store, opts, resume)
			require.Equal(t, 2, models.requests()[0])
		})
	}
}

func TestSecondAttemptRefusals(t *testing.T) {
	for name, second := range map[string]*rulvar.SecondAttempt{
		"no model":         {},
		"unknown provider": {Model: "three:m"},
		"unknown end":      {Model: "two:m", On: []rulvar.AttemptEnd{"boredom"}},
	} {
		t.Run(name, func(t *testing.T) {
			models := newTwoModels([]rulvartest.Turn{{Text: "good"}}, nil)
			out := models.segment(t, rulvar.NewMemoryStore(), rulvar.AgentOptions{SecondAttempt: second}, nil)
			require.ErrorIs(t, out.Err, rulvar.ErrConfig)
			require.Zero(t, models.requests()[0], "it is refused before anybody is asked")
		})
	}
}

// The record of an approach is that of the reference: the signatures are those
// of its fixture.
func TestApproachIsRecordedOnce(t *testing.T) {
	store, models := rulvar.NewMemoryStore(), newTwoModels([]rulvartest.Turn{breaks()}, nil)
	opts := rulvar.AgentOptions{Approach: "Greedy  Search!"}
	models.segment(t, store, opts, nil)
	models.segment(t, store, opts, &rulvar.ResumeOptions[int]{})
	_, entries, err := store.Load(t.Context(), "r1", -1)
	require.NoError(t, err)
	var admissions []*rulvar.Entry
	for _, en := range entries {
		var d struct{ DecisionType string }
		if json.Unmarshal(en.Value, &d) == nil && d.DecisionType == "spawn-admission" {
			admissions = append(admissions, en)
		}
	}
	require.Len(t, admissions, 1)
	require.Zero(t, admissions[0].Seq, "it stands before the agent")
	var v struct {
		Origin   string
		SpawnKey string
		Lineage  map[string]any
	}
	require.NoError(t, json.Unmarshal(admissions[0].Value, &v))
	require.Equal(t, "ctx.agent", v.Origin)
	require.Equal(t, entries[1].Key, v.SpawnKey)
	require.NotEmpty(t, v.Lineage["logicalTaskId"])
	delete(v.Lineage, "logicalTaskId")
	require.Equal(t, map[string]any{
		"relation": "first", "attemptOrdinal": 0.0, "ancestry": []any{}, "sigVersion": 1.0, "approachTag": "greedy-search-",
		"approachSig":       "1ac3dd8fd0e98280293640ba0f608e9a907ad4f4995544156d4d6489f926e7cb",
		"approachSigCoarse": "435b98d8d07f9e8e1a38c18d724868158bfc0014ee044480f059da825f70767e",
	}, v.Lineage)
}
