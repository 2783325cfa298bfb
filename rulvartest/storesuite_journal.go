package rulvartest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

// journalObligations are what is asked of records. Who may write, metadata and
// deleting are in storesuite_writers.go and storesuite_meta.go.
var journalObligations = slices.Concat([]obligation{
	{"a1-append-atomicity", appendIsAtomic},
	{"a2-total-order", orderIsTotal},
	{"a3-read-your-writes", writesAreRead},
	{"a4-opaque-payload", payloadIsOpaque},
	{"a5-monotonic-seq", seqGrows},
	{"append-tells-seq", appendTells},
	{"append-keeps-a-copy", appendCopies},
	{"batch-refers-to-its-own", batchRefersToItself},
	{"load-after", loadAfter},
	{"big-entries", bigEntries},
	{"missing-run", missingRun},
	{"two-handles", twoHandles},
}, writerObligations, metaObligations, deleteObligations)

// A batch is appended whole or not at all, and a refused one changes nothing:
// neither the journal nor the entries that were handed in.
func appendIsAtomic(u *underTest) {
	l := u.started("r1", 2)
	low := int64(1)
	for name, bad := range map[string]struct {
		entry *rulvar.Entry
		code  rulvar.Code
	}{
		"a ref that does not point backwards": {resolutionEntry(99, "x"), rulvar.ErrConfig},
		"a number that is taken":              {&rulvar.Entry{Kind: "step", Status: "running", At: &low}, rulvar.ErrJournalOrder},
		"an unknown kind":                     {&rulvar.Entry{Kind: "odd", Status: "running"}, rulvar.ErrConfig},
		"a status that the kind has not":      {&rulvar.Entry{Kind: "rand", Status: "running"}, rulvar.ErrConfig},
		"a value that is no JSON":             {&rulvar.Entry{Kind: "step", Status: "running", Value: json.RawMessage(`{`)}, rulvar.ErrNonSerializable},
	} {
		first := stepEntry("first")
		first.Seq = -7
		u.refused("a batch with "+name, u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{first, bad.entry}, l), bad.code)
		u.seqs("after a refused batch with "+name, "r1", -1, 0, 1)
		if first.Seq != -7 || first.Raw != nil {
			u.Fatalf("a refused batch changed an entry that was handed in: seq %d, line %s", first.Seq, first.Raw)
		}
	}
	u.ok("an empty batch", u.s.AppendAll(u.ctx, "r1", nil, l))
	u.append("r1", l, stepEntry("a"), stepEntry("b"), stepEntry("c"))
	u.seqs("after a batch of three", "r1", -1, 0, 1, 2, 3, 4)
	u.release(l)
}

// Concurrent appends, under the lock and beside it, get different numbers,
// none is lost, those of one caller stay in its order, and every Load tells
// the same story.
func orderIsTotal(u *underTest) {
	const writers, each = 6, 6
	l := u.started("r1", 1)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				en, lock := stepEntry(fmt.Sprintf("%d.%d", w, i)), l
				if w%3 == 2 {
					en, lock = resolutionEntry(0, fmt.Sprintf("%d.%d", w, i)), nil
				}
				if err := u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{en}, lock); err != nil {
					u.Errorf("a concurrent append: %v", err)
				}
			}
		})
	}
	wg.Wait()
	_, entries := u.load("r1", -1)
	_, again := u.load("r1", -1)
	same(u, "two loads of the same journal", seqsOf(entries), seqsOf(again))
	if len(entries) != 1+writers*each {
		u.Fatalf("%d records were acknowledged and %d are there", 1+writers*each, len(entries))
	}
	next := make([]int, writers)
	for i, en := range entries {
		if i > 0 && en.Seq <= entries[i-1].Seq {
			u.Fatalf("seq %d stands behind %d", en.Seq, entries[i-1].Seq)
		}
		for w := range writers {
			if bytes.Contains(en.Raw, fmt.Appendf(nil, `"%d.`, w)) {
				if !bytes.Contains(en.Raw, fmt.Appendf(nil, `"%d.%d"`, w, next[w])) {
					u.Fatalf("record %d of writer %d is missing before %s", next[w], w, en.Raw)
				}
				next[w]++
			}
		}
	}
	u.release(l)
}

// What an append has acknowledged, the next Load holds; metadata likewise.
func writesAreRead(u *underTest) {
	l := u.started("r1", 0)
	for i := range 5 {
		en := stepEntry(fmt.Sprint("value ", i))
		u.append("r1", l, en)
		_, all := u.load("r1", -1)
		if len(all) != i+1 || !bytes.Contains(all[i].Raw, fmt.Appendf(nil, "value %d", i)) {
			u.Fatalf("append %d was acknowledged, and Load holds %d records", i, len(all))
		}
		u.seqs("the last one alone", "r1", en.Seq-1, en.Seq)
		status := fmt.Sprint("status ", i)
		u.ok("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: "r1", Status: status}, l))
		if meta, _ := u.load("r1", -1); meta == nil || meta.Status != status {
			u.Fatalf("metadata with %q was acknowledged, and Load holds %s", status, show(meta))
		}
	}
	u.release(l)
}

// foreignLines are records of other writers, of the future too. A store keeps
// their bytes: the order of members, numbers as they are spelt, escapes, white
// space, members and kinds that it does not know.
var foreignLines = []string{
	`{"seq":3,"future":{"z":[1,{"a":null}],"a":1},"v":1,"scope":"","key":"","kind":"future.kind","status":"odd"}`,
	`{ "hashVersion" : 2, "seq" : 5 ,"scope":"par:0:1/agent:3","key":"k","ordinal":0,"kind":"step","status":"running","value":[1e2,1.0,-0,12345678901234567890,0.1e-7] }`,
	`{"status":"running","kind":"step","key":"k","scope":"","seq":6,"value":"\u003c<\/&>\ud83d\ude00 ` + "\u2028 \U0001F600 \u00e9 e\u0301" + `","x":{"\u0041":"\ud800"}}`,
	`{"hashVersion":9,"seq":7,"scope":"","key":"","kind":"decision","status":"ok","value":{"decisionType":"of the future","B":1,"b":2,"":3}}`,
}

// The bytes of a record are the writer's.
func payloadIsOpaque(u *underTest) {
	l := u.started("r1", 1)
	for _, line := range foreignLines {
		en, err := storekit.ParseEntry([]byte(line))
		u.ok("parse a line of the suite", err)
		u.append("r1", l, en)
	}
	_, entries := u.load("r1", 0)
	if len(entries) != len(foreignLines) {
		u.Fatalf("%d foreign records were appended, Load holds %d", len(foreignLines), len(entries))
	}
	for i, line := range foreignLines {
		same(u, "a foreign record", line, string(entries[i].Raw))
	}
	en := stepEntry("")
	en.Value = json.RawMessage(`{"b":"<&>","a":[1.50,{}],"a2":"` + "\u2028" + `\u0000"}`)
	u.append("r1", l, en)
	_, entries = u.load("r1", 7)
	if len(entries) != 1 {
		u.Fatalf("Load after 7 holds %d records, want 1", len(entries))
	}
	same(u, "the value of a record", string(en.Value), string(entries[0].Value))
	u.release(l)
}

// Numbers begin at 0 and grow by one where the store mints them. A record may
// bring a higher one and leave a gap; one at or below the tail is refused.
func seqGrows(u *underTest) {
	l := u.started("r1", 2)
	u.seqs("minted numbers", "r1", -1, 0, 1)
	high := int64(10)
	jump := stepEntry("jump")
	jump.At = &high
	u.append("r1", l, jump)
	u.append("r1", l, stepEntry("next"))
	u.seqs("after a gap", "r1", -1, 0, 1, 10, 11)
	for _, taken := range []int64{0, 5, 11} {
		stale := stepEntry("stale")
		stale.At = &taken
		u.refused(fmt.Sprintf("seq %d behind 11", taken), u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{stale}, l), rulvar.ErrJournalOrder)
		raw, err := storekit.ParseEntry(fmt.Appendf(nil, `{"seq":%d,"scope":"","key":"","kind":"step","status":"running"}`, taken))
		u.ok("parse a line of the suite", err)
		u.refused(fmt.Sprintf("a line with seq %d behind 11", taken), u.s.AppendAll(u.ctx, "r1", []*rulvar.Entry{raw}, l), rulvar.ErrJournalOrder)
	}
	u.seqs("after refused numbers", "r1", -1, 0, 1, 10, 11)
	u.release(l)
}

// An append tells each entry its number, and what stands in the store is the
// entry's line.
func appendTells(u *underTest) {
	l := u.started("r1", 1)
	batch := []*rulvar.Entry{stepEntry("a"), stepEntry("b")}
	batch[0].Seq, batch[1].Seq = 77, 78 // of no meaning without At
	u.append("r1", l, batch...)
	_, entries := u.load("r1", 0)
	if len(entries) != 2 {
		u.Fatalf("Load holds %d records, want 2", len(entries))
	}
	for i, en := range batch {
		if en.Seq != int64(1+i) {
			u.Fatalf("the entry was told seq %d, want %d", en.Seq, 1+i)
		}
		text, err := en.AppendLine(nil)
		u.ok("AppendLine", err)
		same(u, "the line", string(text), string(entries[i].Raw))
	}
	u.release(l)
}

// The store keeps a copy: what a caller does with its memory later is its own
// affair.
func appendCopies(u *underTest) {
	l := u.started("r1", 0)
	en := stepEntry("as it was")
	u.append("r1", l, en)
	for i := range en.Value {
		en.Value[i] = ' '
	}
	en.Seq, en.Kind = 99, "changed"
	_, entries := u.load("r1", -1)
	if len(entries) != 1 || entries[0].Seq != 0 || entries[0].Kind != "step" || string(entries[0].Value) != `"as it was"` {
		u.Fatalf("a record changed with the memory of who appended it: %s", show(entries))
	}
	u.release(l)
}

// A Ref to the Seq of an earlier entry of the batch means that entry, whose
// number is minted only now.
func batchRefersToItself(u *underTest) {
	l := u.started("r1", 3)
	run, end := stepEntry("run"), stepEntry("end")
	end.Status, end.Ref = "ok", &run.Seq
	u.append("r1", l, run, end)
	_, entries := u.load("r1", 2)
	same(u, "the batch", []int64{3, 4}, seqsOf(entries))
	if entries[1].Ref == nil || *entries[1].Ref != 3 || !bytes.Contains(entries[1].Raw, []byte(`"ref":3`)) {
		u.Fatalf("the second entry of a batch refers to %s, want 3", show(entries[1].Ref))
	}
	if *end.Ref != 3 {
		u.Fatalf("the entry that was handed in refers to %d, want 3", *end.Ref)
	}
	u.release(l)
}

// Load returns what stands behind a number, and the metadata always.
func loadAfter(u *underTest) {
	l := u.started("r1", 3)
	gap := int64(7)
	en := stepEntry("gap")
	en.At = &gap
	u.append("r1", l, en)
	u.seqs("all", "r1", -1, 0, 1, 2, 7)
	u.seqs("behind 0", "r1", 0, 1, 2, 7)
	u.seqs("behind a number that is not there", "r1", 4, 7)
	u.seqs("behind the last", "r1", 7)
	u.seqs("behind what is to come", "r1", 1<<40)
	u.seqs("all again", "r1", -1, 0, 1, 2, 7)
	if meta, _ := u.load("r1", 7); meta == nil {
		u.Fatalf("Load after the last record returns no metadata")
	}
	u.release(l)
}

// A record may be large: a tool's result, a person's file.
func bigEntries(u *underTest) {
	l := u.started("r1", 0)
	text := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	u.append("r1", l, stepEntry(text), stepEntry("small"))
	_, entries := u.load("r1", -1)
	same(u, "records", []int64{0, 1}, seqsOf(entries))
	if string(entries[0].Value) != `"`+text+`"` {
		u.Fatalf("a value of %d bytes came back with %d", len(text)+2, len(entries[0].Value))
	}
	u.release(l)
}

// A run that does not exist has neither metadata nor records, which is no
// error; and nothing that only looks brings it to life.
func missingRun(u *underTest) {
	meta, entries := u.load("none", -1)
	if meta != nil || len(entries) != 0 {
		u.Fatalf("a run that does not exist has metadata %s and %d records", show(meta), len(entries))
	}
	refs, err := u.s.List(u.ctx, "none")
	u.ok("List of a run that does not exist", err)
	if len(refs) != 0 {
		u.Fatalf("a run that does not exist has blobs %v", refs)
	}
	u.refused("an answer to a run that does not exist", u.s.AppendAll(u.ctx, "none", []*rulvar.Entry{resolutionEntry(0, "x")}, nil), rulvar.ErrConfig)
	u.ids("after looking at a run that does not exist", nil)
}

// Two handles on one place see one truth: numbers, records, metadata, locks.
func twoHandles(u *underTest) {
	u.needsOther()
	l := u.started("r1", 1)
	_, err := u.other.Lock(u.ctx, "r1", "other")
	u.refused("a second lock by another handle", err, rulvar.ErrLeaseHeld)
	for i := range 3 {
		answer := resolutionEntry(0, fmt.Sprint("answer ", i))
		u.ok("an answer by another handle", u.other.AppendAll(u.ctx, "r1", []*rulvar.Entry{answer}, nil))
		if want := int64(1 + 2*i); answer.Seq != want {
			u.Fatalf("another handle's record got seq %d, want %d", answer.Seq, want)
		}
		u.append("r1", l, stepEntry("x"))
		_, entries := u.load("r1", 2*int64(i))
		same(u, "what this handle sees", []int64{1 + 2*int64(i), 2 + 2*int64(i)}, seqsOf(entries))
		_, entries = u.loadFrom(u.other, "r1", 2*int64(i))
		same(u, "what the other handle sees", []int64{1 + 2*int64(i), 2 + 2*int64(i)}, seqsOf(entries))
	}
	u.refused("a step by another handle beside the lock", u.other.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, nil), rulvar.ErrLeaseHeld)
	u.ok("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: "r1", Status: "suspended"}, l))
	u.refused("metadata by another handle beside the lock", u.other.PutMeta(u.ctx, &rulvar.RunMeta{RunID: "r1"}, nil), rulvar.ErrLeaseHeld)
	if meta, _ := u.loadFrom(u.other, "r1", -1); meta == nil || meta.Status != "suspended" {
		u.Fatalf("another handle sees the metadata %s, want status suspended", show(meta))
	}
	metas, err := u.other.ListRuns(u.ctx, nil)
	u.ok("ListRuns by another handle", err)
	if len(metas) != 1 {
		u.Fatalf("another handle lists %d runs, want 1", len(metas))
	}
	u.release(l)
	theirs, err := u.other.Lock(u.ctx, "r1", "other")
	u.ok("the lock, given back, by another handle", err)
	u.ok("a step by another handle", u.other.AppendAll(u.ctx, "r1", []*rulvar.Entry{stepEntry("x")}, theirs))
	u.seqs("after the other's step", "r1", 6, 7)
	u.release(theirs)
	l = u.lock("r1")
	u.append("r1", l, stepEntry("x"))
	u.seqs("numbers go on behind another handle's", "r1", 6, 7, 8)
	u.release(l)
}
