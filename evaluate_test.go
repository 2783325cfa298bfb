package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

func TestOrderOfSteps(t *testing.T) {
	edit := []rulvar.Rule{rulvar.ToolRule("edit")}
	for _, row := range []struct {
		name          string
		config        rulvar.PermissionConfig
		needsApproval bool
		verdict       rulvar.Verdict
		by            rulvar.DecidedBy
	}{
		{"nothing allows", rulvar.PermissionConfig{}, false, rulvar.VerdictAllow, rulvar.DecidedByDefault},
		{"a tool that needs approval asks", rulvar.PermissionConfig{}, true, rulvar.VerdictAsk, rulvar.DecidedByDefault},
		{"deny beats ask", rulvar.PermissionConfig{Deny: edit, Ask: edit}, false, rulvar.VerdictDeny, rulvar.DecidedByDenyRule},
		{"ask comes before canUseTool", rulvar.PermissionConfig{Ask: edit, CanUseTool: canUseOf(rulvar.Allow())}, false, rulvar.VerdictAsk, rulvar.DecidedByAskRule},
		{"ask comes before canUseTool's deny", rulvar.PermissionConfig{Ask: edit, CanUseTool: canUseOf(rulvar.Deny("no"))}, false, rulvar.VerdictAsk, rulvar.DecidedByAskRule},
		{"canUseTool's allow clears a tool that needs approval", rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Allow())}, true, rulvar.VerdictAllow, rulvar.DecidedByCanUseTool},
		{"canUseTool denies", rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Deny("no"))}, false, rulvar.VerdictDeny, rulvar.DecidedByCanUseTool},
		{"canUseTool asks", rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Ask("look"))}, false, rulvar.VerdictAsk, rulvar.DecidedByCanUseTool},
		{"canUseTool passes", rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Pass())}, true, rulvar.VerdictAsk, rulvar.DecidedByDefault},
		{"strict: canUseTool's allow falls through", rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Allow()), StrictApprovals: true}, true, rulvar.VerdictAsk, rulvar.DecidedByDefault},
		{"strict: other tools are not touched", rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Allow()), StrictApprovals: true}, false, rulvar.VerdictAllow, rulvar.DecidedByCanUseTool},
		{"a hook's allow is decisive", rulvar.PermissionConfig{Hooks: hooks(rulvar.Allow()), Deny: edit}, true, rulvar.VerdictAllow, rulvar.DecidedByHook},
		{"strict: a hook's allow falls through", rulvar.PermissionConfig{Hooks: hooks(rulvar.Allow()), StrictApprovals: true}, true, rulvar.VerdictAsk, rulvar.DecidedByDefault},
		{"strict: later hooks still run", rulvar.PermissionConfig{Hooks: hooks(rulvar.Allow(), rulvar.Deny("no")), StrictApprovals: true}, true, rulvar.VerdictDeny, rulvar.DecidedByHook},
		{"a hook asks", rulvar.PermissionConfig{Hooks: hooks(rulvar.Ask("look")), Deny: edit}, false, rulvar.VerdictAsk, rulvar.DecidedByHook},
		{"a hook denies", rulvar.PermissionConfig{Hooks: hooks(rulvar.Deny("no"))}, false, rulvar.VerdictDeny, rulvar.DecidedByHook},
		{"hooks without opinion", rulvar.PermissionConfig{Hooks: hooks(rulvar.Decision{}, rulvar.Pass()), Ask: edit}, false, rulvar.VerdictAsk, rulvar.DecidedByAskRule},
		{"the first hook that decides ends them", rulvar.PermissionConfig{Hooks: hooks(rulvar.Allow(), rulvar.Deny("no"))}, false, rulvar.VerdictAllow, rulvar.DecidedByHook},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := evaluate(t, mustChain(t, &row.config, nil), policyTool(t, "edit", rulvar.RiskWrite, row.needsApproval), `{}`)
			require.Equal(t, row.verdict, got.Verdict, "%s", got)
			require.Equal(t, row.by, got.DecidedBy, "%s", got)
		})
	}
}

// Argv rules in a chain: what they match, and what they leave alone.
func TestArgvRulesInAChain(t *testing.T) {
	deny := func(patterns ...string) rulvar.PermissionConfig {
		return rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("sh", patterns...)}}
	}
	both := deny("rm **")
	both.Ask = []rulvar.Rule{rulvar.ArgvRule("sh", "git push **")}
	later := deny("mv **", "rm **")
	later.Deny = append(later.Deny, rulvar.ToolRule("sh"))
	for _, row := range []struct {
		name, input string
		config      rulvar.PermissionConfig
		verdict     rulvar.Verdict
		by          rulvar.DecidedBy
		rule        string
	}{
		{"a token is not a substring", `{"command":"git push origin batch/x-fixes"}`, deny("git push -f **"), rulvar.VerdictAllow, rulvar.DecidedByDefault, ""}, // report B38
		{"a harmless command is not asked about", `{"command":"ls -la | wc -l"}`, deny("rm **"), rulvar.VerdictAllow, rulvar.DecidedByDefault, ""},
		{"a deny beats an ask in the same text", `{"command":"git push; rm x"}`, both, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, `{"tool":"sh","argv":"rm **"}`},
		{"a deny beats a doubt in the same text", `{"command":"echo $(x); rm x"}`, both, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, `{"tool":"sh","argv":"rm **"}`},
		{"an ask rule beats a doubt about another", `{"command":"env rm x; git push"}`, both, rulvar.VerdictAsk, rulvar.DecidedByAskRule, `{"tool":"sh","argv":"git push **"}`},
		{"a doubt asks without a rule", `{"command":"env rm x"}`, both, rulvar.VerdictAsk, rulvar.DecidedByAskRule, ""},
		{"a here-document is text", `{"command":"cat > f <<E\nrm x\nE"}`, both, rulvar.VerdictAsk, rulvar.DecidedByAskRule, ""}, // report B39
		{"the first rule of the table is told", `{"command":"rm x"}`, later, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, `{"tool":"sh","argv":["mv **","rm **"]}`},
		{"a rule behind it still denies", `{"command":"ls"}`, later, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, `{"tool":"sh"}`},
		{"another member is no command", `{"command":"ls","args":["rm"]}`, deny("rm **"), rulvar.VerdictAllow, rulvar.DecidedByDefault, ""},
		{"a list is no command", `{"command":["rm","x"]}`, deny("rm **"), rulvar.VerdictAsk, rulvar.DecidedByAskRule, ""},
		{"a name in capitals is another member", `{"Command":"rm x"}`, deny("rm **"), rulvar.VerdictAsk, rulvar.DecidedByAskRule, ""},
		{"a string input is the command", `"rm x"`, deny("rm **"), rulvar.VerdictDeny, rulvar.DecidedByDenyRule, `{"tool":"sh","argv":"rm **"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := evaluate(t, mustChain(t, &row.config, nil), policyTool(t, "sh", rulvar.RiskExecute, false), row.input)
			require.Equal(t, row.verdict, got.Verdict, "%s", got)
			require.Equal(t, row.by, got.DecidedBy, "%s", got)
			requireRule(t, row.rule, got)
			if got.Verdict == rulvar.VerdictAsk {
				require.NotEmpty(t, got.Reason, "an approver is told why")
			}
		})
	}
}

func hooks(decisions ...rulvar.Decision) []rulvar.PermissionHook {
	var out []rulvar.PermissionHook
	for _, d := range decisions {
		out = append(out, hookOf(d))
	}
	return out
}

// What a hook's allow or ask is worth under advisory: the faults of a decisive
// hook (a deny rule, of the engine or of readonly, that is never read) are
// gone.
func TestAdvisoryHoldsAllowAndAsk(t *testing.T) {
	rm := []rulvar.Rule{rulvar.ArgvRule("sh", "rm **")}
	for _, row := range []struct {
		name    string
		hook    rulvar.Decision
		deny    []rulvar.Rule
		ask     []rulvar.Rule
		input   string
		verdict rulvar.Verdict
		by      rulvar.DecidedBy
		rule    string
	}{
		{"a deny rule denies over an allow", rulvar.Allow(), rm, nil, `{"command":"rm x"}`, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, `{"tool":"sh","argv":"rm **"}`},
		{"a deny rule denies over an ask", rulvar.Ask("look"), rm, nil, `{"command":"rm x"}`, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, `{"tool":"sh","argv":"rm **"}`},
		{"an allow decides where nothing matches", rulvar.Allow(), rm, nil, `{"command":"ls"}`, rulvar.VerdictAllow, rulvar.DecidedByHook, ""},
		{"an ask decides where nothing matches", rulvar.Ask("look"), rm, nil, `{"command":"ls"}`, rulvar.VerdictAsk, rulvar.DecidedByHook, ""},
		{"a doubt asks over an allow", rulvar.Allow(), rm, nil, `{"command":"$(x)"}`, rulvar.VerdictAsk, rulvar.DecidedByAskRule, ""},
		{"a missing command asks over an allow", rulvar.Allow(), rm, nil, `{}`, rulvar.VerdictAsk, rulvar.DecidedByAskRule, ""},
		{"a doubt asks over an ask", rulvar.Ask("look"), rm, nil, `{"command":"$(x)"}`, rulvar.VerdictAsk, rulvar.DecidedByAskRule, ""},
		{"ask rules are not read", rulvar.Allow(), nil, rm, `{"command":"rm x"}`, rulvar.VerdictAllow, rulvar.DecidedByHook, ""},
		{"a doubt over ask rules does not matter", rulvar.Allow(), nil, rm, `{"command":"$(x)"}`, rulvar.VerdictAllow, rulvar.DecidedByHook, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			ran := false
			later := func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
				ran = true
				return rulvar.Deny("later"), nil
			}
			chain := mustChain(t, &rulvar.PermissionConfig{
				Hooks: append(hooks(row.hook), later), Deny: row.deny, Ask: row.ask,
				CanUseTool: canUseOf(rulvar.Deny("not reached")), HookAllow: rulvar.HookAllowAdvisory,
			}, nil)
			got := evaluate(t, chain, policyTool(t, "sh", rulvar.RiskExecute, false), row.input)
			require.Equal(t, row.verdict, got.Verdict, "%s", got)
			require.Equal(t, row.by, got.DecidedBy, "%s", got)
			requireRule(t, row.rule, got)
			require.False(t, ran, "later hooks do not run")
			if row.hook.Verdict == rulvar.VerdictAsk && got.Verdict == rulvar.VerdictAsk {
				require.Contains(t, got.Reason, "look", "the approver sees the hook's reason")
			}
		})
	}
	t.Run("the input that a hook rewrote is what the deny rules see", func(t *testing.T) {
		chain := mustChain(t, &rulvar.PermissionConfig{
			Hooks: hooks(rulvar.ModifyInput([]byte(`{"command":"rm x"}`)), rulvar.Allow()), Deny: rm, HookAllow: rulvar.HookAllowAdvisory,
		}, nil)
		require.Equal(t, rulvar.VerdictDeny, evaluate(t, chain, policyTool(t, "sh", "", false), `{"command":"ls"}`).Verdict)
	})
	t.Run("strict goes before holding", func(t *testing.T) {
		chain := mustChain(t, &rulvar.PermissionConfig{
			Hooks: hooks(rulvar.Allow()), StrictApprovals: true, HookAllow: rulvar.HookAllowAdvisory,
		}, nil)
		got := evaluate(t, chain, policyTool(t, "sh", "", true), `{}`)
		require.Equal(t, rulvar.VerdictAsk, got.Verdict)
		require.Equal(t, rulvar.DecidedByDefault, got.DecidedBy)
	})
	t.Run("a profile arms it over the engine's hook", func(t *testing.T) {
		chain := mustChain(t, &rulvar.PermissionConfig{Hooks: hooks(rulvar.Allow())}, &rulvar.AgentProfilePermissions{
			PermissionConfig: rulvar.PermissionConfig{HookAllow: rulvar.HookAllowAdvisory}, Preset: rulvar.PresetStrict,
		})
		got := evaluate(t, chain, policyTool(t, "t", rulvar.RiskDestructive, false), `{}`)
		require.Equal(t, rulvar.VerdictDeny, got.Verdict)
		require.Equal(t, rulvar.LayerPreset, got.Layer)
	})
	t.Run("a decisive hook of a profile passes the engine's deny by", func(t *testing.T) {
		chain := mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive)}},
			&rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{Hooks: hooks(rulvar.Allow())}})
		require.Equal(t, rulvar.VerdictAllow, evaluate(t, chain, policyTool(t, "t", rulvar.RiskDestructive, false), `{}`).Verdict)
	})
	t.Run("a profile's hook cannot loosen the engine's deny under the engine's advisory", func(t *testing.T) {
		chain := mustChain(t, &rulvar.PermissionConfig{
			Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive)}, HookAllow: rulvar.HookAllowAdvisory,
		}, &rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{
			Hooks: hooks(rulvar.Allow()), HookAllow: rulvar.HookAllowDecisive,
		}})
		require.Equal(t, rulvar.VerdictDeny, evaluate(t, chain, policyTool(t, "t", rulvar.RiskDestructive, false), `{}`).Verdict)
	})
}

func requireRule(t *testing.T, want string, got rulvar.Evaluation) {
	t.Helper()
	if want == "" {
		require.True(t, got.Rule.IsZero(), "%s", got)
		return
	}
	require.Equal(t, want, got.Rule.String())
}

// Closures that panic, fail or answer nonsense deny, whatever else they say,
// and the model learns nothing but that the policy failed. (Reports C46, C49.)
func TestFailingClosuresDeny(t *testing.T) {
	type closure = func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error)
	answer := func(d rulvar.Decision) closure {
		return func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return d, nil }
	}
	for _, row := range []struct {
		name       string
		run        closure
		hookOnly   bool
		canUseOnly bool
	}{
		{name: "panic", run: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { panic("secret detail") }},
		{name: "nil panic", run: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { panic(nil) }},
		{name: "nil dereference", run: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
			var e *rulvar.Evaluation
			return rulvar.Decision{Reason: e.Reason}, nil
		}},
		{name: "error beside an allow", run: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
			return rulvar.Allow(), errors.New("secret detail")
		}},
		{name: "unknown word", run: answer(rulvar.Decision{Verdict: "block"})},
		{name: "word in capitals", run: answer(rulvar.Decision{Verdict: "Deny"})},
		{name: "reason without a verdict", run: answer(rulvar.Decision{Reason: "no"})},
		{name: "input beside an allow", run: answer(rulvar.Decision{Verdict: rulvar.VerdictAllow, Input: json.RawMessage(`{}`)})},
		{name: "input beside an ask", run: answer(rulvar.Decision{Verdict: rulvar.VerdictAsk, Input: json.RawMessage(`{}`)})},
		{name: "input beside a deny", run: answer(rulvar.Decision{Verdict: rulvar.VerdictDeny, Input: json.RawMessage(`{}`)})},
		{name: "input beside a pass", run: answer(rulvar.Decision{Verdict: rulvar.VerdictPass, Input: json.RawMessage(`{}`)})},
		{name: "input without a verdict", run: answer(rulvar.Decision{Input: json.RawMessage(`{"command":"ls"}`)})},
		{name: "modify without input", run: answer(rulvar.ModifyInput(nil))},
		{name: "modify with text that is not JSON", run: answer(rulvar.ModifyInput(json.RawMessage(`{command:`)))},
		{name: "modify with text that would need a repair", run: answer(rulvar.ModifyInput(json.RawMessage("```json\n{\"command\":\"ls\"}\n```")))},
		{name: "modify with a repeated name", run: answer(rulvar.ModifyInput(json.RawMessage(`{"command":"ls","command":"rm x"}`)))},
		{name: "modify with input that does not fit", run: answer(rulvar.ModifyInput(json.RawMessage(`{"command":1}`)))},
		{name: "modify with an unknown member", run: answer(rulvar.ModifyInput(json.RawMessage(`{"command":"ls","x":1}`)))},
		{name: "zero Decision", run: answer(rulvar.Decision{}), canUseOnly: true},
	} {
		tool := toolWithSchema(t, rulvar.ToolConfig{Name: "sh", Description: "d"},
			`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}`)
		check := func(t *testing.T, chain *rulvar.PermissionChain, by rulvar.DecidedBy) {
			got := evaluate(t, chain, tool, `{"command":"echo"}`)
			require.Equal(t, rulvar.VerdictDeny, got.Verdict, "%s", got)
			require.Equal(t, by, got.DecidedBy)
			require.Equal(t, rulvar.LayerEngine, got.Layer)
			require.Equal(t, "policy-error", got.Reason, "the model must not see details")
			require.True(t, got.Rule.IsZero())
			require.Equal(t, `{"command":"echo"}`, string(got.Input))
			require.Equal(t, "policy-error", got.Trace[len(got.Trace)-1].Outcome)
			require.NotEmpty(t, got.Trace[len(got.Trace)-1].Detail, "the trace tells the author what failed")
		}
		if !row.canUseOnly {
			t.Run("hook "+row.name, func(t *testing.T) {
				check(t, mustChain(t, &rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{row.run}}, nil), rulvar.DecidedByHook)
			})
		}
		t.Run("canUseTool "+row.name, func(t *testing.T) {
			check(t, mustChain(t, &rulvar.PermissionConfig{CanUseTool: row.run}, nil), rulvar.DecidedByCanUseTool)
		})
	}
}

// One policy for every tool, whatever the tool came from (report C47), and one
// answer whatever stands beside a hook that has no opinion (report C50).
func TestRewrittenInputIsWhatCounts(t *testing.T) {
	tool := toolWithSchema(t, rulvar.ToolConfig{Name: "sh", Description: "d"},
		`{"type":"object","properties":{"command":{"type":"string"},"n":{"type":"integer","default":5}}}`)
	modify := rulvar.ModifyInput(json.RawMessage(`{ "command" : "ls" }`))
	for name, order := range map[string][]rulvar.Decision{
		"modify, pass": {modify, rulvar.Pass()},
		"pass, modify": {rulvar.Pass(), modify},
		"zero, modify": {{}, modify, {}},
	} {
		t.Run(name, func(t *testing.T) {
			got := evaluate(t, mustChain(t, &rulvar.PermissionConfig{Hooks: hooks(order...)}, nil), tool, `{"command":"rm x"}`)
			require.Equal(t, `{"command":"ls","n":5}`, string(got.Input), "canonical, with defaults: exactly what runs")
			require.Equal(t, `{"command":"ls"}`, string(got.Given), "what the approval key is made of")
		})
	}
	t.Run("an approver sees the rewritten input", func(t *testing.T) { // report C51
		got := evaluate(t, mustChain(t, &rulvar.PermissionConfig{Hooks: hooks(modify, rulvar.Ask("look"))}, nil), tool, `{"command":"rm x"}`)
		require.Equal(t, rulvar.VerdictAsk, got.Verdict)
		require.Equal(t, `{"command":"ls","n":5}`, string(got.Input))
	})
	t.Run("each hook sees the current input", func(t *testing.T) { // report C53
		var saw []string
		spy := func(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
			saw = append(saw, string(call.Input))
			return rulvar.Decision{}, nil
		}
		dryRun(t, mustChain(t, &rulvar.PermissionConfig{
			Hooks: []rulvar.PermissionHook{spy, hookOf(modify), spy}, CanUseTool: func(tc *rulvar.ToolContext, c rulvar.Call) (rulvar.Decision, error) {
				_, err := spy(tc, c)
				return rulvar.Pass(), err
			}}, nil), tool, `{"command":"rm x"}`)
		require.Equal(t, []string{`{"command":"rm x","n":5}`, `{"command":"ls","n":5}`, `{"command":"ls","n":5}`}, saw)
	})
	t.Run("a closure that writes into its copy changes nothing", func(t *testing.T) {
		scribble := func(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
			clear(call.Input)
			return rulvar.Pass(), nil
		}
		got := evaluate(t, mustChain(t, &rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{scribble}, CanUseTool: scribble}, nil), tool, `{"command":"ls"}`)
		require.Equal(t, `{"command":"ls","n":5}`, string(got.Input))
	})
	t.Run("canUseTool's rewrite escapes no rule", func(t *testing.T) {
		rewrite := canUseOf(rulvar.ModifyInput(json.RawMessage(`{"command":"rm -rf /x"}`)))
		rm := rulvar.ArgvRule("sh", "rm **")
		got := evaluate(t, mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rm}, CanUseTool: rewrite}, nil), tool, `{"command":"ls"}`)
		require.Equal(t, rulvar.VerdictDeny, got.Verdict, "%s", got)
		got = evaluate(t, mustChain(t, &rulvar.PermissionConfig{Ask: []rulvar.Rule{rm}, CanUseTool: rewrite}, nil), tool, `{"command":"ls"}`)
		require.Equal(t, rulvar.VerdictAsk, got.Verdict, "%s", got)
		require.Equal(t, `{"command":"rm -rf /x","n":5}`, string(got.Input))
		doubt := canUseOf(rulvar.ModifyInput(json.RawMessage(`{"command":"$(x)"}`)))
		got = evaluate(t, mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rm}, CanUseTool: doubt}, nil), tool, `{"command":"ls"}`)
		require.Equal(t, rulvar.VerdictAsk, got.Verdict, "%s", got)
	})
}

// The arguments that run are the arguments that were judged, also where text
// had to be mended or a default fills the command in.
func TestJudgedInputIsWhatRuns(t *testing.T) {
	tool := toolWithSchema(t, rulvar.ToolConfig{Name: "sh", Description: "d"},
		`{"type":"object","properties":{"command":{"type":"string","default":"rm -rf /x"}},"additionalProperties":false}`)
	chain := mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("sh", "rm **")}}, nil)
	for _, row := range []struct{ name, input string }{
		{"wrapped", `{"__unparsed":"{\"command\":\"rm -rf /x\"}"}`},
		{"wrapped in words", `{"__unparsed":"sure: {\"command\":\"rm -rf /x\"} ok"}`},
		{"fenced", "```json\n{\"command\":\"rm -rf /x\"}\n```"},
		{"by default", `{}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := evaluate(t, chain, tool, row.input)
			require.Equal(t, rulvar.VerdictDeny, got.Verdict, "%s", got)
			require.Equal(t, `{"command":"rm -rf /x"}`, string(got.Input))
		})
	}
}

func TestDryRunRefusesInputThatDoesNotFit(t *testing.T) {
	tool := toolWithSchema(t, rulvar.ToolConfig{Name: "sh", Description: "d"},
		`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}`)
	ran := false
	chain := mustChain(t, &rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
		ran = true
		return rulvar.Allow(), nil
	}}}, nil)
	for _, row := range []struct {
		name  string
		input any
		code  rulvar.Code
	}{
		{"not JSON", json.RawMessage(`{command`), rulvar.ErrInvalidArguments},
		{"empty text", json.RawMessage(``), rulvar.ErrInvalidArguments},
		{"repeated name", json.RawMessage(`{"command":"ls","command":"rm"}`), rulvar.ErrInvalidArguments},
		{"name in capitals beside it", json.RawMessage(`{"command":"ls","COMMAND":"rm -rf /"}`), rulvar.ErrInvalidArguments},
		{"missing member", map[string]any{}, rulvar.ErrInvalidArguments},
		{"wrong type", map[string]any{"command": 1}, rulvar.ErrInvalidArguments},
		{"nil", nil, rulvar.ErrInvalidArguments},
		{"a channel", make(chan int), rulvar.ErrNonSerializable},
		{"not a number", math.NaN(), rulvar.ErrNonSerializable},
		{"a marshaler that panics", panicMarshaler{}, rulvar.ErrNonSerializable},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := rulvar.EvaluatePermission(context.Background(), chain, tool, row.input)
			require.ErrorIs(t, err, row.code)
			require.Equal(t, rulvar.Evaluation{}, got, "no verdict is given")
			require.False(t, ran)
		})
	}
	_, err := rulvar.EvaluatePermission(context.Background(), chain, nil, nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = rulvar.EvaluatePermissionByName(context.Background(), chain, "no such name", nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = rulvar.EvaluatePermissionByName(context.Background(), chain, "sh", json.RawMessage(`{`))
	require.ErrorIs(t, err, rulvar.ErrInvalidArguments)
}

type panicMarshaler struct{}

func (panicMarshaler) MarshalJSON() ([]byte, error) { panic("marshaler") }

func TestDryRunTakesGoValues(t *testing.T) {
	type args struct {
		Command string `json:"command"`
	}
	chain := mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("sh", "rm **"), rulvar.RiskRule(rulvar.RiskUndeclared)}}, nil)
	tool := policyTool(t, "sh", rulvar.RiskExecute, false)
	for _, input := range []any{args{"rm <x>"}, &args{"rm <x>"}, map[string]string{"command": "rm <x>"}, json.RawMessage(`{"command":"rm <x>"}`)} {
		//lint:ignore SA1012 a nil context is allowed here
		got, err := rulvar.EvaluatePermission(nil, chain, tool, input)
		require.NoError(t, err)
		require.Equal(t, `{"command":"rm <x>"}`, string(got.Input))
		require.Equal(t, rulvar.VerdictDeny, got.Verdict, "%s", got)
	}
	got, err := rulvar.EvaluatePermission(context.Background(), chain, tool, "rm x")
	require.NoError(t, err)
	require.Equal(t, rulvar.VerdictDeny, got.Verdict, "a string input is the command itself")
	got, err = rulvar.EvaluatePermissionByName(context.Background(), chain, "mail", nil)
	require.NoError(t, err)
	require.Equal(t, `{"risk":"undeclared"}`, got.Rule.String(), "by name alone no risk is declared")
}

// A chain that nobody compiled, a tool that is not there, a call without
// input: nothing zero allows.
func TestZeroValuesDeny(t *testing.T) {
	tool := policyTool(t, "t", rulvar.RiskRead, false)
	call := rulvar.Call{Input: json.RawMessage(`{}`)}
	good := mustChain(t, nil, nil)
	require.Equal(t, rulvar.VerdictAllow, good.Evaluate(nil, tool, call).Verdict)
	for name, got := range map[string]rulvar.Evaluation{
		"nil chain":          (*rulvar.PermissionChain)(nil).Evaluate(nil, tool, call),
		"zero chain":         (&rulvar.PermissionChain{}).Evaluate(nil, tool, call),
		"nil tool":           good.Evaluate(nil, nil, call),
		"call without input": good.Evaluate(nil, tool, rulvar.Call{}),
		"dry run, nil chain": evaluate(t, nil, tool, `{}`),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, rulvar.VerdictDeny, got.Verdict)
			require.Equal(t, "policy-error", got.Reason)
		})
	}
	_, err := (&rulvar.PermissionChain{}).MarshalJSON()
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.Contains(t, (&rulvar.PermissionChain{}).String(), "denied")
}

// One chain serves any number of agents at once.
func TestChainIsSharedSafely(t *testing.T) {
	chain := mustChain(t, &rulvar.PermissionConfig{
		Hooks: hooks(rulvar.ModifyInput(json.RawMessage(`{"command":"rm x"}`))),
		Deny:  []rulvar.Rule{rulvar.ArgvRule("sh", "mv **", "rm **"), rulvar.DomainRule("sh", "a.test")},
	}, &rulvar.AgentProfilePermissions{Preset: rulvar.PresetStrict})
	tool := policyTool(t, "sh", rulvar.RiskExecute, false)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				got := chain.Evaluate(nil, tool, rulvar.Call{Input: json.RawMessage(`{"command":"ls"}`)})
				if got.Verdict != rulvar.VerdictDeny || len(got.Advisory) != 1 {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	wg.Wait()
}

// The tool's own facts count, whatever a caller writes into the call.
func TestCallCannotMisstateTheTool(t *testing.T) {
	chain := mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive)}}, nil)
	got := chain.Evaluate(nil, policyTool(t, "t", rulvar.RiskDestructive, true), rulvar.Call{Tool: "x", Risk: rulvar.RiskRead, Input: json.RawMessage(`{}`)})
	require.Equal(t, rulvar.VerdictDeny, got.Verdict)
}

func TestEvaluationExplainsItself(t *testing.T) {
	chain := mustChain(t, &rulvar.PermissionConfig{
		Hooks: hooks(rulvar.Decision{}, rulvar.ModifyInput(json.RawMessage(`{"command":"rm x"}`))),
		Deny:  []rulvar.Rule{rulvar.DomainRule("sh", "a.test"), rulvar.ToolRule("edit"), rulvar.ArgvRule("sh", "mv *", "rm **")},
	}, nil)
	got := evaluate(t, chain, policyTool(t, "sh", rulvar.RiskExecute, false), `{"command":"ls"}`)
	require.Equal(t, `deny by deny-rule {"tool":"sh","argv":["mv *","rm **"]} (engine): engine.deny[2] matches (pattern "rm **")
  1. hook engine[0]: no opinion (saw {"command":"ls"})
  2. hook engine[1]: modified: {"command":"rm x"} (saw {"command":"ls"})
  3. deny-rule engine[0]: advisory: {"tool":"sh","domains":["a.test"]}
  4. deny-rule engine[1]: no match: {"tool":"edit"}
  5. deny-rule engine[2]: deny: {"tool":"sh","argv":["mv *","rm **"]} by the pattern "rm **" on "rm x"`, got.String())
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, `"deny"`, jsonMember(t, text, "verdict"))
	require.Equal(t, `"deny-rule"`, jsonMember(t, text, "decidedBy"))
	require.JSONEq(t, `[{"tool":"sh","domains":["a.test"]}]`, jsonMember(t, text, "advisory"))
	require.Len(t, got.Trace, 5)

	compiled := chain.Evaluate(nil, policyTool(t, "sh", rulvar.RiskExecute, false), rulvar.Call{Input: json.RawMessage(`{"command":"ls"}`)})
	require.Empty(t, compiled.Trace)
	got.Trace = nil
	require.Equal(t, got.String(), compiled.String())
}
