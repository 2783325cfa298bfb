package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rulvar/rulvar-go"
)

// The policy as a user of rulvar writes it. A tool is declared once, with its
// name and its risk, so what other engines decide from attributes of the call
// stands in the declaration here: rules name tools exactly, without prefixes,
// and the read-only form of a tool is a tool of another name.
//
//	low       read
//	high      execute
//	critical  destructive
var (
	rulvarDeny = []rulvar.Rule{
		rulvar.ToolRule("rm_rf", "drop_table", "format_disk"),
		rulvar.RiskRule(rulvar.RiskDestructive),
		rulvar.ToolRule("secrets_read", "secrets_read_ro"),
	}
	rulvarAsk = []rulvar.Rule{
		rulvar.ToolRule("shell", "deploy", "git_push"),
		rulvar.RiskRule(rulvar.RiskExecute),
		rulvar.ToolRule("db_query", "db_insert"),
	}
)

// named is how the tool of a call is called: names hold no dots.
func named(c call) string {
	name, prefixed := strings.ReplaceAll(c.Tool, ".", "_"), strings.Contains(c.Tool, ".")
	if prefixed && c.ReadOnly {
		name += "_ro"
	}
	return name
}

var riskOf = map[string]rulvar.Risk{"low": rulvar.RiskRead, "high": rulvar.RiskExecute, "critical": rulvar.RiskDestructive}

func declare(c call) (*rulvar.Tool, error) {
	return rulvar.NewTool(rulvar.ToolConfig{Name: named(c), Risk: riskOf[c.Risk]},
		func(*rulvar.ToolContext, struct{}) (string, error) { return "", nil })
}

// newRulvar holds the call's tool between calls, as the engine does: by the
// time a call is judged its tool has been found. The Evaluation is the whole
// audit record: verdict, deciding step, layer, rule, reason and input.
func newRulvar() (decider, error) {
	return rulvarDecider(&rulvar.PermissionConfig{Deny: rulvarDeny, Ask: rulvarAsk})
}

func rulvarDecider(policy *rulvar.PermissionConfig) (decider, error) {
	chain, err := rulvar.CompilePermissionChain(policy, nil, nil)
	if err != nil {
		return nil, err
	}
	var last call
	var tool *rulvar.Tool
	var record rulvar.Evaluation
	input := json.RawMessage("{}")
	return func(c call) (verdict, error) {
		if c != last {
			if tool, err = declare(c); err != nil {
				return "", err
			}
			last = c
		}
		record = chain.Evaluate(nil, tool, rulvar.Call{Input: input})
		return verdict(record.Verdict), nil
	}, nil
}

// newRulvarMany is the policy of BenchmarkMany: a rule a tool, in a toolset
// whose tools all declare the high risk.
func newRulvarMany(tools int) (decider, error) {
	var asks []rulvar.Rule
	for i := range tools {
		asks = append(asks, rulvar.ToolRule(fmt.Sprintf("tool_%d", i)))
	}
	return rulvarDecider(&rulvar.PermissionConfig{Ask: asks})
}

// TestRulvarRecord holds the timed evaluation to naming its rule.
func TestRulvarRecord(t *testing.T) {
	chain, err := rulvar.CompilePermissionChain(&rulvar.PermissionConfig{Deny: rulvarDeny, Ask: rulvarAsk}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		tool, err := declare(c.c)
		if err != nil {
			t.Fatal(err)
		}
		ev := chain.Evaluate(nil, tool, rulvar.Call{Input: json.RawMessage("{}")})
		if verdict(ev.Verdict) != c.want || c.want != allow && (ev.Rule.IsZero() || ev.Layer != rulvar.LayerEngine) {
			t.Errorf("%s: %+v", c.name, ev)
		}
	}
}
