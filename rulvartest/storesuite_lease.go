package rulvartest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

// leaseObligations are what is asked of the lock of a run.
var leaseObligations = []obligation{
	{"lease-exclusive-acquire", leaseIsExclusive},
	{"lease-of-many-askers", leaseHasOneWinner},
	{"lease-two-handles", leaseHoldsForAllHandles},
	{"lease-names-holder", leaseNamesItsHolder},
	{"lease-released-on-release", leaseIsGivenBack},
	{"lease-release-ends-writes", releaseEndsWrites},
	{"lease-epoch-grows", epochsGrow},
	{"lease-guards-one-run", leaseGuardsOneRun},
	{"lease-makes-no-run", leaseMakesNoRun},
	{"lease-context-cancelled-before", cancelledLockTakesNothing},
	{"lease-safe-names-refused", unsafeLocksAreRefused},
}

// A run is held once: a second Lock is an ErrLeaseHeld, which is worth another
// try later.
func leaseIsExclusive(u *underTest) {
	l := u.lock("r1")
	for range 3 {
		again, err := u.s.Lock(u.ctx, "r1", "another")
		u.refused("Lock of a run that is locked", err, rulvar.ErrLeaseHeld)
		if again != nil {
			u.Fatalf("a refused Lock returned a lock")
		}
		if e, ok := errors.AsType[*rulvar.Error](err); !ok || !e.Retryable {
			u.Fatalf("the error of a lock that is held is not retryable: %v", err)
		}
	}
	u.append("r1", l, stepEntry("x"))
	u.release(l)
}

// Of several who ask at once one gets the lock.
func leaseHasOneWinner(u *underTest) {
	for range 5 {
		var winners atomic.Int64
		var mu sync.Mutex
		var locks []*rulvar.RunLock
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				l, err := u.s.Lock(u.ctx, "r1", "one of many")
				switch {
				case err == nil:
					winners.Add(1)
					mu.Lock()
					locks = append(locks, l)
					mu.Unlock()
				case !errors.Is(err, rulvar.ErrLeaseHeld):
					u.Errorf("Lock of a run that others want: %v, want %s", err, rulvar.ErrLeaseHeld)
				}
			})
		}
		wg.Wait()
		if n := winners.Load(); n != 1 {
			u.Fatalf("%d of 8 who asked at once hold the lock", n)
		}
		u.release(locks[0])
	}
}

// The lock holds whichever handle on the store one asks.
func leaseHoldsForAllHandles(u *underTest) {
	u.needsOther()
	l := u.lock("r1")
	_, err := u.other.Lock(u.ctx, "r1", "another")
	u.refused("Lock by another handle", err, rulvar.ErrLeaseHeld)
	u.refused("an append by another handle", u.other.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, nil), rulvar.ErrLeaseHeld)
	u.release(l)
	theirs, err := u.other.Lock(u.ctx, "r1", "another")
	u.ok("Lock by another handle once it is free", err)
	if theirs.Epoch() <= l.Epoch() {
		u.Fatalf("the epoch of another handle's lock is %d, want above %d", theirs.Epoch(), l.Epoch())
	}
	_, err = u.s.Lock(u.ctx, "r1", "this one")
	u.refused("Lock of what another handle holds", err, rulvar.ErrLeaseHeld)
	u.release(theirs)
	u.release(u.lock("r1"))
}

// Who is kept out learns by whom: in the message for people, and in Data under
// "holder" for programs. The lock says so itself.
func leaseNamesItsHolder(u *underTest) {
	l, err := u.s.Lock(u.ctx, "r1", "worker 7 of the night shift")
	u.ok("Lock", err)
	h := l.Holder()
	if h.Owner != "worker 7 of the night shift" || h.Epoch != l.Epoch() || l.RunID() != "r1" {
		u.Fatalf("the lock of r1 by worker 7 says that it is of %s by %s", l.RunID(), show(h))
	}
	names := func(what string, err error) {
		u.Helper()
		u.refused(what, err, rulvar.ErrLeaseHeld)
		if !strings.Contains(err.Error(), h.Owner) {
			u.Fatalf("%s: the message does not name the holder: %v", what, err)
		}
		e, ok := errors.AsType[*rulvar.Error](err)
		if !ok {
			u.Fatalf("%s: the error is no *rulvar.Error: %v", what, err)
		}
		if got, ok := e.Data["holder"].(storekit.Holder); !ok || got != h {
			u.Fatalf("%s: Data has the holder %s, want %s", what, show(e.Data["holder"]), show(h))
		}
	}
	_, err = u.s.Lock(u.ctx, "r1", "worker 8")
	names("Lock", err)
	names("AppendAll", u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, nil))
	names("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: "r1"}, nil))
	u.release(l)
}

// Release gives the lock back, once.
func leaseIsGivenBack(u *underTest) {
	l := u.started("r1", 1)
	u.release(l)
	next := u.lock("r1")
	u.ok("a second Release", l.Release())
	_, err := u.s.Lock(u.ctx, "r1", "third")
	u.refused("Lock after somebody released a lock that was not his any more", err, rulvar.ErrLeaseHeld)
	u.refused("an append under a released lock", u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, l), rulvar.ErrConfig)
	u.append("r1", next, stepEntry("y"))
	u.seqs("records", "r1", -1, 0, 1)
	u.release(next)
}

// When Release has returned, nothing more is written under the lock: the next
// segment reads a journal that stands still.
func releaseEndsWrites(u *underTest) {
	l := u.started("r1", 0)
	var written atomic.Int64
	var released atomic.Bool
	begun := make(chan struct{}, 100)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for last := false; !last; {
				last = released.Load() // one more try, to be refused
				err := u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, l)
				select {
				case begun <- struct{}{}:
				default:
				}
				if err != nil {
					if !errors.Is(err, rulvar.ErrConfig) {
						u.Errorf("an append under a released lock: %v, want %s", err, rulvar.ErrConfig)
					}
					return
				}
				written.Add(1)
			}
		})
	}
	<-begun
	u.release(l)
	_, entries := u.load("r1", -1)
	released.Store(true)
	wg.Wait()
	_, later := u.load("r1", -1)
	if len(later) != len(entries) {
		u.Fatalf("%d records came in after Release had returned", len(later)-len(entries))
	}
	if n := int(written.Load()); n != len(later) {
		u.Fatalf("%d appends were acknowledged, %d records are there", n, len(later))
	}
	u.refused("an append under a released lock", u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, l), rulvar.ErrConfig)
}

// Each acquisition of a run's lock has a higher number than all before.
func epochsGrow(u *underTest) {
	last := int64(-1)
	for range 5 {
		l := u.lock("r1")
		if l.Epoch() <= last || l.Epoch() != l.Holder().Epoch {
			u.Fatalf("a lock has the epoch %d (its holder %d), the one before had %d", l.Epoch(), l.Holder().Epoch, last)
		}
		last = l.Epoch()
		_, err := u.s.Lock(u.ctx, "r1", "refused")
		u.refused("Lock of a run that is locked", err, rulvar.ErrLeaseHeld)
		u.release(l)
	}
}

// The lock of a run says nothing of other runs.
func leaseGuardsOneRun(u *underTest) {
	l := u.lock("r1")
	for _, id := range []string{"r", "r10", "R2"} {
		other := u.lock(id)
		u.append(id, other, stepEntry("x"))
		u.release(other)
	}
	u.refused("an append to another run", u.s.AppendAll(u.ctx, "r10", []*rulvar.Entry{stepEntry("x")}, l), rulvar.ErrConfig)
	u.release(l)
}

// Locking a run that does not exist is how one is begun; it does not make one.
func leaseMakesNoRun(u *underTest) {
	l := u.lock("r1")
	meta, entries := u.load("r1", -1)
	if meta != nil || len(entries) != 0 {
		u.Fatalf("a run that was only locked has metadata %s and %d records", show(meta), len(entries))
	}
	u.ids("while it is locked", nil)
	u.release(l)
	u.ids("after Release", nil)
}

// Lock under a context that has ended takes nothing.
func cancelledLockTakesNothing(u *underTest) {
	_, err := u.s.Lock(u.ended(), "r1", "x")
	u.cancelled("Lock", err)
	ctx, cancel := context.WithCancel(u.ctx)
	l, err := u.s.Lock(ctx, "r1", "x")
	u.ok("Lock", err)
	cancel()
	u.append("r1", l, stepEntry("x"))
	_, err = u.s.Lock(u.ctx, "r1", "y")
	u.refused("Lock after the context of the first Lock has ended", err, rulvar.ErrLeaseHeld)
	u.release(l)
}

// A run id is a name, not a path.
func unsafeLocksAreRefused(u *underTest) {
	u.refusedNames("Lock", badRunIDs, func(name string) error {
		l, err := u.s.Lock(u.ctx, name, "x")
		if err == nil {
			_ = l.Release()
		}
		return err
	})
}
