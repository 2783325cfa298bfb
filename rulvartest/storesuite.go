package rulvartest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

// The store suites are for who writes a store of their own. Each obligation is
// a subtest with a name of its own, on a store of its own:
//
//	RunJournalStoreSuite      records, metadata, who may write, deleting
//	RunLeaseSuite             the lock of a run
//	RunTranscriptStoreSuite   blobs
//
// A store that passes all three can be given to an engine: the engine asks for
// nothing else. What no suite can see is what the machine keeps when its power
// fails: that an acknowledged write is durable is the store's own promise.

// Second opens the store once more: another handle on the place that first
// keeps its runs in, as another process would have.
type Second = func(t *testing.T, first rulvar.Store) rulvar.Store

// obligation is one thing that is asked of a store. other is a second handle
// on the same runs, or nil.
type obligation struct {
	name  string
	check func(u *underTest)
}

// underTest is a store that an obligation is held against.
type underTest struct {
	testing.TB
	ctx      context.Context
	s, other rulvar.Store
}

// RunJournalStoreSuite holds a store to what is asked of a journal store:
// records and metadata, who may write them, and, where it is a
// [storekit.RunDeleter], how runs are deleted. open returns an empty store, anew
// for each subtest; it closes it in a cleanup. With a [Second] the suite also
// sees what two processes see of each other; a store that lives in one
// process has none.
func RunJournalStoreSuite(t *testing.T, open func(t *testing.T) rulvar.Store, second ...Second) {
	t.Helper()
	runSuite(t, journalObligations, open, second)
}

// RunLeaseSuite holds a store to what is asked of the lock of a run: one
// holder, who is named, for one run; given back by Release. See
// [RunJournalStoreSuite] for open and second.
func RunLeaseSuite(t *testing.T, open func(t *testing.T) rulvar.Store, second ...Second) {
	t.Helper()
	runSuite(t, leaseObligations, open, second)
}

// RunTranscriptStoreSuite holds a store to what is asked of a transcript
// store: blobs are written, read, replaced, listed and deleted, each whole.
// See [RunJournalStoreSuite] for open and second.
func RunTranscriptStoreSuite(t *testing.T, open func(t *testing.T) rulvar.Store, second ...Second) {
	t.Helper()
	runSuite(t, blobObligations, open, second)
}

func runSuite(t *testing.T, obligations []obligation, open func(t *testing.T) rulvar.Store, second []Second) {
	t.Helper()
	for _, o := range obligations {
		t.Run(o.name, func(t *testing.T) {
			u := &underTest{TB: t, ctx: t.Context(), s: open(t)}
			if len(second) > 0 && second[0] != nil {
				u.other = second[0](t, u.s)
			}
			o.check(u)
		})
	}
}

// ok ends the test where a call that must succeed fails.
func (u *underTest) ok(what string, err error) {
	u.Helper()
	if err != nil {
		u.Fatalf("%s: %v", what, err)
	}
}

// refused ends the test where a call does not fail with a code.
func (u *underTest) refused(what string, err error, code rulvar.Code) {
	u.Helper()
	if !errors.Is(err, code) {
		u.Fatalf("%s: the error is %v, want one with the code %s", what, err, code)
	}
}

// same ends the test where two values that have the same JSON should.
func same[T any](u *underTest, what string, want, got T) {
	u.Helper()
	if w, g := show(want), show(got); w != g {
		u.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func show(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (u *underTest) lock(runID string) *rulvar.RunLock {
	u.Helper()
	l, err := u.s.Lock(u.ctx, runID, "suite")
	u.ok("Lock "+runID, err)
	return l
}

func (u *underTest) release(l *rulvar.RunLock) {
	u.Helper()
	u.ok("Release", l.Release())
}

func (u *underTest) append(runID string, l *rulvar.RunLock, entries ...*rulvar.Entry) {
	u.Helper()
	u.ok("AppendAll", u.s.AppendAll(u.ctx, runID, entries, l))
}

// started returns the lock of a run that has metadata and n steps.
func (u *underTest) started(runID string, n int) *rulvar.RunLock {
	u.Helper()
	l := u.lock(runID)
	u.ok("PutMeta", u.s.PutMeta(u.ctx, &rulvar.RunMeta{RunID: runID, Status: "running", Segments: 1}, l))
	for i := range n {
		u.append(runID, l, stepEntry(fmt.Sprint(i)))
	}
	return l
}

func (u *underTest) load(runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry) {
	u.Helper()
	return u.loadFrom(u.s, runID, after)
}

func (u *underTest) loadFrom(s rulvar.Store, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry) {
	u.Helper()
	meta, entries, err := s.Load(u.ctx, runID, after)
	u.ok("Load "+runID, err)
	for _, en := range entries {
		if en == nil {
			u.Fatalf("Load %s: an entry is nil", runID)
		}
	}
	return meta, entries
}

// seqs ends the test where a run does not hold exactly these records.
func (u *underTest) seqs(what, runID string, after int64, want ...int64) {
	u.Helper()
	_, entries := u.load(runID, after)
	same(u, what, append([]int64{}, want...), seqsOf(entries))
}

func seqsOf(entries []*rulvar.Entry) []int64 {
	list := []int64{}
	for _, en := range entries {
		list = append(list, en.Seq)
	}
	return list
}

// ids ends the test where a listing does not hold exactly these runs.
func (u *underTest) ids(what string, filter func(*rulvar.RunMeta) bool, want ...string) {
	u.Helper()
	metas, err := u.s.ListRuns(u.ctx, filter)
	u.ok("ListRuns", err)
	got := []string{}
	for _, m := range metas {
		got = append(got, m.RunID)
	}
	same(u, what, append([]string{}, want...), got)
}

// needsOther skips what only two handles show.
func (u *underTest) needsOther() {
	u.Helper()
	if u.other == nil {
		u.Skip("the suite was given no second handle")
	}
}

// deleter skips what only a store that deletes is asked for.
func (u *underTest) deleter() storekit.RunDeleter {
	u.Helper()
	d, ok := u.s.(storekit.RunDeleter)
	if !ok {
		u.Skip("the store is no storekit.RunDeleter")
	}
	return d
}

// stepEntry is the beginning of a step that carries a text.
func stepEntry(text string) *rulvar.Entry {
	value, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return &rulvar.Entry{
		Kind: "step", Status: "running", Key: "k", SpanID: "s1", StartedAt: "2026-11-30T09:19:01.063Z", Value: value,
	}
}

// resolutionEntry answers the entry numbered target.
func resolutionEntry(target int64, text string) *rulvar.Entry {
	return &rulvar.Entry{
		Kind: "resolution", Status: "ok", Ref: &target, SpanID: "s1", StartedAt: "2026-11-30T09:19:01.063Z",
		Resolution: json.RawMessage(fmt.Sprintf(`{"target":%d,"by":"external","value":%q}`, target, text)),
	}
}

// decisionEntry is a decision of a type.
func decisionEntry(typ string) *rulvar.Entry {
	return &rulvar.Entry{Kind: "decision", Status: "ok", SpanID: "s1", Value: json.RawMessage(fmt.Sprintf(`{"decisionType":%q,"targetRef":0}`, typ))}
}

// badRunIDs are names that no store may take: they would be another run's, or
// lie outside the store.
var badRunIDs = []string{"", ".", "..", "a/b", "../a", "a\\b", "a b", "a\x00", "ä", "r1.lock", "r1.JSONL"}

// badRefs are names that no blob may have.
var badRefs = []string{"", "r1", "r1/", "/r1", "r1//x", "r1/../x", "../r1/x", "r1/./x", "r1/x y", "r1/x\n", "r1/ä", "r1/x.tmp"}

// refusedNames holds a call to its refusal of each name.
func (u *underTest) refusedNames(what string, names []string, call func(name string) error) {
	u.Helper()
	for _, name := range names {
		u.refused(fmt.Sprintf("%s of %q", what, name), call(name), rulvar.ErrConfig)
	}
}

// ended is a context that is done.
func (u *underTest) ended() context.Context {
	ctx, cancel := context.WithCancel(u.ctx)
	cancel()
	return ctx
}

// cancelled ends the test where a call under an ended context does not say so.
func (u *underTest) cancelled(what string, err error) {
	u.Helper()
	if !errors.Is(err, context.Canceled) {
		u.Fatalf("%s under a context that has ended: the error is %v, want context.Canceled", what, err)
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
