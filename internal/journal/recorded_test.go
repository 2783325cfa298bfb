package journal_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
)

const recorded = "../../testdata/journals"

// recordedStores returns the directories of the stores that the reference
// recorded.
func recordedStores(t testing.TB) []string {
	dirs, err := filepath.Glob(recorded + "/*/store")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(dirs), 140)
	return dirs
}

// TestRecordedStores loads what the reference wrote and compares with what the
// reference itself found in it.
func TestRecordedStores(t *testing.T) {
	for _, dir := range recordedStores(t) {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, "../expect.json"))
			require.NoError(t, err)
			var expect struct {
				Before struct {
					ListRuns  []map[string]json.RawMessage
					Entries   int
					LastSeq   *int64
					LoadError json.RawMessage
				}
			}
			require.NoError(t, json.Unmarshal(text, &expect))
			s, err := journal.Open(dir, nil)
			require.NoError(t, err)

			meta, entries, err := s.Load(t.Context(), "r1", -1)
			require.NoError(t, err)
			require.Empty(t, expect.Before.LoadError)
			require.Len(t, entries, expect.Before.Entries)
			if expect.Before.LastSeq != nil {
				require.Equal(t, *expect.Before.LastSeq, entries[len(entries)-1].Seq)
			}
			metas, err := s.ListRuns(t.Context(), nil)
			require.NoError(t, err)
			if meta == nil {
				require.Empty(t, expect.Before.ListRuns)
				return
			}
			require.Len(t, metas, len(expect.Before.ListRuns))
			for name, want := range expect.Before.ListRuns[0] {
				if bytes.Contains(want, []byte("<")) {
					continue // masked
				}
				text, err := metas[0].AppendText(nil)
				require.NoError(t, err)
				var got map[string]json.RawMessage
				require.NoError(t, json.Unmarshal(text, &got))
				require.JSONEq(t, string(want), string(got[name]), name)
			}
			text, err = os.ReadFile(filepath.Join(dir, "r1.meta.json"))
			require.NoError(t, err)
			again, err := meta.AppendText(nil)
			require.NoError(t, err)
			require.Equal(t, string(text), string(again), "metadata is written as the reference writes it")
		})
	}
}
