package jsonschema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

func TestFoldConflict(t *testing.T) {
	rows := []struct{ name, schema, value, want string }{
		{"exact", `{"properties":{"command":{}}}`, `{"command":"ls"}`, ""},
		{"another case beside it", `{"properties":{"command":{}}}`, `{"command":"ls","COMMAND":"rm -rf /"}`, "#/COMMAND"},
		{"another case alone", `{"properties":{"command":{}}}`, `{"Command":"rm"}`, "#/Command"},
		{"long s", `{"properties":{"set":{}}}`, `{"ſet":1}`, "#/%C5%BFet"},
		{"Kelvin sign", `{"properties":{"k":{}}}`, "{\"\u212a\":1}", "#/%E2%84%AA"},
		{"two letters are no case", `{"properties":{"strasse":{}}}`, `{"straße":1}`, ""},
		{"both declared", `{"properties":{"a":{},"A":{}}}`, `{"a":1,"A":2}`, ""},
		{"unrelated", `{"properties":{"a":{}}}`, `{"b":1}`, ""},
		{"closed", `{"properties":{"a":{}},"additionalProperties":false}`, `{"A":1}`, "#/A"},
		{"nothing declared", `{}`, `{"a":1,"A":1}`, ""},
		{"below", `{"properties":{"o":{"properties":{"a":{}}}}}`, `{"o":{"A":1}}`, "#/o/A"},
		{"in elements", `{"items":{"properties":{"a":{}}}}`, `[{"a":1},{"A":1}]`, "#/1/A"},
		{"in tuples", `{"prefixItems":[true,{"properties":{"a":{}}}]}`, `[{"A":1},{"A":1}]`, "#/1/A"},
		{"through references", `{"properties":{"o":{"$ref":"#/$defs/o"}},"$defs":{"o":{"allOf":[{"properties":{"a":{}}}]}}}`, `{"o":{"A":1}}`, "#/o/A"},
		{"through alternatives", `{"anyOf":[{"properties":{"a":{}}},{"oneOf":[{"properties":{"b":{}}}]}]}`, `{"B":1}`, "#/B"},
		{"declared by another alternative", `{"anyOf":[{"properties":{"a":{}}},{"properties":{"A":{}}}]}`, `{"A":1}`, ""},
		{"through conditions", `{"if":true,"then":{"properties":{"a":{}}}}`, `{"A":1}`, "#/A"},
		{"through dependent schemas", `{"dependentSchemas":{"x":{"properties":{"a":{}}}},"dependencies":{"y":{"properties":{"b":{}}}}}`, `{"B":1}`, "#/B"},
		{"by pattern", `{"patternProperties":{"^x":{"properties":{"a":{}}}}}`, `{"x":{"A":1},"y":{"A":1}}`, "#/x/A"},
		{"in other members", `{"additionalProperties":{"properties":{"a":{}}}}`, `{"q":{"A":1}}`, "#/q/A"},
		{"in unevaluated members", `{"unevaluatedProperties":{"properties":{"a":{}}}}`, `{"q":{"A":1}}`, "#/q/A"},
		{"the first by place", `{"properties":{"b":{"properties":{"a":{}}},"c":{}}}`, `{"b":{"A":1},"C":1}`, "#/C"},
		{"not in values", `{"properties":{"a":{"const":{"B":1}}}}`, `{"a":{"b":1}}`, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for range 10 {
				pointer, found := jsonschema.FoldConflict(parse(t, row.schema), parse(t, row.value))
				require.Equal(t, row.want, pointer)
				require.Equal(t, row.want != "", found)
			}
		})
	}
	_, found := jsonschema.FoldConflict(map[string]any{"type": 5}, map[string]any{"A": 1})
	require.False(t, found)
}

// A conflict is found exactly where encoding/json would read a member into a
// field of another name.
func TestFoldConflictIsThatOfEncodingJSON(t *testing.T) {
	schema := parse(t, `{"properties":{"kiss":{},"set":{},"Ab1":{},"é":{}}}`)
	type target struct {
		Kiss any `json:"kiss"`
		Set  any `json:"set"`
		Ab1  any `json:"Ab1"`
		E    any `json:"é"`
	}
	letters := rapid.SampledFrom([]rune("kK\u212aiIİısSſaAbB1eEtTéÉèß"))
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOfN(letters, 1, 4).Draw(t, "name"))
		text, err := json.Marshal(map[string]any{name: 1})
		require.NoError(t, err)
		var read target
		require.NoError(t, json.Unmarshal(text, &read))
		_, found := jsonschema.FoldConflict(schema, map[string]any{name: json.Number("1")})
		exact := name == "kiss" || name == "set" || name == "Ab1" || name == "é"
		require.Equal(t, read != target{} && !exact, found, name)
	})
}
