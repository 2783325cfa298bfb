package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// store is what the two stores have in common.
type store interface {
	Append(ctx context.Context, runID string, e *journal.Entry, lock *journal.RunLock) error
	AppendAll(ctx context.Context, runID string, entries []*journal.Entry, lock *journal.RunLock) error
	Load(ctx context.Context, runID string, after int64) (*journal.Meta, []*journal.Entry, error)
	PutMeta(ctx context.Context, meta *journal.Meta, lock *journal.RunLock) error
	ListRuns(ctx context.Context, keep func(*journal.Meta) bool) ([]*journal.Meta, error)
	Delete(ctx context.Context, runID string, lock *journal.RunLock) error
	Lock(ctx context.Context, runID, owner string) (*journal.RunLock, error)
	Put(ctx context.Context, ref string, data []byte) error
	Get(ctx context.Context, ref string) ([]byte, error)
	List(ctx context.Context, runID string) ([]string, error)
	DeleteBlob(ctx context.Context, ref string) error
}

func step(value string) *journal.Entry {
	return &journal.Entry{
		Kind: journal.KindStep, Status: journal.StatusRunning, Key: "k", SpanID: "s1",
		StartedAt: "2026-11-30T09:19:01.063Z", Value: json.RawMessage(value),
	}
}

func resolution(target int64, value string) *journal.Entry {
	return &journal.Entry{
		Kind: journal.KindResolution, Status: journal.StatusOK, Ref: &target, SpanID: "s1",
		Resolution: json.RawMessage(fmt.Sprintf(`{"target":%d,"by":"external","value":%s}`, target, value)),
	}
}

func decision(value string) *journal.Entry {
	return &journal.Entry{Kind: journal.KindDecision, Status: journal.StatusOK, Value: json.RawMessage(value)}
}

func open(t testing.TB, dir string, opts *journal.FileOptions) *journal.FileStore {
	s, err := journal.Open(dir, opts)
	require.NoError(t, err)
	return s
}

func lock(t testing.TB, s store, runID string) *journal.RunLock {
	l, err := s.Lock(context.Background(), runID, "test")
	require.NoError(t, err)
	return l
}

// started returns a lock on a run with n entries.
func started(t testing.TB, s store, runID string, n int) *journal.RunLock {
	l := lock(t, s, runID)
	for range n {
		require.NoError(t, s.Append(context.Background(), runID, step(`"v"`), l))
	}
	return l
}

func seqs(entries []*journal.Entry) []int64 {
	list := []int64{}
	for _, e := range entries {
		list = append(list, e.Seq)
	}
	return list
}

func loaded(t testing.TB, s store, runID string, after int64) []int64 {
	_, entries, err := s.Load(context.Background(), runID, after)
	require.NoError(t, err)
	return seqs(entries)
}

// eachStore runs a test over every store.
func eachStore(t *testing.T, f func(t *testing.T, s store)) {
	t.Run("files", func(t *testing.T) { f(t, open(t, filepath.Join(t.TempDir(), "a", "store"), nil)) })
	t.Run("fake files", func(t *testing.T) { f(t, open(t, "/d", &journal.FileOptions{FS: faultfs.New()})) })
	t.Run("memory", func(t *testing.T) { f(t, journal.NewMemoryStore()) })
}

func TestAppendMintsSequence(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		l := lock(t, s, "r1")
		for i := range 3 {
			e := step(`{"a":1}`)
			e.Seq = 77 // of no meaning without At
			require.NoError(t, s.Append(ctx, "r1", e, l))
			require.EqualValues(t, i, e.Seq)
		}
		run := step(`1`)
		end := step(`2`)
		end.Status, end.Ref = journal.StatusOK, &run.Seq
		require.NoError(t, s.AppendAll(ctx, "r1", []*journal.Entry{run, end}, l))
		require.EqualValues(t, 3, *end.Ref)
		require.EqualValues(t, 4, end.Seq)
		require.NoError(t, s.AppendAll(ctx, "r1", nil, l))

		high := int64(10)
		at := step(`3`)
		at.At = &high
		require.NoError(t, s.Append(ctx, "r1", at, l))
		require.EqualValues(t, 10, at.Seq)
		require.ErrorIs(t, s.Append(ctx, "r1", &journal.Entry{Kind: "step", Status: "running", At: &high}, l), errs.JournalOrder)

		_, entries, err := s.Load(ctx, "r1", -1)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1, 2, 3, 4, 10}, seqs(entries))
		require.EqualValues(t, 3, *entries[4].Ref)
		require.Equal(t, []int64{4, 10}, loaded(t, s, "r1", 3))
		require.Equal(t, []int64{}, loaded(t, s, "r1", 10))
		require.Equal(t, []int64{}, loaded(t, s, "none", -1))
	})
}

func TestAppendRaw(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		l := lock(t, s, "r1")
		text := `{"seq":5,"future":{"a":[1]},"v":1,"scope":"","key":"","kind":"future.kind","status":"odd"}`
		e, err := journal.ParseEntry([]byte(text))
		require.NoError(t, err)
		require.NoError(t, s.Append(ctx, "r1", e, l))
		_, entries, err := s.Load(ctx, "r1", -1)
		require.NoError(t, err)
		require.Equal(t, text, string(entries[0].Raw))
		require.ErrorIs(t, s.Append(ctx, "r1", e, l), errs.JournalOrder, "the same number again")
		for name, raw := range map[string]string{
			"not an entry": `{}`,
			"another seq":  `{"seq":9,"scope":"","key":"","kind":"future.kind","status":"odd"}`,
			"another kind": `{"seq":6,"scope":"","key":"","kind":"step","status":"odd"}`,
			"line break":   "{\"seq\":6,\n\"scope\":\"\",\"key\":\"\",\"kind\":\"future.kind\",\"status\":\"odd\"}",
		} {
			t.Run(name, func(t *testing.T) {
				err := s.Append(ctx, "r1", &journal.Entry{Seq: 6, Kind: "future.kind", Raw: json.RawMessage(raw)}, l)
				require.ErrorIs(t, err, errs.Config)
			})
		}
	})
}

func TestAppendRefuses(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		l := started(t, s, "r1", 2)
		other := lock(t, s, "r2")
		require.ErrorIs(t, s.Append(ctx, "a/b", step(`1`), l), errs.Config)
		require.ErrorIs(t, s.Append(ctx, "r1", &journal.Entry{Kind: "odd"}, l), errs.Config)
		require.ErrorIs(t, s.Append(ctx, "r1", step(`{`), l), errs.NonSerializable)
		require.ErrorIs(t, s.Append(ctx, "r1", step(`1`), other), errs.Config, "the lock of another run")
		require.ErrorIs(t, s.Append(ctx, "r1", resolution(2, `1`), l), errs.Config, "a ref that is not backwards")
		require.ErrorIs(t, s.Append(ctx, "r1", step(`1`), lock(t, journal.NewMemoryStore(), "r1")), errs.Config, "the lock of another store")
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, s.Append(cancelled, "r1", step(`1`), l), context.Canceled)
		failing := []*journal.Entry{step(`1`), resolution(9, `1`)}
		require.Error(t, s.AppendAll(ctx, "r1", failing, l))
		require.Equal(t, []int64{0, 1}, loaded(t, s, "r1", -1))
		require.NoError(t, l.Release())
		require.NoError(t, l.Release(), "a second time")
		require.ErrorIs(t, s.Append(ctx, "r1", step(`1`), l), errs.Config, "a released lock")
		require.ErrorIs(t, s.PutMeta(ctx, &journal.Meta{RunID: "r1"}, l), errs.Config, "a released lock")
	})
}

func TestAppendWithoutLock(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		require.ErrorIs(t, s.Append(ctx, "r1", resolution(0, `1`), nil), errs.Config, "no run")
		l := lock(t, s, "r1")
		require.ErrorIs(t, s.Append(ctx, "r1", resolution(0, `1`), nil), errs.Config, "no journal yet")
		require.NoError(t, s.Append(ctx, "r1", step(`1`), l))
		beside := func(want errs.Code) {
			require.NoError(t, s.Append(ctx, "r1", resolution(0, `{"decision":"allow"}`), nil))
			require.NoError(t, s.Append(ctx, "r1", decision(`{"decisionType":"approval_revoked","targetRef":0}`), nil))
			ref := int64(0)
			require.NoError(t, s.Append(ctx, "r1", &journal.Entry{Kind: "abandon", Status: "ok", Ref: &ref, Abandon: json.RawMessage(`{"target":0,"authorizedBy":"host","reason":"r"}`)}, nil))
			require.ErrorIs(t, s.Append(ctx, "r1", step(`1`), nil), want)
			require.ErrorIs(t, s.Append(ctx, "r1", decision(`{"decisionType":"run_settle"}`), nil), want)
			require.ErrorIs(t, s.Append(ctx, "r1", decision(`{"decisionType":"run_settle","DecisionType":"approval_revoked"}`), nil), want)
			require.ErrorIs(t, s.AppendAll(ctx, "r1", []*journal.Entry{resolution(0, `1`), step(`1`)}, nil), want)
			raw, err := journal.ParseEntry([]byte(`{"seq":90,"scope":"","key":"","kind":"decision","status":"ok","value":{"decisionType":"run_settle"}}`))
			require.NoError(t, err)
			raw.Value = json.RawMessage(`{"decisionType":"approval_revoked"}`)
			require.ErrorIs(t, s.Append(ctx, "r1", raw, nil), errs.Config, "the raw line is another decision")
			require.ErrorIs(t, s.PutMeta(ctx, &journal.Meta{RunID: "r1"}, nil), want)
		}
		beside(errs.LeaseHeld)
		require.NoError(t, l.Release())
		beside(errs.Config)
		require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, loaded(t, s, "r1", -1))
	})
}

func TestLockIsExclusive(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		l, err := s.Lock(ctx, "r1", "worker 7")
		require.NoError(t, err)
		require.Equal(t, "r1", l.RunID())
		_, err = s.Lock(ctx, "r1", "worker 8")
		require.ErrorIs(t, err, errs.LeaseHeld)
		require.ErrorContains(t, err, "worker 7")
		var typed *errs.Error
		require.ErrorAs(t, err, &typed)
		require.True(t, typed.Retryable)
		require.Equal(t, l.Holder(), typed.Data["holder"])
		require.Equal(t, os.Getpid(), l.Holder().PID)
		require.ErrorIs(t, s.Delete(ctx, "r1", nil), errs.LeaseHeld)
		other, err := s.Lock(ctx, "r2", "worker 8")
		require.NoError(t, err, "another run")
		require.NoError(t, other.Release())
		require.NoError(t, l.Release())
		again, err := s.Lock(ctx, "r1", "worker 8")
		require.NoError(t, err)
		require.Greater(t, again.Epoch(), l.Epoch())
		require.NoError(t, again.Release())
		_, err = s.Lock(ctx, "r1", strings.Repeat("w", 1001))
		require.ErrorIs(t, err, errs.Config)
		_, err = s.Lock(ctx, "..", "w")
		require.ErrorIs(t, err, errs.Config)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = s.Lock(cancelled, "r1", "w")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestMetaAndListing(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		metas, err := s.ListRuns(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, metas)
		b := lock(t, s, "b")
		budget := 2.5
		first := &journal.Meta{
			RunID: "b", Status: "running", Segments: 1, Tags: []string{"ci"}, BudgetUSD: &budget,
			Extra: map[string]json.RawMessage{"futureField": json.RawMessage(`{"x":1}`)},
		}
		require.NoError(t, s.PutMeta(ctx, first, b))
		require.NoError(t, s.PutMeta(ctx, &journal.Meta{RunID: "b", Status: "ok", Segments: 2}, b))
		got, entries, err := s.Load(ctx, "b", -1)
		require.NoError(t, err)
		require.Empty(t, entries)
		require.Equal(t, "ok", got.Status)
		require.Nil(t, got.Tags)
		require.JSONEq(t, `{"x":1}`, string(got.Extra["futureField"]), "unknown members survive")
		got.Status, got.Extra["futureField"] = "changed", nil
		got, _, err = s.Load(ctx, "b", -1)
		require.NoError(t, err)
		require.Equal(t, "ok", got.Status, "what was handed out is the caller's own")
		require.NotNil(t, got.Extra["futureField"])

		require.NoError(t, started(t, s, "a", 1).Release())
		metas, err = s.ListRuns(ctx, nil)
		require.NoError(t, err)
		require.Len(t, metas, 2)
		require.Equal(t, &journal.Meta{RunID: "a"}, metas[0])
		require.Equal(t, "b", metas[1].RunID)
		metas, err = s.ListRuns(ctx, func(m *journal.Meta) bool { return m.Status == "ok" })
		require.NoError(t, err)
		require.Len(t, metas, 1)
		require.ErrorIs(t, s.PutMeta(ctx, &journal.Meta{RunID: "a/b"}, b), errs.Config)
	})
}

func TestBlobs(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		data := []byte{1, 0, 255}
		require.NoError(t, s.Put(ctx, "r1/ckpt/0", data))
		require.NoError(t, s.Put(ctx, "r1/ckpt/0", data))
		require.NoError(t, s.Put(ctx, "r1/empty", nil))
		require.NoError(t, s.Put(ctx, "r10/x", data))
		got, err := s.Get(ctx, "r1/ckpt/0")
		require.NoError(t, err)
		require.Equal(t, data, got)
		got, err = s.Get(ctx, "r1/empty")
		require.NoError(t, err)
		require.NotNil(t, got)
		require.Empty(t, got)
		got, err = s.Get(ctx, "r1/ckpt/1")
		require.NoError(t, err)
		require.Nil(t, got)
		refs, err := s.List(ctx, "r1")
		require.NoError(t, err)
		require.Equal(t, []string{"r1/ckpt/0", "r1/empty"}, refs)
		require.NoError(t, s.DeleteBlob(ctx, "r1/empty"))
		require.NoError(t, s.DeleteBlob(ctx, "r1/empty"))
		refs, err = s.List(ctx, "r1")
		require.NoError(t, err)
		require.Equal(t, []string{"r1/ckpt/0"}, refs)
		for _, ref := range []string{"r1", "../x", "r1/../x"} {
			require.ErrorIs(t, s.Put(ctx, ref, data), errs.Config)
			_, err := s.Get(ctx, ref)
			require.ErrorIs(t, err, errs.Config)
			require.ErrorIs(t, s.DeleteBlob(ctx, ref), errs.Config)
		}
		_, err = s.List(ctx, "..")
		require.ErrorIs(t, err, errs.Config)
	})
}

func TestDelete(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		require.NoError(t, s.Delete(ctx, "none", nil))
		for _, id := range []string{"r1", "r10"} {
			l := started(t, s, id, 2)
			require.NoError(t, s.PutMeta(ctx, &journal.Meta{RunID: id, Status: "ok"}, l))
			require.NoError(t, s.Put(ctx, id+"/ckpt/0", []byte("x")))
			require.NoError(t, l.Release())
		}
		require.Equal(t, []int64{0, 1}, loaded(t, s, "r1", -1))
		require.NoError(t, s.Delete(ctx, "r1", nil))
		meta, entries, err := s.Load(ctx, "r1", -1)
		require.NoError(t, err)
		require.Nil(t, meta)
		require.Empty(t, entries)
		refs, err := s.List(ctx, "r1")
		require.NoError(t, err)
		require.Empty(t, refs)
		metas, err := s.ListRuns(ctx, nil)
		require.NoError(t, err)
		require.Len(t, metas, 1, "the other run is there")
		require.ErrorIs(t, s.Append(ctx, "r1", resolution(0, `1`), nil), errs.Config, "a resolution does not bring it back")
		l := started(t, s, "r1", 1)
		require.NoError(t, s.Put(ctx, "r1/ckpt/0", []byte("y")))
		require.Equal(t, []int64{0}, loaded(t, s, "r1", -1), "the id may be used again")
		require.NoError(t, l.Release())
	})
}

// TestConcurrentAppends has many goroutines append to few runs through two
// stores over one directory, some without the lock.
func TestConcurrentAppends(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		const writers, each = 8, 10
		locks := map[string]*journal.RunLock{"r1": started(t, s, "r1", 1), "r2": started(t, s, "r2", 1)}
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				id := []string{"r1", "r2"}[w%2]
				for i := range each {
					e, l := step(fmt.Sprintf(`"%d.%d"`, w, i)), locks[id]
					if w >= writers/2 {
						e, l = resolution(0, fmt.Sprintf(`"%d.%d"`, w, i)), nil
					}
					if err := s.Append(ctx, id, e, l); err != nil {
						t.Error(err)
					}
					if _, _, err := s.Load(ctx, id, e.Seq-1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for id, l := range locks {
			got := loaded(t, s, id, -1)
			require.Len(t, got, 1+writers/2*each)
			require.EqualValues(t, writers/2*each, got[len(got)-1], "no number is left out")
			require.NoError(t, l.Release())
		}
	})
}

// TestAppendsShareOneSync holds many callers to fewer syncs than entries.
func TestAppendsShareOneSync(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 1)
	release, first := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.Inject = func(op faultfs.Op, _ string) faultfs.Fault {
		if op == faultfs.Sync {
			once.Do(func() { close(first); <-release })
		}
		return faultfs.Fault{}
	}
	before := disk.Count(faultfs.Sync)
	var wg sync.WaitGroup
	put := func() {
		if err := s.Append(context.Background(), "r1", step(`1`), l); err != nil {
			t.Error(err)
		}
	}
	wg.Go(put)
	<-first
	const waiting = 50
	for range waiting {
		wg.Go(put)
	}
	s.AwaitQueue("r1", waiting)
	close(release)
	wg.Wait()
	require.Equal(t, 2, disk.Count(faultfs.Sync)-before, "one for the first, one for all that waited")
	require.Len(t, loaded(t, s, "r1", -1), 2+waiting)
	require.NoError(t, l.Release())
}

// TestCancelledWhileWaiting: a caller whose context ends does not wait for a
// journal that another process has locked.
func TestCancelledWhileWaiting(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 1)
	f, err := disk.OpenFile("/d/r1.jsonl", os.O_RDWR, 0)
	require.NoError(t, err)
	ok, err := f.TryLock()
	require.NoError(t, err)
	require.True(t, ok)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Append(ctx, "r1", step(`1`), l), context.DeadlineExceeded)
	require.NoError(t, f.Close())
	require.NoError(t, s.Append(t.Context(), "r1", step(`1`), l))
	require.Equal(t, []int64{0, 1}, loaded(t, s, "r1", -1))
	require.NoError(t, l.Release())
}
