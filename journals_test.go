package rulvar_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	wordy      []bool // the model is asked for its schema in words
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
	want := steps[i].facts(j, appended, s.concurrent[i])
	if s.wordy[i] {
		want.dropWording()
		s.facts[i].dropWording()
	}
	return want
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
		own := x.journal(ctx)
		x.keys = func(key string) string { return reference.translate(key, own) }
		x.resolveOffline(ctx)
		before := len(x.journal(ctx).bySeq)
		out := x.perform(ctx)
		require.NoError(t, ctx.Err(), "steps[%d] did not settle", i)
		require.NoError(t, x.afterwards(ctx))
		facts, err := x.facts(ctx, out, before)
		require.NoError(t, err)
		x.close(ctx)
		concurrent := runsBranches(x.f.Workflow.Body)
		s.wordy = append(s.wordy, x.f.Adapter.Caps.StructuredOutput == "prompt")
		s.facts, s.concurrent = append(s.facts, facts.normal(concurrent)), append(s.concurrent, concurrent)
		if i < len(f.expect.Steps) {
			reference.addLines(f.expect.Steps[i].AppendedByResolutions)
			reference.addLines(f.expect.Steps[i].Appended)
		}
	}
	return s
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
