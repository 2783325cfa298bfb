package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
	"github.com/cedar-policy/cedar-go"
	"github.com/open-policy-agent/opa/v1/rego"
)

// BenchmarkMany times the same decision where the policy is large: 200 tools,
// each with a rule of its own (ask when the risk is high), as a host with
// several MCP servers has. The call names tool 150; the bound looks its rules
// up by name and tries those alone.
func BenchmarkMany(b *testing.B) {
	const tools = 200
	c := call{"tool_150", "high", false}
	run := func(b *testing.B, d decider) {
		b.ReportAllocs()
		for b.Loop() {
			if got, err := d(c); err != nil || got != ask {
				b.Fatal(got, err)
			}
		}
	}
	b.Run("rulvar", func(b *testing.B) {
		d, err := newRulvarMany(tools)
		if err != nil {
			b.Fatal(err)
		}
		run(b, d)
	})
	b.Run("cedar-go", func(b *testing.B) {
		var sb strings.Builder
		sb.WriteString("@id(\"allow\") permit (principal, action, resource);\n")
		for i := range tools {
			fmt.Fprintf(&sb, "@id(\"ask%d\") forbid (principal, action == Action::\"call\", resource == Tool::\"tool_%d\") when { context.risk == \"high\" };\n", i, i)
		}
		list, err := cedar.NewPolicyListFromBytes("p.cedar", []byte(sb.String()))
		if err != nil {
			b.Fatal(err)
		}
		ps := cedar.NewPolicySet()
		for _, p := range list {
			ps.Add(cedar.PolicyID(p.Annotations()["id"]), p)
		}
		run(b, func(c call) (verdict, error) {
			return cedarVerdict(cedar.Authorize(ps, cedar.EntityMap{}, cedarRequest(c)))
		})
	})
	b.Run("opa", func(b *testing.B) {
		var sb strings.Builder
		sb.WriteString("package tools\n\ndefault verdict := \"allow\"\n\nverdict := \"ask\" if asked\n\n")
		for i := range tools {
			fmt.Fprintf(&sb, "asked if {\n\tinput.tool == \"tool_%d\"\n\tinput.risk == \"high\"\n}\n", i)
		}
		q, err := rego.New(rego.Query("data.tools.verdict"), rego.Module("tools.rego", sb.String())).PrepareForEval(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		run(b, func(c call) (verdict, error) {
			return opaVerdict(q.Eval(ctx, rego.EvalInput(map[string]any{"tool": c.Tool, "risk": c.Risk, "read_only": c.ReadOnly})))
		})
	})
	b.Run("casbin", func(b *testing.B) {
		m, err := model.NewModelFromString(casbinModel)
		if err != nil {
			b.Fatal(err)
		}
		e, err := casbin.NewEnforcer(m)
		if err != nil {
			b.Fatal(err)
		}
		var rows [][]string
		for i := range tools {
			rows = append(rows, []string{fmt.Sprintf("tool_%d", i), "high", "*", "ask", "deny"})
		}
		if _, err := e.AddPolicies(append(rows, []string{"*", "*", "*", "allow", "allow"})); err != nil {
			b.Fatal(err)
		}
		run(b, func(c call) (verdict, error) {
			_, row, err := e.EnforceEx(c.Tool, c.Risk, "false")
			if err != nil {
				return "", err
			}
			return verdict(row[3]), nil
		})
	})
	rules := make([]handRule, tools)
	byName := map[string][]handRule{}
	for i := range rules {
		n := fmt.Sprintf("tool_%d", i)
		rules[i] = handRule{names: map[string]struct{}{n: {}}, risk: "high", verdict: ask}
		byName[n] = append(byName[n], handRule{risk: "high", verdict: ask})
	}
	first := func(rules []handRule, c *call) verdict {
		for i := range rules {
			if rules[i].match(c) {
				return rules[i].verdict
			}
		}
		return allow
	}
	b.Run("hand-loop", func(b *testing.B) {
		run(b, func(c call) (verdict, error) { return first(rules, &c), nil })
	})
	b.Run("hand-indexed-bound", func(b *testing.B) {
		run(b, func(c call) (verdict, error) { return first(byName[c.Tool], &c), nil })
	})
}
