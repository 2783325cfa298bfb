package rulvartest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

// faulty is a store in memory that is right but for what its fault replaces.
// Its locks are its own, so that a fault may touch them too.
type faulty struct {
	good  *rulvar.MemoryStore
	other func() rulvar.Store // the second handle; nil: this one

	appendAll  func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error
	load       func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error)
	putMeta    func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error
	listRuns   func(ctx context.Context, filter func(*rulvar.RunMeta) bool) ([]*rulvar.RunMeta, error)
	take       func(ctx context.Context, runID, owner string) (*rulvar.RunLock, error)
	holder     func(h storekit.Holder) storekit.Holder
	releasing  func(release func() error) error
	put        func(ctx context.Context, ref string, data []byte) error
	get        func(ctx context.Context, ref string) ([]byte, error)
	list       func(ctx context.Context, runID string) ([]string, error)
	deleteBlob func(ctx context.Context, ref string) error
	remove     func(ctx context.Context, runID string, lock *rulvar.RunLock) error

	mu     sync.Mutex
	inner  map[*rulvar.RunLock]*rulvar.RunLock // by the lock that was handed out
	latest map[string]*rulvar.RunLock          // handed out, by run
}

func newFaulty() *faulty {
	f := &faulty{good: rulvar.NewMemoryStore(), inner: map[*rulvar.RunLock]*rulvar.RunLock{}, latest: map[string]*rulvar.RunLock{}}
	f.holder = func(h storekit.Holder) storekit.Holder { return h }
	f.releasing = func(release func() error) error { return release() }
	f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
		return f.under(lock, "append", runID, func(l *rulvar.RunLock) error { return f.good.AppendAll(ctx, runID, entries, l) })
	}
	f.load, f.listRuns = f.good.Load, f.good.ListRuns
	f.putMeta = func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
		return f.under(lock, "put metadata", meta.RunID, func(l *rulvar.RunLock) error { return f.good.PutMeta(ctx, meta, l) })
	}
	f.take = f.rightLock
	f.put, f.get, f.list, f.deleteBlob = f.good.Put, f.good.Get, f.good.List, f.good.DeleteBlob
	f.remove = f.rightDelete
	return f
}

// under makes a call with the good store's own lock.
func (f *faulty) under(lock *rulvar.RunLock, op, runID string, call func(*rulvar.RunLock) error) error {
	if lock == nil {
		return call(nil)
	}
	done, err := lock.Use(f, op, runID)
	if err != nil {
		return err
	}
	defer done()
	f.mu.Lock()
	l := f.inner[lock]
	f.mu.Unlock()
	return call(l)
}

func (f *faulty) rightLock(ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
	l, err := f.good.Lock(ctx, runID, owner)
	if err != nil {
		return nil, err
	}
	return f.hand(l), nil
}

// hand makes the lock that is handed out for one of the good store's.
func (f *faulty) hand(l *rulvar.RunLock) *rulvar.RunLock {
	out := storekit.NewRunLock(f, l.RunID(), f.holder(l.Holder()), func() error { return f.releasing(l.Release) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inner[out], f.latest[l.RunID()] = l, out
	return out
}

func (f *faulty) rightDelete(ctx context.Context, runID string, lock *rulvar.RunLock) error {
	err := f.under(lock, "delete", runID, func(l *rulvar.RunLock) error { return f.good.Delete(ctx, runID, l) })
	if err == nil && lock != nil {
		return lock.Release()
	}
	return err
}

// anyhow makes a call that needs the lock without having it: under the lock of
// whoever has it, or under one of its own.
func (f *faulty) anyhow(runID string, call func(*rulvar.RunLock) error) error {
	f.mu.Lock()
	held := f.inner[f.latest[runID]]
	f.mu.Unlock()
	l, err := f.good.Lock(context.Background(), runID, "anyhow")
	switch {
	case errors.Is(err, rulvar.ErrLeaseHeld) && held != nil:
		return call(held)
	case err != nil:
		return err
	}
	return errors.Join(call(l), l.Release())
}

func (f *faulty) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	return f.appendAll(ctx, runID, entries, lock)
}
func (f *faulty) Load(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
	return f.load(ctx, runID, after)
}
func (f *faulty) PutMeta(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
	return f.putMeta(ctx, meta, lock)
}
func (f *faulty) ListRuns(ctx context.Context, filter func(*rulvar.RunMeta) bool) ([]*rulvar.RunMeta, error) {
	return f.listRuns(ctx, filter)
}
func (f *faulty) Lock(ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
	return f.take(ctx, runID, owner)
}
func (f *faulty) Put(ctx context.Context, ref string, data []byte) error {
	return f.put(ctx, ref, data)
}
func (f *faulty) Get(ctx context.Context, ref string) ([]byte, error) { return f.get(ctx, ref) }
func (f *faulty) List(ctx context.Context, runID string) ([]string, error) {
	return f.list(ctx, runID)
}
func (f *faulty) DeleteBlob(ctx context.Context, ref string) error { return f.deleteBlob(ctx, ref) }
func (f *faulty) Delete(ctx context.Context, runID string, lock *rulvar.RunLock) error {
	return f.remove(ctx, runID, lock)
}

// fault is one thing that a store may do wrong, and the obligations that must
// notice it.
type fault struct {
	name    string
	noticed []string
	plant   func(f *faulty)
}

// probe is a test that may fail without failing the one it runs in.
type probe struct {
	testing.TB
	mu      sync.Mutex
	failed  string
	skipped bool
}

func (p *probe) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == "" {
		p.failed = text
	}
}

func (p *probe) Helper()                           {}
func (p *probe) Errorf(format string, args ...any) { p.note(fmt.Sprintf(format, args...)) }
func (p *probe) Fatalf(format string, args ...any) { p.Errorf(format, args...); runtime.Goexit() }
func (p *probe) Skip(...any)                       { p.skipped = true; runtime.Goexit() }

// try holds a store to an obligation and returns what it fails by, "" for
// nothing.
func (o obligation) try(t *testing.T, f *faulty) string {
	p := &probe{TB: t}
	u := &underTest{TB: p, ctx: t.Context(), s: f, other: f}
	if f.other != nil {
		u.other = f.other()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				p.note(fmt.Sprintf("the suite panicked: %v", r))
			}
		}()
		o.check(u)
	}()
	<-done
	require.False(t, p.skipped, o.name)
	return p.failed
}

// TestSuitesNoticeFaults plants each fault in a store that is right otherwise:
// the obligations that it breaks must fail, each obligation must notice one,
// and a store without a fault must pass.
func TestSuitesNoticeFaults(t *testing.T) {
	byName := map[string]obligation{}
	for _, o := range slices.Concat(journalObligations, leaseObligations, blobObligations) {
		require.NotContains(t, byName, o.name)
		byName[o.name] = o
		require.Empty(t, o.try(t, newFaulty()), "%s: a store without a fault", o.name)
	}
	unnoticed := maps.Clone(byName)
	for _, list := range [][]fault{appendFaults, loadFaults, writerFaults, metaFaults, deleteFaults, leaseFaults, blobFaults} {
		for _, x := range list {
			t.Run(x.name, func(t *testing.T) {
				for _, name := range x.noticed {
					require.Contains(t, byName, name)
					f := newFaulty()
					x.plant(f)
					why := byName[name].try(t, f)
					require.NotEmpty(t, why, "%s does not notice", name)
					require.NotContains(t, why, "panicked", name)
					delete(unnoticed, name)
				}
			})
		}
	}
	require.Empty(t, slices.Sorted(maps.Keys(unnoticed)), "obligations that notice no fault")
}

// clones copies entries, so that a callee cannot tell the caller's anything.
func clones(entries []*rulvar.Entry) []*rulvar.Entry {
	var list []*rulvar.Entry
	for _, en := range entries {
		c := *en
		list = append(list, &c)
	}
	return list
}

// tail is the number of the last record.
func (f *faulty) tail(runID string) int64 {
	_, entries, _ := f.good.Load(context.Background(), runID, -1)
	if len(entries) == 0 {
		return -1
	}
	return entries[len(entries)-1].Seq
}

// appending plants a fault in AppendAll.
func appending(wrong func(f *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error) func(*faulty) {
	return func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			return wrong(f, func(some []*rulvar.Entry) error { return right(ctx, runID, some, lock) }, entries)
		}
	}
}

var appendFaults = []fault{
	{"appends one by one", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			if err := right([]*rulvar.Entry{en}); err != nil {
				return err
			}
		}
		return nil
	})},
	{"changes entries that it refuses", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		err := right(entries)
		if err != nil {
			entries[0].Seq = 5
		}
		return err
	})},
	{"takes what is no record", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		if err := right(entries); !errors.Is(err, rulvar.ErrNonSerializable) {
			return err
		}
		return nil
	})},
	{"refuses an empty batch", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		if len(entries) == 0 {
			return errors.New("nothing to do")
		}
		return right(entries)
	})},
	{"loses a record now and then", []string{"a2-total-order", "a3-read-your-writes", "lease-release-ends-writes"}, func(f *faulty) {
		var mu sync.Mutex
		n := 0
		appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%5 == 4 {
				return nil
			}
			return right(entries)
		})(f)
	}},
	{"numbers anew what brings its number", []string{"a5-monotonic-seq"}, appending(func(f *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			if en.At != nil && *en.At <= f.tail("r1") {
				en.At = nil
			}
		}
		return right(entries)
	})},
	{"leaves no gap", []string{"a5-monotonic-seq", "load-after"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			en.At = nil
		}
		return right(entries)
	})},
	{"tells nothing", []string{"append-tells-seq-and-line", "a3-read-your-writes"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		return right(clones(entries))
	})},
	{"tells another line", []string{"append-tells-seq-and-line"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		err := right(entries)
		for _, en := range entries {
			en.Raw = bytes.ReplaceAll(en.Raw, []byte(`,"`), []byte(`, "`))
		}
		return err
	})},
	{"takes a ref for a number", []string{"batch-refers-to-its-own"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		copies := clones(entries)
		err := right(copies)
		for i, c := range copies {
			entries[i].Seq, entries[i].Raw = c.Seq, c.Raw
		}
		return err
	})},
	{"takes no large record", []string{"big-entries"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			if len(en.Value) > 1<<16 {
				return errors.New("the value is too long for the column")
			}
		}
		return right(entries)
	})},
	{"keeps the caller's memory", []string{"append-keeps-a-copy"}, func(f *faulty) {
		var kept []*rulvar.Entry
		appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
			kept = append(kept, entries...)
			return right(entries)
		})(f)
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, _, err := f.good.Load(ctx, runID, after)
			return meta, kept, err
		}
	}},
}

// rewriting plants a fault in the lines that Load returns.
func rewriting(wrong func(raw []byte) []byte) func(*faulty) {
	return func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			for i, en := range entries {
				if again, parseErr := storekit.ParseEntry(wrong(en.Raw)); parseErr == nil {
					entries[i] = again
				}
			}
			return meta, entries, err
		}
	}
}

// loading plants a fault in what Load returns.
func loading(wrong func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry)) func(*faulty) {
	return func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			meta, entries = wrong(meta, entries)
			return meta, entries, err
		}
	}
}

var loadFaults = []fault{
	{"loads backwards", []string{"a2-total-order"}, loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
		slices.Reverse(entries)
		return meta, entries
	})},
	{"shows a record late", []string{"a3-read-your-writes"}, loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
		return meta, entries[:max(0, len(entries)-1)]
	})},
	{"sorts members", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		var v map[string]any
		if json.Unmarshal(raw, &v) != nil {
			return raw
		}
		b, _ := json.Marshal(v)
		return b
	})},
	{"escapes for HTML", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		var b bytes.Buffer
		json.HTMLEscape(&b, raw)
		return b.Bytes()
	})},
	{"takes out white space", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		var b bytes.Buffer
		_ = json.Compact(&b, raw)
		return b.Bytes()
	})},
	{"drops what it does not know", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		en, _ := storekit.ParseEntry(raw)
		en.Raw = nil
		b, _ := en.AppendLine(nil)
		return b
	})},
	{"cuts off large values", []string{"big-entries"}, func(f *faulty) {
		loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
			for _, en := range entries {
				en.Value = en.Value[:min(len(en.Value), 1<<16)]
			}
			return meta, entries
		})(f)
	}},
	{"loads everything", []string{"load-after"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, _ int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			return f.good.Load(ctx, runID, -1)
		}
	}},
	{"loads one too many", []string{"load-after"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			return f.good.Load(ctx, runID, after-1)
		}
	}},
	{"loads metadata the first time", []string{"load-after"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			if after >= 0 {
				meta = nil
			}
			return meta, entries, err
		}
	}},
	{"takes a missing run for an error", []string{"missing-run"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			if meta == nil && entries == nil && err == nil {
				err = errors.New("no rows")
			}
			return meta, entries, err
		}
	}},
	{"makes empty metadata", []string{"missing-run", "meta-separation", "lease-makes-no-run"}, loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
		if meta == nil {
			meta = &rulvar.RunMeta{}
		}
		return meta, entries
	})},
	{"makes the run that it looks for", []string{"missing-run"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			if meta == nil && len(entries) == 0 && runID == "none" {
				_ = f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.PutMeta(ctx, &rulvar.RunMeta{RunID: runID}, l) })
			}
			return meta, entries, err
		}
	}},
	{"answers make runs", []string{"missing-run", "unlocked-appends-limited"}, func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			err := right(ctx, runID, entries, lock)
			if lock == nil && errors.Is(err, rulvar.ErrConfig) && f.tail(runID) < 0 {
				return nil
			}
			return err
		}
	}},
	{"each handle has its own runs", []string{"two-handles", "lease-two-handles", "blob-two-handles"}, func(f *faulty) {
		f.other = func() rulvar.Store { return rulvar.NewMemoryStore() }
	}},
}

// safe makes a name of any text, as a store must not.
func safe(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return "_" + name
}
