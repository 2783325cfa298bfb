package rulvar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// toolsetVector is a case of toolset_hash.json: contracts and their hashes, an
// attestation made, enforced or checked. Everything in a definition stays JSON
// until it is used, since the recording holds values that no definition has.
type toolsetVector struct {
	Kind        string
	Contracts   []recordedTool
	Tools       []recordedTool
	Executors   []rulvar.ExecutorKind
	Attestation json.RawMessage
	Expect      struct {
		Error, ToolsetHash, Canonical     string
		Tools                             json.RawMessage
		AuthorityHash, AuthorityCanonical string
		Authority                         map[string]json.RawMessage
		OK                                *bool
		Mismatch                          string
		Changed                           json.RawMessage
		Missing, Unexpected               []string
	}
}

// recordedTool is a tool or a contract: its members as written.
type recordedTool map[string]json.RawMessage

var toolsetVectors = func() vectorSuite {
	s := newVectorSuite("toolset_hash", (*toolsetVector).compare, toolsetRules)
	s.exact, s.unmarked = true, []string{"lone-surrogate", "definition-refused", "unknown-executor"}
	return s
}()

// compare runs the case. What is here is an error, which has to be one of
// configuration, or else a list of what is not as recorded.
func (v *toolsetVector) compare(t *testing.T) (direction, string) {
	var err error
	var wrong []string
	switch v.Kind {
	case "contracts":
		wrong, err = v.contracts(t)
	case "attest":
		wrong, err = v.attest(t)
	case "enforce":
		wrong, err = v.enforce(t)
	case "validate-attestation":
		var a rulvar.ToolsetAttestation
		err = json.Unmarshal(v.Attestation, &a)
	default:
		require.Fail(t, "unknown kind", v.Kind)
	}
	if err != nil {
		require.ErrorIs(t, err, rulvar.ErrConfig)
	}
	switch {
	case err != nil && v.Expect.Error == "":
		return stricter, err.Error()
	case err == nil && v.Expect.Error != "":
		return looser, "accepted"
	case len(wrong) > 0:
		return other, strings.Join(wrong, "\n")
	}
	return same, ""
}

// unequal lists what is not as recorded.
func unequal(wrong []string, what string, here, recorded any) []string {
	if here == recorded {
		return wrong
	}
	return append(wrong, fmt.Sprintf("%s: here %v, recorded %v", what, here, recorded))
}

func (v *toolsetVector) contracts(t *testing.T) (wrong []string, err error) {
	var tools []*rulvar.Tool
	for _, c := range v.Contracts {
		text, err := c.texts("name", "description", "version")
		if err != nil {
			return nil, err
		}
		tool, err := rulvar.ContractTool(*text["name"], *text["description"], c["parameters"], text["version"])
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}
	wrong = unequal(wrong, "hash", rulvar.ToolsetHash(tools), v.Expect.ToolsetHash)
	wrong = unequal(wrong, "text", rulvar.ToolsetText(tools), v.Expect.Canonical)
	var each []struct{ Name, Canonical, ToolContractHash string }
	if v.Expect.Error == "" {
		require.NoError(t, json.Unmarshal(v.Expect.Tools, &each))
	}
	for i, want := range each {
		wrong = unequal(wrong, want.Name, tools[i].ContractText(), want.Canonical)
		wrong = unequal(wrong, want.Name, jcs.Sum([]byte(tools[i].ContractText())), want.ToolContractHash)
	}
	return wrong, nil
}

// texts reads members that are texts, nil where they are absent; of name and
// description the empty text.
func (r recordedTool) texts(names ...string) (map[string]*string, error) {
	out := map[string]*string{"name": new(string), "description": new(string)}
	for _, name := range names {
		raw, ok := r[name]
		if !ok {
			continue
		}
		if wrongMemberType(name, raw) || loneSurrogate(raw) {
			return nil, errs.New(errs.Config, "tool", name, "no text")
		}
		out[name] = new(string)
		if err := json.Unmarshal(raw, out[name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// define makes a tool as its author would.
func (r recordedTool) define(t *testing.T) (*rulvar.Tool, error) {
	text, err := r.texts("name", "description", "version", "risk", "executor")
	if err != nil {
		return nil, err
	}
	cfg := rulvar.ToolConfig{Name: *text["name"], Description: *text["description"], ExecutorSpec: r["executorSpec"]}
	if risk := text["risk"]; risk != nil {
		if cfg.Risk = rulvar.Risk(*risk); *risk == "" {
			return nil, errs.New(errs.Config, "tool", "risk", "empty") // Go cannot tell it from none
		}
	}
	if kind := text["executor"]; kind != nil {
		cfg.Executor = rulvar.ExecutorKind(*kind)
	}
	if raw, ok := r["needsApproval"]; ok {
		if wrongMemberType("needsApproval", raw) {
			return nil, errs.New(errs.Config, "tool", "needsApproval", "no boolean")
		}
		require.NoError(t, json.Unmarshal(raw, &cfg.NeedsApproval))
	}
	if text["version"] != nil {
		cfg.Version = *text["version"]
	}
	schema, err := rulvar.SchemaLiteral(r["parameters"])
	if err != nil {
		return nil, err
	}
	tool, err := rulvar.NewToolWithSchema(cfg, schema, func(*rulvar.ToolContext, json.RawMessage) (any, error) { return nil, nil })
	if err == nil && text["version"] != nil {
		return tool.Versioned(text["version"])
	}
	return tool, err
}

type noExecutor struct{}

func (noExecutor) Execute(*rulvar.ToolContext, rulvar.ExecutorCall) (json.RawMessage, error) {
	return nil, nil
}

// toolset defines the tools of the case and resolves them as a spawn does.
func (v *toolsetVector) toolset(t *testing.T) ([]*rulvar.Tool, error) {
	served := map[rulvar.ExecutorKind]rulvar.ToolExecutor{}
	for _, kind := range v.Executors {
		served[kind] = noExecutor{}
	}
	var tools []*rulvar.Tool
	for _, r := range v.Tools {
		tool, err := r.define(t)
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}
	return rulvar.ResolveUnder(served, tools)
}

func (v *toolsetVector) attest(t *testing.T) (wrong []string, err error) {
	tools, err := v.toolset(t)
	if err != nil {
		return nil, err
	}
	a := rulvar.AttestToolset(tools)
	wrong = unequal(wrong, "hash", a.Hash, v.Expect.ToolsetHash)
	wrong = unequal(wrong, "authority", rulvar.AuthorityText(tools), v.Expect.AuthorityCanonical)
	wrong = unequal(wrong, "authority hash", a.AuthorityHash, v.Expect.AuthorityHash)
	whole, err := json.Marshal(a)
	require.NoError(t, err)
	var travels struct{ Authority json.RawMessage }
	require.NoError(t, json.Unmarshal(whole, &travels))
	here := travels.Authority
	recorded, err := json.Marshal(v.Expect.Authority)
	require.NoError(t, err)
	if v.Expect.Error == "" && !sameJSON(t, here, recorded) {
		wrong = unequal(wrong, "authority records", string(here), string(recorded))
	}
	var hashes map[string]string
	if v.Expect.Error == "" {
		require.NoError(t, json.Unmarshal(v.Expect.Tools, &hashes))
	}
	if !maps.Equal(a.Tools, hashes) {
		wrong = unequal(wrong, "contracts", fmt.Sprint(a.Tools), fmt.Sprint(hashes))
	}
	return wrong, nil
}

// enforce holds the pin against the tools. The names in the recording come from
// a message; the message here has to hold them too.
func (v *toolsetVector) enforce(t *testing.T) (wrong []string, err error) {
	tools, err := v.toolset(t)
	var a rulvar.ToolsetAttestation
	if err == nil {
		err = json.Unmarshal(v.Attestation, &a)
	}
	if err != nil {
		return []string{"nothing to enforce"}, err
	}
	if err = a.Enforce(tools); err == nil || v.Expect.Error == "" {
		return nil, err
	}
	for _, name := range slices.Concat([]string{v.Expect.Mismatch}, v.Expect.Missing, v.Expect.Unexpected, changedNames(t, v.Expect.Changed)) {
		if !strings.Contains(err.Error(), name) {
			wrong = append(wrong, fmt.Sprintf("%q is not in %q", name, err))
		}
	}
	return wrong, err
}

// changedNames reads a list of names, or of names with the fields that changed,
// which a message writes as name (field, field).
func changedNames(t *testing.T, text json.RawMessage) (names []string) {
	if text == nil || json.Unmarshal(text, &names) == nil {
		return names
	}
	var records []struct {
		Name   string
		Fields []string
	}
	require.NoError(t, json.Unmarshal(text, &records))
	for _, r := range records {
		slices.SortFunc(r.Fields, func(a, b string) int { return slices.Index(authorityFields, a) - slices.Index(authorityFields, b) })
		names = append(names, r.Name+" ("+strings.Join(r.Fields, ", ")+")")
	}
	return names
}

// authorityFields are the fields of an authority record in the order of a message.
var authorityFields = []string{"contract", "needsApproval", "executor", "risk", "executorSpec"}
