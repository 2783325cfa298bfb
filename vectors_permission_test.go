package rulvar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/errs"
)

// policyVector is a case of permission_chain.json, a call under layers of
// policy, or of presets.json, the rules that layers and presets come to.
type policyVector struct {
	Kind    string
	Preset  rulvar.Preset
	Engine  map[string]json.RawMessage
	Profile map[string]json.RawMessage
	Tool    json.RawMessage
	Input   json.RawMessage
	Expect  json.RawMessage

	got   policyOutcome                     // what came of it here
	again func(*policyVector) policyOutcome // runs a changed case
}

var permissionVectors = newVectorSuite("permission_chain", (*policyVector).judge, permissionRules)

var presetVectors = func() vectorSuite {
	s := newVectorSuite("presets", (*policyVector).compile, presetRules)
	s.exact = true
	return s
}()

// policyOutcome is what a case came to, here or in the reference.
type policyOutcome struct {
	Error     string          `json:"error,omitempty"`
	Verdict   rulvar.Verdict  `json:"verdict,omitempty"`
	DecidedBy string          `json:"decidedBy,omitempty"`
	Rule      json.RawMessage `json:"rule,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Advisory  json.RawMessage `json:"advisory,omitempty"`
	Trace     []stubCall      `json:"trace,omitempty"`
}

// stubCall is one call of a stub: which closure saw which input.
type stubCall struct {
	Call  string          `json:"call"`
	Layer rulvar.Layer    `json:"layer"`
	Index *int            `json:"index,omitempty"`
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
}

// stubs builds the closures of a case and writes down their calls.
type stubs struct{ calls []stubCall }

func (s *stubs) note(call string, layer rulvar.Layer, index *int, c rulvar.Call) {
	s.calls = append(s.calls, stubCall{call, layer, index, c.Tool, c.Input})
}

// decision is what a stub answers: a word, or {"modifiedInput": …}.
func stubDecision(answer json.RawMessage) (rulvar.Decision, error) {
	var word rulvar.Verdict
	if json.Unmarshal(answer, &word) == nil {
		return rulvar.Decision{Verdict: word}, nil
	}
	var form struct {
		ModifiedInput json.RawMessage `json:"modifiedInput"`
	}
	err := json.Unmarshal(answer, &form)
	return rulvar.ModifyInput(form.ModifiedInput), err
}

func (s *stubs) hooks(t *testing.T, layer rulvar.Layer, text json.RawMessage) (out []rulvar.PermissionHook) {
	var list []struct {
		Tool          string          `json:"tool"`
		Verdict       json.RawMessage `json:"verdict"`
		ModifiedInput json.RawMessage `json:"modifiedInput"`
	}
	if text != nil {
		require.NoError(t, json.Unmarshal(text, &list))
	}
	for i, h := range list {
		out = append(out, func(_ *rulvar.ToolContext, c rulvar.Call) (rulvar.Decision, error) {
			s.note("hook", layer, &i, c)
			switch {
			case h.Tool != "*" && h.Tool != c.Tool:
				return rulvar.Decision{}, nil
			case h.Verdict != nil:
				return stubDecision(h.Verdict)
			}
			return rulvar.ModifyInput(h.ModifiedInput), nil
		})
	}
	return out
}

func (s *stubs) canUse(t *testing.T, layer rulvar.Layer, text json.RawMessage) rulvar.CanUseTool {
	if text == nil {
		return nil
	}
	var byTool map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &byTool))
	return func(_ *rulvar.ToolContext, c rulvar.Call) (rulvar.Decision, error) {
		s.note("canUseTool", layer, nil, c)
		answer, ok := byTool[c.Tool]
		if !ok {
			answer = byTool["*"]
		}
		return stubDecision(answer)
	}
}

// declarative is a layer without its stubs, as a policy file would have it.
func declarative(t *testing.T, layer map[string]json.RawMessage) []byte {
	rest := map[string]json.RawMessage{}
	for k, v := range layer {
		if k != "hooks" && k != "canUseTool" {
			rest[k] = v
		}
	}
	text, err := json.Marshal(rest)
	require.NoError(t, err)
	return text
}

// chain reads the layers of a case through the public JSON form and compiles
// them.
func (v *policyVector) chain(t *testing.T, s *stubs) (*rulvar.PermissionChain, error) {
	var engine *rulvar.PermissionConfig
	var profile *rulvar.AgentProfilePermissions
	if v.Engine != nil {
		engine = &rulvar.PermissionConfig{}
		if err := json.Unmarshal(declarative(t, v.Engine), engine); err != nil {
			return nil, err
		}
		engine.Hooks = s.hooks(t, rulvar.LayerEngine, v.Engine["hooks"])
		engine.CanUseTool = s.canUse(t, rulvar.LayerEngine, v.Engine["canUseTool"])
	}
	if v.Profile != nil {
		profile = &rulvar.AgentProfilePermissions{}
		if err := json.Unmarshal(declarative(t, v.Profile), profile); err != nil {
			return nil, err
		}
		profile.Hooks = s.hooks(t, rulvar.LayerProfile, v.Profile["hooks"])
		profile.CanUseTool = s.canUse(t, rulvar.LayerProfile, v.Profile["canUseTool"])
	}
	return rulvar.CompilePermissionChain(engine, profile, nil)
}

// evaluate runs the case; an error is an outcome.
func (v *policyVector) evaluate(t *testing.T) policyOutcome {
	var s stubs
	chain, err := v.chain(t, &s)
	if err != nil {
		require.ErrorIs(t, err, rulvar.ErrConfig)
		return policyOutcome{Error: "config"}
	}
	got, err := v.dryRun(t, chain)
	if err != nil {
		code := errs.CodeOf(err)
		require.Contains(t, []rulvar.Code{rulvar.ErrConfig, rulvar.ErrInvalidArguments}, code, "%v", err)
		return policyOutcome{Error: string(code)}
	}
	out := policyOutcome{Verdict: got.Verdict, DecidedBy: string(got.DecidedBy), Input: got.Input, Trace: s.calls}
	if !got.Rule.IsZero() {
		out.Rule = json.RawMessage(got.Rule.String())
	}
	if got.Advisory != nil {
		out.Advisory, err = json.Marshal(got.Advisory)
		require.NoError(t, err)
	}
	require.Equal(t, s.seen(), tracedClosures(got.Trace), "the trace tells of other closures than were called")
	return out
}

// seen lists the layers of the closures that were called, with their inputs.
func (s *stubs) seen() (out []string) {
	for _, c := range s.calls {
		out = append(out, string(c.Layer)+" "+string(c.Input))
	}
	return out
}

func tracedClosures(trace []rulvar.TraceStep) (out []string) {
	for _, step := range trace {
		if step.Step == "hook" || step.Step == "canUseTool" {
			out = append(out, string(step.Layer)+" "+string(step.Input))
		}
	}
	return out
}

// dryRun judges the call of the case: of a tool, or of a name alone.
func (v *policyVector) dryRun(t *testing.T, chain *rulvar.PermissionChain) (rulvar.Evaluation, error) {
	var name string
	if json.Unmarshal(v.Tool, &name) == nil {
		return rulvar.EvaluatePermissionByName(context.Background(), chain, name, v.Input)
	}
	tool := recordedTool{"description": json.RawMessage(`"d"`), "parameters": json.RawMessage(`{}`)}
	require.NoError(t, json.Unmarshal(v.Tool, &tool))
	defined, err := tool.define(t)
	if err != nil {
		return rulvar.Evaluation{}, err
	}
	return rulvar.EvaluatePermission(context.Background(), chain, defined, v.Input)
}

// compile runs a case of presets.json.
func (v *policyVector) compile(t *testing.T) (direction, string) {
	got := v.compiled(t)
	if sameJSON(t, got, v.Expect) {
		return same, ""
	}
	detail := "here " + string(got) + "\nrecorded " + string(v.Expect)
	switch here, recorded := bytes.HasPrefix(got, []byte(`{"error"`)), bytes.HasPrefix(v.Expect, []byte(`{"error"`)); {
	case here && !recorded:
		return stricter, detail
	case recorded && !here:
		return looser, detail
	}
	return other, detail
}

// compiled is what the layers or the preset of the case come to, as JSON.
func (v *policyVector) compiled(t *testing.T) json.RawMessage {
	var out any
	var err error
	switch v.Kind {
	case "preset":
		var form struct {
			Deny []rulvar.Rule `json:"deny"`
			Ask  []rulvar.Rule `json:"ask"`
		}
		form.Deny, form.Ask, err = rulvar.CompilePermissionPreset(v.Preset)
		out = form
	case "compile":
		out, err = v.chain(t, &stubs{})
	default:
		require.Fail(t, "unknown kind", v.Kind)
	}
	if err != nil {
		require.ErrorIs(t, err, rulvar.ErrConfig)
		return json.RawMessage(`{"error":"config"}`)
	}
	text, err := json.Marshal(out)
	require.NoError(t, err)
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &members))
	if v.Kind == "compile" {
		require.Equal(t, `"decisive"`, string(members["hookAllow"]))
		delete(members, "hookAllow") // a mode that was not recorded
	}
	text, err = json.Marshal(members)
	require.NoError(t, err)
	return text
}

// judge runs a case of permission_chain.json.
func (v *policyVector) judge(t *testing.T) (direction, string) {
	var want policyOutcome
	require.NoError(t, json.Unmarshal(v.Expect, &want))
	v.again = func(changed *policyVector) policyOutcome { return changed.evaluate(t) }
	v.got = v.evaluate(t)
	here, err := json.Marshal(v.got)
	require.NoError(t, err)
	recorded, err := json.Marshal(want)
	require.NoError(t, err)
	detail := "here " + string(here) + "\nrecorded " + string(recorded)
	switch {
	case sameJSON(t, here, recorded):
		return same, ""
	case v.got.severity() > want.severity():
		return stricter, detail
	case v.got.severity() < want.severity():
		return looser, detail
	}
	return other, detail
}

// severity orders outcomes; a refusal is stricter than any verdict.
func (o *policyOutcome) severity() int {
	if o.Error != "" {
		return 3
	}
	return severity(o.Verdict)
}

func sameJSON(t *testing.T, a, b []byte) bool {
	var x, y any
	require.NoError(t, json.Unmarshal(a, &x))
	require.NoError(t, json.Unmarshal(b, &y))
	return reflect.DeepEqual(x, y)
}
