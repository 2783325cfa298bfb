package rulvar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// loadEntries reads a journal, as far as it can be read: a scenario may be
// about one that cannot.
func loadEntries(ctx context.Context, t *testing.T, dir, runID string) []*rulvar.Entry {
	t.Helper()
	store, err := rulvar.OpenFileStore(dir, nil)
	require.NoError(t, err)
	_, entries, _ := store.Load(ctx, runID, -1)
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
