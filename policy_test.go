package rulvar_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

// policyTool is a tool of which only the policy matters.
func policyTool(t testing.TB, name string, risk rulvar.Risk, needsApproval bool) *rulvar.Tool {
	t.Helper()
	return toolWithSchema(t, rulvar.ToolConfig{Name: name, Description: "d", Risk: risk, NeedsApproval: needsApproval}, `{}`)
}

func toolWithSchema(t testing.TB, cfg rulvar.ToolConfig, schema string) *rulvar.Tool {
	t.Helper()
	s, err := rulvar.SchemaLiteral(json.RawMessage(schema))
	require.NoError(t, err)
	tool, err := rulvar.NewToolWithSchema(cfg, s, func(*rulvar.ToolContext, json.RawMessage) (any, error) { return nil, nil })
	require.NoError(t, err)
	return tool
}

func mustChain(t testing.TB, engine *rulvar.PermissionConfig, profile *rulvar.AgentProfilePermissions) *rulvar.PermissionChain {
	t.Helper()
	chain, err := rulvar.CompilePermissionChain(engine, profile, nil)
	require.NoError(t, err)
	return chain
}

// evaluate is a dry run over JSON text. It holds the compiled evaluator to the
// same answer; closures of a test that uses it may run twice.
func evaluate(t testing.TB, chain *rulvar.PermissionChain, tool *rulvar.Tool, input string) rulvar.Evaluation {
	t.Helper()
	got := dryRun(t, chain, tool, input)
	if got.Trace != nil {
		compiled := chain.Evaluate(nil, tool, rulvar.Call{Input: takenIn(t, tool, input)})
		want := got
		want.Trace = nil
		require.Equal(t, want.String(), compiled.String())
		require.Equal(t, want.Advisory, compiled.Advisory)
		require.Equal(t, string(want.Input), string(compiled.Input))
	}
	return got
}

func dryRun(t testing.TB, chain *rulvar.PermissionChain, tool *rulvar.Tool, input string) rulvar.Evaluation {
	t.Helper()
	got, err := rulvar.EvaluatePermission(context.Background(), chain, tool, json.RawMessage(input))
	require.NoError(t, err)
	require.Contains(t, []rulvar.Verdict{rulvar.VerdictAllow, rulvar.VerdictAsk, rulvar.VerdictDeny}, got.Verdict)
	return got
}

// takenIn is the input as an open chain lets it through.
func takenIn(t testing.TB, tool *rulvar.Tool, input string) json.RawMessage {
	t.Helper()
	return dryRun(t, mustChain(t, nil, nil), tool, input).Input
}

// severity orders verdicts: what is stricter is greater.
func severity(v rulvar.Verdict) int {
	switch v {
	case rulvar.VerdictAllow:
		return 0
	case rulvar.VerdictAsk:
		return 1
	case rulvar.VerdictDeny:
		return 2
	}
	return -1
}

// hookOf answers the same decision to every call.
func hookOf(d rulvar.Decision) rulvar.PermissionHook {
	return func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return d, nil }
}

func canUseOf(d rulvar.Decision) rulvar.CanUseTool {
	return func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return d, nil }
}
