package journal

import (
	"fmt"
	"sync"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// Batch is the entries of one AppendAll on their way into a store:
//
//	NewBatch     checks and encodes them, for the tail that is expected
//	MayUnlocked  says whether the run's lock is needed
//	Mint         numbers them behind the journal's tail; may be called again
//	             with another tail where somebody else was faster
//	             … the store makes the lines durable …
//	Acknowledge  tells the entries their numbers
//
// A Batch belongs to one goroutine.
type Batch struct {
	runID   string
	entries []*Entry
	text    []byte // the entries' lines, each with its newline
	lines   []line
	stale   bool // a place that failed has left heads that are not their lines'
}

// line is where an entry's line stands in a batch's text.
type line struct {
	from, body, end int // its head, what follows ref, its newline
	seq             int64
}

// headRoom is more than the members before the body, ref and newline take.
const headRoom = 96

// NewBatch checks a run's next entries. A run id or an entry that may not be
// written, and a raw line that is not the entry it comes with, is a config
// error; a payload that is not JSON is a non_serializable_value.
func NewBatch(runID string, entries []*Entry) (*Batch, error) { return newBatch(runID, entries, -1) }

// newBatch is NewBatch for a journal that ends at the entry numbered tail, as
// far as the caller knows. Where it does, place has nothing to do.
func newBatch(runID string, entries []*Entry, tail int64) (*Batch, error) {
	if err := CheckRunID(runID); err != nil {
		return nil, err
	}
	q := &Batch{runID: runID, entries: entries, lines: make([]line, len(entries))}
	size := 0
	for _, e := range entries {
		size += e.estimate()
	}
	if kept, ok := texts.Get().(*[]byte); ok && cap(*kept) >= size {
		q.text = (*kept)[:0]
	} else {
		q.text = make([]byte, 0, size)
	}
	for i, e := range entries {
		l := &q.lines[i]
		l.from, l.seq = len(q.text), e.seqBehind(tail)
		tail = l.seq
		var err error
		if e.Raw != nil {
			err = checkRaw("append", runID, e)
			l.body = len(q.text)
			q.text = append(q.text, e.Raw...)
		} else if err = e.Validate(); err == nil {
			q.text = e.appendHead(q.text, l.seq, q.refOf(i))
			l.body = len(q.text)
			q.text, err = e.appendBody(q.text)
		}
		if err != nil {
			return nil, err
		}
		l.end = len(q.text)
		q.text = append(q.text, '\n')
	}
	return q, nil
}

// texts keeps the memory of batches that were written.
var texts sync.Pool

// maxKept bounds what is kept.
const maxKept = 256 << 10

// free gives the text's memory back. No line of it may be in use.
func (q *Batch) free() {
	if text := q.text; cap(text) <= maxKept {
		q.text = nil
		texts.Put(&text)
	}
}

// seqBehind returns the number that the entry brings or, where it brings none,
// the next behind last.
func (e *Entry) seqBehind(last int64) int64 {
	switch {
	case e.Raw != nil:
		return e.Seq
	case e.At != nil:
		return *e.At
	}
	return last + 1
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
// does not point backwards is a config error. The lines of an earlier Mint are
// void.
func (q *Batch) Mint(tail int64) ([][]byte, error) {
	if _, err := q.place("append", tail); err != nil {
		return nil, err
	}
	lines := make([][]byte, len(q.lines))
	for i := range lines {
		lines[i] = q.line(i)
	}
	return lines, nil
}

// line returns the i-th line, without its newline.
func (q *Batch) line(i int) []byte {
	l := &q.lines[i]
	return q.text[l.from:l.end:l.end]
}

// Seqs returns the numbers that the last Mint gave.
func (q *Batch) Seqs() []int64 {
	seqs := make([]int64, len(q.lines))
	for i := range seqs {
		seqs[i] = q.lines[i].seq
	}
	return seqs
}

// Acknowledge gives each entry the number of the last Mint. It is called when
// they are durable, and not at all where they are not.
func (q *Batch) Acknowledge() {
	for i, e := range q.entries {
		e.Seq = q.lines[i].seq
	}
}

// place makes text what follows the entry numbered last, and returns the new
// tail.
func (q *Batch) place(op string, last int64) (int64, error) {
	var room [headRoom]byte
	fits, stale := true, q.stale
	q.stale = true
	for i, e := range q.entries {
		l := &q.lines[i]
		seq := e.seqBehind(last)
		if seq <= last {
			return 0, errs.New(errs.JournalOrder, op, q.runID, fmt.Sprintf("seq %d is not above the journal's tail, %d", seq, last))
		}
		if seq > maxSafe {
			return 0, errs.New(errs.JournalOrder, op, q.runID, fmt.Sprintf("seq %d is beyond 2^53-1", seq))
		}
		moved := stale || l.seq != seq
		l.seq, last = seq, seq
		ref := q.refOf(i)
		if ref != nil && *ref >= seq {
			return 0, errs.New(errs.Config, op, q.runID, fmt.Sprintf("ref %d does not point backwards from seq %d", *ref, seq))
		}
		if e.Raw != nil || !moved && ref == e.Ref {
			continue
		}
		if head := e.appendHead(room[:0], seq, ref); len(head) == l.body-l.from {
			copy(q.text[l.from:], head)
		} else {
			fits = false
		}
	}
	if !fits {
		q.rebuild()
	}
	q.stale = false
	return last, nil
}

// rebuild writes the text anew, with heads of other lengths.
func (q *Batch) rebuild() {
	text := make([]byte, 0, len(q.text)+headRoom*len(q.lines))
	for i, e := range q.entries {
		l := &q.lines[i]
		body := q.text[l.body : l.end+1]
		l.from = len(text)
		if e.Raw == nil {
			text = e.appendHead(text, l.seq, q.refOf(i))
		}
		l.body = len(text)
		text = append(text, body...)
		l.end = len(text) - 1
	}
	q.text = text
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
			return &q.lines[j].seq
		}
	}
	return ref
}
