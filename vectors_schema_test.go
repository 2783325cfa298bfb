package rulvar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// schemaVector is a case of schema_canonical.json, a schema and its canonical
// form, or of validate.json, a schema, a value and what is wrong with it.
type schemaVector struct {
	Group        string
	Quirk        bool
	Schema       json.RawMessage
	SchemaText   *string
	Instance     json.RawMessage
	InstanceText *string
	Expect       struct {
		Canonical, SchemaHash, Error string
		Valid                        *bool
		Throws                       string
		Locations                    []string
	}

	schema, instance any // as trees, nil where they are not JSON
	ours, theirs     schemaOutcome
}

// schemaOutcome is what a case came to, here or in the reference.
type schemaOutcome struct {
	refusal   string // the kind of an error
	threw     bool   // the reference's validator raised an error of its own
	canonical string
	hash      string
	valid     bool
	locations []string // where the value is not valid
}

var schemaVectors = func() vectorSuite {
	s := newVectorSuite("schema_canonical", (*schemaVector).compareForms, canonicalRules)
	s.exact, s.unmarked = true, []string{"error-order", "lone-surrogate"}
	return s
}()

var validateVectors = newVectorSuite("validate", (*schemaVector).compareVerdicts, validateRules)

// notJSON is the refusal of a text that package jcs does not read.
const notJSON = "not-json"

// spelled returns the JSON text of a member that has two spellings.
func spelled(plain json.RawMessage, exact *string) []byte {
	if exact != nil {
		return []byte(*exact)
	}
	return plain
}

func schemaRefusal(t *testing.T, err error) string {
	require.ErrorIs(t, err, errs.Config)
	refused, ok := errors.AsType[*jsonschema.RefError](err)
	require.True(t, ok, "%v", err)
	return refused.Kind
}

func (v *schemaVector) compareForms(t *testing.T) (direction, string) {
	v.theirs = schemaOutcome{refusal: v.Expect.Error, canonical: v.Expect.Canonical, hash: v.Expect.SchemaHash}
	v.canonicalize(t)
	detail := fmt.Sprintf("here %+v\nrecorded %+v", v.ours, v.theirs)
	switch ours, theirs := v.ours, v.theirs; {
	case ours.refusal == theirs.refusal && ours.canonical == theirs.canonical && ours.hash == theirs.hash:
		return same, ""
	case ours.refusal != "" && theirs.refusal == "":
		return stricter, detail
	case ours.refusal == "" && theirs.refusal != "":
		return looser, detail
	}
	return other, detail
}

func (v *schemaVector) canonicalize(t *testing.T) {
	tree, err := jcs.Parse(spelled(v.Schema, v.SchemaText))
	if err != nil {
		v.ours.refusal = notJSON
		return
	}
	v.schema = tree
	before := treeText(t, tree)
	form, err := jsonschema.Canonical(tree)
	require.Equal(t, before, treeText(t, tree), "the schema was changed")
	if err != nil {
		v.ours.refusal = schemaRefusal(t, err)
		return
	}
	v.ours.canonical = treeText(t, form)
	v.ours.hash, err = jsonschema.Hash(tree)
	require.NoError(t, err)
	if v.Quirk || jsonschema.Check(tree) != nil {
		return // what cannot be defined may have a form that reads differently
	}
	again, err := jsonschema.Canonical(form)
	require.NoError(t, err)
	require.Equal(t, v.ours.canonical, treeText(t, again), "the form of the form is another one")
}

func treeText(t *testing.T, tree any) string {
	text, err := jcs.AppendTree(nil, tree)
	require.NoError(t, err)
	return string(text)
}

func (v *schemaVector) compareVerdicts(t *testing.T) (direction, string) {
	v.theirs.threw = v.Expect.Throws != ""
	if !v.theirs.threw {
		require.NotNil(t, v.Expect.Valid)
		v.theirs.valid = *v.Expect.Valid
		v.theirs.locations = slices.Sorted(slices.Values(v.Expect.Locations))
	}
	v.validate(t)
	detail := fmt.Sprintf("here %+v\nrecorded %+v", v.ours, v.theirs)
	switch ours, theirs := v.ours, v.theirs; {
	case ours.refusal != "":
		return stricter, detail
	case theirs.threw, ours.valid && !theirs.valid:
		return looser, detail
	case theirs.valid && !ours.valid:
		return stricter, detail
	case !slices.Equal(ours.locations, theirs.locations):
		return other, detail
	}
	return same, ""
}

func (v *schemaVector) validate(t *testing.T) {
	var err error
	if v.schema, err = jcs.Parse(spelled(v.Schema, v.SchemaText)); err != nil {
		v.ours.refusal = notJSON
		return
	}
	if v.instance, err = jcs.Parse(spelled(v.Instance, v.InstanceText)); err != nil {
		v.ours.refusal = notJSON
		return
	}
	compiled, err := jsonschema.Compile(v.schema)
	require.Equal(t, err == nil, jsonschema.Check(v.schema) == nil)
	if err != nil {
		v.ours.refusal = schemaRefusal(t, err)
		return
	}
	v.ours.valid = compiled.Valid(v.instance)
	v.ours.locations = compiled.Locations(v.instance)
	found := compiled.Validate(v.instance)
	require.Equal(t, v.ours.valid, found == nil)
	require.Equal(t, v.ours.valid, v.ours.locations == nil)
	for _, issue := range found {
		require.Contains(t, v.ours.locations, issue.Location)
		require.NotEmpty(t, issue.Message)
	}
}
