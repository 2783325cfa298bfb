package rulvar_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

// The cases were recorded from the reference. Each has to come out the same
// here, or a row of differences.json has to allow the difference: by id, or by
// a rule, which is a function of the case (see permission_rules_test.go).
// RULVAR_VECTORS names another directory to read cases of the same shape from.

const policyVectorDir = "testdata/vectors"

// policyVector is a case of permission_chain.json or presets.json.
type policyVector struct {
	ID      string                     `json:"id"`
	Group   string                     `json:"group"`
	Kind    string                     `json:"kind"`
	Preset  rulvar.Preset              `json:"preset"`
	Engine  map[string]json.RawMessage `json:"engine"`
	Profile map[string]json.RawMessage `json:"profile"`
	Tool    json.RawMessage            `json:"tool"`
	Input   json.RawMessage            `json:"input"`
	Quirk   bool                       `json:"quirk"`
	Expect  json.RawMessage            `json:"expect"`

	got policyOutcome // what came of it here
}

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

// evaluate runs the case; an ErrConfig is an outcome.
func (v *policyVector) evaluate(t *testing.T) policyOutcome {
	var s stubs
	chain, err := v.chain(t, &s)
	if err != nil {
		require.ErrorIs(t, err, rulvar.ErrConfig)
		return policyOutcome{Error: "config"}
	}
	got, err := v.dryRun(t, chain)
	if err != nil {
		require.ErrorIs(t, err, rulvar.ErrConfig, v.ID)
		return policyOutcome{Error: "config"}
	}
	out := policyOutcome{Verdict: got.Verdict, DecidedBy: string(got.DecidedBy), Input: got.Input, Trace: s.calls}
	if got.Rule != nil {
		out.Rule = json.RawMessage(got.Rule.String())
	}
	if got.Advisory != nil {
		out.Advisory, err = json.Marshal(got.Advisory)
		require.NoError(t, err)
	}
	var traced []string // the trace tells of the same closures as the stubs
	for _, step := range got.Trace {
		if step.Step == "hook" || step.Step == "canUseTool" {
			traced = append(traced, string(step.Layer)+" "+string(step.Input))
		}
	}
	var called []string
	for _, c := range s.calls {
		called = append(called, string(c.Layer)+" "+string(c.Input))
	}
	require.Equal(t, called, traced, v.ID)
	return out
}

func (v *policyVector) dryRun(t *testing.T, chain *rulvar.PermissionChain) (rulvar.Evaluation, error) {
	var name string
	if json.Unmarshal(v.Tool, &name) == nil {
		return rulvar.EvaluatePermissionByName(context.Background(), chain, name, v.Input)
	}
	var def struct {
		Name          string       `json:"name"`
		Risk          *rulvar.Risk `json:"risk"`
		NeedsApproval bool         `json:"needsApproval"`
	}
	require.NoError(t, json.Unmarshal(v.Tool, &def))
	cfg := rulvar.ToolConfig{Name: def.Name, Description: "d", NeedsApproval: def.NeedsApproval}
	if def.Risk != nil {
		if cfg.Risk = *def.Risk; *def.Risk == "" {
			return rulvar.Evaluation{}, rulvar.ErrConfig // an empty text is no risk class; Go cannot tell it from none
		}
	}
	schema, err := rulvar.SchemaLiteral(json.RawMessage(`{}`))
	require.NoError(t, err)
	tool, err := rulvar.NewToolWithSchema(cfg, schema, func(*rulvar.ToolContext, json.RawMessage) (any, error) { return nil, nil })
	if err != nil {
		return rulvar.Evaluation{}, err
	}
	return rulvar.EvaluatePermission(context.Background(), chain, tool, v.Input)
}

// compile is a case of presets.json: the rules of a preset, or merged layers.
func (v *policyVector) compile(t *testing.T) json.RawMessage {
	var out any
	if v.Kind == "preset" {
		deny, ask, err := rulvar.CompilePermissionPreset(v.Preset)
		require.NoError(t, err)
		out = map[string]any{"deny": deny, "ask": ask}
	} else {
		chain, err := v.chain(t, &stubs{})
		if err != nil {
			require.ErrorIs(t, err, rulvar.ErrConfig)
			return json.RawMessage(`{"error":"config"}`)
		}
		out = chain
	}
	text, err := json.Marshal(out)
	require.NoError(t, err)
	if v.Kind == "preset" {
		return text
	}
	var view map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &view))
	require.Equal(t, `"decisive"`, string(view["hookAllow"]))
	delete(view, "hookAllow") // the reference recorded here had no such mode
	text, err = json.Marshal(view)
	require.NoError(t, err)
	return text
}

// policyDifference is a row of differences.json.
type policyDifference struct {
	File      string   `json:"file"`
	IDs       []string `json:"ids,omitempty"`
	Rule      string   `json:"rule,omitempty"`
	Direction string   `json:"direction"`
	Reason    string   `json:"reason"`
}

func readPolicyJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into), path)
}

func readPolicyVectors(t *testing.T, file string) (vectors []policyVector, rows []policyDifference) {
	readPolicyJSON(t, filepath.Join(cmp.Or(os.Getenv("RULVAR_VECTORS"), policyVectorDir), file), &vectors)
	require.NotEmpty(t, vectors)
	var all []policyDifference
	readPolicyJSON(t, filepath.Join(policyVectorDir, "differences.json"), &all)
	for _, r := range all {
		if r.File == file {
			require.True(t, r.Rule == "" || policyRules[r.Rule] != nil, "differences.json names the unknown rule %q", r.Rule)
			require.NotEmpty(t, r.Reason)
			rows = append(rows, r)
		}
	}
	return vectors, rows
}

func TestVectorsPermission(t *testing.T) {
	for _, file := range []string{"permission_chain.json", "presets.json"} {
		t.Run(file, func(t *testing.T) {
			vectors, rows := readPolicyVectors(t, file)
			used := make([]int, len(rows))
			counts := map[string]int{}
			for _, v := range vectors {
				direction, detail := v.compare(t)
				if direction == "" {
					counts["passed"]++
					continue
				}
				row := slices.IndexFunc(rows, func(r policyDifference) bool {
					return r.Direction == direction && (slices.Contains(r.IDs, v.ID) || r.Rule != "" && policyRules[r.Rule](&v))
				})
				if row < 0 {
					t.Errorf("%s is %s:\n%s", v.ID, direction, detail)
					counts["unlisted"]++
					continue
				}
				used[row]++
				counts[direction]++
			}
			for i, n := range used {
				if n == 0 && len(rows[i].IDs) > 0 && os.Getenv("RULVAR_VECTORS") == "" {
					t.Errorf("the row %+v of differences.json allows nothing", rows[i])
				}
			}
			t.Logf("%d cases: %d passed, %d stricter, %d looser, %d otherwise different, %d unlisted",
				len(vectors), counts["passed"], counts["stricter"], counts["looser"], counts["other"], counts["unlisted"])
		})
	}
}

// compare runs a case and says how it differs from the recording: "" for not
// at all.
func (v *policyVector) compare(t *testing.T) (direction, detail string) {
	if v.Kind != "" {
		got := v.compile(t)
		switch {
		case sameJSON(t, got, v.Expect):
			return "", ""
		case bytes.Contains(got, []byte(`"error"`)):
			return "stricter", string(got)
		}
		return "other", string(got)
	}
	var want policyOutcome
	require.NoError(t, json.Unmarshal(v.Expect, &want))
	got := v.evaluate(t)
	v.got = got
	gotText, err := json.Marshal(got)
	require.NoError(t, err)
	wantText, err := json.Marshal(want)
	require.NoError(t, err)
	layers, err := json.Marshal(map[string]any{"engine": v.Engine, "profile": v.Profile, "tool": v.Tool, "input": v.Input})
	require.NoError(t, err)
	detail = "case " + string(layers) + "\nhere " + string(gotText) + "\nreference " + string(wantText)
	switch {
	case sameJSON(t, gotText, wantText):
		return "", ""
	case got.Error != "" && want.Error != "":
		return "other", detail
	case got.severity() > want.severity():
		return "stricter", detail
	case got.severity() < want.severity():
		return "looser", detail
	}
	return "other", detail
}

// severity orders outcomes; a refused policy is stricter than any verdict.
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
