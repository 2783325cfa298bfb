package journal

import (
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// Batch is the entries of one AppendAll on their way into a store:
//
//	NewBatch     checks them and encodes all that is known before the tail is
//	MayUnlocked  says whether the run's lock is needed
//	Mint         numbers them behind the journal's tail; may be called again
//	             with another tail where somebody else was faster
//	             … the store makes the lines durable …
//	Acknowledge  tells the entries their numbers and lines
//
// A Batch belongs to one goroutine.
type Batch struct {
	runID   string
	entries []*Entry
	text    []byte // the entries' lines, each without what stands before scope
	ends    []int  // where each line ends in text
	lines   [][]byte
	seqs    []int64
}

// headRoom is more than the members before the body, ref and newline take.
const headRoom = 96

// NewBatch checks a run's next entries. A run id or an entry that may not be
// written, and a raw line that is not the entry it comes with, is a config
// error; a payload that is not JSON is a non_serializable_value.
func NewBatch(runID string, entries []*Entry) (*Batch, error) {
	if err := CheckRunID(runID); err != nil {
		return nil, err
	}
	q := &Batch{
		runID: runID, entries: entries, ends: make([]int, len(entries)),
		lines: make([][]byte, len(entries)), seqs: make([]int64, len(entries)),
	}
	size := 0
	for _, e := range entries {
		size += e.estimate()
	}
	q.text = make([]byte, 0, size)
	for i, e := range entries {
		var err error
		if e.Raw != nil {
			err = checkRaw("append", runID, e)
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

// MayUnlocked reports whether the entries may be written without the run's
// lock: they are resolutions, abandons and revocations of approvals, and the
// run exists, which the store must see.
func (q *Batch) MayUnlocked() bool {
	for _, e := range q.entries {
		if e.Kind != KindResolution && e.Kind != KindAbandon &&
			(e.Kind != KindDecision || e.decisionType() != "approval_revoked") {
			return false
		}
	}
	return true
}

// Mint returns the lines, without newlines, that follow the entry numbered
// tail; -1 is an empty journal. An entry that brings its own number, which is
// not above what stands before it, is a journal_order_violation; a ref that
// does not point backwards is a config error.
func (q *Batch) Mint(tail int64) ([][]byte, error) {
	if _, _, err := q.encode("append", make([]byte, 0, q.room()), tail); err != nil {
		return nil, err
	}
	return q.lines, nil
}

// Seqs returns the numbers that the last Mint gave.
func (q *Batch) Seqs() []int64 { return q.seqs }

// Acknowledge gives each entry the number and the line of the last Mint. It is
// called when they are durable, and not at all where they are not.
func (q *Batch) Acknowledge() {
	for i, e := range q.entries {
		e.Seq, e.Raw = q.seqs[i], q.lines[i]
	}
}

// encode appends the lines that follow the tail last to buf, which has room
// for them, and returns the new tail.
func (q *Batch) encode(op string, buf []byte, last int64) ([]byte, int64, error) {
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
			return buf[:start], 0, errs.New(errs.JournalOrder, op, q.runID, fmt.Sprintf("seq %d is not above the journal's tail, %d", seq, last))
		}
		if seq > maxSafe {
			return buf[:start], 0, errs.New(errs.JournalOrder, op, q.runID, fmt.Sprintf("seq %d is beyond 2^53-1", seq))
		}
		ref := q.refOf(i)
		if ref != nil && *ref >= seq {
			return buf[:start], 0, errs.New(errs.Config, op, q.runID, fmt.Sprintf("ref %d does not point backwards from seq %d", *ref, seq))
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
func (q *Batch) refOf(i int) *int64 {
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
func (q *Batch) room() int { return len(q.text) + headRoom*len(q.entries) }
