package rulvar_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// Inputs and results are in events on request alone, and then without secrets.
func TestEventContent(t *testing.T) {
	secret := "ghp_0123456789abcdefghijklmnopqrstuv"
	say := literalTool(t, rulvar.ToolConfig{Name: "say"}, anyObject, nil, map[string]any{"said": secret, "n": 1})
	deny := &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("no")}}
	no := literalTool(t, rulvar.ToolConfig{Name: "no"}, anyObject, nil, 1)
	turns := []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "say", Args: map[string]string{"text": secret}}, {Tool: "no", Args: map[string]int{"a": 1}}}},
		{Text: "done"},
	}
	opts := &rulvar.AgentOptions{Tools: []rulvar.ToolSource{say, no}}
	for _, content := range []bool{false, true} {
		p := runProbe(t, rulvar.Config{EventContent: content, Permissions: deny}, opts, turns...)
		require.NoError(t, p.err)
		var ends []rulvar.ToolEnded
		for _, ev := range p.events {
			if b, ok := ev.Body.(rulvar.ToolEnded); ok {
				ends = append(ends, b)
			}
		}
		require.Len(t, ends, 2)
		if !content {
			require.Nil(t, ends[0].Input)
			require.Nil(t, ends[0].Result)
			continue
		}
		require.JSONEq(t, `{"text":"[masked-secret]"}`, string(ends[0].Input))
		require.JSONEq(t, `{"said":"[masked-secret]","n":1}`, string(ends[0].Result))
		require.JSONEq(t, `{"a":1}`, string(ends[1].Input))
		require.Contains(t, string(ends[1].Result), "denied by policy")
	}
}

// After each answer of a model it is told what is spent and what is left.
func TestBudgetEvents(t *testing.T) {
	p := runProbe(t, rulvar.Config{Pricing: map[string]llm.Pricing{"test:m": {InputUSD: 1, OutputUSD: 10}}}, nil,
		rulvartest.Turn{Text: "done", Usage: &llm.Usage{InputTokens: 1000, OutputTokens: 100}})
	require.NoError(t, p.err)
	var told []rulvar.BudgetUpdated
	for _, ev := range p.events {
		if b, ok := ev.Body.(rulvar.BudgetUpdated); ok {
			require.NotEqual(t, p.events[0].SpanID, ev.SpanID, "it is on the agent's span")
			told = append(told, b)
		}
	}
	require.Len(t, told, 1)
	require.InDelta(t, 0.002, told[0].SpentUSD, 1e-12)
	require.Nil(t, told[0].RemainingUSD)
	require.EqualValues(t, 1000, told[0].Usage.InputTokens)
}
