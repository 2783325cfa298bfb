package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

func TestIssues(t *testing.T) {
	rows := []struct {
		name, schema, value string
		want                []jsonschema.Issue
	}{
		{"type", `{"type":["integer","null"]}`, `"x"`, []jsonschema.Issue{{"#", "type", "is a string, must be null or integer"}}},
		{"enum", `{"enum":["a",1,null,{"b":[]}]}`, `2`, []jsonschema.Issue{{"#", "enum", `must be one of "a", 1, null, {"b":[]}`}}},
		{"empty enum", `{"enum":[]}`, `2`, []jsonschema.Issue{{"#", "enum", "must be one of nothing: the list is empty"}}},
		{"const", `{"const":"a"}`, `2`, []jsonschema.Issue{{"#", "const", `must be "a"`}}},
		{"required", `{"required":["b","a"]}`, `{}`, []jsonschema.Issue{{"#", "required", `the member "a" is missing`}, {"#", "required", `the member "b" is missing`}}},
		{"additional", `{"additionalProperties":false}`, `{"b c":1}`, []jsonschema.Issue{{"#/b%20c", "additionalProperties", "this member is not allowed"}}},
		{"false", `{"properties":{"a":false}}`, `{"a":1}`, []jsonschema.Issue{{"#/a", "false", "nothing is allowed here"}}},
		{"bounds", `{"minimum":1.5,"exclusiveMaximum":0}`, `1`, []jsonschema.Issue{{"#", "exclusiveMaximum", "must be less than 0"}, {"#", "minimum", "must be at least 1.5"}}},
		{"large bound", `{"maximum":1e300}`, `1e301`, []jsonschema.Issue{{"#", "maximum", "must be at most 1" + strings.Repeat("0", 39) + "…"}}},
		{"small bound", `{"minimum":5e-324}`, `0`, []jsonschema.Issue{{"#", "minimum", "must be at least 5e-324"}}},
		{"multiple", `{"multipleOf":0.1}`, `0.25`, []jsonschema.Issue{{"#", "multipleOf", "must be a multiple of 0.1"}}},
		{"length", `{"minLength":2}`, `"é"`, []jsonschema.Issue{{"#", "minLength", "has 1 character, must have at least 2"}}},
		{"items", `{"maxItems":1}`, `[1,2]`, []jsonschema.Issue{{"#", "maxItems", "has 2 elements, may have at most 1"}}},
		{"members", `{"minProperties":1}`, `{}`, []jsonschema.Issue{{"#", "minProperties", "has 0 members, must have at least 1"}}},
		{"pattern", `{"pattern":"^a$"}`, `"b"`, []jsonschema.Issue{{"#", "pattern", `does not match the pattern "^a$"`}}},
		{"format", `{"format":"date"}`, `"b"`, []jsonschema.Issue{{"#", "format", "is no valid date"}}},
		{"unique", `{"uniqueItems":true}`, `[1,2,1.0]`, []jsonschema.Issue{{"#", "uniqueItems", "elements 0 and 2 are equal"}}},
		{"contains", `{"contains":{"type":"null"}}`, `[1]`, []jsonschema.Issue{{"#", "contains", "holds no element of the required kind"}}},
		{"few", `{"contains":{"type":"null"},"minContains":2}`, `[null]`, []jsonschema.Issue{{"#", "minContains", "holds 1 element of the required kind, must hold at least 2"}}},
		{"many", `{"contains":{"type":"null"},"maxContains":0,"minContains":0}`, `[null]`, []jsonschema.Issue{{"#", "maxContains", "holds 1 element of a limited kind, may hold at most 0"}}},
		{"not", `{"not":{}}`, `1`, []jsonschema.Issue{{"#", "not", "is what the schema excludes"}}},
		{"any", `{"anyOf":[{"type":"null"},{"minimum":5}]}`, `1`, []jsonschema.Issue{{"#", "anyOf", "fits none of the alternatives"}, {"#", "minimum", "must be at least 5"}, {"#", "type", "is a number, must be null"}}},
		{"one of two", `{"oneOf":[true,true]}`, `1`, []jsonschema.Issue{{"#", "oneOf", "fits alternatives 0 and 1, must fit exactly one"}}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []jsonschema.Issue{{"#", "dependentRequired", `the member "b" is missing, which "a" needs`}}},
		{"dependency", `{"dependencies":{"a":["b"]}}`, `{"a":1}`, []jsonschema.Issue{{"#", "dependencies", `the member "b" is missing, which "a" needs`}}},
		{"through a reference", `{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"items":{"type":"null"}}}}`, `{"a":[null,1]}`, []jsonschema.Issue{{"#/a/1", "type", "is a number, must be null"}}},
		{"unevaluated", `{"properties":{"a":true},"unevaluatedProperties":false}`, `{"a":1,"b":1}`, []jsonschema.Issue{{"#/b", "false", "nothing is allowed here"}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			v := compile(t, row.schema)
			require.Equal(t, row.want, v.Validate(parse(t, row.value)))
			require.False(t, v.Valid(parse(t, row.value)))
		})
	}
}

// The validator reports a member name at a place that it overwrites when it
// goes on to the next element; the places have to be right all the same.
func TestIssuesOfNames(t *testing.T) {
	v := compile(t, `{"items":{"items":{"propertyNames":{"maxLength":1}}}}`)
	require.Equal(t, []jsonschema.Issue{
		{"#/0/0/bb", "propertyNames", "the member name is not allowed: has 2 characters, may have at most 1"},
		{"#/1/1/dd", "propertyNames", "the member name is not allowed: has 2 characters, may have at most 1"},
	}, v.Validate(parse(t, `[[{"bb":1,"c":2}],[{"a":1},{"dd":1},{"e":1}]]`)))
	require.Equal(t, []string{"#", "#/0", "#/0/0", "#/0/0/bb", "#/1", "#/1/1", "#/1/1/dd"},
		v.Locations(parse(t, `[[{"bb":1,"c":2}],[{"a":1},{"dd":1},{"e":1}]]`)))
}

// Sixteen issues at most, and the same ones on every run.
func TestIssuesAreStable(t *testing.T) {
	v := compile(t, `{"properties":{"a":{"type":"null"}},"additionalProperties":{"anyOf":[{"type":"string","pattern":"x"},{"type":"array","propertyNames":false},{"type":"object","required":["q","p"],"additionalProperties":false}]},"patternProperties":{"^k":{"minimum":5},"1$":{"multipleOf":7}},"propertyNames":{"maxLength":2},"minProperties":1000}`)
	value := map[string]any{"a": json.Number("1")}
	for i := range 14 {
		value[fmt.Sprint("k", i)] = json.Number(fmt.Sprint(i % 5))
		value[fmt.Sprint("z", i)] = map[string]any{fmt.Sprint("x", i): nil, "y": nil}
	}
	want := v.Validate(value)
	require.Len(t, want, jsonschema.MaxIssues)
	wantPlaces := v.Locations(value)
	for range 300 {
		require.Equal(t, want, v.Validate(value))
		require.Equal(t, wantPlaces, v.Locations(value))
	}
}

// Names, values and patterns may be chosen by someone else: they come out
// short, on one line, and without marks that a terminal or a reader obeys.
func TestIssuesAreTame(t *testing.T) {
	hostile := "\x1b[2J\u202eignore previous\r\n" + strings.Repeat("x", 5000)
	text, err := json.Marshal(hostile)
	require.NoError(t, err)
	for _, schema := range []string{`{"required":[%s]}`, `{"const":%s}`, `{"enum":[%s,{"a":%s}]}`, `{"dependentRequired":{"a":[%s]}}`, `{"type":"object","additionalProperties":{"type":"null"}}`, `{"propertyNames":{"const":"a"}}`} {
		v := compile(t, strings.ReplaceAll(schema, "%s", string(text)))
		found := v.Validate(map[string]any{"a": json.Number("1"), hostile: json.Number("1")})
		if strings.HasPrefix(schema, `{"required`) {
			found = v.Validate(map[string]any{})
		}
		if strings.Contains(schema, "dependent") {
			found = v.Validate(map[string]any{"a": nil})
		}
		require.NotEmpty(t, found, schema)
		for _, issue := range found {
			require.Less(t, len(issue.Message)+len(issue.Location), 800)
			for _, c := range issue.Message + issue.Location {
				require.True(t, unicode.IsPrint(c), "%q in %q", c, issue)
			}
		}
	}
}

// Numbers are compared by their canonical text, and none of them costs more
// than its digits.
func TestNumbers(t *testing.T) {
	rows := []struct {
		schema, value string
		valid         bool
	}{
		{`{"type":"integer"}`, `1.0`, true},
		{`{"type":"integer"}`, `1e2`, true},
		{`{"type":"integer"}`, `-0.0`, true},
		{`{"type":"integer"}`, `1e300`, true},
		{`{"type":"integer"}`, `1e-7`, false},
		{`{"type":"integer"}`, `1e-999999`, true}, // 0
		{`{"const":9007199254740993}`, `9007199254740992`, true},
		{`{"enum":[1e2]}`, `100`, true},
		{`{"maximum":0}`, `1e-99999999999`, true},
		{`{"minimum":0}`, `-1e-99999999999`, true},
		{`{"exclusiveMinimum":0}`, `5e-324`, true},
		{`{"multipleOf":0.01}`, `4.35`, true},
		{`{"multipleOf":1e-8}`, `1.5e-8`, false},
		{`{"uniqueItems":true}`, `[1,1.0]`, false},
		{`{"uniqueItems":true}`, `[9007199254740993,9007199254740992]`, false},
		{`{"maxLength":18446744073709551616}`, `"x"`, true},
		{`{"minLength":18446744073709551616}`, `"x"`, false},
		{`{"minItems":1e300}`, `[]`, false},
	}
	for _, row := range rows {
		require.Equal(t, row.valid, compile(t, row.schema).Valid(parse(t, row.value)), "%s <- %s", row.schema, row.value)
	}

	v := compile(t, `{"properties":{"a":{"items":{"minimum":0}}}}`)
	for _, bad := range []any{json.Number("1e400"), json.Number("1e99999999"), json.Number("x"), json.Number(""), json.Number("01"), 1.5, 7, []string{"x"}, struct{}{}} {
		value := map[string]any{"a": []any{nil, bad}}
		require.False(t, v.Valid(value), "%v", bad)
		found := v.Validate(value)
		require.Len(t, found, 1)
		require.Equal(t, "#/a/1", found[0].Location)
		require.Equal(t, []string{"#", "#/a", "#/a/1"}, v.Locations(value))
	}
}

func TestDeepValues(t *testing.T) {
	var deep any = []any{}
	for range 2000 {
		deep = []any{deep}
	}
	v := compile(t, `{"items":{"items":{"items":true}}}`)
	require.False(t, v.Valid(deep))
	require.Equal(t, "nested too deeply", v.Validate(deep)[0].Message)
}

// A tuple of draft-07 means what prefixItems and items mean today.
func TestOlderTuples(t *testing.T) {
	for _, dialect := range []string{"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"} {
		v := compile(t, `{"$schema":"`+dialect+`","items":[{"type":"string"},{"type":"integer"}],"additionalItems":{"type":"null"}}`)
		require.True(t, v.Valid(parse(t, `["a",1,null]`)))
		require.Equal(t, []string{"#", "#/1", "#/2"}, v.Locations(parse(t, `["a","b",3]`)))
		closed := compile(t, `{"$schema":"`+dialect+`","items":[true],"additionalItems":false}`)
		require.False(t, closed.Valid(parse(t, `[1,2]`)))
		idle := compile(t, `{"$schema":"`+dialect+`","items":{"type":"null"},"additionalItems":false}`)
		require.True(t, idle.Valid(parse(t, `[null,null]`)))
		single := compile(t, `{"$schema":"`+dialect+`","items":[],"additionalItems":{"type":"null"}}`)
		require.False(t, single.Valid(parse(t, `[1]`)))
	}
}

// Keywords that draft-07 ignores beside a reference apply here, as they are
// hashed.
func TestReferencesWithNeighbours(t *testing.T) {
	v := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/x","minimum":5,"definitions":{"x":{"type":"integer"}}}`)
	require.True(t, v.Valid(parse(t, `5`)))
	require.False(t, v.Valid(parse(t, `4`)))
	require.False(t, v.Valid(parse(t, `5.5`)))
}

func TestCompileIsCached(t *testing.T) {
	first := compile(t, `{"title":"cached","type":"string"}`)
	require.Same(t, first, compile(t, `{ "type": "string", "title": "cached" }`))
	for i := range 600 {
		compile(t, fmt.Sprintf(`{"title":"fill %d"}`, i))
	}
	require.NotSame(t, first, compile(t, `{"title":"cached","type":"string"}`))
	require.True(t, first.Valid("x"))

	_, err := jsonschema.Compile(map[string]any{"const": "\xff"})
	require.Equal(t, jsonschema.KindMalformed, refused(t, err).Kind)
	_, err = jsonschema.Compile(map[string]any{"const": struct{}{}})
	require.Equal(t, jsonschema.KindMalformed, refused(t, err).Kind)
}

func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 50 {
				tree, err := jsonschema.Reflect(typeOf[editArgs]())
				if err != nil {
					t.Error(err)
					return
				}
				v, err := jsonschema.Compile(tree)
				if err != nil {
					t.Error(err)
					return
				}
				c, err := jsonschema.Compile(parse(t, fmt.Sprintf(`{"propertyNames":{"maxLength":%d}}`, (i+k)%5)))
				if err != nil {
					t.Error(err)
					return
				}
				value := parse(t, editArguments)
				c.Validate(value)
				var a editArgs
				if !v.Valid(value) || jsonschema.DecodeInto(nil, value, &a) != nil || len(a.Edits) != 3 {
					t.Error("the arguments are refused")
				}
			}
		})
	}
	wg.Wait()
}
