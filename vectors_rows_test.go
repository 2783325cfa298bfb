package rulvar_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectorRow is a row of differences.json. It allows what is different on
// purpose:
//
//	{"file": "jcs.json",          the recorded file
//	 "rule": "lone-surrogate",    a function of the case, or
//	 "ids": ["jcs-0258"],         the cases themselves
//	 "direction": "stricter",     stricter, looser or other
//	 "reason": "…"}               why
//
// A refusal by an error is stricter than any answer.
type vectorRow struct {
	File      string    `json:"file"`
	IDs       []string  `json:"ids,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	Direction direction `json:"direction"`
	Reason    string    `json:"reason"`
}

// vectorRows reads differences.json and fails on a row that could hide
// something by a slip of the pen.
func vectorRows(t *testing.T) []vectorRow {
	text, err := os.ReadFile(filepath.Join(ownVectors, "differences.json"))
	require.NoError(t, err)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var rows []vectorRow
	require.NoError(t, dec.Decode(&rows))
	used := map[[3]string]bool{}
	for i, r := range rows {
		suite := slices.IndexFunc(vectorSuites, func(s vectorSuite) bool { return s.name+".json" == r.File })
		require.GreaterOrEqual(t, suite, 0, "row %d is about the unknown file %q", i, r.File)
		require.True(t, (r.Rule == "") != (len(r.IDs) == 0), "row %d names both a rule and ids, or neither", i)
		require.NotEmpty(t, r.Reason, "row %d gives no reason", i)
		require.Contains(t, []direction{stricter, looser, other}, r.Direction, "row %d", i)
		if r.Rule != "" {
			require.Contains(t, vectorSuites[suite].rules, r.Rule, "row %d", i)
			key := [3]string{r.File, r.Rule, string(r.Direction)}
			require.False(t, used[key], "row %d repeats an earlier one", i)
			used[key] = true
		}
	}
	return rows
}

// TestVectorRulesAreNamed: a rule that no row names excuses nothing, and a name
// in unmarked that is no rule would be a slip.
func TestVectorRulesAreNamed(t *testing.T) {
	rows := vectorRows(t)
	for _, s := range vectorSuites {
		for _, rule := range s.rules {
			require.True(t, slices.ContainsFunc(rows, func(r vectorRow) bool { return r.File == s.name+".json" && r.Rule == rule }),
				"no row names the rule %s of %s", rule, s.name)
		}
		for _, rule := range s.unmarked {
			require.Contains(t, s.rules, rule, s.name)
		}
	}
}
