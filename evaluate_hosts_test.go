package rulvar_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

// hostsTool is a tool that declares the hosts in its input's list "hosts" and
// answers d for itself.
func hostsTool(t testing.TB, d rulvar.Decision) *rulvar.Tool {
	t.Helper()
	return toolWithSchema(t, rulvar.ToolConfig{
		Name: "fetch", Description: "d", Risk: rulvar.RiskNetwork,
		Hosts: func(input json.RawMessage, judge func(string) rulvar.Verdict) rulvar.Decision {
			var in struct{ Hosts []string }
			if err := json.Unmarshal(input, &in); err != nil {
				return rulvar.Deny("unreadable")
			}
			for _, h := range in.Hosts {
				if h == "panic" {
					panic("hosts")
				}
				judge(h)
			}
			return d
		},
	}, `{}`)
}

// Domain rules decide for a tool that declares its hosts, before anything is
// dispatched.
func TestDomainRulesAreEnforcedForDeclaredHosts(t *testing.T) {
	rules := rulvar.PermissionConfig{
		Deny: []rulvar.Rule{rulvar.DomainRule("other", "*"), rulvar.DomainRule("fetch", "evil.example.com", "[2001:db8::1]:8443")},
		Ask:  []rulvar.Rule{rulvar.DomainRule("fetch", "*.example.com")},
	}
	with := func(change func(*rulvar.PermissionConfig)) rulvar.PermissionConfig {
		c := rules
		change(&c)
		return c
	}
	pass := rulvar.Pass()
	for _, row := range []struct {
		name, input string
		own         rulvar.Decision
		config      rulvar.PermissionConfig
		verdict     rulvar.Verdict
		by          rulvar.DecidedBy
		reason      string
	}{
		{"nothing against it", `{"hosts":["a.test:443"]}`, pass, rules, rulvar.VerdictAllow, rulvar.DecidedByDefault, ""},
		{"deny", `{"hosts":["evil.example.com:443"]}`, pass, rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "engine.deny[1] matches"},
		{"an address and its port", `{"hosts":["[2001:db8:0::1]:8443"]}`, pass, rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "engine.deny[1] matches"},
		{"ask", `{"hosts":["pay.example.com:443"]}`, pass, rules, rulvar.VerdictAsk, rulvar.DecidedByAskRule, "engine.ask[0] matches"},
		{"the strictest of several", `{"hosts":["a.test","pay.example.com","evil.example.com"]}`, pass, rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "engine.deny[1] matches"},
		{"what is no host", `{"hosts":["https://a.test"]}`, pass, rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "the host is refused"},
		{"the tool's own deny", `{"hosts":["a.test"]}`, rulvar.Deny("not listed"), rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "not listed"},
		{"the tool's own ask", `{"hosts":["a.test"]}`, rulvar.Ask("partner"), rules, rulvar.VerdictAsk, rulvar.DecidedByAskRule, "partner"},
		{"its ask does not soften a deny", `{"hosts":["evil.example.com"]}`, rulvar.Ask("partner"), rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "engine.deny[1] matches: partner"},
		{"its deny beats an ask rule", `{"hosts":["pay.example.com"]}`, rulvar.Deny("not listed"), rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "not listed"},
		{"a pass without a question", `{"hosts":[]}`, pass, rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "the tool names no host to judge"},
		{"a panic", `{"hosts":["a.test","panic"]}`, pass, rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "policy-error"},
		{"the zero Decision", `{"hosts":["a.test"]}`, rulvar.Decision{}, rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "policy-error"},
		{"an allow", `{"hosts":["a.test"]}`, rulvar.Allow(), rules, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "policy-error"},
		{"without rules", `{"hosts":["a.test"]}`, rulvar.Deny("not listed"), rulvar.PermissionConfig{}, rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "not listed"},
		{"a tool rule comes first", `{"hosts":["pay.example.com"]}`, pass, with(func(c *rulvar.PermissionConfig) { c.Deny = []rulvar.Rule{rulvar.ToolRule("fetch")} }), rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "engine.deny[0] matches"},
		{"CanUseTool comes after", `{"hosts":["pay.example.com"]}`, pass, with(func(c *rulvar.PermissionConfig) { c.CanUseTool = canUseOf(rulvar.Allow()) }), rulvar.VerdictAsk, rulvar.DecidedByAskRule, "engine.ask[0] matches"},
		{"a rewrite is judged", `{"hosts":["a.test"]}`, pass, with(func(c *rulvar.PermissionConfig) {
			c.CanUseTool = canUseOf(rulvar.ModifyInput(json.RawMessage(`{"hosts":["evil.example.com"]}`)))
		}), rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "engine.deny[1] matches"},
		{"a held allow yields to a deny", `{"hosts":["evil.example.com"]}`, pass, with(func(c *rulvar.PermissionConfig) {
			c.Hooks, c.HookAllow = hooks(rulvar.Allow()), rulvar.HookAllowAdvisory
		}), rulvar.VerdictDeny, rulvar.DecidedByDenyRule, "engine.deny[1] matches"},
		{"a held allow decides over an ask", `{"hosts":["pay.example.com"]}`, pass, with(func(c *rulvar.PermissionConfig) {
			c.Hooks, c.HookAllow = hooks(rulvar.Allow()), rulvar.HookAllowAdvisory
		}), rulvar.VerdictAllow, rulvar.DecidedByHook, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := evaluate(t, mustChain(t, &row.config, nil), hostsTool(t, row.own), row.input)
			require.Equal(t, row.verdict, got.Verdict, "%s", got)
			require.Equal(t, row.by, got.DecidedBy, "%s", got)
			require.Equal(t, row.reason, got.Reason, "%s", got)
			require.Empty(t, got.Advisory)
		})
	}
}

// A tool that declares nothing is left alone, whatever its name.
func TestDomainRulesAreAdvisoryForOtherTools(t *testing.T) {
	rule := rulvar.DomainRule("fetch", "*")
	chain := mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rule}}, nil)
	got := evaluate(t, chain, policyTool(t, "fetch", rulvar.RiskNetwork, false), `{"url":"https://evil.example.com/"}`)
	require.Equal(t, rulvar.VerdictAllow, got.Verdict)
	require.Equal(t, []rulvar.Rule{rule}, got.Advisory)
}

func TestHostsInATrace(t *testing.T) {
	chain := mustChain(t, &rulvar.PermissionConfig{
		Deny: []rulvar.Rule{rulvar.DomainRule("fetch", "evil.test"), rulvar.DomainRule("other", "a.test")},
		Ask:  []rulvar.Rule{rulvar.DomainRule("fetch", "pay.test")},
	}, nil)
	got := evaluate(t, chain, hostsTool(t, rulvar.Pass()), `{"hosts":["pay.test:443"]}`)
	require.Equal(t, `ask by ask-rule {"tool":"fetch","domains":["pay.test"]} (engine): engine.ask[0] matches
  1. deny-rule engine[1]: no match: {"tool":"other","domains":["a.test"]}
  2. hosts engine[0]: ask: {"tool":"fetch","domains":["pay.test"]}: engine.ask[0] matches`, got.String())
}
