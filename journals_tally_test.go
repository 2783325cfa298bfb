package rulvar_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixtureTally counts how the scenarios went.
type fixtureTally struct {
	mu          sync.Mutex
	agreed      []string
	differ      []string
	skipped     map[string][]string // by feature
	differences []*fixtureDifference
}

// fixtureDifference is a row of differences.json: at one place of a scenario
// ("before", "steps[0]", "store", …) the facts that are otherwise than
// recorded, with what they are instead, and why.
type fixtureDifference struct {
	Scenario string
	At       string
	Ours     map[string]json.RawMessage
	Reason   string

	used bool
}

func loadDifferences(t *testing.T) []*fixtureDifference {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "journals", "differences.json"))
	require.NoError(t, err)
	var rows []*fixtureDifference
	require.NoError(t, json.Unmarshal(text, &rows))
	for _, r := range rows {
		require.NotEmpty(t, r.Reason, "differences.json: %s %s has no reason", r.Scenario, r.At)
	}
	return rows
}

// listed returns the row of a place, or nil.
func (c *fixtureTally) listed(scenario, at string) *fixtureDifference {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.differences {
		if r.Scenario == scenario && r.At == at {
			r.used = true
			return r
		}
	}
	return nil
}

func (c *fixtureTally) skip(t *testing.T, scenario, feature string) {
	c.mu.Lock()
	if c.skipped == nil {
		c.skipped = make(map[string][]string)
	}
	c.skipped[feature] = append(c.skipped[feature], scenario)
	for _, r := range c.differences {
		r.used = r.used || r.Scenario == scenario
	}
	c.mu.Unlock()
	t.Skip("needs: " + feature)
}

func (c *fixtureTally) done(scenario string, differs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if differs {
		c.differ = append(c.differ, scenario)
	} else {
		c.agreed = append(c.agreed, scenario)
	}
}

// looked counts the scenarios that passed or were skipped.
func (c *fixtureTally) looked() int {
	n := len(c.agreed) + len(c.differ)
	for _, list := range c.skipped {
		n += len(list)
	}
	return n
}

func (c *fixtureTally) report(t *testing.T, total int) {
	t.Helper()
	var features []string
	for feature, list := range c.skipped {
		sort.Strings(list)
		features = append(features, fmt.Sprintf("%3d  %s: %s", len(list), feature, strings.Join(list, ", ")))
	}
	sort.Strings(features)
	sort.Strings(c.differ)
	t.Logf("%d scenarios: %d agree, %d differ as listed (%s), %d skipped\n%s",
		total, len(c.agreed), len(c.differ), strings.Join(c.differ, ", "), c.looked()-len(c.agreed)-len(c.differ), strings.Join(features, "\n"))
}

// unused fails for rows that no scenario has looked at.
func (c *fixtureTally) unused(t *testing.T, mine func(at string) bool) {
	t.Helper()
	for _, r := range c.differences {
		if !r.used && mine(r.At) {
			t.Errorf("differences.json lists %s at %s, which nobody has looked at", r.Scenario, r.At)
		}
	}
}

// fixtureResult is what a scenario's steps came to.
type fixtureResult struct {
	problems []string
	differs  bool
}

// compare holds facts against recorded ones at a place of a scenario.
func (r *fixtureResult) compare(c *fixtureTally, f *fixture, at string, want, got fixtureFacts) {
	var listed map[string]json.RawMessage
	if row := c.listed(f.Scenario, at); row != nil {
		listed, r.differs = row.Ours, true
	}
	for _, p := range want.disagreements(got, listed) {
		r.problems = append(r.problems, at+" "+p)
	}
}
