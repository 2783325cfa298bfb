package journal

import (
	"context"
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// Append writes one entry and returns when it is durable. It mints e.Seq, the
// next above the journal's tail, which it finds in the file: another process
// may have appended. e.Seq and e.Raw are set when the entry is durable, and
// untouched by a failure. An entry with At or Raw brings its own sequence
// number, which must be above the tail (journal_order_violation).
//
// lock is the run's lock. Without it only resolutions, abandons and
// revocations of approvals are written, and only to a run that exists: another
// entry is a lease_held error while somebody holds the lock and a config error
// otherwise. A failed write leaves the journal as it was. After a failed sync
// nobody can say what is on the disk: the entry is taken back and this store
// refuses further appends to the run.
//
// An append costs one sync; the first under a lock, or without one, costs one
// more, for the directory, and so does the repair of a torn last line.
// Concurrent appends to a run wait for one sync together. Cancelling ctx ends
// the wait for other writers, not a write that has begun.
func (s *FileStore) Append(ctx context.Context, runID string, e *Entry, lock *RunLock) error {
	return s.AppendAll(ctx, runID, []*Entry{e}, lock)
}

// AppendAll is Append for several entries at once, with one write and one
// sync: all of them are durable, in order, or none was acknowledged. (A power
// cut may leave the first of a batch that was not acknowledged.) A terminal
// whose Ref is &r.Seq, with r earlier in the same batch, refers to r.
func (s *FileStore) AppendAll(ctx context.Context, runID string, entries []*Entry, lock *RunLock) error {
	const op = "append"
	if err := CheckRunID(runID); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	q, err := newRequest(ctx, op, runID, entries)
	if err != nil {
		return err
	}
	if lock != nil || !allUnlocked(entries) {
		done, err := s.holdFor(op, runID, lock)
		if err != nil {
			return err
		}
		defer done()
		q.create = true
	}
	r := s.use(runID)
	defer s.drop(r)
	return r.submit(q)
}

// allUnlocked reports whether the entries may be written without the lock.
func allUnlocked(entries []*Entry) bool {
	for _, e := range entries {
		if e.Kind != KindResolution && e.Kind != KindAbandon &&
			(e.Kind != KindDecision || e.decisionType() != "approval_revoked") {
			return false
		}
	}
	return true
}

// request is one call of AppendAll.
type request struct {
	ctx     context.Context
	entries []*Entry
	text    []byte // the entries' lines, each without what stands before scope
	ends    []int  // where each line ends in text
	create  bool   // the journal may be made
	lines   [][]byte
	seqs    []int64
	err     error
	done    chan struct{} // closed when err stands
	lead    chan struct{} // receives when this call is to write for all
}

// headRoom is more than the members before the body, ref and newline take.
const headRoom = 96

// newRequest checks the entries and encodes all that is known of them.
func newRequest(ctx context.Context, op, runID string, entries []*Entry) (*request, error) {
	q := &request{
		ctx: ctx, entries: entries, ends: make([]int, len(entries)),
		lines: make([][]byte, len(entries)), seqs: make([]int64, len(entries)),
		done: make(chan struct{}), lead: make(chan struct{}, 1),
	}
	size := 0
	for _, e := range entries {
		size += e.estimate()
	}
	q.text = make([]byte, 0, size)
	for i, e := range entries {
		var err error
		if e.Raw != nil {
			err = checkRaw(op, runID, e)
			q.text = append(q.text, e.Raw...)
		} else if err = e.Validate(); err == nil {
			q.text, err = e.appendBody(q.text)
		}
		if err != nil {
			return nil, err
		}
		q.ends[i] = len(q.text)
	}
	return q, nil
}

// checkRaw refuses a raw line that is not the entry it comes with.
func checkRaw(op, runID string, e *Entry) error {
	read, err := ParseEntry(e.Raw)
	switch {
	case err != nil:
		return errs.Wrap(errs.Config, op, runID, "the raw line is not an entry", err)
	case hasLineBreak(e.Raw):
		return errs.New(errs.Config, op, runID, "the raw line holds a line break")
	case read.Seq != e.Seq || read.Kind != e.Kind || read.decisionType() != e.decisionType():
		return errs.New(errs.Config, op, runID, "the entry says otherwise than its raw line")
	}
	return nil
}

// encode appends the lines that follow the tail last to buf, which has room
// for them, and returns the new tail.
func (q *request) encode(op, runID string, buf []byte, last int64) ([]byte, int64, error) {
	start, from := len(buf), 0
	for i, e := range q.entries {
		seq := last + 1
		switch {
		case e.Raw != nil:
			seq = e.Seq
		case e.At != nil:
			seq = *e.At
		}
		if seq <= last {
			return buf[:start], 0, errs.New(errs.JournalOrder, op, runID, fmt.Sprintf("seq %d is not above the journal's tail, %d", seq, last))
		}
		if seq > maxSafe {
			return buf[:start], 0, errs.New(errs.JournalOrder, op, runID, fmt.Sprintf("seq %d is beyond 2^53-1", seq))
		}
		ref := q.refOf(i)
		if ref != nil && *ref >= seq {
			return buf[:start], 0, errs.New(errs.Config, op, runID, fmt.Sprintf("ref %d does not point backwards from seq %d", *ref, seq))
		}
		at := len(buf)
		if e.Raw == nil {
			buf = e.appendHead(buf, seq, ref)
		}
		buf = append(buf, q.text[from:q.ends[i]]...)
		q.lines[i], q.seqs[i] = buf[at:len(buf):len(buf)], seq
		buf = append(buf, '\n')
		from, last = q.ends[i], seq
	}
	return buf, last, nil
}

// refOf returns the reference of the i-th entry. A Ref that points to the Seq
// of an earlier entry of the same batch means that entry, whose number is
// minted only now: so both phases of an operation can share one sync.
func (q *request) refOf(i int) *int64 {
	ref := q.entries[i].Ref
	if ref == nil {
		return nil
	}
	for j := range i {
		if ref == &q.entries[j].Seq {
			return &q.seqs[j]
		}
	}
	return ref
}

// room is an upper bound of what encode appends.
func (q *request) room() int { return len(q.text) + headRoom*len(q.entries) }
