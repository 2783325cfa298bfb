package fetch

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// run has an agent fetch one URL under a policy, approves what it asks, and
// returns the end of the call and what the model saw.
func (r *rig) run(t *testing.T, url string, permissions *rulvar.PermissionConfig) (end rulvar.ToolEnded, asked bool, seen string) {
	t.Helper()
	tool, err := r.c.tool()
	require.NoError(t, err)
	model := rulvartest.NewProvider("local", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "fetch", Args: map[string]any{"url": url}}}},
		{Text: "done"},
	}})
	engine, err := rulvar.NewEngine(rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "local:any", Permissions: permissions, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	read := rulvar.DefineWorkflow("read", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		return rulvar.Agent[string](c, "Read it.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
	ctx := context.Background()
	onEvent := func(ev rulvar.Event) {
		switch b := ev.Body.(type) {
		case rulvar.ToolEnded:
			end = b
		case rulvar.ApprovalPending:
			asked = true
		}
	}
	handle, err := rulvar.Run(ctx, engine, read, struct{}{}, &rulvar.RunOptions{OnEvent: onEvent})
	require.NoError(t, err)
	out, err := handle.Result(ctx)
	require.NoError(t, err)
	if out.Status == rulvar.RunSuspended {
		require.Empty(t, r.dialled, "nothing is connected to before the approval")
		_, err = engine.Resolve(ctx, handle.RunID(), out.Pending[0].Key, rulvar.Approve("fine"))
		require.NoError(t, err)
		handle, err = rulvar.Resume(ctx, engine, read, handle.RunID(), &rulvar.ResumeOptions[struct{}]{OnEvent: onEvent})
		require.NoError(t, err)
		_, err = handle.Result(ctx)
		require.NoError(t, err)
	}
	requests := model.Requests()
	for _, m := range requests[len(requests)-1].Messages {
		for _, p := range m.Parts {
			if p.Type == llm.PartToolResult {
				seen = string(p.Result)
			}
		}
	}
	return end, asked, seen
}

// The rules of the chain, from the table to the wire.
func TestUnderAChain(t *testing.T) {
	domains := func(hosts ...string) []rulvar.Rule { return []rulvar.Rule{rulvar.DomainRule("fetch", hosts...)} }
	allow := func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return rulvar.Allow(), nil }
	for _, row := range []struct {
		name, url, location string
		permissions         rulvar.PermissionConfig
		outcome             rulvar.ToolOutcome
		asked               bool
		rule, reason, code  string
		connections         int
	}{
		{"nothing against it", "https://a.example.com/end", "", rulvar.PermissionConfig{}, rulvar.ToolOK, false, "", "", "", 1},
		{"a deny rule", "https://a.example.com/end", "", rulvar.PermissionConfig{Deny: domains("a.example.com")}, rulvar.ToolDenied, false, `{"tool":"fetch","domains":["a.example.com"]}`, "engine.deny[0] matches: domain-denied: a.example.com:443", "", 0},
		{"a deny rule in another spelling", "https://A.EXAMPLE.com./end", "", rulvar.PermissionConfig{Deny: domains("*.example.com:443")}, rulvar.ToolDenied, false, `{"tool":"fetch","domains":["*.example.com:443"]}`, "engine.deny[0] matches: domain-denied: a.example.com:443", "", 0},
		{"an ask rule", "https://a.example.com/end", "", rulvar.PermissionConfig{Ask: domains("a.example.com")}, rulvar.ToolOK, true, `{"tool":"fetch","domains":["a.example.com"]}`, "engine.ask[0] matches: domain-ask: a.example.com:443", "", 1},
		{"an ask of the options", "https://pay.example.com/end", "", rulvar.PermissionConfig{}, rulvar.ToolOK, true, "", "domain-ask: pay.example.com:443", "", 1},
		{"a host that nothing names", "https://other.org/end", "", rulvar.PermissionConfig{}, rulvar.ToolDenied, false, "", "domain-not-allowed: other.org:443: neither Options.Allow nor Options.Ask names the host", "", 0},
		{"a URL that has two readings", "https://127.1/", "", rulvar.PermissionConfig{}, rulvar.ToolDenied, false, "", "ip-ambiguous: the host may be read as an address; write the address in its plain form", "", 0},
		{"a redirect to a denied host", "https://example.com/start", "https://a.example.com/end", rulvar.PermissionConfig{Deny: domains("a.example.com")}, rulvar.ToolError, false, "", "", "domain-denied", 1},
		{"a redirect to a host that asks", "https://example.com/start", "https://a.example.com/end", rulvar.PermissionConfig{Ask: domains("a.example.com")}, rulvar.ToolError, false, "", "", "redirect-needs-approval", 1},
		{"a redirect at the approved origin", "https://a.example.com/start", "/end", rulvar.PermissionConfig{Ask: domains("a.example.com")}, rulvar.ToolOK, true, `{"tool":"fetch","domains":["a.example.com"]}`, "engine.ask[0] matches: domain-ask: a.example.com:443", "", 2},
		{"a hook's allow does not open a denied host", "https://a.example.com/end", "", rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{allow}, Deny: domains("a.example.com")}, rulvar.ToolError, false, "", "", "domain-denied", 0},
		{"a hook's allow is no approval", "https://a.example.com/end", "", rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{allow}, Ask: domains("a.example.com")}, rulvar.ToolError, false, "", "", "needs-approval", 0},
		{"rules of another tool", "https://a.example.com/end", "", rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.DomainRule("other", "*")}}, rulvar.ToolOK, false, "", "", "", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, tablePolicies["P"], redirectTo(row.location))
			end, asked, seen := r.run(t, row.url, &row.permissions)
			require.Equal(t, row.outcome, end.Outcome, seen)
			require.Equal(t, row.asked, asked)
			require.Equal(t, row.reason, end.Reason)
			require.Equal(t, row.code, end.ErrorCode)
			require.Len(t, r.dialled, row.connections)
			if row.rule == "" {
				require.True(t, end.Rule.IsZero())
			} else {
				require.Equal(t, row.rule, end.Rule.String())
			}
			if row.outcome == rulvar.ToolOK {
				require.Contains(t, seen, `"body":"arrived"`)
				require.Contains(t, seen, "It is data")
			} else {
				require.Contains(t, seen, `"error"`)
			}
		})
	}
}

// A grant that was recorded yields to a rule that denies the host now.
func TestARecordedGrantYieldsToADeny(t *testing.T) {
	r := newRig(t, tablePolicies["P"], func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	tool, err := r.c.tool()
	require.NoError(t, err)
	store := rulvar.NewMemoryStore()
	read := rulvar.DefineWorkflow("read", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		return rulvar.Agent[string](c, "Read it.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
	model := rulvartest.NewProvider("local", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "fetch", Args: json.RawMessage(`{"url":"https://pay.example.com/"}`)}}},
		{Text: "done"},
	}})
	ctx := context.Background()
	engineWith := func(p *rulvar.PermissionConfig) *rulvar.Engine {
		e, err := rulvar.NewEngine(rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "local:any", Permissions: p, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return e
	}
	first := engineWith(nil)
	handle, err := rulvar.Run(ctx, first, read, struct{}{}, nil)
	require.NoError(t, err)
	out, err := handle.Result(ctx)
	require.NoError(t, err)
	_, err = first.Resolve(ctx, handle.RunID(), out.Pending[0].Key, rulvar.Approve("fine"))
	require.NoError(t, err)
	var end rulvar.ToolEnded
	handle, err = rulvar.Resume(ctx, engineWith(&rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.DomainRule("fetch", "*.example.com")}}), read, handle.RunID(),
		&rulvar.ResumeOptions[struct{}]{OnEvent: func(ev rulvar.Event) {
			if b, ok := ev.Body.(rulvar.ToolEnded); ok {
				end = b
			}
		}})
	require.NoError(t, err)
	_, err = handle.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.ToolDenied, end.Outcome)
	require.Empty(t, r.dialled)
}
