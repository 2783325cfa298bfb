package rulvartest

import (
	"encoding/json"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

// writerObligations are who may write to a run, and when nobody may.
var writerObligations = []obligation{
	{"unlocked-appends-limited", unlockedAppendsAreLimited},
	{"resolution-beside-lock", answersComeBesideTheLock},
	{"lock-of-another", locksOfOthersAreRefused},
	{"context-cancelled-before", cancelledCallsDoNothing},
	{"safe-names-refused", unsafeNamesAreRefused},
}

// besideLock are the records that need no lock.
func besideLock() []*rulvar.Entry {
	zero := int64(0)
	return []*rulvar.Entry{
		resolutionEntry(0, "yes"),
		{Kind: "abandon", Status: "ok", Ref: &zero, SpanID: "s1", Abandon: json.RawMessage(`{"target":0,"authorizedBy":"host","reason":"r"}`)},
		decisionEntry("approval_revoked"),
	}
}

// Without the run's lock only answers, abandons and revocations are taken, and
// a batch with anything else is refused whole: ErrLeaseHeld while somebody
// holds the lock, ErrConfig while nobody does.
func unlockedAppendsAreLimited(u *underTest) {
	l := u.started("r1", 1)
	refusals := func(when string, code rulvar.Code) {
		u.Helper()
		forged, err := storekit.ParseEntry([]byte(`{"seq":90,"scope":"","key":"","kind":"decision","status":"ok","value":{"decisionType":"run_settle"}}`))
		u.ok("parse a line of the suite", err)
		for name, batch := range map[string][]*rulvar.Entry{
			"a step":                     {stepEntry("x")},
			"a settlement":               {decisionEntry("run_settle")},
			"a grant that is used":       {decisionEntry("approval_consumed")},
			"a settlement, as a line":    {forged},
			"an answer together with it": {resolutionEntry(0, "x"), stepEntry("x")},
		} {
			u.refused(name+" without the lock, "+when, u.s.AppendAll(u.ctx, "r1", batch, nil), code)
		}
		forged.Value = json.RawMessage(`{"decisionType":"approval_revoked"}`)
		if err := u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{forged}, nil); err == nil {
			u.Fatalf("a line was taken without the lock because of what stands beside it")
		}
		u.seqs("after refused records", "r1", -1, 0)
	}
	refusals("while somebody holds it", rulvar.ErrLeaseHeld)
	u.release(l)
	refusals("while nobody holds it", rulvar.ErrConfig)
	fresh := u.lock("fresh")
	u.refused("an answer to a run without records", u.s.AppendAll(u.ctx, "fresh", []*rulvar.Entry{resolutionEntry(0, "x")}, nil), rulvar.ErrConfig)
	u.release(fresh)
}

// Answers come in while a segment holds the lock, and after it has settled.
func answersComeBesideTheLock(u *underTest) {
	l := u.started("r1", 1)
	for i, en := range besideLock() {
		u.append("r1", nil, en)
		if en.Seq != int64(1+i) {
			u.Fatalf("record %d beside the lock got seq %d", 1+i, en.Seq)
		}
	}
	u.append("r1", l, stepEntry("x"))
	u.release(l)
	u.append("r1", nil, besideLock()...)
	u.seqs("all", "r1", -1, 0, 1, 2, 3, 4, 5, 6, 7)
}

// A lock counts for the run and the store that gave it, until it is released.
func locksOfOthersAreRefused(u *underTest) {
	l := u.started("r1", 1)
	other := u.lock("r2")
	foreign, err := rulvar.NewMemoryStore().Lock(u.ctx, "r1", "suite")
	u.ok("Lock", err)
	calls := func(what string, l *rulvar.RunLock) {
		u.Helper()
		u.refused("an append under "+what, u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, l), rulvar.ErrConfig)
		u.refused("an answer under "+what, u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{resolutionEntry(0, "x")}, l), rulvar.ErrConfig)
		u.refused("metadata under "+what, u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: "r1"}, l), rulvar.ErrConfig)
	}
	calls("the lock of another run", other)
	calls("the lock of another store", foreign)
	u.release(l)
	calls("a released lock", l)
	again := u.lock("r1")
	calls("a released lock, while somebody else holds it", l)
	u.release(again)
	u.release(other)
	u.seqs("after refused records", "r1", -1, 0)
}

// A call whose context has ended does nothing and says so.
func cancelledCallsDoNothing(u *underTest) {
	l := u.started("r1", 1)
	before, _ := u.load("r1", -1)
	done := u.ended()
	u.cancelled("AppendAll", u.s.AppendAll(done, "r1", []*rulvar.Entry{stepEntry("x")}, l))
	u.cancelled("AppendAll beside the lock", u.s.AppendAll(done, "r1", []*rulvar.Entry{resolutionEntry(0, "x")}, nil))
	u.cancelled("PutMeta", u.s.PutMeta(done, &rulvar.RunMeta{RunID: "r1", Status: "changed"}, l))
	_, _, err := u.s.Load(done, "r1", -1)
	u.cancelled("Load", err)
	_, err = u.s.ListRuns(done, nil)
	u.cancelled("ListRuns", err)
	after, entries := u.load("r1", -1)
	same(u, "metadata after cancelled calls", before, after)
	same(u, "records after cancelled calls", []int64{0}, seqsOf(entries))
	u.append("r1", l, stepEntry("y"))
	u.release(l)
}

// A run id is a name, not a path.
func unsafeNamesAreRefused(u *underTest) {
	l := u.started("r1", 1)
	u.refusedNames("AppendAll", badRunIDs, func(name string) error {
		return u.s.AppendAll(u.ctx, name, []*rulvar.Entry{resolutionEntry(0, "x")}, nil)
	})
	u.refusedNames("PutMeta", badRunIDs, func(name string) error {
		return u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: name}, l)
	})
	u.refusedNames("Load", badRunIDs, func(name string) error {
		_, _, err := u.s.Load(u.ctx, name, -1)
		return err
	})
	if d, ok := u.s.(storekit.RunDeleter); ok {
		u.refusedNames("Delete", badRunIDs, func(name string) error { return d.Delete(u.ctx, name, nil) })
	}
	u.release(l)
	for _, name := range []string{"A-z_0.9", "..x", "x.", fmt.Sprintf("%0200d", 7)} {
		u.release(u.started(name, 1))
	}
	u.ids("safe names", nil, sorted([]string{"A-z_0.9", "..x", "x.", fmt.Sprintf("%0200d", 7), "r1"})...)
}
