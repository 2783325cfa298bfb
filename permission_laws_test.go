package rulvar_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go"
)

// The laws of the declarative tables. Closures are outside them, but for the
// modes that say what a closure's allow is worth.

// genCall draws a tool and an input for it.
func genCall(t *rapid.T, tb testing.TB) (*rulvar.Tool, string) {
	name := rapid.SampledFrom([]string{"sh", "sh", "edit", "fetch"}).Draw(t, "tool")
	risk := rapid.SampledFrom([]rulvar.Risk{"", "read", "write", "network", "execute", "destructive"}).Draw(t, "risk")
	input := rapid.SampledFrom([]string{
		`{"command":"ls"}`, `{"command":"rm -rf /x"}`, `{"command":"ls; rm x"}`, `{"command":"ls && mv a b"}`, `{"command":"/bin/rm x"}`,
		`{"command":"echo $(x)"}`, `{"command":"rm $X"}`, `{"command":"env rm x"}`, `{"command":"(rm x)"}`, `{"command":""}`,
		`{"command":"git push origin batch/x-fixes"}`, `"rm x"`, `{}`, `{"command":1}`, `null`, `{"command":"cat <<E\nrm x\nE"}`,
	}).Draw(t, "input")
	if name == "fetch" && rapid.Bool().Draw(t, "hosts") {
		own := rapid.SampledFrom([]rulvar.Decision{rulvar.Pass(), rulvar.Ask("partner"), rulvar.Deny("not listed")}).Draw(t, "own")
		return hostsTool(tb, own), rapid.SampledFrom([]string{`{"hosts":["a.test"]}`, `{"hosts":["b.test","A.test.:8443"]}`, `{"hosts":["c.test"]}`}).Draw(t, "hosts input")
	}
	return policyTool(tb, name, risk, rapid.Bool().Draw(t, "needsApproval")), input
}

func genRule(t *rapid.T) rulvar.Rule {
	return rapid.SampledFrom([]rulvar.Rule{
		rulvar.ToolRule("edit"), rulvar.ToolRule("sh", "fetch"), rulvar.ToolRule("other"),
		rulvar.RiskRule(rulvar.RiskWrite), rulvar.RiskRule(rulvar.RiskUndeclared, rulvar.RiskNetwork), rulvar.RiskRule(rulvar.RiskDestructive),
		rulvar.ArgvRule("sh", "rm **"), rulvar.ArgvRule("sh", "ls", "mv * *"), rulvar.ArgvRule("sh", "git push **"),
		rulvar.ArgvRule("sh", "* x"), rulvar.ArgvRule("edit", "**"), rulvar.DomainRule("fetch", "a.test"), rulvar.DomainRule("sh", "*"),
	}).Draw(t, "rule")
}

func genTable(t *rapid.T, name string) []rulvar.Rule {
	return rapid.SliceOfN(rapid.Custom(genRule), 0, 4).Draw(t, name)
}

func genConfig(t *rapid.T, name string) rulvar.PermissionConfig {
	return rulvar.PermissionConfig{Deny: genTable(t, name+".deny"), Ask: genTable(t, name+".ask")}
}

func genProfile(t *rapid.T, name string) *rulvar.AgentProfilePermissions {
	return &rulvar.AgentProfilePermissions{
		PermissionConfig: genConfig(t, name),
		Preset:           rapid.SampledFrom([]rulvar.Preset{"", "", rulvar.PresetOpen, rulvar.PresetStandard, rulvar.PresetStrict}).Draw(t, name+".preset"),
	}
}

// insert puts a rule anywhere into a copy of a table.
func insert(t *rapid.T, table []rulvar.Rule, r rulvar.Rule) []rulvar.Rule {
	return slices.Insert(slices.Clone(table), rapid.IntRange(0, len(table)).Draw(t, "at"), r)
}

func TestTighteningNeverLoosens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tool, input := genCall(rt, t)
		engine, profile := genConfig(rt, "engine"), genProfile(rt, "profile")
		before := evaluate(t, mustChain(t, &engine, profile), tool, input)
		rule := genRule(rt)
		switch rapid.IntRange(0, 5).Draw(rt, "what") {
		case 0:
			engine.Deny = insert(rt, engine.Deny, rule)
		case 1:
			engine.Ask = insert(rt, engine.Ask, rule)
		case 2:
			profile.Deny = insert(rt, profile.Deny, rule)
		case 3:
			profile.Ask = insert(rt, profile.Ask, rule)
		case 4:
			engine.StrictApprovals, engine.HookAllow = true, rulvar.HookAllowAdvisory
		case 5:
			if profile.Preset == "" || profile.Preset == rulvar.PresetOpen {
				profile.Preset = rapid.SampledFrom([]rulvar.Preset{rulvar.PresetStandard, rulvar.PresetStrict}).Draw(rt, "preset")
			}
		}
		after := evaluate(t, mustChain(t, &engine, profile), tool, input)
		if severity(after.Verdict) < severity(before.Verdict) {
			rt.Fatalf("adding %s loosened\n%s\nto\n%s", rule, before, after)
		}
	})
}

// Report B35: what a table says does not depend on how it is ordered.
func TestRuleOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tool, input := genCall(rt, t)
		config := genConfig(rt, "engine")
		before := evaluate(t, mustChain(t, &config, nil), tool, input)
		config.Deny = rapid.Permutation(config.Deny).Draw(rt, "deny")
		config.Ask = rapid.Permutation(config.Ask).Draw(rt, "ask")
		after := evaluate(t, mustChain(t, &config, nil), tool, input)
		if before.Verdict != after.Verdict {
			rt.Fatalf("the order decides:\n%s\n%s", before, after)
		}
	})
}

// Report B34, B42, L105: a child that opts in is never freer than one that
// does not, and never freer than its parent where both have the same tool.
func TestInheritanceNeverLoosens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tool, input := genCall(rt, t)
		engine, parentProfile, childProfile := genConfig(rt, "engine"), genProfile(rt, "parent"), genProfile(rt, "child")
		parent := mustChain(t, &engine, parentProfile)
		compile := func(inherit bool) rulvar.Evaluation {
			p := *childProfile
			p.InheritPermissions = inherit
			chain, err := rulvar.CompilePermissionChain(&engine, &p, parent)
			require.NoError(t, err)
			return evaluate(t, chain, tool, input)
		}
		alone, inheriting := compile(false), compile(true)
		if severity(inheriting.Verdict) < severity(alone.Verdict) {
			rt.Fatalf("inheriting loosened\n%s\nto\n%s", alone, inheriting)
		}
		if p := evaluate(t, parent, tool, input); severity(inheriting.Verdict) < severity(p.Verdict) {
			rt.Fatalf("the child is freer than its parent:\n%s\n%s", p, inheriting)
		}
	})
}

func genDecision(t *rapid.T, name string) rulvar.Decision {
	return rapid.SampledFrom([]rulvar.Decision{
		{}, rulvar.Pass(), rulvar.Allow(), rulvar.Deny("no"), rulvar.Ask("look"), {Verdict: "Deny"},
		rulvar.ModifyInput(json.RawMessage(`{"command":"rm x"}`)), rulvar.ModifyInput(json.RawMessage(`{"command":"ls"}`)),
		rulvar.ModifyInput(json.RawMessage(`{`)),
	}).Draw(t, name)
}

// The modes only tighten, whatever the closures say; and the compiled
// evaluator and the dry run are one.
func TestModesOnlyTighten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tool, input := genCall(rt, t)
		config := genConfig(rt, "engine")
		for range rapid.IntRange(0, 3).Draw(rt, "hooks") {
			config.Hooks = append(config.Hooks, hookOf(genDecision(rt, "hook")))
		}
		if rapid.Bool().Draw(rt, "canUse") {
			config.CanUseTool = canUseOf(genDecision(rt, "canUseTool"))
		}
		plain := evaluate(t, mustChain(t, &config, nil), tool, input)
		config.HookAllow = rulvar.HookAllowAdvisory
		advisory := evaluate(t, mustChain(t, &config, nil), tool, input)
		if severity(advisory.Verdict) < severity(plain.Verdict) {
			rt.Fatalf("advisory loosened\n%s\nto\n%s", plain, advisory)
		}
		config.StrictApprovals = true
		strict := evaluate(t, mustChain(t, &config, nil), tool, input)
		if severity(strict.Verdict) < severity(advisory.Verdict) {
			rt.Fatalf("strict approvals loosened\n%s\nto\n%s", advisory, strict)
		}
	})
}

func FuzzEvaluate(f *testing.F) {
	f.Add([]byte(`{"deny":[{"tool":"sh","argv":"rm **"}]}`), "sh", []byte(`{"command":"ls; rm x"}`), []byte(`{"command":"ls"}`))
	f.Add([]byte(`{"ask":[{"risk":"undeclared"}],"strictApprovals":true}`), "edit", []byte(`{"path":"a"}`), []byte(`null`))
	f.Add([]byte(`{"deny":[{"tool":["sh","x"],"domains":["*.a.test"]}],"hookAllow":"advisory"}`), "sh", []byte(`"$(x)"`), []byte(`{`))
	f.Add([]byte(`{}`), "sh", []byte(`{"a":1,"a":2}`), []byte(``))
	f.Fuzz(func(t *testing.T, policy []byte, name string, input, rewrite []byte) {
		var config rulvar.PermissionConfig
		if config.UnmarshalJSON(policy) != nil {
			return
		}
		ctx := context.Background()
		plain, err := rulvar.EvaluatePermissionByName(ctx, mustChain(t, &config, nil), name, json.RawMessage(input))
		if err != nil {
			require.Equal(t, rulvar.Evaluation{}, plain)
			return
		}
		require.GreaterOrEqual(t, severity(plain.Verdict), 0)
		require.NotEmpty(t, plain.Trace)
		_ = plain.String()
		_, err = json.Marshal(plain)
		require.NoError(t, err)
		if hasArgvOrMatch := plain.DecidedBy != rulvar.DecidedByDefault; !hasArgvOrMatch {
			require.Equal(t, rulvar.VerdictAllow, plain.Verdict)
		}
		config.Deny = append(config.Deny, rulvar.ToolRule(name))
		denied, err := rulvar.EvaluatePermissionByName(ctx, mustChain(t, &config, nil), name, json.RawMessage(input))
		require.NoError(t, err)
		require.Equal(t, rulvar.VerdictDeny, denied.Verdict, "a tool rule denies whatever else there is")
		config.CanUseTool = canUseOf(rulvar.ModifyInput(rewrite))
		config.Hooks = hooks(rulvar.ModifyInput(rewrite))
		rewritten, err := rulvar.EvaluatePermissionByName(ctx, mustChain(t, &config, nil), name, json.RawMessage(input))
		require.NoError(t, err)
		require.Equal(t, rulvar.VerdictDeny, rewritten.Verdict)
	})
}
