package rulvar_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// inheritCase is one combination of a parent's layer and a child's.
type inheritCase struct {
	engineCan, parentHook, childHook, parentCan, childCan *rulvar.Decision
	parentRules, childRules                               string
	parentPreset, childPreset                             rulvar.Preset
	parentStrict, parentAdvisory                          bool
}

func (c *inheritCase) config(hook, can *rulvar.Decision, rules string) rulvar.PermissionConfig {
	var p rulvar.PermissionConfig
	if hook != nil {
		p.Hooks = []rulvar.PermissionHook{hookOf(*hook)}
	}
	if can != nil {
		p.CanUseTool = canUseOf(*can)
	}
	switch rules {
	case "deny":
		p.Deny = []rulvar.Rule{rulvar.ToolRule("t"), rulvar.ArgvRule("sh", "rm **")}
	case "ask":
		p.Ask = []rulvar.Rule{rulvar.ToolRule("t"), rulvar.ArgvRule("sh", "rm **")}
	}
	return p
}

func (c *inheritCase) chains(t *testing.T) (alone, optedOut, optedIn *rulvar.PermissionChain) {
	engine := c.config(nil, c.engineCan, "")
	parent := c.config(c.parentHook, c.parentCan, c.parentRules)
	parent.StrictApprovals = c.parentStrict
	if c.parentAdvisory {
		parent.HookAllow = rulvar.HookAllowAdvisory
	}
	child := &rulvar.AgentProfilePermissions{PermissionConfig: c.config(c.childHook, c.childCan, c.childRules), Preset: c.childPreset}
	spawner := mustChain(t, &engine, &rulvar.AgentProfilePermissions{PermissionConfig: parent, Preset: c.parentPreset})
	alone = mustChain(t, &engine, child)
	var err error
	optedOut, err = rulvar.CompilePermissionChain(&engine, child, spawner)
	require.NoError(t, err)
	inherits := *child
	inherits.InheritPermissions = true
	optedIn, err = rulvar.CompilePermissionChain(&engine, &inherits, spawner)
	require.NoError(t, err)
	return alone, optedOut, optedIn
}

// Over every combination of hooks, CanUseTool, rules, presets and modes of a
// parent and a child: a child that does not opt in has exactly its own chain,
// and opting in never loosens it.
func TestInheritanceTable(t *testing.T) {
	allow, ask, deny, pass := rulvar.Allow(), rulvar.Ask("closure"), rulvar.Deny("closure"), rulvar.Pass()
	closures := []*rulvar.Decision{nil, &allow, &ask, &deny}
	rules := []string{"", "ask", "deny"}
	calls := []struct {
		tool  *rulvar.Tool
		input string
	}{
		{policyTool(t, "t", rulvar.RiskWrite, false), `{}`},
		{policyTool(t, "u", rulvar.RiskDestructive, true), `{}`},
		{policyTool(t, "sh", rulvar.RiskRead, false), `{"command":"ls $(x)"}`},
	}
	combinations := 0
	check := func(c inheritCase) {
		combinations++
		alone, out, in := c.chains(t)
		for _, call := range calls {
			own, apart := evaluate(t, alone, call.tool, call.input), evaluate(t, out, call.tool, call.input)
			require.Equal(t, own, apart, "%+v", c)
			got := evaluate(t, in, call.tool, call.input)
			if severity(got.Verdict) < severity(own.Verdict) {
				t.Fatalf("opting in loosens %s %s from\n%s\nto\n%s\n%s", call.tool.Name(), call.input, own, got, in)
			}
		}
	}
	for _, parentHook := range closures {
		for _, childHook := range closures {
			for _, parentCan := range closures {
				for _, childCan := range append(closures, &pass) {
					for _, engineCan := range []*rulvar.Decision{nil, &allow, &deny} {
						for _, parentRules := range rules {
							for _, childRules := range rules {
								n := combinations // the modes and presets take turns over the rest
								check(inheritCase{
									engineCan: engineCan, parentHook: parentHook, childHook: childHook, parentCan: parentCan, childCan: childCan,
									parentRules: parentRules, childRules: childRules,
									parentStrict: n%5 < 2, parentAdvisory: n%7 < 3,
									parentPreset: []rulvar.Preset{"", rulvar.PresetStrict}[n%2], childPreset: []rulvar.Preset{rulvar.PresetStandard, "", rulvar.PresetStrict, ""}[n%11%4],
								})
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d combinations", combinations)
}

// What is inherited comes ahead of the child's own, and can deny and ask only.
func TestInheritedClosuresOnlyTighten(t *testing.T) {
	tool := policyTool(t, "t", rulvar.RiskWrite, true)
	allow, ask, deny := rulvar.Allow(), rulvar.Ask("parent"), rulvar.Deny("parent")
	for _, row := range []struct {
		name    string
		c       inheritCase
		verdict rulvar.Verdict
		by      rulvar.DecidedBy
		layer   rulvar.Layer
	}{
		{"a hook's allow grants nothing", inheritCase{parentHook: &allow}, rulvar.VerdictAsk, rulvar.DecidedByDefault, ""},
		{"a hook's ask is held behind a deny", inheritCase{parentHook: &ask, childRules: "deny"}, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, rulvar.LayerProfile},
		{"a hook's ask beats an allow", inheritCase{parentHook: &ask, childHook: &allow}, rulvar.VerdictAsk, rulvar.DecidedByHook, rulvar.LayerInherited},
		{"a hook's deny comes before an allow", inheritCase{parentHook: &deny, childHook: &allow}, rulvar.VerdictDeny, rulvar.DecidedByHook, rulvar.LayerInherited},
		{"a rule's ask is held behind CanUseTool", inheritCase{parentRules: "ask", childCan: &deny}, rulvar.VerdictDeny, rulvar.DecidedByCanUseTool, rulvar.LayerProfile},
		{"a rule's ask beats CanUseTool's allow", inheritCase{parentRules: "ask", childCan: &allow}, rulvar.VerdictAsk, rulvar.DecidedByAskRule, rulvar.LayerInherited},
		{"CanUseTool cannot take the engine's deny away", inheritCase{engineCan: &deny, parentCan: &allow}, rulvar.VerdictDeny, rulvar.DecidedByCanUseTool, rulvar.LayerEngine},
		{"CanUseTool denies beside the engine's", inheritCase{engineCan: &allow, parentCan: &deny}, rulvar.VerdictDeny, rulvar.DecidedByCanUseTool, rulvar.LayerInherited},
		{"the profile's CanUseTool has the slot", inheritCase{parentCan: &deny, childCan: &allow}, rulvar.VerdictAllow, rulvar.DecidedByCanUseTool, rulvar.LayerProfile},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, in := row.c.chains(t)
			got := evaluate(t, in, tool, `{}`)
			require.Equal(t, fmt.Sprint(row.verdict, row.by, row.layer), fmt.Sprint(got.Verdict, got.DecidedBy, got.Layer), "%s\n%s", got, in)
			traced := dryRun(t, in, tool, `{}`)
			require.Equal(t, got.Verdict, traced.Verdict)
			require.NotEmpty(t, traced.Trace)
		})
	}
}

// A rewrite of what is inherited is judged by the child's own rules too.
func TestInheritedRewriteIsJudged(t *testing.T) {
	tool := policyTool(t, "sh", rulvar.RiskRead, false)
	rewrite := rulvar.ModifyInput(json.RawMessage(`{"command":"rm x"}`))
	for _, c := range []inheritCase{{parentCan: &rewrite, childRules: "deny"}, {parentHook: &rewrite, childRules: "deny"}} {
		_, _, in := c.chains(t)
		require.Equal(t, rulvar.VerdictDeny, evaluate(t, in, tool, `{"command":"ls"}`).Verdict)
	}
}

// A rewrite of what is inherited hides nothing from the child's own chain:
// neither what the call was, nor what it has become from closures that came
// before.
func TestInheritedRewriteHidesNothing(t *testing.T) {
	tool := policyTool(t, "sh", rulvar.RiskRead, false)
	toRm, toLs := rulvar.ModifyInput(json.RawMessage(`{"command":"rm x"}`)), rulvar.ModifyInput(json.RawMessage(`{"command":"ls"}`))
	noRm := func(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
		if string(call.Input) == `{"command":"rm x"}` {
			return rulvar.Deny("no rm"), nil
		}
		return rulvar.Pass(), nil
	}
	rule := rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("sh", "rm **")}}
	asks := rulvar.PermissionConfig{Ask: []rulvar.Rule{rulvar.ArgvRule("sh", "rm **")}}
	hook, slot := rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{noRm}}, rulvar.PermissionConfig{CanUseTool: noRm}
	by := func(d rulvar.Decision, hook bool) rulvar.PermissionConfig {
		if hook {
			return rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{hookOf(d)}}
		}
		return rulvar.PermissionConfig{CanUseTool: canUseOf(d)}
	}
	for _, row := range []struct {
		name                  string
		engine, parent, child rulvar.PermissionConfig
		input                 string
		want                  rulvar.Verdict
	}{
		{"a hook takes a command from the child's rule", rulvar.PermissionConfig{}, by(toLs, true), rule, "rm x", rulvar.VerdictDeny},
		{"a hook takes a command from the child's ask", rulvar.PermissionConfig{}, by(toLs, true), asks, "rm x", rulvar.VerdictAsk},
		{"a hook takes a command from the engine's rule", rule, by(toLs, true), rulvar.PermissionConfig{}, "rm x", rulvar.VerdictDeny},
		{"a hook takes a command from the child's hook", rulvar.PermissionConfig{}, by(toLs, true), hook, "rm x", rulvar.VerdictDeny},
		{"a hook takes a command from the child's CanUseTool", rulvar.PermissionConfig{}, by(toLs, true), slot, "rm x", rulvar.VerdictDeny},
		{"a hook makes one that the engine's hook denies", hook, by(toRm, true), rulvar.PermissionConfig{}, "ls", rulvar.VerdictDeny},
		{"CanUseTool makes one that the engine's hook denies", hook, by(toRm, false), rulvar.PermissionConfig{}, "ls", rulvar.VerdictDeny},
		{"CanUseTool makes one that the child's hook denies", rulvar.PermissionConfig{}, by(toRm, false), hook, "ls", rulvar.VerdictDeny},
		{"CanUseTool makes one that the engine's denies", slot, by(toRm, false), rulvar.PermissionConfig{}, "ls", rulvar.VerdictDeny},
		{"nobody minds", rulvar.PermissionConfig{}, by(toRm, true), rulvar.PermissionConfig{}, "ls", rulvar.VerdictAllow},
	} {
		t.Run(row.name, func(t *testing.T) {
			spawner := mustChain(t, &row.engine, &rulvar.AgentProfilePermissions{PermissionConfig: row.parent})
			in, err := rulvar.CompilePermissionChain(&row.engine, &rulvar.AgentProfilePermissions{PermissionConfig: row.child, InheritPermissions: true}, spawner)
			require.NoError(t, err)
			got := evaluate(t, in, tool, `{"command":"`+row.input+`"}`)
			require.Equal(t, row.want, got.Verdict, "%s", got)
			require.Contains(t, got.String(), "without what is inherited")
		})
	}
}
