package rulvar_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

func TestLayersMergeInOrder(t *testing.T) {
	engine := &rulvar.PermissionConfig{
		Deny: []rulvar.Rule{rulvar.ToolRule("a")}, Ask: []rulvar.Rule{rulvar.ToolRule("b")},
	}
	profile := &rulvar.AgentProfilePermissions{
		PermissionConfig: rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("c")}, Ask: []rulvar.Rule{rulvar.ToolRule("d")}},
		Preset:           rulvar.PresetStrict,
	}
	text, err := json.Marshal(mustChain(t, engine, profile))
	require.NoError(t, err)
	require.JSONEq(t, `{"hooks":0,"deny":[{"tool":"a"},{"tool":"c"},{"risk":"destructive"}],
		"ask":[{"tool":"b"},{"tool":"d"},{"risk":["write","network","execute"]},{"risk":"undeclared"}],
		"canUseTool":false,"strictApprovals":false,"hookAllow":"decisive"}`, string(text))
}

func TestCompileRefusesWhatCannotWork(t *testing.T) {
	withConfig := func(c rulvar.PermissionConfig) (*rulvar.PermissionConfig, *rulvar.AgentProfilePermissions) {
		return nil, &rulvar.AgentProfilePermissions{PermissionConfig: c}
	}
	for _, row := range []struct {
		name   string
		config rulvar.PermissionConfig
		path   string
	}{
		{"nil hook", rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{hookOf(rulvar.Pass()), nil}}, "profile.hooks[1]"},
		{"unknown hookAllow", rulvar.PermissionConfig{HookAllow: "Advisory"}, "profile.hookAllow"},
		{"negative deadline", rulvar.PermissionConfig{ApprovalDeadline: -time.Second}, "profile.approvalDeadlineMs"},
		{"deadline under a millisecond", rulvar.PermissionConfig{ApprovalDeadline: 10 * time.Microsecond}, "profile.approvalDeadlineMs"},
		{"deadline between milliseconds", rulvar.PermissionConfig{ApprovalDeadline: 1500 * time.Microsecond}, "profile.approvalDeadlineMs"},
		{"deadline beyond a hundred years", rulvar.PermissionConfig{ApprovalDeadline: 3155760000001 * time.Millisecond}, "profile.approvalDeadlineMs"},
		{"bad ask rule", rulvar.PermissionConfig{Ask: []rulvar.Rule{rulvar.RiskRule("bogus")}}, "profile.ask[0].risk"},
	} {
		t.Run(row.name, func(t *testing.T) {
			engine, profile := withConfig(row.config)
			_, err := rulvar.CompilePermissionChain(engine, profile, nil)
			requireConfigError(t, err, row.path)
		})
	}
	t.Run("inherited zero chain", func(t *testing.T) {
		_, err := rulvar.CompilePermissionChain(nil, &rulvar.AgentProfilePermissions{InheritPermissions: true}, &rulvar.PermissionChain{})
		requireConfigError(t, err, "inherited")
	})
}

func TestApprovalDeadlineIsTheMostSpecific(t *testing.T) {
	engine := &rulvar.PermissionConfig{ApprovalDeadline: time.Second}
	require.Equal(t, time.Second, mustChain(t, engine, nil).ApprovalDeadline())
	require.Zero(t, mustChain(t, nil, nil).ApprovalDeadline())
	profile := &rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{ApprovalDeadline: time.Minute}}
	parent := mustChain(t, engine, profile)
	require.Equal(t, time.Minute, parent.ApprovalDeadline())

	child, err := rulvar.CompilePermissionChain(engine, &rulvar.AgentProfilePermissions{InheritPermissions: true}, parent)
	require.NoError(t, err)
	require.Equal(t, time.Minute, child.ApprovalDeadline(), "the inherited layer is more specific than the engine's")
	child, err = rulvar.CompilePermissionChain(engine, &rulvar.AgentProfilePermissions{}, parent)
	require.NoError(t, err)
	require.Equal(t, time.Second, child.ApprovalDeadline(), "nothing is inherited without the opt-in")
	require.Zero(t, (*rulvar.PermissionChain)(nil).ApprovalDeadline())
}

// Report L105: a parent's deny that never reached the child.
func TestInheritance(t *testing.T) {
	engine := &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("engine_denied")}}
	parent := mustChain(t, engine, &rulvar.AgentProfilePermissions{
		PermissionConfig: rulvar.PermissionConfig{
			Deny: []rulvar.Rule{rulvar.ToolRule("parent_denied")},
			Ask:  []rulvar.Rule{rulvar.ToolRule("parent_asked")},
		},
		Preset: rulvar.PresetStrict,
	})
	own := rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("child_denied")}}
	childProfile := func(inherit bool) *rulvar.AgentProfilePermissions {
		return &rulvar.AgentProfilePermissions{PermissionConfig: own, InheritPermissions: inherit}
	}
	compile := func(profile *rulvar.AgentProfilePermissions, inherited *rulvar.PermissionChain) *rulvar.PermissionChain {
		chain, err := rulvar.CompilePermissionChain(engine, profile, inherited)
		require.NoError(t, err)
		return chain
	}
	verdict := func(chain *rulvar.PermissionChain, tool string, risk rulvar.Risk) (rulvar.Verdict, rulvar.Layer) {
		got := evaluate(t, chain, policyTool(t, tool, risk, false), `{}`)
		return got.Verdict, got.Layer
	}
	type answer struct {
		verdict rulvar.Verdict
		layer   rulvar.Layer
	}
	for _, row := range []struct {
		name  string
		chain *rulvar.PermissionChain
		tool  string
		risk  rulvar.Risk
		want  answer
	}{
		{"without opt-in the parent's deny does not count", compile(childProfile(false), parent), "parent_denied", rulvar.RiskRead, answer{rulvar.VerdictAllow, ""}},
		{"without opt-in the parent's preset does not count", compile(childProfile(false), parent), "x", rulvar.RiskDestructive, answer{rulvar.VerdictAllow, ""}},
		{"a nil profile inherits nothing", compile(nil, parent), "parent_denied", rulvar.RiskRead, answer{rulvar.VerdictAllow, ""}},
		{"the engine's layer always counts", compile(childProfile(false), parent), "engine_denied", rulvar.RiskRead, answer{rulvar.VerdictDeny, rulvar.LayerEngine}},
		{"with opt-in the parent's deny counts", compile(childProfile(true), parent), "parent_denied", rulvar.RiskRead, answer{rulvar.VerdictDeny, rulvar.LayerInherited}},
		{"with opt-in the parent's ask counts", compile(childProfile(true), parent), "parent_asked", rulvar.RiskRead, answer{rulvar.VerdictAsk, rulvar.LayerInherited}},
		{"with opt-in the parent's preset counts", compile(childProfile(true), parent), "x", rulvar.RiskDestructive, answer{rulvar.VerdictDeny, rulvar.LayerInherited}},
		{"the child's own rules count", compile(childProfile(true), parent), "child_denied", rulvar.RiskRead, answer{rulvar.VerdictDeny, rulvar.LayerProfile}},
		{"a grandchild that opts in", compile(childProfile(true), compile(childProfile(true), parent)), "parent_denied", rulvar.RiskRead, answer{rulvar.VerdictDeny, rulvar.LayerInherited}},
		{"a grandchild of a child that did not", compile(childProfile(true), compile(childProfile(false), parent)), "parent_denied", rulvar.RiskRead, answer{rulvar.VerdictAllow, ""}},
		{"no parent to inherit from", compile(childProfile(true), nil), "parent_denied", rulvar.RiskRead, answer{rulvar.VerdictAllow, ""}},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, layer := verdict(row.chain, row.tool, row.risk)
			require.Equal(t, row.want, answer{v, layer}, "%s", row.chain)
		})
	}
	t.Run("the engine's layer is not taken twice", func(t *testing.T) {
		text, err := json.Marshal(compile(childProfile(true), parent))
		require.NoError(t, err)
		require.JSONEq(t, `[{"tool":"engine_denied"},{"tool":"parent_denied"},{"risk":"destructive"},{"tool":"child_denied"}]`, jsonMember(t, text, "deny"))
	})
	t.Run("origin is told", func(t *testing.T) { // report L106
		grandchild := compile(childProfile(true), compile(childProfile(true), parent))
		require.Contains(t, grandchild.String(), `deny inherited.inherited.profile.deny[0] {"tool":"parent_denied"}`)
		got := evaluate(t, grandchild, policyTool(t, "parent_denied", rulvar.RiskRead, false), `{}`)
		require.Contains(t, got.Reason, "inherited.inherited.profile.deny[0]")
	})
}

func TestInheritedClosuresAndModes(t *testing.T) {
	var order []string
	hook := func(name string) rulvar.PermissionHook {
		return func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) {
			order = append(order, name)
			return rulvar.Decision{}, nil
		}
	}
	engine := &rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{hook("engine")}, CanUseTool: canUseOf(rulvar.Deny("engine"))}
	parent := mustChain(t, engine, &rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{
		Hooks: []rulvar.PermissionHook{hook("parent")}, CanUseTool: canUseOf(rulvar.Ask("parent")),
		StrictApprovals: true, HookAllow: rulvar.HookAllowAdvisory,
	}})
	tool := policyTool(t, "t", rulvar.RiskRead, false)
	inherit := func(c rulvar.PermissionConfig) *rulvar.PermissionChain {
		chain, err := rulvar.CompilePermissionChain(engine, &rulvar.AgentProfilePermissions{PermissionConfig: c, InheritPermissions: true}, parent)
		require.NoError(t, err)
		return chain
	}
	t.Run("hooks run engine, inherited, profile", func(t *testing.T) {
		order = nil
		got := dryRun(t, inherit(rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{hook("profile")}}), tool, `{}`)
		require.Equal(t, []string{"engine", "parent", "profile"}, order)
		require.Equal(t, rulvar.LayerEngine, got.Layer, "an inherited CanUseTool takes no deny of the engine's away")
		require.Equal(t, "engine", got.Reason)
	})
	t.Run("the profile's CanUseTool wins", func(t *testing.T) {
		got := evaluate(t, inherit(rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Allow())}), tool, `{}`)
		require.Equal(t, rulvar.VerdictAllow, got.Verdict)
		require.Equal(t, rulvar.LayerProfile, got.Layer)
	})
	t.Run("the engine's CanUseTool is not inherited through the parent", func(t *testing.T) {
		engineOnly := mustChain(t, engine, nil)
		chain, err := rulvar.CompilePermissionChain(nil, &rulvar.AgentProfilePermissions{InheritPermissions: true}, engineOnly)
		require.NoError(t, err)
		require.Equal(t, rulvar.DecidedByDefault, evaluate(t, chain, tool, `{}`).DecidedBy)
	})
	t.Run("modes are armed by any layer", func(t *testing.T) {
		text, err := json.Marshal(inherit(rulvar.PermissionConfig{HookAllow: rulvar.HookAllowDecisive}))
		require.NoError(t, err)
		require.Equal(t, `"advisory"`, jsonMember(t, text, "hookAllow"))
		require.Equal(t, `true`, jsonMember(t, text, "strictApprovals"))
	})
}

func TestUnmatchedRules(t *testing.T) {
	chain := mustChain(t, &rulvar.PermissionConfig{
		Deny: []rulvar.Rule{rulvar.ToolRule("edit", "nope"), rulvar.ToolRule("deploy"), rulvar.RiskRule(rulvar.RiskWrite)},
		Ask:  []rulvar.Rule{rulvar.ArgvRule("shel", "rm **"), rulvar.DomainRule("fetch", "a.test"), rulvar.ArgvRule("edit", "ls")},
	}, nil)
	got := chain.UnmatchedRules([]*rulvar.Tool{policyTool(t, "edit", rulvar.RiskWrite, false), policyTool(t, "mcp_deploy", "", false), nil})
	var texts []string
	for _, r := range got {
		texts = append(texts, r.String())
	}
	require.Equal(t, []string{`{"tool":"deploy"}`, `{"tool":"shel","argv":"rm **"}`, `{"tool":"fetch","domains":["a.test"]}`}, texts)
	require.Nil(t, (*rulvar.PermissionChain)(nil).UnmatchedRules(nil))
}

// A chain does not change when what it was compiled from does.
func TestChainOwnsItsTables(t *testing.T) {
	config := &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("edit")}}
	chain := mustChain(t, config, nil)
	config.Deny[0] = rulvar.ToolRule("other")
	tool := policyTool(t, "edit", rulvar.RiskRead, false)
	got := evaluate(t, chain, tool, `{}`)
	require.Equal(t, rulvar.VerdictDeny, got.Verdict)
	require.NoError(t, json.Unmarshal([]byte(`{"tool":"other"}`), &got.Rule))
	require.Equal(t, `{"tool":"edit"}`, evaluate(t, chain, tool, `{}`).Rule.String(), "an echoed rule is a copy")
}

// jsonMember returns one member of a JSON object, as text.
func jsonMember(t testing.TB, object []byte, name string) string {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &m))
	return string(m[name])
}
