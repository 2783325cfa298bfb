package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// probe runs one agent with tools against a script and returns what came of it.
type probe struct {
	out    rulvar.Outcome[string]
	err    error
	events []rulvar.Event
	model  *rulvartest.Provider
	store  rulvar.Store
}

func runProbe(t *testing.T, cfg rulvar.Config, opts *rulvar.AgentOptions, turns ...rulvartest.Turn) *probe {
	t.Helper()
	ctx := testCtx(t)
	p := &probe{model: rulvartest.NewProvider("test", rulvartest.Script{Turns: turns})}
	cfg.Providers, cfg.Model = []llm.Provider{p.model}, "test:m"
	if cfg.Store == nil {
		cfg.Store = rulvar.NewMemoryStore()
	}
	p.store = cfg.Store
	engine := rulvartest.NewEngine(t, cfg)
	w := rulvar.DefineWorkflow("probe", func(c *rulvar.Ctx, _ int) (string, error) {
		return rulvar.Agent[string](c, "go", opts)
	})
	var mu sync.Mutex
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1", OnEvent: func(ev rulvar.Event) {
		mu.Lock()
		defer mu.Unlock()
		p.events = append(p.events, ev)
	}})
	require.NoError(t, err)
	p.out, p.err = h.Result(ctx)
	p.checkEvents(t)
	return p
}

// checkEvents holds every run to the rules of events: Seq grows, and each call
// ends exactly once, or is parked.
func (p *probe) checkEvents(t *testing.T) {
	t.Helper()
	last := int64(-1)
	open := map[string]int{}
	for _, ev := range p.events {
		require.Greater(t, ev.Seq, last)
		last = ev.Seq
		switch b := ev.Body.(type) {
		case rulvar.ToolStarted:
			open[b.ToolCallID]++
		case rulvar.ToolEnded:
			open[b.ToolCallID]--
		}
	}
	for id, n := range open {
		if p.out.Status != rulvar.RunSuspended {
			require.Zero(t, n, "call %s", id)
		}
	}
}

// results returns the result parts that the given request carried last.
func (p *probe) results(t *testing.T, request int) []llm.Part {
	t.Helper()
	reqs := p.model.Requests()
	require.Greater(t, len(reqs), request, "err: %v", p.err)
	msgs := reqs[request].Messages
	last := msgs[len(msgs)-1]
	require.Equal(t, llm.RoleTool, last.Role)
	return last.Parts
}

func (p *probe) ends() (ends []rulvar.ToolEnded) {
	for _, ev := range p.events {
		if b, ok := ev.Body.(rulvar.ToolEnded); ok {
			ends = append(ends, b)
		}
	}
	return ends
}

func call(tool string, args any) rulvartest.Call { return rulvartest.Call{Tool: tool, Args: args} }

const anyObject = `{"type":"object"}`

// One batch of calls that end in every way: each gets exactly one result, in
// the order of the calls, and nothing a tool does ends the run.
func TestResultsOfAMixedBatch(t *testing.T) {
	var ran atomic.Int64
	ok := literalTool(t, rulvar.ToolConfig{Name: "ok"}, anyObject, &ran, map[string]any{"html": "<&>"})
	null := literalTool(t, rulvar.ToolConfig{Name: "null"}, anyObject, nil, nil)
	fails := literalTool(t, rulvar.ToolConfig{Name: "fails"}, anyObject, nil, errors.New("no route"))
	retries := literalTool(t, rulvar.ToolConfig{Name: "retries"}, anyObject, nil, rulvar.ModelRetry("use keywords", map[string]int{"max": 3}))
	odd := literalTool(t, rulvar.ToolConfig{Name: "odd"}, anyObject, nil, math.NaN())
	surrogate := literalTool(t, rulvar.ToolConfig{Name: "surrogate"}, anyObject, nil, json.RawMessage(`"\ud800"`))
	denied := literalTool(t, rulvar.ToolConfig{Name: "denied", Risk: rulvar.RiskDestructive}, anyObject, &ran, 1)
	panics := rulvar.MustTool(rulvar.NewTool(rulvar.ToolConfig{Name: "panics"}, func(*rulvar.ToolContext, struct{}) (int, error) { panic("secret detail") }))
	tools := []rulvar.ToolSource{ok, null, fails, retries, odd, surrogate, denied, panics}

	p := runProbe(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive)}}},
		&rulvar.AgentOptions{Tools: tools},
		rulvartest.Turn{Calls: []rulvartest.Call{
			call("ok", map[string]any{}), call("null", nil), call("fails", map[string]any{}), call("retries", map[string]any{}),
			call("odd", map[string]any{}), call("surrogate", map[string]any{}), call("denied", map[string]any{}),
			call("panics", map[string]any{}), call("nobody", map[string]any{}), call("ok", `[1]`), call("ok", `{"a":1,"a":2}`),
		}},
		rulvartest.Turn{Text: "done"})
	require.NoError(t, p.err)
	require.Equal(t, "done", p.out.Value)
	require.EqualValues(t, 1, ran.Load())

	want := []struct {
		outcome rulvar.ToolOutcome
		code    string
		result  string // exact, or a part of it after "~"
	}{
		{rulvar.ToolOK, "", `{"html":"<&>"}`},
		{rulvar.ToolOK, "", `null`},
		{rulvar.ToolError, "", `{"error":"no route"}`},
		{rulvar.ToolError, "model-retry", `{"data":{"max":3},"error":"use keywords"}`},
		{rulvar.ToolError, "non-serializable-result", "~cannot be written"},
		{rulvar.ToolError, "non-serializable-result", "~cannot be written"},
		{rulvar.ToolDenied, "", `~deny rule {\"risk\":\"destructive\"} (engine)`},
		{rulvar.ToolError, "", `{"error":"tool \"panics\" failed unexpectedly"}`},
		{rulvar.ToolError, "unknown-tool", "~nobody"},
		{rulvar.ToolError, "invalid-arguments", "~issues"},
		{rulvar.ToolError, "invalid-arguments", "~issues"},
	}
	parts, ends := p.results(t, 1), p.ends()
	require.Len(t, parts, len(want))
	require.Len(t, ends, len(want))
	for i, w := range want {
		t.Run(fmt.Sprintf("%d_%s", i, parts[i].Name), func(t *testing.T) {
			require.Equal(t, w.outcome, ends[i].Outcome)
			require.Equal(t, w.code, ends[i].ErrorCode)
			require.Equal(t, w.outcome != rulvar.ToolOK, parts[i].IsError)
			if part, ok := strings.CutPrefix(w.result, "~"); ok {
				require.Contains(t, string(parts[i].Result), part)
			} else {
				require.Equal(t, w.result, string(parts[i].Result))
			}
			require.NotContains(t, string(parts[i].Result), "goroutine", "no stack reaches the model")
		})
	}
	require.Equal(t, rulvar.VerdictDeny, ends[6].Verdict)
	require.Equal(t, rulvar.DecidedByDenyRule, ends[6].DecidedBy)
	require.False(t, ends[6].Rule.IsZero())
	require.Empty(t, ends[8].Verdict, "an unknown tool never reaches the chain")
}

func TestModelRetrySaysWhenItIsExhausted(t *testing.T) {
	again := literalTool(t, rulvar.ToolConfig{Name: "again"}, anyObject, nil, rulvar.ModelRetry("no", nil))
	turn := rulvartest.Turn{Calls: []rulvartest.Call{call("again", nil)}}
	p := runProbe(t, rulvar.Config{}, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{again}}, turn, turn, turn, rulvartest.Turn{Text: "x"})
	require.NoError(t, p.err)
	require.NotContains(t, string(p.results(t, 2)[0].Result), "retriesExhausted")
	require.JSONEq(t, `{"error":"no","retriesExhausted":true}`, string(p.results(t, 3)[0].Result))
}

// TestModelRetriesSurviveAResume: the count is the agent's, not the process's.
func TestModelRetriesSurviveAResume(t *testing.T) {
	ctx := testCtx(t)
	again := literalTool(t, rulvar.ToolConfig{Name: "again"}, anyObject, nil, rulvar.ModelRetry("no", nil))
	asks := literalTool(t, rulvar.ToolConfig{Name: "asks", NeedsApproval: true}, anyObject, nil, "done")
	retry := rulvartest.Turn{Calls: []rulvartest.Call{call("again", nil)}}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		retry, retry, {Calls: []rulvartest.Call{call("asks", nil)}}, retry, {Text: "x"},
	}})
	store := rulvar.NewMemoryStore()
	w := rulvar.DefineWorkflow("retries", func(c *rulvar.Ctx, _ int) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{again, asks}})
	})
	open := func() *rulvar.Engine {
		return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:m"})
	}
	h, err := rulvar.Run(ctx, open(), w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Len(t, out.Pending, 1)

	second := open()
	_, err = second.Resolve(ctx, "r1", out.Pending[0].Key, rulvar.Approve(""))
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, second, w, "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunOK, out.Status)
	blob, err := store.Get(ctx, "r1/tr/0")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(blob), "retriesExhausted"), "the third answer in a row")
}

func TestLimits(t *testing.T) {
	zero, one := 0, 1
	turn := rulvartest.Turn{Calls: []rulvartest.Call{call("ok", nil), call("ok", nil), call("none", nil)}}
	for _, c := range []struct {
		name   string
		limits rulvar.UsageLimits
		runs   int64
	}{
		{"turns", rulvar.UsageLimits{MaxTurns: 1}, 2},
		{"one tool call", rulvar.UsageLimits{MaxToolCalls: &one}, 1},
		{"no tool call", rulvar.UsageLimits{MaxToolCalls: &zero}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var runs atomic.Int64
			ok := literalTool(t, rulvar.ToolConfig{Name: "ok"}, anyObject, &runs, 1)
			store := rulvar.NewMemoryStore()
			p := runProbe(t, rulvar.Config{Store: store}, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{ok}, Limits: &c.limits}, turn, turn)
			require.ErrorIs(t, p.err, rulvar.ErrAgent)
			var e *rulvar.Error
			require.ErrorAs(t, p.err, &e)
			require.Equal(t, "limit", e.Data["status"])
			require.Equal(t, c.runs, runs.Load())
			blob, err := store.Get(context.Background(), "r1/tr/0")
			require.NoError(t, err)
			var tr struct{ Messages []llm.Message }
			require.NoError(t, json.Unmarshal(blob, &tr))
			require.Len(t, tr.Messages[len(tr.Messages)-1].Parts, 3, "every call has a result, also behind a limit")
		})
	}
}

func TestDeniedCallsDoNotCount(t *testing.T) {
	one := 1
	var runs atomic.Int64
	ok := literalTool(t, rulvar.ToolConfig{Name: "ok"}, anyObject, &runs, 1)
	no := literalTool(t, rulvar.ToolConfig{Name: "no"}, anyObject, &runs, 1)
	p := runProbe(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("no")}}},
		&rulvar.AgentOptions{Tools: []rulvar.ToolSource{ok, no}, Limits: &rulvar.UsageLimits{MaxToolCalls: &one}},
		rulvartest.Turn{Calls: []rulvartest.Call{call("no", nil), call("no", nil), call("ok", nil)}}, rulvartest.Turn{Text: "x"})
	require.NoError(t, p.err)
	require.EqualValues(t, 1, runs.Load())
}

// Closures that fail deny; the run goes on.
func TestFailingPolicyDenies(t *testing.T) {
	for name, cfg := range map[string]rulvar.PermissionConfig{
		"hook panics": {Hooks: []rulvar.PermissionHook{func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { panic("x") }}},
		"hook errs": {Hooks: []rulvar.PermissionHook{func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
			return rulvar.Allow(), errors.New("x")
		}}},
		"zero canUseTool": {CanUseTool: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return rulvar.Decision{}, nil }},
		"unknown verdict": {CanUseTool: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
			return rulvar.Decision{Verdict: "Allow"}, nil
		}},
		"allow with input": {CanUseTool: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
			return rulvar.Decision{Verdict: "allow", Input: json.RawMessage("{}")}, nil
		}},
		"modify to trash": {Hooks: []rulvar.PermissionHook{func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
			return rulvar.ModifyInput(json.RawMessage("{")), nil
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			ok := literalTool(t, rulvar.ToolConfig{Name: "ok"}, anyObject, &runs, 1)
			p := runProbe(t, rulvar.Config{Permissions: &cfg}, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{ok}},
				rulvartest.Turn{Calls: []rulvartest.Call{call("ok", nil)}}, rulvartest.Turn{Text: "went on"})
			require.NoError(t, p.err)
			require.Equal(t, "went on", p.out.Value)
			require.Zero(t, runs.Load())
			require.Contains(t, string(p.results(t, 1)[0].Result), "policy-error")
		})
	}
}

// What was judged is what runs: a hook's rewrite is what the rules see, what
// the approver sees and what the handler gets.
func TestRewrittenInputIsJudgedShownAndRun(t *testing.T) {
	ctx := testCtx(t)
	var got string
	schema := rulvar.MustTool(rulvar.NewTool(rulvar.ToolConfig{Name: "deploy", NeedsApproval: true},
		func(_ *rulvar.ToolContext, in struct {
			Service  string `json:"service"`
			Replicas int    `json:"replicas,omitempty" jsonschema:"default=2"`
		}) (string, error) {
			got = fmt.Sprintf("%s/%d", in.Service, in.Replicas)
			return got, nil
		}))
	hook := func(_ *rulvar.ToolContext, c rulvar.Call) (rulvar.Decision, error) {
		return rulvar.ModifyInput(json.RawMessage(`{"service":"docs"}`)), nil
	}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{ID: "c1", Tool: "deploy", Args: `{"service":"api"}`}}}, {Text: "done"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m",
		Permissions: &rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{hook}}})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{schema}})
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.JSONEq(t, `{"service":"docs","replicas":2}`, string(out.Pending[0].Call.Input))
	_, err = engine.Resolve(ctx, "r1", out.Pending[0].Key, rulvar.Approve(""))
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "docs/2", got)
}

func TestSpawnRefusals(t *testing.T) {
	ok := literalTool(t, rulvar.ToolConfig{Name: "ok"}, anyObject, nil, 1)
	other := literalTool(t, rulvar.ToolConfig{Name: "ok", Description: "another"}, anyObject, nil, 1)
	remote := literalTool(t, rulvar.ToolConfig{Name: "remote", Executor: rulvar.ExecutorContainer}, anyObject, nil, 1)
	scalar := literalTool(t, rulvar.ToolConfig{Name: "scalar"}, `{"type":"string"}`, nil, 1)
	pin := rulvar.AttestToolset([]*rulvar.Tool{other})
	profiles := map[string]*rulvar.AgentProfile{"pinned": {Attestation: &pin}}
	tree := rulvar.Worktree()
	for _, c := range []struct {
		name string
		opts rulvar.AgentOptions
		say  string
	}{
		{"duplicate names", rulvar.AgentOptions{Tools: []rulvar.ToolSource{ok, other}}, `tool "ok"`},
		{"unknown toolset", rulvar.AgentOptions{Tools: []rulvar.ToolSource{rulvar.Toolset("nope")}}, "nope"},
		{"nil source", rulvar.AgentOptions{Tools: []rulvar.ToolSource{nil}}, "tools[0]"},
		{"unserved executor", rulvar.AgentOptions{Tools: []rulvar.ToolSource{remote}}, "container"},
		{"root is no object", rulvar.AgentOptions{Tools: []rulvar.ToolSource{scalar}}, `tool "scalar"`},
		{"unknown profile", rulvar.AgentOptions{AgentType: "nobody"}, "nobody"},
		{"unknown provider", rulvar.AgentOptions{Model: "other:m"}, "other"},
		{"not the attested tools", rulvar.AgentOptions{AgentType: "pinned", Tools: []rulvar.ToolSource{ok}}, "changed: ok"},
		{"no worktree provider", rulvar.AgentOptions{Isolation: &tree}, "worktree"},
		{"negative limit", rulvar.AgentOptions{Limits: &rulvar.UsageLimits{MaxTurns: -1}}, "MaxTurns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := runProbe(t, rulvar.Config{Profiles: profiles}, &c.opts, rulvartest.Turn{Text: "never"})
			require.ErrorIs(t, p.err, rulvar.ErrConfig)
			require.ErrorContains(t, p.err, c.say)
			require.Empty(t, p.model.Requests(), "refused before anything is asked")
		})
	}
}

func TestEngineRefusals(t *testing.T) {
	remote := literalTool(t, rulvar.ToolConfig{Name: "remote", Executor: rulvar.ExecutorSubprocess}, anyObject, nil, 1)
	model := rulvartest.NewProvider("test")
	for name, cfg := range map[string]rulvar.Config{
		"executor of a registered toolset": {Toolsets: map[string][]rulvar.ToolSource{"a": {remote}}},
		"executor of a profile":            {Profiles: map[string]*rulvar.AgentProfile{"p": {Tools: []rulvar.ToolSource{remote}}}},
		"toolset within a toolset":         {Toolsets: map[string][]rulvar.ToolSource{"a": {rulvar.Toolset("a")}}},
		"two providers of one id":          {Providers: []llm.Provider{model, model}},
		"model of nobody":                  {Model: "x:y"},
		"model without a provider":         {Model: "y"},
		"in-process executor":              {Executors: map[rulvar.ExecutorKind]rulvar.ToolExecutor{rulvar.ExecutorInProcess: nil}},
		"bad rule":                         {Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule()}}},
		"bad preset":                       {Profiles: map[string]*rulvar.AgentProfile{"p": {Permissions: &rulvar.AgentProfilePermissions{Preset: "Strict"}}}},
		"unknown answer":                   {OnInterrupted: "maybe"},
		"nil profile":                      {Profiles: map[string]*rulvar.AgentProfile{"p": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rulvar.NewEngine(cfg)
			require.ErrorIs(t, err, rulvar.ErrConfig)
		})
	}
}

type review struct {
	Score int    `json:"score" jsonschema:"minimum=0,maximum=10"`
	Why   string `json:"why"`
}

func TestTypedAnswer(t *testing.T) {
	ctx := testCtx(t)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Text: "I think it is good"}, {Text: "```json\n{\"score\": 11, \"why\": \"\"}\n```"}, {JSON: review{7, "fine"}}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (review, error) { return rulvar.Agent[review](c, "rate it", nil) })
	for range 2 { // live, then replayed
		h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
		if err != nil {
			h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
		}
		require.NoError(t, err)
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, review{7, "fine"}, out.Value)
	}
	require.Len(t, model.Requests(), 3)
	require.NotEmpty(t, model.Requests()[0].Schema)
	last := model.Requests()[2].Messages
	require.Contains(t, last[len(last)-1].Parts[0].Text, "score")
}

func TestRetriesStayBelowTheJournal(t *testing.T) {
	cut := &llm.Error{Kind: llm.KindOverloaded, Message: "busy", Retryable: true}
	p := runProbe(t, rulvar.Config{}, nil, rulvartest.Turn{Text: "x", Errs: []error{cut, cut}})
	require.NoError(t, p.err)
	require.Len(t, p.model.Requests(), 3)
	p = runProbe(t, rulvar.Config{}, nil, rulvartest.Turn{Text: "x", Errs: []error{cut, cut, cut}})
	require.ErrorIs(t, p.err, rulvar.ErrAgent)
	p = runProbe(t, rulvar.Config{}, nil, rulvartest.Turn{Text: "x", Cut: true})
	require.ErrorContains(t, p.err, "cut")
	final := &llm.Error{Kind: llm.KindTerminal, Message: "bad key"}
	p = runProbe(t, rulvar.Config{}, nil, rulvartest.Turn{Text: "x", Errs: []error{final}})
	require.ErrorContains(t, p.err, "bad key")
	require.Len(t, p.model.Requests(), 1)
}

func TestRepeatedCallIDIsAFault(t *testing.T) {
	ok := literalTool(t, rulvar.ToolConfig{Name: "ok"}, anyObject, nil, 1)
	turn := rulvartest.Turn{Calls: []rulvartest.Call{{ID: "same", Tool: "ok"}}}
	p := runProbe(t, rulvar.Config{}, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{ok}}, turn, turn)
	require.ErrorContains(t, p.err, "same")
}

func TestReadonlyDenies(t *testing.T) {
	var runs atomic.Int64
	write := literalTool(t, rulvar.ToolConfig{Name: "write", Risk: rulvar.RiskWrite}, anyObject, &runs, 1)
	readonly := rulvar.Readonly()
	p := runProbe(t, rulvar.Config{}, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{write}, Isolation: &readonly},
		rulvartest.Turn{Calls: []rulvartest.Call{call("write", nil)}}, rulvartest.Turn{Text: "x"})
	require.NoError(t, p.err)
	require.Zero(t, runs.Load())
	text, err := json.Marshal(p.ends()[0].Rule)
	require.NoError(t, err)
	require.JSONEq(t, `{"risk":["write","destructive"]}`, string(text))
}

func TestStructuredOutputTiers(t *testing.T) {
	open := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`)
	closed := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`)
	emit := func(args string) rulvartest.Turn {
		return rulvartest.Turn{Calls: []rulvartest.Call{{Tool: "emit_result", Args: args}}}
	}
	for _, c := range []struct {
		name   string
		tier   llm.StructuredOutputTier
		schema json.RawMessage
		turns  []rulvartest.Turn
		native bool
		choice string
	}{
		{"native", llm.StructuredNative, closed, []rulvartest.Turn{{Text: `{"a":"x"}`}, {Text: `{"a":1}`}}, true, ""},
		{"native, open schema", llm.StructuredNative, open, []rulvartest.Turn{emit(`{"a":"x"}`), emit(`{"a":1}`)}, false, "tool:emit_result"},
		{"forced tool", llm.StructuredForcedTool, closed, []rulvartest.Turn{emit(`{"a":"x"}`), emit(`{"a":1}`)}, false, "tool:emit_result"},
		{"prompt", llm.StructuredPrompt, closed, []rulvartest.Turn{{Text: "no"}, {Text: "```json\n{\"a\":1}\n```"}}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testCtx(t)
			model := rulvartest.NewProvider("test", rulvartest.Script{Turns: c.turns})
			model.Caps = llm.Capabilities{StructuredOutput: c.tier}
			engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
			w := rulvar.DefineWorkflow("w", func(c2 *rulvar.Ctx, _ int) (json.RawMessage, error) {
				return rulvar.Agent[json.RawMessage](c2, "go", &rulvar.AgentOptions{Schema: c.schema})
			})
			h, err := rulvar.Run(ctx, engine, w, 0, nil)
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.NoError(t, err)
			require.JSONEq(t, `{"a":1}`, string(out.Value))
			reqs := model.Requests()
			require.Len(t, reqs, 2)
			require.Equal(t, c.native, reqs[0].Schema != nil)
			require.Equal(t, c.choice, reqs[0].ToolChoice)
		})
	}
}
