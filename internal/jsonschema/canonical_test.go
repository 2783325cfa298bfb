package jsonschema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

func refused(t *testing.T, err error) *jsonschema.RefError {
	t.Helper()
	var e *jsonschema.RefError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, errs.Config)
	require.Equal(t, errs.Config, errs.CodeOf(err))
	return e
}

func TestCanonicalRefused(t *testing.T) {
	rows := []struct{ name, schema, kind, pointer, ref string }{
		{"remote", `{"properties":{"a/b":{"$ref":"https://x.test/s"}}}`, jsonschema.KindRemote, "#/properties/a~1b", "https://x.test/s"},
		{"relative file", `{"$ref":"other.json"}`, jsonschema.KindRemote, "#", "other.json"},
		{"file", `{"items":{"$ref":"file:///etc/passwd"}}`, jsonschema.KindRemote, "#/items", "file:///etc/passwd"},
		{"empty", `{"$ref":""}`, jsonschema.KindRemote, "#", ""},
		{"recursive", `{"properties":{"n":{"$ref":"#"}}}`, jsonschema.KindRecursive, "#/properties/n", "#"},
		{"recursive through two", `{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#b"}},"b":{"$anchor":"b","not":{"$ref":"#/$defs/a"}}}}`, jsonschema.KindRecursive, "#/$defs/b/not", "#/$defs/a"},
		{"dynamic", `{"allOf":[{"$dynamicRef":"#x"}]}`, jsonschema.KindDynamic, "#/allOf/0", "$dynamicRef"},
		{"dynamic anchor", `{"$dynamicAnchor":false}`, jsonschema.KindDynamic, "#", "$dynamicAnchor"},
		{"unresolved", `{"anyOf":[true,{"$ref":"#/$defs/x"}]}`, jsonschema.KindUnresolved, "#/anyOf/1", "#/$defs/x"},
		{"no schema", `{"$ref":"#/const","const":1}`, jsonschema.KindUnresolved, "#", "#/const"},
		{"not a root", `7`, jsonschema.KindMalformed, "#", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := jsonschema.Canonical(parse(t, row.schema))
			e := refused(t, err)
			require.Equal(t, row.kind, e.Kind)
			require.Equal(t, row.pointer, e.Pointer)
			require.Equal(t, row.ref, e.Ref)
			require.NotEmpty(t, e.Msg)
			_, err = jsonschema.Hash(parse(t, row.schema))
			require.Equal(t, row.kind, refused(t, err).Kind)
			require.Error(t, jsonschema.Check(parse(t, row.schema)))
		})
	}
}

// doubling returns a schema of n definitions, each of which refers twice to the
// next, so that its canonical form has 2^n leaves.
func doubling(n int) any {
	defs := map[string]any{fmt.Sprint("d", n): map[string]any{"type": "string"}}
	for i := range n {
		next := map[string]any{"$ref": fmt.Sprint("#/$defs/d", i+1)}
		defs[fmt.Sprint("d", i)] = map[string]any{"allOf": []any{next, maps.Clone(next)}}
	}
	return map[string]any{"$ref": "#/$defs/d0", "$defs": defs}
}

func TestCanonicalIsBounded(t *testing.T) {
	for _, n := range []int{8, 12, 16} {
		hash, err := jsonschema.Hash(doubling(n))
		require.NoError(t, err)
		require.Len(t, hash, 64)
		err = jsonschema.Check(doubling(n))
		if n < 16 {
			require.NoError(t, err)
		} else { // it has a hash, and takes too long to use
			require.Equal(t, jsonschema.KindTooLarge, refused(t, err).Kind)
		}
	}
	for _, n := range []int{19, 40, 600} {
		_, err := jsonschema.Canonical(doubling(n))
		require.Equal(t, jsonschema.KindTooLarge, refused(t, err).Kind)
		require.Equal(t, jsonschema.KindTooLarge, refused(t, jsonschema.Check(doubling(n))).Kind)
	}

	var deep any = true
	for range 600 {
		deep = map[string]any{"not": deep}
	}
	_, err := jsonschema.Canonical(deep)
	require.Equal(t, jsonschema.KindTooLarge, refused(t, err).Kind)

	chain := map[string]any{"d5000": true} // deep only by following references
	for i := range 5000 {
		chain[fmt.Sprint("d", i)] = map[string]any{"$ref": fmt.Sprint("#/$defs/d", i+1)}
	}
	_, err = jsonschema.Canonical(map[string]any{"$ref": "#/$defs/d0", "$defs": chain})
	require.Equal(t, jsonschema.KindTooLarge, refused(t, err).Kind)

	long := map[string]any{"enum": []any{strings.Repeat("x", jsonschema.MaxCanonicalSize)}}
	_, err = jsonschema.Canonical(long)
	require.Equal(t, jsonschema.KindTooLarge, refused(t, err).Kind)
	require.NoError(t, jsonschema.Check(map[string]any{"description": strings.Repeat("x", jsonschema.MaxCanonicalSize)}))
}

// genSchema makes schemas that may be used, with references into $defs.
func genSchema(refs bool) *rapid.Generator[any] {
	var schema func(t *rapid.T, depth int, refs bool) any
	name := rapid.SampledFrom([]string{"a", "b", "title", "$ref", "é", "x/y", "10", "9"})
	schema = func(t *rapid.T, depth int, refs bool) any {
		kinds := []string{"bool", "type", "enum", "number", "text"}
		if depth > 0 {
			kinds = append(kinds, "object", "array", "all", "any", "not", "object", "array", "if")
		}
		if refs {
			kinds = append(kinds, "ref", "refMore")
		}
		switch rapid.SampledFrom(kinds).Draw(t, "kind") {
		case "bool":
			return rapid.Bool().Draw(t, "bool")
		case "type":
			return map[string]any{"type": rapid.SampledFrom([]string{"string", "integer", "null", "boolean", "object", "array", "number"}).Draw(t, "type")}
		case "enum":
			return map[string]any{"enum": []any{"x", nil, json.Number("1"), map[string]any{"a": json.Number("1")}}}
		case "number":
			return map[string]any{"minimum": json.Number(fmt.Sprint(rapid.IntRange(-3, 3).Draw(t, "min"))), "multipleOf": json.Number("0.5")}
		case "text":
			return map[string]any{"minLength": json.Number("1"), "pattern": "^[a-z]+$"}
		case "object":
			props := map[string]any{}
			for _, n := range rapid.SliceOfNDistinct(name, 0, 3, rapid.ID[string]).Draw(t, "names") {
				props[n] = schema(t, depth-1, refs)
			}
			return map[string]any{"type": "object", "properties": props, "additionalProperties": schema(t, depth-1, refs)}
		case "array":
			return map[string]any{"prefixItems": []any{schema(t, depth-1, refs)}, "items": schema(t, depth-1, refs)}
		case "all":
			return map[string]any{"allOf": []any{schema(t, depth-1, refs), schema(t, depth-1, refs)}, "maxProperties": json.Number("3")}
		case "any":
			return map[string]any{"anyOf": []any{schema(t, depth-1, refs), schema(t, depth-1, refs)}}
		case "not":
			return map[string]any{"not": schema(t, depth-1, refs)}
		case "if":
			return map[string]any{"if": schema(t, depth-1, refs), "then": schema(t, depth-1, refs), "else": schema(t, depth-1, refs)}
		case "ref":
			return map[string]any{"$ref": rapid.SampledFrom([]string{"#/$defs/p", "#/$defs/q"}).Draw(t, "ref")}
		default:
			return map[string]any{"$ref": "#/$defs/p", "minProperties": json.Number("1")}
		}
	}
	return rapid.Custom(func(t *rapid.T) any {
		root := schema(t, 3, refs)
		if obj, ok := root.(map[string]any); ok && refs {
			obj["$defs"] = map[string]any{"p": schema(t, 2, false), "q": schema(t, 2, false)}
		}
		return root
	})
}

// annotate returns the schema with annotations at every place that can hold
// them.
func annotate(t *rapid.T, v any) any {
	obj, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := maps.Clone(obj)
	for word, sub := range obj {
		switch word {
		case "properties", "$defs":
			members := map[string]any{}
			for name, s := range sub.(map[string]any) {
				members[name] = annotate(t, s)
			}
			out[word] = members
		case "allOf", "anyOf", "prefixItems":
			var list []any
			for _, s := range sub.([]any) {
				list = append(list, annotate(t, s))
			}
			out[word] = list
		case "additionalProperties", "items", "not", "if", "then", "else":
			out[word] = annotate(t, sub)
		}
	}
	for _, word := range []string{"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"} {
		if rapid.Bool().Draw(t, word) {
			out[word] = rapid.SampledFrom([]any{"x", true, []any{}, map[string]any{"$ref": "https://x"}}).Draw(t, "value")
		}
	}
	return out
}

func canonicalText(t require.TestingT, tree any) string {
	form, err := jsonschema.Canonical(tree)
	require.NoError(t, err)
	text, err := jcs.AppendTree(nil, form)
	require.NoError(t, err)
	return string(text)
}

// Annotations are not identity, a canonical form is its own canonical form, and
// the tree that was given stays as it was.
func TestCanonicalLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := genSchema(true).Draw(t, "schema")
		before, err := jcs.AppendTree(nil, tree)
		require.NoError(t, err)
		text := canonicalText(t, tree)
		require.Equal(t, text, canonicalText(t, annotate(t, tree)))
		again, err := jcs.Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, text, canonicalText(t, again))
		after, err := jcs.AppendTree(nil, tree)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
}

// What validates against a schema validates against its canonical form, and the
// other way round: the hash stands for the meaning.
func TestCanonicalMeansTheSame(t *testing.T) {
	values := []any{nil, true, "x", "", "X", json.Number("0"), json.Number("1.5"), json.Number("-3"), []any{}, []any{"x", json.Number("1")},
		map[string]any{}, map[string]any{"a": "x"}, map[string]any{"a": json.Number("1"), "b": nil, "é": []any{}, "title": map[string]any{"a": true}}}
	rapid.Check(t, func(t *rapid.T) {
		tree := genSchema(true).Draw(t, "schema")
		plain, err := jsonschema.Compile(tree)
		require.NoError(t, err)
		form, err := jsonschema.Canonical(tree)
		require.NoError(t, err)
		inlined, err := jsonschema.Compile(form)
		require.NoError(t, err)
		for _, v := range values {
			require.Equal(t, plain.Valid(v), inlined.Valid(v), "%v", v)
			require.Equal(t, plain.Valid(v), plain.Locations(v) == nil, "%v", v)
			require.Equal(t, plain.Locations(v), inlined.Locations(v), "%v", v)
		}
	})
}

func TestRefErrorText(t *testing.T) {
	err := jsonschema.Check(map[string]any{"$ref": "https://x.test/\x1b[31m\u202e" + strings.Repeat("x", 500)})
	text := err.Error()
	require.Less(t, len(text), 400)
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	var e *errs.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, "#", e.Path)
}
