package jsonschema_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// suiteRefused says how many groups of the official suite are refused as
// definitions, by kind: references out of the document, also where an $id makes
// them lead back into it; dynamic references; names written with percent
// escapes; recursion; and an anchor that stands twice, under two $ids.
var suiteRefused = map[string]map[string]int{
	"draft2020-12": {jsonschema.KindRemote: 48, jsonschema.KindDynamic: 6, jsonschema.KindUnresolved: 3, jsonschema.KindRecursive: 2, jsonschema.KindMalformed: 1},
	"draft7":       {jsonschema.KindRemote: 27, jsonschema.KindUnresolved: 3, jsonschema.KindRecursive: 1},
}

// suiteStricter are the tests with another verdict.
var suiteStricter = map[string]string{
	"ref overrides any sibling keywords/ref valid, maxItems ignored": "keywords beside a $ref apply in every draft, as they are hashed",
}

// The official test suite, drafts 2020-12 and 07, from a checkout of it that
// RULVAR_JSON_SCHEMA_SUITE names: the directory that holds draft2020-12 and
// draft7.
func TestOfficialSuite(t *testing.T) {
	dir := os.Getenv("RULVAR_JSON_SCHEMA_SUITE")
	if dir == "" {
		t.Skip("RULVAR_JSON_SCHEMA_SUITE names no checkout of the official suite")
	}
	for _, draft := range []string{"draft2020-12", "draft7"} {
		t.Run(draft, func(t *testing.T) {
			counts, refusals := map[bool]int{}, map[string]int{}
			files, err := filepath.Glob(filepath.Join(dir, draft, "*.json"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, name := range files {
				text, err := os.ReadFile(name)
				require.NoError(t, err)
				var groups []suiteGroup
				require.NoError(t, json.Unmarshal(text, &groups))
				for _, g := range groups {
					g.run(t, draft, filepath.Base(name), counts, refusals)
				}
			}
			require.Equal(t, suiteRefused[draft], refusals)
			t.Logf("%d as the suite, %d stricter, refused %v", counts[true], counts[false], refusals)
		})
	}
}

type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func (g *suiteGroup) run(t *testing.T, draft, file string, counts map[bool]int, refusals map[string]int) {
	schema, err := jcs.Parse(g.Schema)
	require.NoError(t, err)
	if obj, ok := schema.(map[string]any); ok && draft == "draft7" {
		obj["$schema"] = "http://json-schema.org/draft-07/schema#"
	}
	v, err := jsonschema.Compile(schema)
	if err != nil {
		refusals[refusal(err)]++
		return
	}
	for _, test := range g.Tests {
		value, err := jcs.Parse(test.Data)
		require.NoError(t, err)
		got := v.Valid(value)
		require.Equal(t, got, v.Locations(value) == nil)
		counts[got == test.Valid]++
		if got != test.Valid {
			require.False(t, got, "%s: %s/%s", file, g.Description, test.Description)
			require.Contains(t, suiteStricter, g.Description+"/"+test.Description)
		}
	}
}
