package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// failOnce makes the next call of op on a path that ends in suffix fail.
func failOnce(disk *faultfs.FS, op faultfs.Op, suffix string, err error, part int) {
	done := false
	disk.Inject = func(o faultfs.Op, path string) faultfs.Fault {
		if o != op || done || !strings.HasSuffix(path, suffix) {
			return faultfs.Fault{}
		}
		done = true
		return faultfs.Fault{Err: err, Part: part}
	}
}

func TestFailedWriteLeavesTheJournal(t *testing.T) {
	for _, part := range []int{0, 1, 40, 1 << 20} {
		t.Run(fmt.Sprintf("after %d bytes", part), func(t *testing.T) {
			disk := faultfs.New()
			s := open(t, "/d", &journal.FileOptions{FS: disk})
			l := started(t, s, "r1", 2)
			failOnce(disk, faultfs.Write, ".jsonl", syscall.ENOSPC, part)
			e := step(`"lost"`)
			e.Seq = -7
			err := s.Append(t.Context(), "r1", e, l)
			require.ErrorIs(t, err, errs.JournalIntegrity)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.EqualValues(t, -7, e.Seq)
			require.Equal(t, []int64{0, 1}, loaded(t, s, "r1", -1))
			require.NoError(t, s.Append(t.Context(), "r1", e, l), "the disk has room again")
			_, entries, err := s.Load(t.Context(), "r1", -1)
			require.NoError(t, err)
			require.Equal(t, `"lost"`, string(entries[2].Value))
			require.NoError(t, l.Release())
		})
	}
}

func TestFailedSyncEndsTheRunHere(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Sync, faultfs.SyncDir} {
		t.Run(string(op), func(t *testing.T) {
			disk := faultfs.New()
			s := open(t, "/d", &journal.FileOptions{FS: disk})
			l := lock(t, s, "r1")
			failOnce(disk, op, "", syscall.EIO, 0)
			require.ErrorIs(t, s.Append(t.Context(), "r1", step(`1`), l), syscall.EIO)
			err := s.Append(t.Context(), "r1", step(`1`), l)
			require.ErrorIs(t, err, errs.JournalIntegrity, "no further append")
			require.ErrorIs(t, s.Append(t.Context(), "r1", resolution(0, `1`), nil), errs.JournalIntegrity)
			require.NoError(t, l.Release())
			again := started(t, open(t, "/d", &journal.FileOptions{FS: disk}), "r1", 1)
			require.Equal(t, []int64{0}, loaded(t, s, "r1", -1), "the entry was taken back")
			require.NoError(t, again.Release())
		})
	}
}

// TestFailedWriteIsGone: what a failed write left does not come back among the
// blocks of the next one when the power fails then.
func TestFailedWriteIsGone(t *testing.T) {
	for seed := range uint64(60) {
		disk := faultfs.New()
		s := open(t, "/d", &journal.FileOptions{FS: disk})
		l := started(t, s, "r1", 2)
		failOnce(disk, faultfs.Write, ".jsonl", syscall.ENOSPC, 2048)
		require.ErrorIs(t, s.Append(t.Context(), "r1", step(`"`+strings.Repeat("x", 3000)+`"`), l), syscall.ENOSPC)
		var after *faultfs.FS
		disk.Inject = func(op faultfs.Op, _ string) faultfs.Fault {
			if op == faultfs.Sync && after == nil {
				after = disk.Shred(rand.New(rand.NewPCG(seed, 0)))
			}
			return faultfs.Fault{}
		}
		require.NoError(t, s.Append(t.Context(), "r1", step(`"`+strings.Repeat("y", 900)+`"`), l))
		_, entries, err := open(t, "/d", &journal.FileOptions{FS: after}).Load(t.Context(), "r1", -1)
		require.NoError(t, err, seed)
		require.GreaterOrEqual(t, len(entries), 2, seed)
		for _, e := range entries[2:] {
			require.NotContains(t, string(e.Raw), "x", seed)
		}
	}
}

func TestFailedWriteThatCannotBeTakenBack(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 2)
	disk.Inject = func(op faultfs.Op, _ string) faultfs.Fault {
		switch op {
		case faultfs.Write:
			return faultfs.Fault{Err: syscall.EIO, Part: 30}
		case faultfs.Truncate:
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	}
	require.ErrorIs(t, s.Append(t.Context(), "r1", step(`1`), l), errs.JournalIntegrity)
	disk.Inject = nil
	require.ErrorIs(t, s.Append(t.Context(), "r1", step(`1`), l), errs.JournalIntegrity)
	require.Equal(t, []int64{0, 1}, loaded(t, s, "r1", -1))
	require.NoError(t, l.Release())

	var log bytes.Buffer
	s = open(t, "/d", &journal.FileOptions{FS: disk, Logger: logTo(&log)})
	l = lock(t, s, "r1")
	syncs := disk.Count(faultfs.Sync)
	require.NoError(t, s.Append(t.Context(), "r1", step(`1`), l))
	require.Equal(t, 2, disk.Count(faultfs.Sync)-syncs, "a repair costs one more")
	require.Equal(t, []int64{0, 1, 2}, loaded(t, s, "r1", -1))
	require.Contains(t, log.String(), "lostBytes=30")
	require.NoError(t, l.Release())
}

func TestFailedRepairWritesNothing(t *testing.T) {
	for name, tail := range map[string]string{"torn": `{"hashVer`, "glued": line9 + line9b} {
		for _, op := range []faultfs.Op{faultfs.Truncate, faultfs.Sync, faultfs.Rename} {
			if name == "torn" && op == faultfs.Rename || name == "glued" && op == faultfs.Truncate {
				continue
			}
			t.Run(name+" "+string(op), func(t *testing.T) {
				disk := faultfs.New()
				s := open(t, "/d", &journal.FileOptions{FS: disk})
				require.NoError(t, started(t, s, "r1", 2).Release())
				addText(t, disk, tail)
				want := loaded(t, s, "r1", -1)
				l := lock(t, s, "r1")
				failOnce(disk, op, "", syscall.EIO, 0)
				require.ErrorIs(t, s.Append(t.Context(), "r1", step(`1`), l), syscall.EIO)
				require.Equal(t, want, loaded(t, s, "r1", -1))
				require.NoError(t, s.Append(t.Context(), "r1", step(`1`), l))
				got := loaded(t, s, "r1", -1)
				require.Equal(t, want, got[:len(got)-1])
				require.Len(t, got, len(want)+1)
				require.NoError(t, l.Release())
			})
		}
	}
}

func TestFailedReplaceKeepsTheOldFile(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Open, faultfs.Write, faultfs.Sync, faultfs.Rename} {
		t.Run(string(op), func(t *testing.T) {
			disk := faultfs.New()
			s := open(t, "/d", &journal.FileOptions{FS: disk})
			l := lock(t, s, "r1")
			require.NoError(t, s.PutMeta(t.Context(), &journal.Meta{RunID: "r1", Status: "running"}, l))
			require.NoError(t, s.Put(t.Context(), "r1/t0", []byte("old")))
			suffix := ".tmp"
			if op == faultfs.Rename {
				suffix = ""
			}
			failOnce(disk, op, suffix, syscall.ENOSPC, 5)
			require.ErrorIs(t, s.PutMeta(t.Context(), &journal.Meta{RunID: "r1", Status: "ok"}, l), syscall.ENOSPC)
			failOnce(disk, op, suffix, syscall.ENOSPC, 5)
			require.ErrorIs(t, s.Put(t.Context(), "r1/t0", []byte("new")), syscall.ENOSPC)
			meta, _, err := s.Load(t.Context(), "r1", -1)
			require.NoError(t, err)
			require.Equal(t, "running", meta.Status)
			got, err := s.Get(t.Context(), "r1/t0")
			require.NoError(t, err)
			require.Equal(t, "old", string(got))
			for _, dir := range []string{"/d", "/d/r1"} {
				names, err := disk.ReadDir(dir)
				require.NoError(t, err)
				for _, n := range names {
					require.NotContains(t, n.Name(), ".tmp", "nothing is left behind")
				}
			}
			require.NoError(t, l.Release())
		})
	}
}

// TestAnyFault makes any call fail at random and expects that every entry that
// was acknowledged is there afterwards, in order, and nothing else.
func TestAnyFault(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		disk := faultfs.New()
		s := open(t, "/d", &journal.FileOptions{FS: disk})
		l := lock(t, s, "r1")
		disk.Inject = func(op faultfs.Op, _ string) faultfs.Fault {
			if op != faultfs.Open && rng.IntN(6) == 0 {
				return faultfs.Fault{Err: syscall.EIO, Part: rng.IntN(200)}
			}
			return faultfs.Fault{}
		}
		var acked []string
		for i := range 12 {
			value := fmt.Sprintf(`"%d %s"`, i, strings.Repeat("x", rng.IntN(400)))
			e := step(value)
			if err := s.Append(context.Background(), "r1", e, l); err == nil {
				acked = append(acked, lineOf(e))
			} else {
				require.ErrorIs(t, err, errs.JournalIntegrity)
				require.True(t, errors.Is(err, syscall.EIO), "seed %d: %v", seed, err)
			}
		}
		disk.Inject = nil
		require.NoError(t, l.Release())
		s = open(t, "/d", &journal.FileOptions{FS: disk})
		_, entries, err := s.Load(context.Background(), "r1", -1)
		require.NoError(t, err, "seed %d", seed)
		require.GreaterOrEqual(t, len(entries), len(acked), "seed %d", seed)
		for i, raw := range acked {
			require.Equal(t, raw, string(entries[i].Raw), "seed %d", seed)
		}
		// One more may stand there: written, not synced, and the truncation
		// that should have taken it back failed too.
		require.LessOrEqual(t, len(entries), len(acked)+1, "seed %d", seed)
		l = lock(t, s, "r1")
		require.NoError(t, s.Append(context.Background(), "r1", step(`1`), l))
		require.NoError(t, l.Release())
	}
}

// TestReplacedWithoutItsName: where the directory could not be synced after a
// journal was replaced, the next append syncs it.
func TestReplacedWithoutItsName(t *testing.T) {
	for seed := range uint64(20) {
		disk := faultfs.New()
		s := open(t, "/d", &journal.FileOptions{FS: disk})
		l := started(t, s, "r1", 2)
		addText(t, disk, line9+line9b)
		failOnce(disk, faultfs.SyncDir, "", syscall.EIO, 0)
		require.ErrorIs(t, s.Append(t.Context(), "r1", step(`1`), l), syscall.EIO)
		require.NoError(t, s.Append(t.Context(), "r1", step(`1`), l))
		disk = disk.Crash(rand.New(rand.NewPCG(seed, 0)))
		require.Equal(t, []int64{0, 1, 9, 10, 11}, loaded(t, open(t, "/d", &journal.FileOptions{FS: disk}), "r1", -1))
	}
}

// TestPanicOfTheLogger: a writer that panics in the host's logger leaves nobody
// waiting, and tells nobody of a success.
func TestPanicOfTheLogger(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	require.NoError(t, started(t, s, "r1", 2).Release())
	addText(t, disk, line9[:40])
	logger := &panicky{waiting: func() { s.AwaitQueue("r1", 1) }}
	s = open(t, "/d", &journal.FileOptions{FS: disk, Logger: slog.New(logger)})
	l := lock(t, s, "r1")
	second := make(chan error)
	logger.first = func() { go func() { second <- s.Append(t.Context(), "r1", step(`3`), l) }() }
	require.Panics(t, func() { _ = s.Append(t.Context(), "r1", step(`2`), l) })
	require.NoError(t, <-second)
	require.NoError(t, l.Release())
	require.Equal(t, []int64{0, 1, 2}, loaded(t, s, "r1", -1))
}

// panicky is a handler that panics once, when somebody waits for the writer.
type panicky struct {
	slog.Handler
	first, waiting func()
	once           sync.Once
}

func (*panicky) Enabled(context.Context, slog.Level) bool { return true }

func (h *panicky) Handle(context.Context, slog.Record) error {
	h.once.Do(func() {
		h.first()
		h.waiting()
		panic("the host's handler")
	})
	return nil
}
