package rulvar

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchTool is a tool with a schema that takes any object.
func benchTool(tb testing.TB, name string, risk Risk) *Tool {
	tb.Helper()
	s, err := SchemaLiteral(json.RawMessage(`{"type":"object"}`))
	require.NoError(tb, err)
	tool, err := NewToolWithSchema(ToolConfig{Name: name, Description: "d", Risk: risk}, s,
		func(*ToolContext, json.RawMessage) (any, error) { return nil, nil })
	require.NoError(tb, err)
	return tool
}

// sixRules is three deny and three ask rules, of which a call of read_file
// with risk read matches none.
func sixRules(tb testing.TB) *PermissionChain {
	tb.Helper()
	c, err := CompilePermissionChain(&PermissionConfig{
		Deny: []Rule{ToolRule("rm_rf", "drop_table", "format_disk"), RiskRule(RiskDestructive), ToolRule("secrets_read", "secrets_list")},
		Ask:  []Rule{ToolRule("shell", "deploy", "git_push"), RiskRule(RiskExecute), ToolRule("db_insert", "db_delete")},
	}, nil, nil)
	require.NoError(tb, err)
	return c
}

// manyRules is a rule of its own for each of 200 tools, and one over risk.
func manyRules(tb testing.TB) *PermissionChain {
	tb.Helper()
	config := &PermissionConfig{Ask: []Rule{RiskRule(RiskExecute)}}
	for i := range 200 {
		config.Ask = append(config.Ask, ToolRule(fmt.Sprintf("tool_%d", i)))
	}
	c, err := CompilePermissionChain(config, nil, nil)
	require.NoError(tb, err)
	return c
}

func BenchmarkEvaluate(b *testing.B) {
	call := Call{Input: json.RawMessage(`{"path":"a.txt"}`)}
	for _, row := range []struct {
		name  string
		chain *PermissionChain
		tool  *Tool
		want  Verdict
	}{
		{"6 rules none matches", sixRules(b), benchTool(b, "read_file", RiskRead), VerdictAllow},
		{"6 rules deny", sixRules(b), benchTool(b, "secrets_read", RiskRead), VerdictDeny},
		{"6 rules ask", sixRules(b), benchTool(b, "db_insert", RiskWrite), VerdictAsk},
		{"200 tools none matches", manyRules(b), benchTool(b, "read_file", RiskRead), VerdictAllow},
		{"200 tools ask", manyRules(b), benchTool(b, "tool_150", RiskRead), VerdictAsk},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := row.chain.Evaluate(nil, row.tool, call); got.Verdict != row.want {
					b.Fatal(got)
				}
			}
		})
	}
	b.Run("compile 200", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			manyRules(b)
		}
	})
}

// An allow that no closure, argv rule or domain rule has a part in costs no
// allocation; a decision by a rule costs the copy of the rule.
func TestEvaluateAllocations(t *testing.T) {
	call := Call{Input: json.RawMessage(`{"path":"a.txt"}`)}
	for _, row := range []struct {
		name   string
		chain  *PermissionChain
		tool   *Tool
		allocs float64
	}{
		{"six rules, none matches", sixRules(t), benchTool(t, "read_file", RiskRead), 0},
		{"two hundred tools, none matches", manyRules(t), benchTool(t, "read_file", RiskRead), 0},
		{"a rule is echoed", manyRules(t), benchTool(t, "tool_150", RiskRead), 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out Evaluation
			got := testing.AllocsPerRun(100, func() { out = row.chain.Evaluate(nil, row.tool, call) })
			require.LessOrEqual(t, got, row.allocs, out.String())
		})
	}
}

// What a call costs does not grow with the rules of other tools: the rules
// that are looked at are those that can match it.
func TestIndexHoldsOnlyRulesThatCanMatch(t *testing.T) {
	c := manyRules(t)
	tables := c.index.tables("tool_150")
	require.Len(t, tables.ask[riskSlot(RiskRead)], 1)
	require.Len(t, tables.ask[riskSlot(RiskExecute)], 2)
	require.Empty(t, tables.deny[riskSlot(RiskRead)])
	require.Empty(t, c.index.tables("read_file").ask[riskSlot(RiskRead)])
}
