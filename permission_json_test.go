package rulvar_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

func TestPolicyFileRoundTrip(t *testing.T) {
	const text = `{"deny":[{"risk":"destructive"},{"tool":"shell","argv":"rm **"}],"ask":[{"tool":["deploy_service","send_email"]}],` +
		`"hookAllow":"advisory","strictApprovals":true,"approvalDeadlineMs":60000,"preset":"standard","inheritPermissions":true}`
	var p rulvar.AgentProfilePermissions
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	require.Equal(t, time.Minute, p.ApprovalDeadline)
	require.Equal(t, rulvar.PresetStandard, p.Preset)
	require.True(t, p.StrictApprovals && p.InheritPermissions)
	back, err := json.Marshal(p)
	require.NoError(t, err)
	require.Equal(t, text, string(back))

	var c rulvar.PermissionConfig
	require.NoError(t, json.Unmarshal([]byte(`{"hookAllow":"decisive","ask":[]}`), &c))
	require.Equal(t, rulvar.HookAllowDecisive, c.HookAllow)
	back, err = json.Marshal(&c)
	require.NoError(t, err)
	require.Equal(t, `{"hookAllow":"decisive"}`, string(back))
}

func TestPolicyFileRefusals(t *testing.T) {
	for _, row := range []struct{ name, text, path string }{
		{"null", `null`, "engine"},
		{"array", `[]`, "engine"},
		{"misspelt member", `{"denny":[]}`, "engine.denny"},
		{"member in capitals", `{"Deny":[]}`, "engine.Deny"},
		{"repeated member", `{"deny":[{"tool":"a"}],"deny":[]}`, "engine"},
		{"deny is null", `{"deny":null}`, "engine.deny"},
		{"deny is one rule", `{"deny":{"tool":"a"}}`, "engine.deny"},
		{"null rule", `{"deny":[null]}`, "engine.deny[0]"},
		{"bad rule", `{"deny":[{"tool":"a"},{"tool":"b"},{"tool":"sh","argv":"** x"}]}`, "engine.deny[2].argv"},
		{"unknown rule key", `{"ask":[{"tool":"a"},{"tools":"b"}]}`, "engine.ask[1].tools"},
		{"strictApprovals as text", `{"strictApprovals":"true"}`, "engine.strictApprovals"},
		{"strictApprovals as a number", `{"strictApprovals":1}`, "engine.strictApprovals"},
		{"strictApprovals null", `{"strictApprovals":null}`, "engine.strictApprovals"},
		{"strictApprovals list", `{"strictApprovals":[true]}`, "engine.strictApprovals"},
		{"deadline zero", `{"approvalDeadlineMs":0}`, "engine.approvalDeadlineMs"},
		{"deadline negative", `{"approvalDeadlineMs":-1}`, "engine.approvalDeadlineMs"},
		{"deadline broken", `{"approvalDeadlineMs":1.5}`, "engine.approvalDeadlineMs"},
		{"deadline as text", `{"approvalDeadlineMs":"60000"}`, "engine.approvalDeadlineMs"},
		{"deadline null", `{"approvalDeadlineMs":null}`, "engine.approvalDeadlineMs"},
		{"deadline beyond a hundred years", `{"approvalDeadlineMs":3155760000001}`, "engine.approvalDeadlineMs"},
		{"deadline beyond int64", `{"approvalDeadlineMs":1e21}`, "engine.approvalDeadlineMs"},
		{"unknown hookAllow", `{"hookAllow":"Advisory"}`, "engine.hookAllow"},
		{"empty hookAllow", `{"hookAllow":""}`, "engine.hookAllow"},
		{"hookAllow of another type", `{"hookAllow":true}`, "engine.hookAllow"},
		{"hooks", `{"hooks":[]}`, "engine.hooks"},
		{"canUseTool", `{"canUseTool":"allow"}`, "engine.canUseTool"},
		{"preset in the engine's layer", `{"preset":"strict"}`, "engine.preset"},
		{"inheritPermissions in the engine's layer", `{"inheritPermissions":true}`, "engine.inheritPermissions"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("kept")}}
			requireConfigError(t, json.Unmarshal([]byte(row.text), &c), row.path)
			require.Len(t, c.Deny, 1, "a refused file must not change the value")
			require.Equal(t, `{"tool":"kept"}`, c.Deny[0].String())
		})
	}
	for _, row := range []struct{ name, text, path string }{
		{"unknown preset", `{"preset":"Strict"}`, "profile.preset"},
		{"empty preset", `{"preset":""}`, "profile.preset"},
		{"null preset", `{"preset":null}`, "profile.preset"},
		{"inheritPermissions as text", `{"inheritPermissions":"true"}`, "profile.inheritPermissions"},
		{"bad rule", `{"ask":[{"risk":"bogus"}]}`, "profile.ask[0].risk"},
	} {
		t.Run("profile "+row.name, func(t *testing.T) {
			var p rulvar.AgentProfilePermissions
			requireConfigError(t, json.Unmarshal([]byte(row.text), &p), row.path)
		})
	}
}

// What is not in the file stays: a policy file read over closures keeps them.
func TestPolicyFileKeepsClosures(t *testing.T) {
	c := rulvar.PermissionConfig{
		Hooks:      []rulvar.PermissionHook{hookOf(rulvar.Deny("no"))},
		CanUseTool: canUseOf(rulvar.Allow()),
		Deny:       []rulvar.Rule{rulvar.ToolRule("a")},
	}
	require.NoError(t, json.Unmarshal([]byte(`{"ask":[{"tool":"b"}]}`), &c))
	require.Len(t, c.Hooks, 1)
	require.NotNil(t, c.CanUseTool)
	require.Len(t, c.Deny, 1)
	require.Len(t, c.Ask, 1)
}

func TestPolicyThatCannotBeWritten(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy rulvar.AgentProfilePermissions
		path   string
	}{
		{"hooks", rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{hookOf(rulvar.Allow())}}}, "profile.hooks"},
		{"canUseTool", rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{CanUseTool: canUseOf(rulvar.Allow())}}, "profile.canUseTool"},
		{"wrong rule", rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{Ask: []rulvar.Rule{rulvar.ToolRule()}}}, "profile.ask[0].tool"},
		{"broken deadline", rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{ApprovalDeadline: 1500 * time.Microsecond}}, "profile.approvalDeadlineMs"},
		{"unknown preset", rulvar.AgentProfilePermissions{Preset: "loose"}, "profile.preset"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := json.Marshal(row.policy)
			requireConfigError(t, err, row.path)
		})
	}
}

func FuzzPermissionConfigJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"deny":[{"risk":"destructive"}],"ask":[{"tool":["a","b"]}],"hookAllow":"advisory"}`,
		`{"strictApprovals":"true"}`, `{"approvalDeadlineMs":1e3}`, `{"preset":"strict","inheritPermissions":true}`,
		`{"deny":[{"tool":"sh","argv":["rm **"]}],"deny":[]}`, `{"hooks":[]}`, `null`, `{"approvalDeadlineMs":9007199254740993}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p rulvar.AgentProfilePermissions
		if err := p.UnmarshalJSON(data); err != nil {
			require.ErrorIs(t, err, rulvar.ErrConfig)
			return
		}
		text, err := p.MarshalJSON()
		require.NoError(t, err)
		var again rulvar.AgentProfilePermissions
		require.NoError(t, again.UnmarshalJSON(text), "%s", text)
		twice, err := again.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(text), string(twice))
		_, err = rulvar.CompilePermissionChain(&p.PermissionConfig, &p, nil)
		require.NoError(t, err, "what unmarshals must compile")
	})
}
