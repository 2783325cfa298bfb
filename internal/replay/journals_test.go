package replay_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// recorded is what expect.json says about a store before anything is resumed,
// and what the first resume met.
type recorded struct {
	Before struct {
		Entries    int
		LastSeq    *int64
		LoadError  json.RawMessage
		FoldError  json.RawMessage
		LastSettle *struct{ RunStatus string }

		OpenSuspensions []struct {
			Key, Scope string
			Seq        int64
		}
		InvalidResolutions []struct{ Seq int64 }
	}
	Steps []struct{ Preview *replay.Preview }
}

// edited are the scenarios whose first resume makes other calls than the
// journal shows, so that the counts cannot be read off the store.
var edited = map[string]string{
	"agent-fallback":              "the primary answers this time, so the fallback is not called",
	"approval-policy-now-allows":  "the changed configuration does not ask",
	"approval-policy-now-denies":  "the changed configuration does not ask",
	"dangling-deleted-from-code":  "the call was deleted",
	"edit-agent-type":             "the call was edited",
	"edit-delete":                 "a call was deleted",
	"edit-effort-and-model":       "the call was edited",
	"edit-insert":                 "a dry run ends at the inserted call",
	"edit-insert-parallel-before": "the scopes moved",
	"edit-suspended-deleted":      "the call was deleted",
	"edit-swap-branches":          "the scopes moved",
	"replay-never":                "a call asks for no replay",
	"step-key-and-deps":           "the dependencies were edited",
}

func TestRecordedJournals(t *testing.T) {
	dir := os.Getenv("RULVAR_JOURNALS")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "journals")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "expect.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			var want recorded
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(src, &want))
			if want.Before.LoadError != nil || want.Before.FoldError != nil {
				t.Skip("the store does not load")
			}
			entries := decodeStore(t, filepath.Dir(file))
			checkBefore(t, want, entries)
			if edited[name] == "" {
				checkFirstResume(t, want, entries)
			}
		})
	}
}

func decodeStore(t *testing.T, dir string) []journal.Entry {
	files, err := filepath.Glob(filepath.Join(dir, "store", "r1.jsonl"))
	require.NoError(t, err)
	if len(files) == 0 {
		return nil
	}
	src, err := os.ReadFile(files[0])
	require.NoError(t, err)
	return decodeLines(src)
}

func checkBefore(t *testing.T, want recorded, entries []journal.Entry) {
	require.Len(t, entries, want.Before.Entries)
	require.NoError(t, checkVersions(entries))
	f := mustFold(t, entries)
	if want.Before.LastSeq != nil {
		require.Equal(t, *want.Before.LastSeq, f.LastSeq())
	}
	if want.Before.LastSettle != nil {
		require.Equal(t, want.Before.LastSettle.RunStatus, f.LastRunStatus())
	}
	open := f.OpenSuspensions()
	require.Len(t, open, len(want.Before.OpenSuspensions))
	for i, w := range want.Before.OpenSuspensions {
		require.Equal(t, w.Seq, open[i].Entry.Seq)
		require.Equal(t, w.Scope, open[i].Entry.Scope)
		require.Equal(t, w.Key, open[i].Key())
	}
	require.Len(t, f.InvalidResolutions(), len(want.Before.InvalidResolutions))
}

// checkFirstResume makes the calls that the journal itself shows, in journal
// order and in the scopes of what runs again. Work that is new in the resume
// is not in the journal, so misses are not compared.
func checkFirstResume(t *testing.T, want recorded, entries []journal.Entry) {
	m := mustMatcher(t, entries)
	live := []string{}
	for i := range entries {
		e := &entries[i]
		if e.Ref != nil || !runs(e.Scope, live) {
			continue
		}
		switch e.Kind {
		case journal.KindAgent, journal.KindStep, journal.KindChild, journal.KindExternal, journal.KindRand:
			res := m.Match(e.Scope, key(e.Key), replay.Scoped)
			again := res.Disposition == replay.Rerun || res.Disposition == replay.RerunDangling
			switch {
			case again && e.Kind == journal.KindAgent:
				live = append(live, replay.AgentScope(e.Scope, e.Seq))
			case again && e.Kind == journal.KindChild:
				var v struct{ ChildScope string }
				require.NoError(t, json.Unmarshal(e.Value, &v))
				live = append(live, v.ChildScope)
			}
		case journal.KindApproval:
			m.Approval(replay.ApprovalQuery{Scope: e.Scope, ToolCallID: "c", Key: e.Key, Awaiting: true})
		}
	}
	if len(want.Steps) == 0 || want.Steps[0].Preview == nil {
		return
	}
	w, got := want.Steps[0].Preview, m.Preview()
	require.Equal(t, []any{w.Hits, w.Skipped, w.Reruns, w.Orphaned}, []any{got.Hits, got.Skipped, got.Reruns, got.Orphaned})
}

// runs reports whether a scope belongs to a body that runs: the root with its
// branches and stages, or a child or an agent that runs again.
func runs(scope string, live []string) bool {
	for _, l := range live {
		if scope == l || strings.HasPrefix(scope, l+"/") {
			return true
		}
	}
	return !strings.Contains(scope, "wf:") && !strings.Contains(scope, "agent:")
}
