package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustCompile(t testing.TB, engine *PermissionConfig, profile *AgentProfilePermissions, inherited *PermissionChain) *PermissionChain {
	t.Helper()
	c, err := CompilePermissionChain(engine, profile, inherited)
	require.NoError(t, err)
	return c
}

// Readonly isolation is the last deny rule, reaches a child that opts in, and
// leaves tools without a declared risk alone.
func TestReadonlyRule(t *testing.T) {
	profile := &AgentProfilePermissions{PermissionConfig: PermissionConfig{Deny: []Rule{ToolRule("a")}}, Preset: PresetStrict}
	base := mustCompile(t, nil, profile, nil)
	c := base.withReadonly()
	require.Len(t, base.all.deny, 2, "the chain it was made from is unchanged")
	require.Equal(t, `{"risk":["write","destructive"]}`, c.all.deny[2].rule.String())

	call := Call{Input: json.RawMessage(`{}`)}
	for _, row := range []struct {
		name  string
		chain *PermissionChain
		risk  Risk
		want  Verdict
		layer Layer
	}{
		{"write", c, RiskWrite, VerdictDeny, LayerIsolation},
		{"destructive is the preset's first", c, RiskDestructive, VerdictDeny, LayerPreset},
		{"read", c, RiskRead, VerdictAllow, ""},
		{"undeclared is not blocked by it", mustCompile(t, nil, nil, nil).withReadonly(), RiskUndeclared, VerdictAllow, ""},
		{"child that opts in", mustCompile(t, nil, &AgentProfilePermissions{InheritPermissions: true}, c), RiskWrite, VerdictDeny, LayerInherited},
		{"child that does not", mustCompile(t, nil, &AgentProfilePermissions{}, c), RiskWrite, VerdictAllow, ""},
		{"nil chain", (*PermissionChain)(nil).withReadonly(), RiskRead, VerdictDeny, ""},
		{"zero chain", (&PermissionChain{}).withReadonly(), RiskRead, VerdictDeny, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.chain.Evaluate(nil, benchTool(t, "t", row.risk), call)
			require.Equal(t, row.want, got.Verdict, "%s", got)
			require.Equal(t, row.layer, got.Layer)
		})
	}

	t.Run("a hook's allow yields to it only under advisory", func(t *testing.T) {
		allow := []PermissionHook{func(*ToolContext, Call) (Decision, error) { return Allow(), nil }}
		tool := benchTool(t, "t", RiskDestructive)
		decisive := mustCompile(t, &PermissionConfig{Hooks: allow}, nil, nil).withReadonly()
		require.Equal(t, VerdictAllow, decisive.Evaluate(nil, tool, call).Verdict)
		advisory := mustCompile(t, &PermissionConfig{Hooks: allow, HookAllow: HookAllowAdvisory}, nil, nil).withReadonly()
		got := advisory.Evaluate(nil, tool, call)
		require.Equal(t, VerdictDeny, got.Verdict)
		require.Equal(t, LayerIsolation, got.Layer)
	})
}

// What failed in a closure goes to the log, with its place, and nowhere else.
func TestClosureFailuresAreLogged(t *testing.T) {
	var logged []any
	tc := &ToolContext{Context: context.Background(), log: func(level slog.Level, msg string, data ...any) {
		require.Equal(t, slog.LevelError, level)
		logged = append(logged, data...)
	}}
	boom := func(*ToolContext, Call) (Decision, error) { panic("secret detail") }
	pass := func(*ToolContext, Call) (Decision, error) { return Pass(), nil }
	c := mustCompile(t, &PermissionConfig{Hooks: []PermissionHook{pass, boom}}, nil, nil)
	got := c.Evaluate(tc, benchTool(t, "t", RiskRead), Call{Input: json.RawMessage(`{}`)})
	require.Equal(t, reasonPolicyError, got.Reason)
	require.NotContains(t, got.String(), "secret")
	text := fmt.Sprint(logged...)
	for _, want := range []string{"secret detail", "hook", "engine", "rejudge_internal_test.go"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 1, logged[7], "the second hook")
}

// A recorded grant is read against the deny table again, in both modes, and
// whatever hooks say.
func TestDenies(t *testing.T) {
	allow := []PermissionHook{func(*ToolContext, Call) (Decision, error) { return Allow(), nil }}
	c := mustCompile(t, &PermissionConfig{
		Hooks: allow,
		Deny:  []Rule{ArgvRule("sh", "rm **"), ToolRule("edit"), RiskRule(RiskDestructive)},
		Ask:   []Rule{ToolRule("view"), ArgvRule("sh", "ls")},
	}, nil, nil)
	for _, row := range []struct {
		name  string
		tool  *Tool
		input string
		rule  string
	}{
		{"argv rule", benchTool(t, "sh", RiskExecute), `{"command":"ls; rm x"}`, `{"tool":"sh","argv":"rm **"}`},
		{"other command", benchTool(t, "sh", RiskExecute), `{"command":"ls"}`, ""},
		{"a doubt does not take an approval back", benchTool(t, "sh", RiskExecute), `{"command":"ls $(x)"}`, ""},
		{"no command", benchTool(t, "sh", RiskExecute), `{}`, ""},
		{"tool rule", benchTool(t, "edit", RiskRead), `{}`, `{"tool":"edit"}`},
		{"risk rule", benchTool(t, "x", RiskDestructive), `{}`, `{"risk":"destructive"}`},
		{"ask rules do not matter", benchTool(t, "view", RiskRead), `{}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, denied := c.denies(row.tool, json.RawMessage(row.input))
			require.Equal(t, row.rule != "", denied, "%s", got)
			if denied {
				require.Equal(t, VerdictDeny, got.Verdict)
				require.Equal(t, DecidedByDenyRule, got.DecidedBy)
				require.Equal(t, row.rule, got.Rule.String())
				require.Equal(t, row.input, string(got.Input))
			}
		})
	}
	_, denied := (*PermissionChain)(nil).denies(benchTool(t, "t", RiskRead), json.RawMessage(`{}`))
	require.True(t, denied, "no chain denies")
	_, denied = c.denies(nil, json.RawMessage(`{}`))
	require.True(t, denied, "no tool denies")
}

func TestJudgeArgv(t *testing.T) {
	c := mustCompile(t, &PermissionConfig{
		Deny: []Rule{ArgvRule("sh", "rm **"), ToolRule("sh")},
		Ask:  []Rule{ArgvRule("sh", "git push **"), ArgvRule("sh", "curl **")},
	}, nil, nil)
	for _, row := range []struct {
		name string
		tool string
		argv []string
		want Verdict
		rule string
	}{
		{"deny", "sh", []string{"rm", "-rf", "/x"}, VerdictDeny, `{"tool":"sh","argv":"rm **"}`},
		{"ask", "sh", []string{"git", "push", "--force"}, VerdictAsk, `{"tool":"sh","argv":"git push **"}`},
		{"the tool's name alone is no argv rule", "sh", []string{"ls"}, VerdictPass, ""},
		{"a word is a word", "sh", []string{"echo", "; rm x", "$(rm x)", "it's"}, VerdictPass, ""},
		{"another tool", "bash", []string{"rm"}, VerdictPass, ""},
		{"nothing to start", "sh", nil, VerdictDeny, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, rule := c.judgeArgv(row.tool, row.argv)
			require.Equal(t, row.want, v)
			if row.rule == "" {
				require.True(t, rule.IsZero())
			} else {
				require.Equal(t, row.rule, rule.String())
			}
		})
	}
	v, _ := (*PermissionChain)(nil).judgeArgv("sh", []string{"ls"})
	require.Equal(t, VerdictDeny, v)
}

func TestJudgeHost(t *testing.T) {
	c := mustCompile(t, &PermissionConfig{
		Deny: []Rule{DomainRule("fetch", "evil.example.com", "*.bad.test", "[2001:DB8::1]", "203.0.113.7:8080")},
		Ask:  []Rule{DomainRule("fetch", "*.Example.com", "partner.org:8443", "evil.example.com"), DomainRule("any", "*")},
	}, nil, nil)
	for _, row := range []struct {
		name, tool, host string
		want             Verdict
	}{
		{"exact", "fetch", "evil.example.com", VerdictDeny},
		{"case and the trailing dot do not matter", "fetch", "EVIL.example.com.", VerdictDeny},
		{"any port", "fetch", "evil.example.com:8443", VerdictDeny},
		{"subdomain", "fetch", "a.bad.test", VerdictDeny},
		{"subdomain at depth", "fetch", "a.b.bad.test", VerdictDeny},
		{"not the host itself", "fetch", "bad.test", VerdictPass},
		{"not a longer name", "fetch", "notbad.test", VerdictPass},
		{"not a name it begins", "fetch", "a.bad.test.attacker.net", VerdictPass},
		{"ask by wildcard", "fetch", "pay.example.com", VerdictAsk},
		{"not the apex", "fetch", "example.com", VerdictPass},
		{"ask on the port", "fetch", "partner.org:8443", VerdictAsk},
		{"not on another port", "fetch", "partner.org:443", VerdictPass},
		{"an unknown port counts", "fetch", "partner.org", VerdictAsk},
		{"address in another spelling", "fetch", "[2001:db8:0::1]:443", VerdictDeny},
		{"address and port", "fetch", "203.0.113.7:8080", VerdictDeny},
		{"star", "any", "anything.test", VerdictAsk},
		{"other tool", "mail", "evil.example.com", VerdictPass},
		{"empty", "mail", "", VerdictDeny},
		{"two trailing dots", "fetch", "example.com..", VerdictDeny},
		{"not ASCII", "fetch", "еvil.example.com", VerdictDeny},
		{"a URL", "fetch", "https://example.com", VerdictDeny},
		{"bad port", "fetch", "example.com:99999", VerdictDeny},
		{"zone", "fetch", "[fe80::1%25eth0]", VerdictDeny},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, rule := c.judgeHost(row.tool, row.host)
			require.Equal(t, row.want, v)
			if v == VerdictAsk {
				require.False(t, rule.IsZero())
			}
		})
	}
	v, _ := (*PermissionChain)(nil).judgeHost("fetch", "example.com")
	require.Equal(t, VerdictDeny, v)
}
