package rulvar_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

// The table of the presets, cell by cell, through a chain.
func TestPresetTable(t *testing.T) {
	const allow, ask, deny = rulvar.VerdictAllow, rulvar.VerdictAsk, rulvar.VerdictDeny
	for _, row := range []struct {
		risk                   rulvar.Risk
		strict, standard, open rulvar.Verdict
	}{
		{rulvar.RiskRead, allow, allow, allow},
		{rulvar.RiskWrite, ask, allow, allow},
		{rulvar.RiskNetwork, ask, ask, allow},
		{rulvar.RiskExecute, ask, ask, allow},
		{rulvar.RiskDestructive, deny, ask, allow},
		{rulvar.RiskUndeclared, ask, ask, allow},
	} {
		for preset, want := range map[rulvar.Preset]rulvar.Verdict{
			rulvar.PresetStrict: row.strict, rulvar.PresetStandard: row.standard, rulvar.PresetOpen: row.open,
		} {
			t.Run(string(preset)+" "+string(row.risk), func(t *testing.T) {
				chain := mustChain(t, nil, &rulvar.AgentProfilePermissions{Preset: preset})
				got := evaluate(t, chain, policyTool(t, "t", row.risk, false), `{}`)
				require.Equal(t, want, got.Verdict, "%s", got)
				// A preset never clears a tool that needs approval.
				got = evaluate(t, chain, policyTool(t, "t", row.risk, true), `{}`)
				require.Equal(t, max(severity(want), severity(ask)), severity(got.Verdict), "%s", got)
			})
		}
	}
}

func TestUnknownPresetsAreRefused(t *testing.T) {
	for _, name := range []rulvar.Preset{"", "Strict", "none", "strict "} {
		_, _, err := rulvar.CompilePermissionPreset(name)
		requireConfigError(t, err, "preset")
	}
	_, err := rulvar.CompilePermissionChain(nil, &rulvar.AgentProfilePermissions{Preset: "Strict"}, nil)
	requireConfigError(t, err, "profile.preset")
}

// The compiled rules can be extended and put into a table of one's own.
func TestPresetRulesCanBeExtended(t *testing.T) {
	deny, ask, err := rulvar.CompilePermissionPreset(rulvar.PresetStrict)
	require.NoError(t, err)
	chain := mustChain(t, &rulvar.PermissionConfig{Deny: append(deny, rulvar.ToolRule("send_email")), Ask: ask}, nil)
	require.Equal(t, rulvar.VerdictDeny, evaluate(t, chain, policyTool(t, "send_email", rulvar.RiskRead, false), `{}`).Verdict)
	got, err := rulvar.EvaluatePermissionByName(context.Background(), chain, "deploy", nil)
	require.NoError(t, err)
	require.Equal(t, rulvar.VerdictAsk, got.Verdict)
	require.Equal(t, `{"risk":"undeclared"}`, got.Rule.String())
}
