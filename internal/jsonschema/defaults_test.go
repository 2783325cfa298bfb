package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

func TestApplyDefaults(t *testing.T) {
	rows := []struct{ name, schema, value, want string }{
		{"absent", `{"properties":{"a":{"default":5},"b":{}}}`, `{"b":1}`, `{"a":5,"b":1}`},
		{"present", `{"properties":{"a":{"default":5}}}`, `{"a":0}`, `{"a":0}`},
		{"present as null", `{"properties":{"a":{"default":5}}}`, `{"a":null}`, `{"a":null}`},
		{"below", `{"properties":{"o":{"properties":{"a":{"default":5}}}}}`, `{"o":{}}`, `{"o":{"a":5}}`},
		{"not below what is absent", `{"properties":{"o":{"properties":{"a":{"default":5}}}}}`, `{}`, `{}`},
		{"in what was filled in", `{"properties":{"o":{"default":{},"properties":{"a":{"default":5}}}}}`, `{}`, `{"o":{"a":5}}`},
		{"in elements", `{"items":{"properties":{"a":{"default":5}}}}`, `[{},{"a":1},7]`, `[{"a":5},{"a":1},7]`},
		{"in tuples", `{"prefixItems":[{"properties":{"a":{"default":1}}}],"items":{"properties":{"a":{"default":2}}}}`, `[{},{}]`, `[{"a":1},{"a":2}]`},
		{"in other members", `{"properties":{"k":true},"additionalProperties":{"properties":{"a":{"default":5}}}}`, `{"k":{},"x":{}}`, `{"k":{},"x":{"a":5}}`},
		{"in members by pattern", `{"patternProperties":{"^x":{"properties":{"a":{"default":5}}}}}`, `{"k":{},"x":{}}`, `{"k":{},"x":{"a":5}}`},
		{"through a reference", `{"properties":{"o":{"$ref":"#/$defs/o"}},"$defs":{"o":{"properties":{"a":{"default":5}}}}}`, `{"o":{}}`, `{"o":{"a":5}}`},
		{"of a reference", `{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"default":5}}}`, `{}`, `{"a":5}`},
		{"beside a reference", `{"properties":{"a":{"$ref":"#/$defs/n","default":6}},"$defs":{"n":{"default":5}}}`, `{}`, `{"a":6}`},
		{"through allOf", `{"allOf":[{"properties":{"a":{"default":5}}},{"properties":{"a":{"default":6},"b":{"default":7}}}]}`, `{}`, `{"a":5,"b":7}`},
		{"own before allOf", `{"properties":{"a":{"default":4}},"allOf":[{"properties":{"a":{"default":5}}}]}`, `{}`, `{"a":4}`},
		{"not through alternatives", `{"anyOf":[{"properties":{"a":{"default":5}}}],"oneOf":[{"properties":{"b":{"default":5}}}],"if":{"properties":{"c":{"default":5}}},"then":{"properties":{"d":{"default":5}}}}`, `{}`, `{}`},
		{"one that does not fit", `{"properties":{"a":{"type":"string","default":5},"b":{"type":"string","default":"x"}}}`, `{}`, `{"b":"x"}`},
		{"one that does not fit its reference", `{"properties":{"a":{"$ref":"#/$defs/n","default":5}},"$defs":{"n":{"type":"string"}}}`, `{}`, `{}`},
		{"of the root", `{"default":{"a":1}}`, `{}`, `{}`},
		{"false, null and nothing", `{"properties":{"a":{"default":false},"b":{"default":null},"c":{"default":""},"d":{"default":[]}}}`, `{}`, `{"a":false,"b":null,"c":"","d":[]}`},
		{"in canonical text", `{"properties":{"a":{"default":1e2}}}`, `{}`, `{"a":100}`},
		{"no object", `{"properties":{"a":{"default":5}}}`, `[1]`, `[1]`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			value := parse(t, row.value)
			got := jsonschema.ApplyDefaults(parse(t, row.schema), value)
			text, err := jcs.AppendTree(nil, got)
			require.NoError(t, err)
			require.Equal(t, row.want, string(text))
			before, err := jcs.AppendTree(nil, value)
			require.NoError(t, err)
			require.Equal(t, row.value, string(before), "the value was changed")
			if row.want == row.value {
				require.True(t, same(got, value), "nothing was filled in, yet the value was copied")
			}
		})
	}
}

// same reports whether a and b are one and the same container, or equal values.
func same(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	return a == b
}

func TestApplyDefaultsIsBounded(t *testing.T) {
	schema := map[string]any{"items": map[string]any{"properties": map[string]any{"a": map[string]any{"default": strings.Repeat("x", 1000)}}}}
	v, err := jsonschema.Compile(schema)
	require.NoError(t, err)
	list := make([]any, 1000)
	for i := range list {
		list[i] = map[string]any{}
	}
	_, err = v.ApplyDefaults(list)
	require.NoError(t, err)
	for range 100 {
		list = append(list, map[string]any{})
	}
	got, err := v.ApplyDefaults(list)
	require.ErrorIs(t, err, errs.InvalidArguments)
	require.Nil(t, got)
	require.True(t, same(list, jsonschema.ApplyDefaults(schema, list)))
	require.Len(t, list[0], 0)
	require.True(t, same(list, jsonschema.ApplyDefaults(map[string]any{"type": 5}, list)))
}

// Filling in twice is filling in once, nothing that is there changes, and what
// was valid without the defaults of closed alternatives stays valid.
func TestApplyDefaultsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		props := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID[string]).Draw(t, "props") {
			props[name] = map[string]any{"type": "integer", "default": json.Number(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "default")))}
		}
		inner := map[string]any{"type": "object", "properties": props, "additionalProperties": map[string]any{"type": "integer"}}
		schema := map[string]any{"properties": map[string]any{"in": inner, "list": map[string]any{"items": inner}}, "allOf": []any{inner}, "additionalProperties": true}
		delete(inner, "additionalProperties")
		value := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "x"}), 0, 3, rapid.ID[string]).Draw(t, "members") {
			value[name] = json.Number("77")
		}
		outer := map[string]any{"in": value, "list": []any{value, map[string]any{}}}
		v, err := jsonschema.Compile(schema)
		require.NoError(t, err)
		once, err := v.ApplyDefaults(outer)
		require.NoError(t, err)
		twice, err := v.ApplyDefaults(once)
		require.NoError(t, err)
		require.True(t, same(once, twice))
		for name, e := range value {
			require.Equal(t, e, once.(map[string]any)["in"].(map[string]any)[name])
		}
		require.Equal(t, v.Valid(outer), v.Valid(once))
		require.Len(t, outer, 2)
	})
}
