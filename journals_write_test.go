package rulvar_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

var interopOut = flag.String("interop-out", "", "where TestWriteJournals puts the stores that it makes; the reference can be run on them")

// written are the scenarios that TestWriteJournals makes where nothing else is
// asked: one of each kind of history, none whose order is the scheduler's.
var written = []string{
	"agent-approach", "agent-compaction", "agent-error-null-run-ok", "agent-extract-routed-crash", "agent-fallback",
	"agent-finalize-routed-crash", "agent-limit-memoized", "agent-near-json-arguments", "agent-provider-raw",
	"approval-allow-then-dies-before-execution", "approval-first-resolution-wins", "approval-modified-input", "approval-preset-strict",
	"approval-two-asks-one-turn", "child-workflow", "dangling-checkpoint", "dangling-twice", "external-schema", "glued-last-lines",
	"identical-calls", "phases", "rand-ops", "readonly-isolation-crash", "schema-retry", "step-error-rerun", "step-key-and-deps",
	"step-null-and-values", "tool-mixed-batch", "torn-terminal-line", "unicode", "wire-intent-open",
	"worktree-clean", "worktree-crash", "worktree-isolation", "worktree-parked",
}

// TestWriteJournals goes the other way round: it executes the histories of the
// scenarios with this library and holds the stores that come of it to those
// that the reference has written: the same operations with the same scopes,
// keys, statuses and values, and the same state at the end. Sequence numbers and
// accounting are each system's own.
//
// With -interop-out=<dir> it does so for every scenario that it can, and leaves
// store/ and scenario.json there in the fixtures' layout.
func TestWriteJournals(t *testing.T) {
	all := loadFixtures(t)
	tally := &fixtureTally{differences: loadDifferences(t)}
	t.Run("scenario", func(t *testing.T) {
		for _, f := range all {
			if *interopOut == "" && os.Getenv("RULVAR_JOURNALS") == "" && !isWritten(f.Scenario) {
				continue
			}
			t.Run(f.Scenario, func(t *testing.T) {
				t.Parallel()
				writeFixture(t, f, tally)
			})
		}
	})
	tally.report(t, tally.looked())
	if *interopOut != "" && os.Getenv("RULVAR_JOURNALS") == "" && tally.looked() == len(all) {
		tally.unused(t, func(at string) bool {
			return at == "store" || strings.HasPrefix(at, "history") || strings.HasPrefix(at, "own")
		})
	}
}

func isWritten(name string) bool {
	i := sort.SearchStrings(written, name)
	return i < len(written) && written[i] == name
}

func writeFixture(t *testing.T, f *fixture, c *fixtureTally) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if f.surrogates() {
		c.skip(t, f.Scenario, "text that Go strings can hold")
	}
	for i := range f.History {
		if feature := f.needs(&f.History[i], true); feature != "" {
			c.skip(t, f.Scenario, feature)
		}
	}
	result := &fixtureResult{}
	store := t.TempDir()
	for i := range f.History {
		var out fixtureOutcome
		store, out = makeHistory(ctx, t, f, i, store)
		if i < len(f.expect.History) {
			want, got := outcomeFacts(&f.expect.History[i], out)
			result.compare(c, f, fmt.Sprintf("history[%d]", i), want, got)
		}
	}
	want, got := storeFacts(ctx, t, f, store)
	result.compare(c, f, "store", want, got)
	result.resumeOwn(ctx, t, f, c, store)
	if len(result.problems) > 0 {
		t.Error(joinLines(result.problems))
	} else {
		c.done(f.Scenario, result.differs)
	}
	if *interopOut != "" {
		keepFixture(t, f, store)
	}
}

// resumeOwn resumes the store that this library has made as the scenario says:
// it makes no difference who wrote it.
func (r *fixtureResult) resumeOwn(ctx context.Context, t *testing.T, f *fixture, c *fixtureTally, store string) {
	t.Helper()
	for i := range f.Resume {
		if f.needs(&f.Resume[i], false) != "" {
			return
		}
	}
	work := t.TempDir()
	copyTree(t, store, work)
	_, start := recordedStore(ctx, t, f)
	got := resumeFixture(ctx, t, f, work, start, "")
	if agreesWithAlternative(f, got) {
		return
	}
	for i, facts := range got.facts {
		at := fmt.Sprintf("own[%d]", i)
		if c.listed(f.Scenario, at) == nil {
			at = fmt.Sprintf("steps[%d]", i)
		}
		r.compare(c, f, at, got.recorded(f, f.expect.Steps, i), facts)
	}
}

// makeHistory performs a segment and returns the directory with what it, or
// its death, has left.
func makeHistory(ctx context.Context, t *testing.T, f *fixture, i int, store string) (string, fixtureOutcome) {
	t.Helper()
	seg := f.History[i]
	if seg.Mode == "" {
		seg.Mode = "run"
	}
	x := newFixtureRun(t, f, &seg, store)
	if s := seg.Stop; s != nil && runsBranches(x.f.Workflow.Body) && i < len(f.expect.History) && s.N > 0 && s.N <= len(f.expect.History[i].ModelCalls) {
		x.stopsAt = new(fixtureStopRequest)
		require.NoError(t, json.Unmarshal(mustJSON(t, f.expect.History[i].ModelCalls[s.N-1]), x.stopsAt))
	}
	x.open()
	recorded, lines := recordedStore(ctx, t, f)
	if runsBranches(x.f.Workflow.Body) && i == len(f.History)-1 {
		want := recorded.appendedFacts(lines)
		x.complete = func() bool {
			_, entries, err := x.store.Load(ctx, x.f.RunID, -1)
			return err == nil && slices.Equal(want, newFixtureJournal(entries...).appendedFacts(entries))
		}
	}
	x.keys = func(key string) string { return recorded.translate(key, x.journal(ctx)) }
	x.resolveOffline(ctx)
	out := x.perform(ctx)
	require.NoError(t, ctx.Err(), "history[%d] did not settle", i)
	if !out.killed {
		require.NoError(t, x.afterwards(ctx))
	}
	x.close(ctx)
	if out.killed {
		store = x.snapshot
		y := newFixtureRun(t, f, &seg, store)
		y.keys = x.keys
		y.open()
		require.NoError(t, y.afterwards(ctx))
		y.close(ctx)
	}
	operate(t, f, i, store)
	return store, out
}

// recordedStore is the journal that the reference has written. A line of the
// store that is no entry is none here either, unless it is several.
func recordedStore(ctx context.Context, t *testing.T, f *fixture) (*fixtureJournal, []*rulvar.Entry) {
	t.Helper()
	j := newFixtureJournal()
	entries := j.addLines(f.expect.StoreNormalized)
	if len(entries) < len(f.expect.StoreNormalized) {
		work := t.TempDir()
		copyTree(t, filepath.Join(f.dir, "store"), work)
		entries = loadEntries(ctx, t, work, f.RunID)
		j.add(entries)
	}
	return j, entries
}

func (x *fixtureRun) journal(ctx context.Context) *fixtureJournal {
	_, entries, err := x.store.Load(ctx, x.f.RunID, -1)
	if err != nil {
		return newFixtureJournal()
	}
	return newFixtureJournal(entries...)
}

// outcomeFacts is how a segment of a history ended.
func outcomeFacts(r *fixtureRecord, out fixtureOutcome) (want, got fixtureFacts) {
	want, got = fixtureFacts{"killed": r.Killed}, fixtureFacts{"killed": out.killed}
	if r.Outcome != nil {
		want["status"], want["errorCode"] = r.Outcome.Status, ""
		if r.Outcome.Value != nil {
			want["value"] = r.Outcome.Value
		}
		if r.Outcome.Error != nil {
			want["errorCode"] = r.Outcome.Error.Code
		}
	}
	if !out.killed {
		got["status"], got["errorCode"] = out.Status, errorCode(out.Err)
		if out.Status == rulvar.RunOK {
			got["value"] = out.Value
		}
	}
	return want.normal(false), got.normal(false)
}

// storeFacts describes the store that this library has made and the one that
// the reference has made.
func storeFacts(ctx context.Context, t *testing.T, f *fixture, store string) (want, got fixtureFacts) {
	t.Helper()
	x := newFixtureRun(t, f, &fixtureSegment{}, store)
	engine, err := rulvar.NewEngine(rulvar.Config{Store: x.store})
	require.NoError(t, err)
	x.engine = engine
	defer x.close(ctx)
	meta, entries, err := x.store.Load(ctx, f.RunID, -1)
	require.NoError(t, err)
	own := newFixtureJournal(entries...)
	open, settled, err := x.state(ctx, own, entries)
	require.NoError(t, err)
	got = fixtureFacts{"entries": own.appendedFacts(entries), "open": open, "lastSettle": settled}
	if meta != nil {
		got["runStatus"], got["segments"], got["workflowName"] = meta.Status, meta.Segments, meta.WorkflowName
		got["argsProvided"], got["argsHash"] = meta.ArgsProvided, meta.ArgsHash
	}
	recorded, lines := recordedStore(ctx, t, f)
	b := &f.expect.Before
	want = fixtureFacts{"entries": recorded.appendedFacts(lines), "open": openFacts(recorded, b.OpenSuspensions), "lastSettle": settleFact(&b.fixtureState)}
	for _, m := range b.ListRuns {
		want["runStatus"], want["segments"], want["workflowName"] = m["status"], m["segments"], m["workflowName"]
		want["argsProvided"], want["argsHash"] = m["argsProvided"], ""
		if hash, ok := m["argsHash"]; ok {
			want["argsHash"] = hash
		}
	}
	return want.normal(true), got.normal(true)
}

// keepFixture leaves a store with its scenario. What the resume steps name by
// sequence number has another one here, so they are changed.
func keepFixture(t *testing.T, f *fixture, store string) {
	t.Helper()
	dir := filepath.Join(*interopOut, f.Scenario)
	require.NoError(t, os.RemoveAll(dir))
	copyTree(t, store, filepath.Join(dir, "store"))
	locks, err := filepath.Glob(filepath.Join(dir, "store", "*.lock"))
	require.NoError(t, err)
	for _, path := range locks {
		require.NoError(t, os.Remove(path))
	}
	var scenario map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(f.raw, &scenario))
	var steps []map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(scenario["resume"], &steps))
	recorded, _ := recordedStore(t.Context(), t, f)
	own := newFixtureJournal(loadEntries(t.Context(), t, store, f.RunID)...)
	for i := range steps {
		renumber(t, steps[i], recorded, own)
	}
	scenario["resume"] = mustJSON(t, steps)
	text, err := json.MarshalIndent(scenario, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "scenario.json"), append(text, '\n'), 0o644))
}

// renumber changes the keys of approvals and the list of invalidated entries
// in a step. What a resume has yet to write keeps its distance from the end of
// the store.
func renumber(t *testing.T, step map[string]json.RawMessage, recorded, own *fixtureJournal) {
	t.Helper()
	number := func(seq int64) int64 {
		if last := recorded.last(); seq > last {
			return seq - last + own.last()
		}
		return recorded.sameEntry(seq, own)
	}
	if step["resolve"] != nil {
		var answers []map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(step["resolve"], &answers))
		for _, a := range answers {
			var key string
			require.NoError(t, json.Unmarshal(a["key"], &key))
			if seq, ok := approvalSeq(key); ok {
				a["key"] = mustText(fmt.Sprintf("approval:%d", number(seq)))
			}
		}
		step["resolve"] = mustJSON(t, answers)
	}
	var options map[string]json.RawMessage
	var invalidate []int64
	if json.Unmarshal(step["options"], &options) == nil && json.Unmarshal(options["invalidate"], &invalidate) == nil {
		for i := range invalidate {
			invalidate[i] = number(invalidate[i])
		}
		options["invalidate"] = mustJSON(t, invalidate)
		step["options"] = mustJSON(t, options)
	}
}

func mustJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}
