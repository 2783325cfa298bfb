package rulvar_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of testdata/vectors hold inputs and what the reference made of
// them. A suite runs one file through the library and compares:
//
//	jcs.json                               vectors_jcs_test.go
//	schema_canonical.json, validate.json   vectors_schema_test.go
//	toolset_hash.json                      vectors_toolset_test.go
//	presets.json, permission_chain.json    vectors_permission_test.go
//	content_key.json                       vectors_key_test.go
//	approval_decision.json                 vectors_approval_test.go
//	shell_lex.json, shell_match.json       vectors_shell_test.go
//
// A case that comes out otherwise fails, unless a row of differences.json
// allows it (see vectors_rows_test.go). RULVAR_VECTORS names a directory with
// other files of the same shapes; the rows are those of this repository then too.

const ownVectors = "testdata/vectors"

// vectorSuites are all files, in the order they build on each other.
var vectorSuites = []vectorSuite{
	jcsVectors, schemaVectors, toolsetVectors, presetVectors, permissionVectors,
	validateVectors, keyVectors, approvalVectors, shellLexVectors, shellMatchVectors,
}

// vectorSuite says how the cases of one file are run.
type vectorSuite struct {
	name string // of the file, without .json
	// rules are the names of the rules that rows for this file may use.
	rules []string
	// exact says that a case without the quirk mark has to come out the same,
	// byte by byte, but for what the rules named in unmarked excuse.
	exact    bool
	unmarked []string
	// informs says that a difference which no row names is counted, not refused.
	informs bool
	run     func(t *testing.T, text json.RawMessage) finding
}

// direction says how the answer here differs from the recorded one. A refusal
// is stricter than any answer.
type direction string

const (
	same     direction = ""
	stricter direction = "stricter"
	looser   direction = "looser"
	other    direction = "other"
)

// finding is what came of one case.
type finding struct {
	direction
	detail string
	rule   func(name string) bool // whether a rule speaks of the case
}

// newVectorSuite makes a suite of a function that runs a decoded case, and of
// the rules, which are functions of the case that has been run.
func newVectorSuite[C any](name string, run func(*C, *testing.T) (direction, string), rules map[string]func(*C) bool) vectorSuite {
	s := vectorSuite{name: name}
	for rule := range rules {
		s.rules = append(s.rules, rule)
	}
	s.run = func(t *testing.T, text json.RawMessage) finding {
		var c C
		require.NoError(t, json.Unmarshal(text, &c))
		d, detail := run(&c, t)
		return finding{d, detail, func(rule string) bool { return rules[rule](&c) }}
	}
	return s
}

// TestVectors holds the library to every recorded case, one subtest a case.
func TestVectors(t *testing.T) {
	dir := cmp.Or(os.Getenv("RULVAR_VECTORS"), ownVectors)
	rows := vectorRows(t)
	var table strings.Builder
	for _, s := range vectorSuites {
		t.Run(s.name, func(t *testing.T) {
			cases := s.read(t, dir)
			counts := newVectorCounts(s, rows)
			for _, c := range cases {
				t.Run(c.id, func(t *testing.T) { s.hold(t, c, counts) })
			}
			if dir == ownVectors && counts.cases == len(cases) {
				counts.refuseIdleRows(t)
			}
			t.Log(counts)
			fmt.Fprintln(&table, counts.line())
		})
	}
	require.NotEmpty(t, table.String(), "%s holds none of the files", dir)
	t.Log("\n" + table.String())
}

// vectorCase is a case before it is decoded.
type vectorCase struct {
	id    string
	quirk bool // an accident of the reference's host: no need to do the same
	text  json.RawMessage
}

func (s *vectorSuite) read(t *testing.T, dir string) []vectorCase {
	text, err := os.ReadFile(filepath.Join(dir, s.name+".json"))
	if errors.Is(err, fs.ErrNotExist) && dir != ownVectors {
		t.Skipf("%s holds no %s.json", dir, s.name)
	}
	require.NoError(t, err)
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &list))
	require.NotEmpty(t, list)
	cases, seen := make([]vectorCase, len(list)), map[string]bool{}
	for i, text := range list {
		var head struct {
			ID    string
			Quirk bool
		}
		require.NoError(t, json.Unmarshal(text, &head), "case %d", i)
		require.NotEmpty(t, head.ID, "case %d has no id", i)
		require.False(t, seen[head.ID], "two cases are called %s", head.ID)
		seen[head.ID] = true
		cases[i] = vectorCase{head.ID, head.Quirk, text}
	}
	return cases
}

// hold runs one case and counts it; it fails where it differs and no row
// allows that.
func (s *vectorSuite) hold(t *testing.T, c vectorCase, counts *vectorCounts) {
	counts.cases++
	f := s.run(t, c.text)
	if f.direction == same {
		counts.by[same]++
		return
	}
	row := counts.allowing(s, c, f)
	switch {
	case row != nil:
		row.uses++
	case s.informs:
		counts.unlisted++
	default:
		counts.unlisted++
		t.Errorf("%s than recorded, which no row of differences.json allows\n%s\ncase %s", f.direction, f.detail, c.text)
	}
	counts.by[f.direction]++
}

// vectorCounts is the tally of one file.
type vectorCounts struct {
	file            string
	cases, unlisted int
	by              map[direction]int
	rows            []*usedRow
}

type usedRow struct {
	vectorRow
	uses int
}

func newVectorCounts(s vectorSuite, rows []vectorRow) *vectorCounts {
	counts := &vectorCounts{file: s.name, by: map[direction]int{}}
	for _, r := range rows {
		if r.File == s.name+".json" {
			counts.rows = append(counts.rows, &usedRow{vectorRow: r})
		}
	}
	return counts
}

// allowing returns the first row that allows the finding, or nil.
func (n *vectorCounts) allowing(s *vectorSuite, c vectorCase, f finding) *usedRow {
	for _, r := range n.rows {
		switch {
		case r.Direction != f.direction:
		case slices.Contains(r.IDs, c.id):
			return r
		case r.Rule == "", s.exact && !c.quirk && !slices.Contains(s.unmarked, r.Rule):
		case f.rule(r.Rule):
			return r
		}
	}
	return nil
}

// refuseIdleRows fails for rows that name cases which do not differ (any more).
func (n *vectorCounts) refuseIdleRows(t *testing.T) {
	for _, r := range n.rows {
		if len(r.IDs) != 0 && r.uses != len(r.IDs) {
			t.Errorf("of the cases %v in a row of differences.json, only %d are %s: %s", r.IDs, r.uses, r.Direction, r.Reason)
		}
	}
}

func (n *vectorCounts) line() string {
	return fmt.Sprintf("%-18s %4d cases: %4d passed, %3d stricter, %2d looser, %3d other, %d not listed",
		n.file, n.cases, n.by[same], n.by[stricter], n.by[looser], n.by[other], n.unlisted)
}

// String is the line and, below it, how often each row was used.
func (n *vectorCounts) String() string {
	var b strings.Builder
	b.WriteString(n.line())
	for _, r := range n.rows {
		if r.uses > 0 {
			fmt.Fprintf(&b, "\n%6d %-8s %s", r.uses, r.Direction, cmp.Or(r.Rule, strings.Join(r.IDs, " ")))
		}
	}
	return b.String()
}
