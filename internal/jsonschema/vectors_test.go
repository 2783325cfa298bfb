package jsonschema_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// The vectors were recorded from the reference. Every case has to come out the
// same here, or a row of differences.json has to allow it: by id, or by a rule
// that is a function of the case (see rules_test.go). RULVAR_VECTORS names
// another directory to read the cases from.

const ownVectors = "../../testdata/vectors"

// vector is a case of schema_canonical.json or validate.json.
type vector struct {
	ID           string          `json:"id"`
	Group        string          `json:"group"`
	Schema       json.RawMessage `json:"schema"`
	SchemaText   *string         `json:"schemaText"`
	Instance     json.RawMessage `json:"instance"`
	InstanceText *string         `json:"instanceText"`
	Quirk        bool            `json:"quirk"`
	Expect       struct {
		Canonical  string   `json:"canonical"`
		SchemaHash string   `json:"schemaHash"`
		Error      string   `json:"error"`
		Valid      *bool    `json:"valid"`
		Throws     string   `json:"throws"`
		Locations  []string `json:"locations"`
	} `json:"expect"`
}

// difference is a row of differences.json.
type difference struct {
	File      string   `json:"file"`
	IDs       []string `json:"ids,omitempty"`
	Rule      string   `json:"rule,omitempty"`
	Direction string   `json:"direction"`
	Reason    string   `json:"reason"`
}

// outcome is what a case came to, here or in the reference.
type outcome struct {
	canonical string   // of schema_canonical.json
	refusal   string   // the kind of an error; "throws" where validation did
	valid     bool     // of validate.json
	locations []string // where not valid
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into), path)
}

func vectors(t *testing.T, file string) []vector {
	var all []vector
	readJSON(t, filepath.Join(cmp.Or(os.Getenv("RULVAR_VECTORS"), ownVectors), file), &all)
	require.NotEmpty(t, all)
	return all
}

// text returns the JSON text of a field that has two spellings.
func text(plain json.RawMessage, exact *string) []byte {
	if exact != nil {
		return []byte(*exact)
	}
	return plain
}

// judged is a case with both outcomes, which is what a rule looks at.
type judged struct {
	vector
	schema, instance any
	ours, theirs     outcome
}

// direction says how the two outcomes differ: "" where they do not.
func (j *judged) direction() string {
	refuses := func(o outcome) bool { return o.refusal != "" || !o.valid }
	switch {
	case j.ours.canonical != j.theirs.canonical, j.ours.refusal != j.theirs.refusal:
		switch {
		case j.ours.refusal != "" && j.ours.refusal != "throws":
			if j.theirs.refusal != "" && j.theirs.refusal != "throws" {
				return "other" // two kinds of refusal
			}
			return "stricter"
		case j.theirs.refusal != "":
			return "looser"
		}
		return "other"
	case refuses(j.ours) && !refuses(j.theirs):
		return "stricter"
	case !refuses(j.ours) && refuses(j.theirs):
		return "looser"
	case !slices.Equal(j.ours.locations, j.theirs.locations):
		return "other"
	}
	return ""
}

// hold compares all cases of a file and fails on a difference that no row
// allows.
func hold(t *testing.T, file string, judge func(*judged)) {
	var rows []difference
	readJSON(t, filepath.Join(ownVectors, "differences.json"), &rows)
	used := make([]int, len(rows))
	counts := map[string]int{}
	for _, v := range vectors(t, file) {
		j := &judged{vector: v}
		judge(j)
		direction := j.direction()
		counts[cmp.Or(direction, "passed")]++
		if direction == "" {
			continue
		}
		if i := allowing(t, rows, file, direction, j); i >= 0 {
			used[i]++
			continue
		}
		t.Errorf("%s (%s): %s\n schema   %s\n instance %s\n ours     %+v\n theirs   %+v", v.ID, v.Group, direction,
			text(v.Schema, v.SchemaText), text(v.Instance, v.InstanceText), j.ours, j.theirs)
	}
	t.Logf("%s: %d passed, %d stricter, %d looser, %d other", file,
		counts["passed"], counts["stricter"], counts["looser"], counts["other"])
	for i, row := range rows {
		if row.File == file {
			t.Logf("  %3d %-8s %s%v", used[i], row.Direction, row.Rule, row.IDs)
			if used[i] == 0 && row.Rule == "" && os.Getenv("RULVAR_VECTORS") == "" {
				t.Errorf("row %d of differences.json (%v) allows nothing; remove it", i, row.IDs)
			}
		}
	}
}

// allowing returns the index of the row that allows the difference, or -1.
func allowing(t *testing.T, rows []difference, file, direction string, j *judged) int {
	for i, row := range rows {
		if row.File != file || row.Direction != direction {
			continue
		}
		if slices.Contains(row.IDs, j.ID) {
			return i
		}
		if row.Rule != "" {
			rule, ok := rules[row.Rule]
			require.True(t, ok, "differences.json names the rule %s, which does not exist", row.Rule)
			if rule(j) {
				return i
			}
		}
	}
	return -1
}

func refusal(err error) string {
	var refused *jsonschema.RefError
	if errors.As(err, &refused) {
		return refused.Kind
	}
	return "untyped: " + err.Error()
}

func TestVectorsCanonical(t *testing.T) {
	hold(t, "schema_canonical.json", func(j *judged) {
		j.theirs = outcome{canonical: j.Expect.Canonical, refusal: j.Expect.Error}
		tree, err := jcs.Parse(text(j.vector.Schema, j.SchemaText))
		if err != nil {
			j.ours.refusal = "not-json"
			return
		}
		j.schema = tree
		before, err := jcs.AppendTree(nil, tree)
		require.NoError(t, err)
		form, err := jsonschema.Canonical(tree)
		if err != nil {
			j.ours.refusal = refusal(err)
			return
		}
		canonical, err := jcs.AppendTree(nil, form)
		require.NoError(t, err)
		j.ours.canonical = string(canonical)

		hash, err := jsonschema.Hash(tree)
		require.NoError(t, err)
		require.Equal(t, jcs.Sum(canonical), hash)
		if j.ours.canonical == j.theirs.canonical {
			require.Equal(t, j.Expect.SchemaHash, hash, j.ID)
		}
		after, err := jcs.AppendTree(nil, tree)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "%s: the schema was changed", j.ID)
		again, err := jsonschema.Canonical(form)
		if err == nil { // a kept "$ref": 5 or the like may not be read twice
			twice, err := jcs.AppendTree(nil, again)
			require.NoError(t, err)
			if j.Group != "ref-odd-target" && j.Group != "draft-07" {
				require.Equal(t, string(canonical), string(twice), "%s: not idempotent", j.ID)
			}
		}
	})
}

func TestVectorsValidate(t *testing.T) {
	hold(t, "validate.json", func(j *judged) {
		switch {
		case j.Expect.Throws != "":
			j.theirs.refusal = "throws"
		default:
			j.theirs.valid = *j.Expect.Valid
			j.theirs.locations = slices.Sorted(slices.Values(j.Expect.Locations))
		}
		var err error
		if j.schema, err = jcs.Parse(text(j.vector.Schema, j.SchemaText)); err != nil {
			j.ours.refusal = "not-json"
			return
		}
		if j.instance, err = jcs.Parse(text(j.Instance, j.InstanceText)); err != nil {
			j.ours.refusal = "not-json"
			return
		}
		v, err := jsonschema.Compile(j.schema)
		if err != nil {
			j.ours.refusal = refusal(err)
			require.Error(t, jsonschema.Check(j.schema))
			return
		}
		require.NoError(t, jsonschema.Check(j.schema))
		j.ours.valid = v.Valid(j.instance)
		j.ours.locations = v.Locations(j.instance)
		found := v.Validate(j.instance)
		require.Equal(t, j.ours.valid, found == nil, j.ID)
		require.Equal(t, j.ours.valid, j.ours.locations == nil, j.ID)
		for _, issue := range found {
			require.Contains(t, j.ours.locations, issue.Location, j.ID)
			require.NotEmpty(t, issue.Message)
		}
	})
}

func TestNoSchemaHash(t *testing.T) {
	hash, err := jsonschema.Hash(true)
	require.NoError(t, err)
	require.Equal(t, jsonschema.NoSchemaHash, hash)
}
