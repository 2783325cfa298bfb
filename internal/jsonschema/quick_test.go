package jsonschema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// Every recorded schema meets many recorded values: the quick yes has to be the
// validator's yes (which Locations asks), and the canonical form has to mean
// what the schema means.
func TestEverySchemaMeetsManyValues(t *testing.T) {
	all := recordedPairs(t, "validate.json")
	var values []any
	for _, v := range all {
		if value, err := jcs.Parse(text(v.Instance, v.InstanceText)); err == nil {
			values = append(values, value)
		}
	}
	yes, pairs := 0, 0
	for i, v := range all {
		tree, err := jcs.Parse(text(v.Schema, v.SchemaText))
		if err != nil {
			continue
		}
		schema, err := jsonschema.Compile(tree)
		if err != nil {
			continue
		}
		form, err := jsonschema.Canonical(tree)
		require.NoError(t, err)
		canonical, err := jsonschema.Compile(form)
		require.NoError(t, err, "%s: the canonical form cannot be used", v.ID)
		for k := i % 13; k < len(values); k += 13 {
			valid := schema.Valid(values[k])
			places := schema.Locations(values[k])
			require.Equal(t, places == nil, valid, "%s <- %v", v.ID, values[k])
			require.Equal(t, places, canonical.Locations(values[k]), "%s <- %v", v.ID, values[k])
			pairs++
			if valid {
				yes++
			}
		}
	}
	t.Logf("%d pairs, %d valid", pairs, yes)
}
