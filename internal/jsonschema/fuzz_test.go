package jsonschema_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// seeds adds the recorded vectors as seeds, so that fuzzing starts from schemas
// that mean something.
func seeds(f *testing.F, add func(schema, value []byte)) {
	for _, file := range []string{"schema_canonical.json", "validate.json"} {
		for i, p := range recordedPairs(f, file) {
			if i%5 == 0 {
				add(text(p.Schema, p.SchemaText), text(p.Instance, p.InstanceText))
			}
		}
	}
	for _, s := range []string{editSchema,
		`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/c"},{"$ref":"#/$defs/c"}]},"c":{"properties":{"a":{"default":{"b":[1,2,3]}}}}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"$ref":"#/definitions/x"}],"additionalItems":{"minimum":1e400},"definitions":{"x":{"multipleOf":1e-300}}}`,
		`{"propertyNames":{"pattern":"^[\\w\\-]+$"},"patternProperties":{"(?:a|b)*":{"format":"uri"}},"dependencies":{"a":["b"]}}`,
	} {
		add([]byte(s), []byte(editArguments))
	}
}

func typed(t *testing.T, err error) {
	var e *jsonschema.RefError
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("an error without a type: %v", err)
	}
}

func FuzzCanonical(f *testing.F) {
	seeds(f, func(schema, _ []byte) { f.Add(schema) })
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := jcs.Parse(text)
		if err != nil {
			return
		}
		form, err := jsonschema.Canonical(tree)
		typed(t, err)
		_, hashErr := jsonschema.Hash(tree)
		typed(t, hashErr)
		checkErr := jsonschema.Check(tree)
		typed(t, checkErr)
		if err != nil {
			require.Error(t, checkErr)
			return
		}
		first, err := jcs.AppendTree(nil, form)
		require.NoError(t, err, "a canonical form that cannot be hashed")
		if checkErr == nil {
			again, err := jsonschema.Canonical(form)
			if err == nil { // a tuple is written in a form that is not read again
				second, err := jcs.AppendTree(nil, again)
				require.NoError(t, err)
				require.Equal(t, string(first), string(second))
			}
		}
	})
}

func FuzzValidate(f *testing.F) {
	seeds(f, func(schema, value []byte) { f.Add(schema, value) })
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s, err := jcs.Parse(schema)
		if err != nil {
			return
		}
		v, err := jsonschema.Compile(s)
		typed(t, err)
		require.Equal(t, jsonschema.Check(s) == nil, err == nil, "what is checked compiles: %v", err)
		if err != nil {
			return
		}
		x, err := jcs.Parse(value)
		if err != nil {
			return
		}
		found := v.Validate(x)
		require.Equal(t, v.Valid(x), found == nil)
		require.LessOrEqual(t, len(found), jsonschema.MaxIssues)
		places := v.Locations(x)
		require.Equal(t, found == nil, places == nil)
		require.True(t, slices.IsSorted(places))
		require.Equal(t, found, v.Validate(x))
		for _, issue := range found {
			require.LessOrEqual(t, len(issue.Location), 310)
			require.LessOrEqual(t, len(issue.Message), 4000)
		}
	})
}

func FuzzApplyDefaults(f *testing.F) {
	seeds(f, func(schema, value []byte) { f.Add(schema, value) })
	f.Add([]byte(`{"items":{"properties":{"a":{"default":{}},"b":{"default":5}}},"allOf":[{"items":{"properties":{"a":{"properties":{"c":{"default":1}}}}}}]}`), []byte(`[{},{"a":{}},[]]`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		s, err := jcs.Parse(schema)
		if err != nil {
			return
		}
		x, err := jcs.Parse(value)
		if err != nil {
			return
		}
		v, err := jsonschema.Compile(s)
		if err != nil {
			return
		}
		before, err := jcs.AppendTree(nil, x)
		require.NoError(t, err)
		v.FoldConflict(x)
		filled, err := v.ApplyDefaults(x)
		after, appendErr := jcs.AppendTree(nil, x)
		require.NoError(t, appendErr)
		require.Equal(t, string(before), string(after), "the value was changed")
		if err != nil {
			return
		}
		once, err := jcs.AppendTree(nil, filled)
		require.NoError(t, err)
		again, err := v.ApplyDefaults(filled)
		require.NoError(t, err)
		twice, err := jcs.AppendTree(nil, again)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
		require.True(t, keeps(x, filled))
	})
}

// keeps reports whether everything in a value is still there after filling in.
func keeps(before, after any) bool {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		for name, e := range b {
			ok = ok && keeps(e, a[name])
		}
		return ok
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range b {
			if !keeps(b[i], a[i]) {
				return false
			}
		}
		return true
	}
	return before == after
}
