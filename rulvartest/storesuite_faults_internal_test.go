package rulvartest

import (
	"context"
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
