package rulvar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// TestJournals holds this library to the journals that the reference has
// written: each store of testdata/journals is loaded, listed and shown, and
// resumed as its scenario says, with a scripted model that holds only the turns
// that remain. What happens must be what the reference was seen to do:
// resolutions, preview, status, value, error code, pending, model requests,
// executions, what the journal gained, and the state after it. Wording,
// sequence numbers and accounting are each system's own.
//
// Where the reference is wrong, testdata/journals/differences.json says what
// this library does instead; a difference that is not listed fails, and so does
// a listed one that has gone. Scenarios that need what the library does not
// have are loaded, listed and shown, and then skipped: see fixtureLacks.
//
// RULVAR_JOURNALS names a directory of other fixtures of the same layout.
func TestJournals(t *testing.T) {
	all := loadFixtures(t)
	tally := &fixtureTally{differences: loadDifferences(t)}
	t.Run("scenario", func(t *testing.T) {
		for _, f := range all {
			t.Run(f.Scenario, func(t *testing.T) {
				t.Parallel()
				replayFixture(t, f, tally)
			})
		}
	})
	tally.report(t, len(all))
	if os.Getenv("RULVAR_JOURNALS") == "" && tally.looked() == len(all) {
		tally.unused(t, func(at string) bool { return at == "before" || strings.HasPrefix(at, "steps") })
	}
}

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

func replayFixture(t *testing.T, f *fixture, c *fixtureTally) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	work := t.TempDir()
	copyTree(t, filepath.Join(f.dir, "store"), work)
	if f.surrogates() {
		preserveFixture(ctx, t, f, work)
		require.NotNil(t, c.listed(f.Scenario, "steps"), "a scenario with lone surrogates is to be listed")
		c.done(f.Scenario, true)
		return
	}
	result := &fixtureResult{}
	checkBefore(ctx, t, f, c, result, work)
	for i := range f.Resume {
		if feature := f.needs(&f.Resume[i], false); feature != "" {
			require.Empty(t, result.problems)
			c.skip(t, f.Scenario, feature)
		}
	}
	got := resumeFixture(ctx, t, f, work, loadEntries(ctx, t, work, f.RunID), "")
	for i, facts := range got.facts {
		result.compare(c, f, fmt.Sprintf("steps[%d]", i), got.recorded(f, f.expect.Steps, i), facts)
	}
	if len(result.problems) > 0 && agreesWithAlternative(f, got) {
		result.problems = nil
	}
	if len(result.problems) > 0 {
		t.Fatal(joinLines(result.problems))
	}
	c.done(f.Scenario, result.differs)
}

// fixtureSteps is what the resume steps of a scenario did.
type fixtureSteps struct {
	start      []*rulvar.Entry // of the store before the first
	facts      []fixtureFacts
	concurrent []bool
}

// recorded projects the i-th of recorded steps, with the reference's journal
// as it was after it.
func (s *fixtureSteps) recorded(f *fixture, steps []fixtureRecord, i int) fixtureFacts {
	j := newFixtureJournal(s.start...)
	for k := range i {
		j.addLines(steps[k].AppendedByResolutions)
		j.addLines(steps[k].Appended)
	}
	j.addLines(steps[i].AppendedByResolutions)
	appended := j.addLines(steps[i].Appended)
	return steps[i].facts(j, appended, s.concurrent[i])
}

// agreesWithAlternative is for scenarios that race in the reference.
func agreesWithAlternative(f *fixture, got *fixtureSteps) bool {
	return slices.ContainsFunc(f.expect.Alternatives, func(alt struct{ Steps []fixtureRecord }) bool {
		if len(alt.Steps) != len(got.facts) {
			return false
		}
		for i := range got.facts {
			if len(got.recorded(f, alt.Steps, i).disagreements(got.facts[i], nil)) > 0 {
				return false
			}
		}
		return true
	})
}

// resumeFixture performs the resume steps in sequence on one store. start is
// the reference's journal before the first, which is the store's own unless
// this library has made it.
func resumeFixture(ctx context.Context, t *testing.T, f *fixture, work string, start []*rulvar.Entry, onCorrupt rulvar.OnCorruptCheckpoint) *fixtureSteps {
	t.Helper()
	s := &fixtureSteps{start: start}
	reference := newFixtureJournal(s.start...)
	for i := range f.Resume {
		seg := &f.Resume[i]
		x := newFixtureRun(t, f, seg, work)
		x.onCorrupt = onCorrupt
		x.open()
		_, entries, err := x.store.Load(ctx, x.f.RunID, -1)
		require.NoError(t, err)
		own := newFixtureJournal(entries...)
		x.keys = func(key string) string { return reference.translate(key, own) }
		x.resolveOffline(ctx)
		_, entries, err = x.store.Load(ctx, x.f.RunID, -1)
		require.NoError(t, err)
		out := x.perform(ctx)
		require.NoError(t, ctx.Err(), "steps[%d] did not settle", i)
		require.NoError(t, x.afterwards(ctx))
		facts, _, err := x.facts(ctx, out, len(entries))
		require.NoError(t, err)
		x.close(ctx)
		concurrent := runsBranches(x.f.Workflow.Body)
		s.facts, s.concurrent = append(s.facts, facts.normal(concurrent)), append(s.concurrent, concurrent)
		if i < len(f.expect.Steps) {
			reference.addLines(f.expect.Steps[i].AppendedByResolutions)
			reference.addLines(f.expect.Steps[i].Appended)
		}
	}
	return s
}

func loadEntries(ctx context.Context, t *testing.T, dir, runID string) []*rulvar.Entry {
	t.Helper()
	store, err := rulvar.OpenFileStore(dir, nil)
	require.NoError(t, err)
	_, entries, err := store.Load(ctx, runID, -1)
	require.NoError(t, err)
	return entries
}

// checkBefore loads, lists and shows a store.
func checkBefore(ctx context.Context, t *testing.T, f *fixture, c *fixtureTally, result *fixtureResult, work string) {
	t.Helper()
	x := newFixtureRun(t, f, &fixtureSegment{}, work)
	engine, err := rulvar.NewEngine(rulvar.Config{Store: x.store})
	require.NoError(t, err)
	x.engine = engine
	defer x.close(ctx)
	got, want := fixtureFacts{}, fixtureFacts{}
	b := &f.expect.Before
	_, entries, err := x.store.Load(ctx, f.RunID, -1)
	if b.LoadError != nil || err != nil {
		want["loads"], got["loads"] = b.LoadError == nil, err == nil
	} else {
		j := newFixtureJournal(entries...)
		open, settled, err := x.state(ctx, j, entries)
		want["folds"], got["folds"] = b.FoldError == nil, err == nil
		if err == nil && b.FoldError == nil {
			got["open"], got["lastSettle"], got["entries"] = open, settled, len(entries)
			want["open"], want["lastSettle"], want["entries"] = openFacts(j, b.OpenSuspensions), settleFact(&b.fixtureState), b.Entries
		}
		want["runs"] = listedRuns(b.ListRuns)
		got["runs"] = ownRuns(ctx, t, engine)
	}
	for i, l := range f.expect.Lists {
		runs, err := engine.Runs(ctx, l.Filter.accepts)
		require.NoError(t, err)
		ids := []string{}
		for _, m := range runs {
			ids = append(ids, m.RunID)
		}
		want[fmt.Sprintf("list %d", i)], got[fmt.Sprintf("list %d", i)] = l.RunIDs, ids
	}
	result.compare(c, f, "before", want.normal(true), got.normal(true))
}

func (l fixtureFilter) accepts(m *rulvar.RunMeta) bool {
	return (l.Name == "" || l.Name == m.Name) && (l.Status == "" || l.Status == m.Status) &&
		(l.Statuses == nil || slices.Contains(l.Statuses, m.Status)) &&
		!slices.ContainsFunc(l.Tags, func(tag string) bool { return !slices.Contains(m.Tags, tag) })
}

func listedRuns(metas []map[string]json.RawMessage) any {
	list := []any{}
	for _, m := range metas {
		facts := make(map[string]any)
		for _, name := range []string{"runId", "status", "segments", "name", "tags", "argsProvided", "argsHash", "workflowName", "configFingerprint", "budgetUsd"} {
			if v, ok := m[name]; ok {
				facts[name] = v
			}
		}
		list = append(list, facts)
	}
	return list
}

func ownRuns(ctx context.Context, t *testing.T, e *rulvar.Engine) any {
	t.Helper()
	metas, err := e.Runs(ctx, nil)
	require.NoError(t, err)
	var list []map[string]json.RawMessage
	for _, m := range metas {
		text, err := m.AppendText(nil)
		require.NoError(t, err)
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(text, &members))
		list = append(list, members)
	}
	return listedRuns(list)
}

// preserveFixture is for a store with text that Go strings cannot hold: it is
// loaded, listed and shown, and what is there survives an append byte by byte.
func preserveFixture(ctx context.Context, t *testing.T, f *fixture, work string) {
	t.Helper()
	store, err := rulvar.OpenFileStore(work, nil)
	require.NoError(t, err)
	e, err := rulvar.NewEngine(rulvar.Config{Store: store})
	require.NoError(t, err)
	runs, err := e.Runs(ctx, nil)
	require.NoError(t, err)
	for _, m := range runs {
		path := filepath.Join(work, m.RunID+".jsonl")
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		open, err := e.PendingOf(ctx, m.RunID)
		require.NoError(t, err)
		for _, p := range open {
			_, err := e.Resolve(ctx, m.RunID, p.Key, 1)
			require.NoError(t, err)
		}
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(after), strings.TrimRight(string(before), "\n")), "%s: the lines before have changed", f.Scenario)
	}
}

// TestCorruptCheckpointRestart holds the other answer to a damaged checkpoint
// to what the reference does: begin the agent again.
func TestCorruptCheckpointRestart(t *testing.T) {
	for _, f := range loadFixtures(t) {
		if f.Scenario != "dangling-checkpoint-corrupt" {
			continue
		}
		work := t.TempDir()
		copyTree(t, filepath.Join(f.dir, "store"), work)
		got := resumeFixture(t.Context(), t, f, work, loadEntries(t.Context(), t, work, f.RunID), rulvar.CorruptRestart)
		for i := range got.facts {
			require.Empty(t, got.recorded(f, f.expect.Steps, i).disagreements(got.facts[i], nil))
		}
		return
	}
	t.Skip("the fixtures have no such scenario")
}
