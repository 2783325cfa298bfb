package journal_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// TestSyncsEachCallCosts holds the calls to the table of the package comment.
func TestSyncsEachCallCosts(t *testing.T) {
	ctx := context.Background()
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	var l, idle *journal.RunLock
	do := func(err error) { require.NoError(t, err) }
	entries := func(n int) (all []*journal.Entry) {
		for range n {
			all = append(all, step(`1`))
		}
		return all
	}
	for _, c := range []struct {
		name         string
		files, names int // syncs of files and of directories
		call         func()
	}{
		{"lock", 0, 0, func() { l = lock(t, s, "r1") }},
		{"first append under a lock", 1, 1, func() { do(s.Append(ctx, "r1", step(`1`), l)) }},
		{"append", 1, 0, func() { do(s.Append(ctx, "r1", step(`1`), l)) }},
		{"64 entries together", 1, 0, func() { do(s.AppendAll(ctx, "r1", entries(64), l)) }},
		{"resolution beside the lock, same store", 1, 0, func() { do(s.Append(ctx, "r1", resolution(0, `1`), nil)) }},
		{"metadata", 1, 1, func() { do(s.PutMeta(ctx, &journal.Meta{RunID: "r1"}, l)) }},
		{"first blob of a run", 1, 3, func() { do(s.Put(ctx, "r1/ckpt/0", []byte("x"))) }},
		{"blob", 1, 1, func() { do(s.Put(ctx, "r1/ckpt/0", []byte("y"))) }},
		{"load", 0, 0, func() { loaded(t, s, "r1", -1) }},
		{"poll", 0, 0, func() { loaded(t, s, "r1", 1<<40) }},
		{"get", 0, 0, func() { _, err := s.Get(ctx, "r1/ckpt/0"); do(err) }},
		{"list blobs", 0, 0, func() { _, err := s.List(ctx, "r1"); do(err) }},
		{"list runs", 0, 0, func() { _, err := s.ListRuns(ctx, nil); do(err) }},
		{"release", 0, 0, func() { do(l.Release()) }},
		{"resolution without a lock", 1, 1, func() { do(s.Append(ctx, "r1", resolution(0, `1`), nil)) }},
		{"lock again", 0, 0, func() { idle = lock(t, s, "r1") }},
		{"release unused", 0, 0, func() { do(idle.Release()) }},
		{"delete blob", 0, 1, func() { do(s.DeleteBlob(ctx, "r1/ckpt/0")) }},
		{"delete with blobs", 0, 2, func() { do(s.Delete(ctx, "r1", nil)) }},
		{"delete nothing", 0, 1, func() { do(s.Delete(ctx, "r2", nil)) }},
	} {
		files, names := disk.Count(faultfs.Sync), disk.Count(faultfs.SyncDir)
		c.call()
		require.Equal(t, c.files, disk.Count(faultfs.Sync)-files, "%s: files", c.name)
		require.Equal(t, c.names, disk.Count(faultfs.SyncDir)-names, "%s: directories", c.name)
	}
}

func TestSyncEvery(t *testing.T) {
	for name, c := range map[string]struct{ every, appends, want, released int }{
		"each by default": {0, 5, 5, 5},
		"each":            {1, 5, 5, 5},
		"every third":     {3, 7, 2, 3},
		"never":           {-1, 7, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.New()
			s := open(t, "/d", &journal.FileOptions{FS: disk, SyncEvery: c.every})
			l := started(t, s, "r1", c.appends)
			require.Equal(t, c.want, disk.Count(faultfs.Sync))
			require.NoError(t, l.Release())
			require.Equal(t, c.released, disk.Count(faultfs.Sync), "what is left is synced at the release")
		})
	}
}

// TestPollReadsNothing: looking again at a run where nothing happened opens no
// file, or the journal alone while a segment works on it.
func TestPollReadsNothing(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 3)
	require.NoError(t, s.PutMeta(t.Context(), &journal.Meta{RunID: "r1", Status: "running"}, l))
	require.NoError(t, l.Release())
	require.Equal(t, []int64{0, 1, 2}, loaded(t, s, "r1", -1))
	before := disk.Count(faultfs.Open)
	meta, entries, err := s.Load(t.Context(), "r1", 2)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Equal(t, "running", meta.Status)
	require.Equal(t, before, disk.Count(faultfs.Open))

	l = lock(t, s, "r1")
	other := open(t, "/d", &journal.FileOptions{FS: disk})
	require.NoError(t, other.Append(t.Context(), "r1", resolution(0, `1`), nil))
	require.Equal(t, []int64{3}, loaded(t, s, "r1", 2), "what another store appends is seen")
	require.NoError(t, s.Append(t.Context(), "r1", step(`1`), l))
	require.Equal(t, []int64{3, 4}, loaded(t, s, "r1", 2))
	require.Equal(t, []int64{0, 1, 2, 3, 4}, loaded(t, s, "r1", -1))
	require.NoError(t, l.Release())
}
