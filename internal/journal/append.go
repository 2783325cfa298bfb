package journal

import (
	"context"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// Append writes one entry and returns when it is durable. It mints e.Seq, the
// next above the journal's tail, which it finds in the file: another process
// may have appended. e.Seq is set when the entry is durable, and untouched
// by a failure. An entry with At or Raw brings its own sequence
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
	b, err := newBatch(runID, entries, s.tailOf(runID))
	if err != nil || len(entries) == 0 {
		return err
	}
	q := &request{Batch: b, ctx: ctx}
	if lock != nil || !b.MayUnlocked() {
		done, err := s.holdFor(op, runID, lock)
		if err != nil {
			return err
		}
		defer done()
		q.create = true
	}
	r := s.use(runID)
	defer s.drop(r)
	err = r.submit(q)
	b.free()
	return err
}

// request is one call of AppendAll.
type request struct {
	*Batch
	ctx    context.Context
	create bool // the journal may be made
	err    error

	decided bool // err stands; of whoever writes
	// Of a call that waits for the one that writes; nil otherwise.
	done chan struct{} // closed when err stands
	lead chan struct{} // receives when this call is to write for all
}

// submit queues q and returns when it is decided. The first to come writes for
// all who have come meanwhile, then hands on to the next who waits.
func (r *run) submit(q *request) error {
	r.mu.Lock()
	r.queue = append(r.queue, q)
	if r.busy {
		q.done, q.lead = make(chan struct{}), make(chan struct{}, 1)
		r.mu.Unlock()
		select {
		case <-q.done:
			return q.err
		case <-q.lead:
		}
		r.mu.Lock()
	}
	r.busy = true
	n := together(r.queue)
	batch := r.queue[:n:n]
	r.queue = r.queue[n:]
	r.mu.Unlock()

	defer r.handOn() // whatever happens: the others wait
	r.commit(batch)
	return q.err
}

// handOn lets the next who waits write.
func (r *run) handOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) > 0 {
		r.queue[0].lead <- struct{}{}
	} else {
		r.busy = false
	}
}

// maxTogether is how many entries are put into one write where they come in
// several calls. A power cut may leave any blocks of a write, so that more
// entries than these behind a missing block are no remains of one: the block
// was damaged (see oneWrite).
const maxTogether = 64

// together returns how many requests, one at least, are written as one.
func together(queue []*request) int {
	entries := 0
	for n, q := range queue {
		if entries += len(q.entries); n > 0 && entries > maxTogether {
			return n
		}
	}
	return len(queue)
}

// commit decides every request of the batch, also where the write panics, as
// the host's logger may: nobody is left waiting, or is told of a success.
func (r *run) commit(batch []*request) {
	r.file.Lock()
	defer r.file.Unlock()
	left := batch
	var err error = errs.New(errs.JournalIntegrity, "append", r.path, "the writer has panicked: what was written is not known")
	defer func() {
		for _, q := range left {
			q.finish(err)
		}
	}()
	left, err = r.write(batch)
}

// finish tells a caller, once, how its entries fared.
func (q *request) finish(err error) {
	if q.decided {
		return
	}
	q.decided = true
	if q.err = err; err == nil {
		q.Acknowledge()
	}
	if q.done != nil {
		close(q.done)
	}
}
