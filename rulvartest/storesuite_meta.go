package rulvartest

import (
	"encoding/json"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
)

// metaObligations are what is asked of metadata and of listings.
var metaObligations = []obligation{
	{"meta-separation", metaIsApart},
	{"meta-round-trip", metaComesBack},
	{"meta-needs-lock", metaNeedsTheLock},
	{"load-gives-a-copy", loadCopies},
	{"list-runs", runsAreListed},
}

// deleteObligations are what is asked of a store that is a [storekit.RunDeleter].
var deleteObligations = []obligation{
	{"delete", deleteRemovesARun},
	{"delete-needs-the-lock", deleteNeedsTheLock},
	{"delete-starts-anew", deletedIDsStartAnew},
}

// Records and metadata live apart: writing one leaves the other.
func metaIsApart(u *underTest) {
	l := u.started("r1", 2)
	before, entries := u.load("r1", -1)
	u.append("r1", l, stepEntry("x"))
	after, _ := u.load("r1", -1)
	same(u, "metadata after an append", before, after)
	u.ok("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: "r1", Status: "ok"}, l))
	_, now := u.load("r1", -1)
	same(u, "records after PutMeta", append(seqsOf(entries), 2), seqsOf(now))
	u.release(l)

	l = u.lock("only-meta")
	u.ok("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: "only-meta", Status: "running"}, l))
	u.release(l)
	meta, entries := u.load("only-meta", -1)
	if meta == nil || len(entries) != 0 {
		u.Fatalf("a run with metadata alone has %s and %d records", show(meta), len(entries))
	}
	l = u.lock("only-records")
	u.append("only-records", l, stepEntry("x"))
	u.release(l)
	meta, entries = u.load("only-records", -1)
	if meta != nil || len(entries) != 1 {
		u.Fatalf("a run with records alone has metadata %s and %d records", show(meta), len(entries))
	}
	u.ids("runs of all sorts", nil, "only-meta", "only-records", "r1")
}

// Every member of metadata comes back, one that is unknown too; PutMeta
// replaces all of it.
func metaComesBack(u *underTest) {
	budget := 2.5
	full := &rulvar.RunMeta{
		RunID: "r1", Status: "suspended", Segments: 3, UpdatedAt: "2026-11-30T09:19:01.062Z", Name: "näme <&>",
		Tags: []string{"b", "a", ""}, BudgetUSD: &budget, ConfigFingerprint: "f", Args: json.RawMessage(`{"a":[1.0,"<"]}`),
		ArgsProvided: true, ArgsHash: "h", Genesis: "01M8NW07Y6B36N38WFPEGA1CV8", ExecKeyDerivation: 2,
		WorkflowName: "ship", WorkflowHash: "w", Extra: map[string]json.RawMessage{"future": json.RawMessage(`{"x":[null,1e2]}`)},
	}
	l := u.lock("r1")
	put := func(m *rulvar.RunMeta) {
		u.Helper()
		want, err := m.AppendText(nil)
		u.ok("write metadata of the suite", err)
		u.ok("PutMeta", u.s.PutMeta(u.ctx, m, l))
		got, _ := u.load("r1", -1)
		if got == nil {
			u.Fatalf("Load returns no metadata")
		}
		text, err := got.AppendText(nil)
		u.ok("write metadata that was loaded", err)
		same(u, "metadata", string(want), string(text))
		metas, err := u.s.ListRuns(u.ctx, nil)
		u.ok("ListRuns", err)
		if len(metas) != 1 {
			u.Fatalf("%d runs are listed, want 1", len(metas))
		}
		if text, err = metas[0].AppendText(nil); err != nil || string(text) != string(want) {
			u.Fatalf("metadata in a listing: %s, %v\nwant %s", text, err, want)
		}
	}
	put(full)
	less := *full
	less.Status, less.Name, less.BudgetUSD, less.Args, less.Tags = "ok", "", nil, nil, nil
	put(&less)
	empty := *full
	empty.Tags = []string{}
	put(&empty)
	u.release(l)
}

// Only the holder of the lock writes metadata.
func metaNeedsTheLock(u *underTest) {
	m := &rulvar.RunMeta{RunID: "r1", Status: "changed"}
	u.refused("metadata without the lock of a new run", u.s.PutMeta(u.ctx, m, nil), rulvar.ErrConfig)
	l := u.started("r1", 1)
	u.refused("metadata beside the lock", u.s.PutMeta(u.ctx, m, nil), rulvar.ErrLeaseHeld)
	u.release(l)
	u.refused("metadata without the lock", u.s.PutMeta(u.ctx, m, nil), rulvar.ErrConfig)
	if meta, _ := u.load("r1", -1); meta == nil || meta.Status != "running" {
		u.Fatalf("refused metadata was written: %s", show(meta))
	}
}

// What Load and ListRuns hand out is the caller's own.
func loadCopies(u *underTest) {
	l := u.lock("r1")
	u.append("r1", l, stepEntry("x"))
	u.ok("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{
		RunID: "r1", Status: "ok", Tags: []string{"t"}, Extra: map[string]json.RawMessage{"x": json.RawMessage(`1`)},
	}, l))
	u.release(l)
	spoil := func(m *rulvar.RunMeta) {
		u.Helper()
		if m == nil || len(m.Tags) != 1 || m.Tags[0] != "t" || string(m.Extra["x"]) != "1" || m.Status != "ok" {
			u.Fatalf("metadata changed with the memory of who had loaded it: %s", show(m))
		}
		m.Status, m.Tags[0], m.Extra["x"] = "spoilt", "spoilt", json.RawMessage(`2`)
	}
	for range 2 {
		meta, entries := u.load("r1", -1)
		spoil(meta)
		entries[0].Kind = "spoilt"
		metas, err := u.s.ListRuns(u.ctx, nil)
		u.ok("ListRuns", err)
		if len(metas) != 1 {
			u.Fatalf("%d runs are listed, want 1", len(metas))
		}
		spoil(metas[0])
	}
	if _, entries := u.load("r1", -1); entries[0].Kind != "step" {
		u.Fatalf("a record changed with the memory of who had loaded it: kind %s", entries[0].Kind)
	}
}

// All runs are listed by their ids, those that a filter accepts, and a run
// without metadata by its id alone.
func runsAreListed(u *underTest) {
	u.ids("an empty store", nil)
	const n = 40
	var all, odd []string
	for i := range n {
		id := fmt.Sprintf("run-%02d", (i*7)%n) // not in order
		l := u.lock(id)
		status := "ok"
		if i%2 == 1 {
			status = "suspended"
			odd = append(odd, id)
		}
		u.ok("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: id, Status: status, Tags: []string{id}}, l))
		u.release(l)
		all = append(all, id)
	}
	l := u.lock("bare")
	u.append("bare", l, stepEntry("x"))
	u.release(l)
	u.ids("all runs", nil, sorted(append(all, "bare"))...)
	u.ids("suspended runs", func(m *rulvar.RunMeta) bool { return m.Status == "suspended" }, sorted(odd)...)
	u.ids("by tag", func(m *rulvar.RunMeta) bool { return len(m.Tags) == 1 && m.Tags[0] == "run-07" }, "run-07")
	u.ids("none", func(*rulvar.RunMeta) bool { return false })
	metas, err := u.s.ListRuns(u.ctx, func(m *rulvar.RunMeta) bool { return m.RunID == "bare" })
	u.ok("ListRuns", err)
	same(u, "a run without metadata", []*rulvar.RunMeta{{RunID: "bare"}}, metas)
}

// whole makes a run with everything that a run has.
func (u *underTest) whole(runID string) {
	u.Helper()
	l := u.started(runID, 2)
	u.ok("Put", u.s.Put(u.ctx, runID+"/ckpt/0", []byte("x")))
	u.ok("Put", u.s.Put(u.ctx, runID+"/tr/0", []byte("y")))
	u.release(l)
}

// gone ends the test where anything of a run is left.
func (u *underTest) gone(runID string) {
	u.Helper()
	meta, entries := u.load(runID, -1)
	refs, err := u.s.List(u.ctx, runID)
	u.ok("List", err)
	if meta != nil || len(entries) != 0 || len(refs) != 0 {
		u.Fatalf("a deleted run has metadata %s, %d records and the blobs %v", show(meta), len(entries), refs)
	}
	data, err := u.s.Get(u.ctx, runID+"/tr/0")
	u.ok("Get", err)
	if data != nil {
		u.Fatalf("a deleted run has a blob that is not listed")
	}
}

// Delete removes a run with its blobs, and no other.
func deleteRemovesARun(u *underTest) {
	d := u.deleter()
	for _, id := range []string{"r1", "r10", "r"} {
		u.whole(id)
	}
	u.ok("Delete", d.Delete(u.ctx, "r1", nil))
	u.gone("r1")
	u.ids("after a delete", nil, "r", "r10")
	for _, id := range []string{"r", "r10"} {
		u.seqs("a run whose id is alike", id, -1, 0, 1)
		refs, err := u.s.List(u.ctx, id)
		u.ok("List", err)
		same(u, "blobs of a run whose id is alike", []string{id + "/ckpt/0", id + "/tr/0"}, refs)
	}
	u.ok("Delete of a run that is gone", d.Delete(u.ctx, "r1", nil))
	u.ok("Delete of a run that never was", d.Delete(u.ctx, "none", nil))
	u.refused("an answer to a deleted run", u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{resolutionEntry(0, "x")}, nil), rulvar.ErrConfig)
	u.ids("after more deletes", nil, "r", "r10")
	u.ok("Put of blobs alone", u.s.Put(u.ctx, "blobs/tr/0", []byte("x")))
	u.ok("Delete of blobs alone", d.Delete(u.ctx, "blobs", nil))
	u.gone("blobs")
}

// A run that somebody works on is not deleted, but by who holds its lock; that
// lock is given back with the run.
func deleteNeedsTheLock(u *underTest) {
	d := u.deleter()
	l := u.started("r1", 2)
	u.refused("Delete of a locked run", d.Delete(u.ctx, "r1", nil), rulvar.ErrLeaseHeld)
	u.seqs("after a refused delete", "r1", -1, 0, 1)
	u.append("r1", l, stepEntry("x"))
	other := u.lock("r2")
	u.refused("Delete under the lock of another run", d.Delete(u.ctx, "r1", other), rulvar.ErrConfig)
	u.release(other)
	u.cancelled("Delete", d.Delete(u.ended(), "r2", nil))
	u.ok("Delete under the lock", d.Delete(u.ctx, "r1", l))
	u.gone("r1")
	u.refused("an append under the lock of a deleted run", u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, l), rulvar.ErrConfig)
	u.ok("Release of a lock that was given back", l.Release())
	u.refused("Delete under a released lock", d.Delete(u.ctx, "r1", l), rulvar.ErrConfig)
	u.release(u.lock("r1"))
	u.ids("after all", nil)
}

// The id of a deleted run may be used again, from the first number; the epochs
// of its locks grow on.
func deletedIDsStartAnew(u *underTest) {
	d := u.deleter()
	for range 3 {
		l := u.lock("r1")
		epoch := l.Epoch()
		u.append("r1", l, stepEntry("x"), stepEntry("y"))
		u.ok("Put", u.s.Put(u.ctx, "r1/ckpt/0", []byte("new")))
		u.seqs("a new run under an old id", "r1", -1, 0, 1)
		u.release(l)
		u.ok("Delete", d.Delete(u.ctx, "r1", nil))
		again := u.lock("r1")
		if again.Epoch() <= epoch {
			u.Fatalf("the epoch of a lock after the run was deleted is %d, want above %d", again.Epoch(), epoch)
		}
		u.release(again)
	}
	if u.other == nil {
		return
	}
	u.whole("r1")
	u.loadFrom(u.other, "r1", -1)
	u.ok("Delete", d.Delete(u.ctx, "r1", nil))
	if meta, entries := u.loadFrom(u.other, "r1", -1); meta != nil || len(entries) != 0 {
		u.Fatalf("another handle still sees a deleted run")
	}
	u.release(u.started("r1", 3))
	if _, entries := u.loadFrom(u.other, "r1", 1); len(entries) != 1 {
		u.Fatalf("another handle sees %d records behind 1 of a run that began anew, want 1", len(entries))
	}
}
