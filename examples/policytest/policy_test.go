package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// What the policy means, call by call. A row that fails prints every step of the
// chain, so that it says which rule to look at.
func TestPolicy(t *testing.T) {
	all, err := chains()
	require.NoError(t, err)
	known, err := tools()
	require.NoError(t, err)
	const allow, ask, deny = rulvar.VerdictAllow, rulvar.VerdictAsk, rulvar.VerdictDeny
	for _, row := range []struct {
		name, tool, input string
		reader, releaser  rulvar.Verdict
	}{
		{"the team's own issues", "search_issues", `{"query":"project:web is:blocking"}`, allow, allow},
		{"other issues are read too", "search_issues", `{"query":"everything"}`, allow, allow},
		{"a tool that declares no risk", "summarize", `{"query":"x"}`, ask, ask},

		{"tests", "shell", `{"command":"go test ./..."}`, ask, allow},
		{"a push", "shell", `{"command":"git push origin main"}`, ask, ask},
		{"a forced push", "shell", `{"command":"git push --force origin main"}`, deny, deny},
		{"behind another command", "shell", `{"command":"go test ./... && rm -rf build"}`, deny, deny},
		{"in a branch of an if", "shell", `{"command":"if true; then rm -rf build; fi"}`, deny, deny},
		{"hidden in a variable", "shell", `{"command":"X=rm; $X -rf build"}`, ask, ask},
		{"a word that only looks like it", "shell", `{"command":"echo rm -rf build"}`, ask, allow},
		{"onto the password file", "shell", `{"command":"echo x > /etc/passwd"}`, deny, deny},

		{"documentation", "fetch", `{"url":"https://docs.example.net/guide"}`, ask, allow},
		{"a partner", "fetch", `{"url":"https://partner.example.org/api"}`, ask, ask},
		{"an internal host", "fetch", `{"url":"https://vault.internal.example.com/"}`, deny, deny},
		{"in another spelling", "fetch", `{"url":"https://VAULT.internal.example.com.:443/"}`, deny, deny},
		{"a host that nobody listed", "fetch", `{"url":"https://other.example/"}`, deny, deny},
		{"the metadata service", "fetch", `{"url":"https://169.254.169.254/latest/meta-data/"}`, deny, deny},

		{"a deployment", "deploy_service", `{"service":"api"}`, ask, ask},
		{"what cannot be undone", "delete_service", `{"service":"api"}`, deny, deny},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NotNil(t, known[row.tool])
			rulvartest.RequireVerdict(t, all["reader"], known[row.tool], json.RawMessage(row.input), row.reader)
			rulvartest.RequireVerdict(t, all["releaser"], known[row.tool], json.RawMessage(row.input), row.releaser)
		})
	}
}

// A rule that names no tool has stopped working, as after a tool was renamed.
func TestEveryRuleNamesATool(t *testing.T) {
	all, err := chains()
	require.NoError(t, err)
	known, err := tools()
	require.NoError(t, err)
	var list []*rulvar.Tool
	for _, tool := range known {
		list = append(list, tool)
	}
	for name, chain := range all {
		require.Empty(t, chain.UnmatchedRules(list), name)
	}
}

// No hook opens what a deny rule closes, whatever it says.
func TestHooksDoNotBeatDenyRules(t *testing.T) {
	policy, err := enginePolicy()
	require.NoError(t, err)
	policy.Hooks = append(policy.Hooks, func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return rulvar.Allow(), nil })
	chain, err := rulvar.CompilePermissionChain(policy, profiles["releaser"], nil)
	require.NoError(t, err)
	known, err := tools()
	require.NoError(t, err)
	rulvartest.RequireVerdict(t, chain, known["delete_service"], serviceInput{"api"}, rulvar.VerdictDeny)
	rulvartest.RequireVerdict(t, chain, known["shell"], shellInput{"rm -rf build"}, rulvar.VerdictDeny)
	rulvartest.RequireVerdict(t, chain, known["deploy_service"], serviceInput{"api"}, rulvar.VerdictAsk)
}

func TestTable(t *testing.T) {
	var out strings.Builder
	require.NoError(t, table(&out))
	require.Equal(t, 2*len(shownCalls)+2, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "domain-denied: vault.internal.example.com:443")
}
