package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

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

// run is a run whose journal is in use.
type run struct {
	s    *FileStore
	id   string
	path string
	refs int // guarded by s.mu

	mu    sync.Mutex
	queue []*request
	busy  bool // somebody writes for all

	file    sync.Mutex // guards what follows; held for one batch
	f       File
	pos     position
	size    int64 // of the file behind pos
	named   bool  // the file's name is durable
	pending int   // appends since the last sync
}

// use returns the run's state, which its last user drops.
func (s *FileStore) use(runID string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil {
		r = &run{s: s, id: runID, path: s.journalPath(runID), pos: origin()}
		s.runs[runID] = r
	}
	r.refs++
	return r
}

// drop ends a use.
func (s *FileStore) drop(r *run) {
	s.mu.Lock()
	r.refs--
	last := r.refs == 0
	if last {
		delete(s.runs, r.id)
	}
	s.mu.Unlock()
	if last {
		_ = r.settle() // a failure here kills the run for this store
		r.file.Lock()
		defer r.file.Unlock()
		_ = r.close()
	}
}

// submit queues q and returns when it is decided. The first to come writes for
// all who have come meanwhile, then hands on to the next who waits.
func (r *run) submit(q *request) error {
	r.mu.Lock()
	r.queue = append(r.queue, q)
	if r.busy {
		r.mu.Unlock()
		select {
		case <-q.done:
			return q.err
		case <-q.lead:
		}
		r.mu.Lock()
	}
	r.busy = true
	batch := r.queue
	r.queue = nil
	r.mu.Unlock()

	r.commit(batch)

	r.mu.Lock()
	if len(r.queue) > 0 {
		r.queue[0].lead <- struct{}{}
	} else {
		r.busy = false
	}
	r.mu.Unlock()
	return q.err
}

// commit decides every request of the batch.
func (r *run) commit(batch []*request) {
	r.file.Lock()
	defer r.file.Unlock()
	left, err := r.write(batch)
	for _, q := range left {
		q.finish(err)
	}
}

// finish tells a caller how its entries fared.
func (q *request) finish(err error) {
	if q.err = err; err == nil {
		for i, e := range q.entries {
			e.Seq, e.Raw = q.seqs[i], q.lines[i]
		}
	}
	close(q.done)
}

// write appends the batch under the append lock. It returns the requests that
// share the outcome; the others it has finished.
func (r *run) write(batch []*request) ([]*request, error) {
	if err := r.s.deadRun(r.id); err != nil {
		return batch, err
	}
	batch, info, err := r.acquire(batch)
	if err != nil || len(batch) == 0 {
		return batch, err
	}
	defer func() { _ = r.f.Unlock() }()
	if err := r.refresh(info.Size()); err != nil {
		return batch, err
	}
	good, buf, count, last := r.encode(batch)
	if len(good) == 0 {
		return nil, nil
	}
	if err := r.put(buf, count); err != nil {
		return good, err
	}
	r.pos.end += int64(len(buf))
	r.pos.lines += count
	r.pos.lastSeq, r.pos.open = last, false
	r.size = max(r.size, r.pos.end)
	return good, nil
}

// encode makes what is to be written of the requests that may be, and finishes
// the others. The lines share one piece of memory.
func (r *run) encode(batch []*request) (good []*request, buf []byte, count int, last int64) {
	room := 1
	for _, q := range batch {
		room += q.room()
	}
	buf = make([]byte, 0, room)
	if r.pos.open {
		buf = append(buf, '\n')
	}
	last = r.pos.lastSeq
	for _, q := range batch {
		more, next, err := q.encode("append", r.id, buf, last)
		if err != nil {
			q.finish(err)
			continue
		}
		buf, last, count = more, next, count+len(q.lines)
		good = append(good, q)
	}
	return good, buf, count, last
}

// put writes b at the tail and syncs it as the store is told to.
func (r *run) put(b []byte, count int) error {
	const op = "append"
	if err := writeAll(r.f, b, r.pos.end); err != nil {
		if undo := r.f.Truncate(r.pos.end); undo != nil {
			return r.s.kill(r.id, errs.Wrap(errs.JournalIntegrity, op, r.path, "the write failed and what it left could not be cut off", errors.Join(err, undo)))
		}
		r.size = r.pos.end
		return errs.Wrap(errs.JournalIntegrity, op, r.path, "not written; the journal is as it was", err)
	}
	r.pending += count
	every := max(r.s.opts.SyncEvery, 1)
	if r.s.opts.SyncEvery < 0 || r.pending < every {
		return nil
	}
	err := r.f.Sync()
	if err == nil && !r.named {
		err = r.s.fs.SyncDir(r.s.dir)
	}
	if err != nil {
		undo := r.f.Truncate(r.pos.end)
		return r.s.kill(r.id, errs.Wrap(errs.JournalIntegrity, op, r.path, "the sync failed: what the disk holds is not known; check it, then open the store anew", errors.Join(err, undo)))
	}
	r.named, r.pending = true, 0
	return nil
}

// deadRun returns why nothing is appended to a run any more.
func (s *FileStore) deadRun(runID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead[runID]
}

// kill makes the store refuse further appends to a run.
func (s *FileStore) kill(runID string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[runID] = err
	return err
}

// lockWait bounds the pauses between two looks at a taken append lock, which
// is held for one write and one sync.
const lockWait = 2 * time.Millisecond

// acquire opens the journal and takes its append lock, an flock on the file
// itself. Requests whose context ends meanwhile are finished and left out.
func (r *run) acquire(batch []*request) ([]*request, fs.FileInfo, error) {
	const op = "append"
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, lockWait) {
		batch = alive(batch)
		if len(batch) == 0 {
			return nil, nil, nil
		}
		if err := r.open(batch); err != nil {
			return batch, nil, err
		}
		ok, err := r.f.TryLock()
		if err != nil {
			return batch, nil, errs.Wrap(errs.JournalIntegrity, op, r.path, "cannot lock the journal", err)
		}
		if !ok {
			time.Sleep(wait)
			continue
		}
		if info := r.s.stillAt(r.f, r.path); info != nil {
			return batch, info, nil
		}
		if err := r.close(); err != nil { // replaced or removed: look again
			return batch, nil, errs.Wrap(errs.JournalIntegrity, op, r.path, "cannot close the journal", err)
		}
	}
}

// alive finishes the requests whose context has ended and returns the others.
func alive(batch []*request) []*request {
	left := batch[:0:0]
	for _, q := range batch {
		if err := q.ctx.Err(); err != nil {
			q.finish(err)
		} else {
			left = append(left, q)
		}
	}
	return left
}

// open opens the journal, which only the holder of the run's lock may make.
func (r *run) open(batch []*request) error {
	if r.f != nil {
		return nil
	}
	flag := os.O_RDWR
	for _, q := range batch {
		if q.create {
			flag |= os.O_CREATE
		}
	}
	f, err := r.s.fs.OpenFile(r.path, flag, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.Config, "append", r.id, "there is no such run")
	}
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "append", r.path, "cannot open the journal", err)
	}
	r.f, r.pos, r.size, r.named, r.pending = f, origin(), 0, false, 0
	return nil
}

// close closes the journal; the next append opens it again.
func (r *run) close() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f, r.pos = nil, origin()
	return err
}

// refresh finds the tail of the file of size bytes, reading what others have
// appended, and repairs it.
func (r *run) refresh(size int64) error {
	if size == r.size && size == r.pos.end && r.pos.clean() {
		return nil
	}
	from := r.pos
	if !from.clean() || size < from.end {
		from = origin()
	}
	if !fits(size) {
		return errs.New(errs.JournalIntegrity, "append", r.path, "the journal is too large for this machine's memory")
	}
	b, err := readAll(r.f, from.end, size)
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "append", r.path, "cannot read the journal", err)
	}
	if err := from.consume(r.path, b, func(*Entry) {}); err != nil {
		return err
	}
	r.pos, r.size = from, size
	return r.repair()
}

// repair makes the journal end in a whole line, or in a whole entry without
// its newline, which the next write supplies.
func (r *run) repair() error {
	var err error
	switch {
	case r.pos.glued >= 0:
		err = r.separate()
	case r.pos.torn > 0:
		if err = r.f.Truncate(r.pos.end); err == nil {
			err = r.f.Sync()
		}
	default:
		return nil
	}
	if err != nil {
		r.pos = origin()
		return errs.Wrap(errs.JournalIntegrity, "append", r.path, "cannot repair the torn last line", err)
	}
	r.s.log.Warn("repaired the torn end of a journal", "run", r.id, "line", r.pos.lines, "lostBytes", r.pos.torn)
	r.pos.torn, r.pos.glued = 0, -1
	r.size = r.pos.end
	return nil
}

// separate gives each entry of a glued last line a line of its own. The
// entries may have been acknowledged by who wrote them, so the file is
// replaced, not changed. The new file is locked before it has the name.
func (r *run) separate() error {
	b, err := readAll(r.f, 0, r.pos.end)
	if err != nil {
		return err
	}
	head := int(r.pos.glued)
	values, _ := wholeEntries(b[head:])
	text := append([]byte(nil), b[:head]...)
	for _, e := range values {
		text = append(append(text, e.Raw...), '\n')
	}
	temp, f, err := r.s.tempFor(r.path)
	if err != nil {
		return err
	}
	ok, err := f.TryLock()
	if err == nil && !ok {
		err = errors.New("a new file is locked by another")
	}
	if err == nil {
		err = writeAll(f, text, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = r.s.fs.Rename(temp, r.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), r.s.fs.Remove(temp))
	}
	err = errors.Join(r.s.fs.SyncDir(r.s.dir), r.f.Close())
	r.f = f
	r.pos.lines += len(values) - 1
	r.pos.end, r.pos.open = int64(len(text)), false
	return err
}

// settle syncs what SyncEvery has left, when the lock is given back.
func (r *run) settle() error {
	r.file.Lock()
	defer r.file.Unlock()
	if r.f == nil || r.pending == 0 || r.s.opts.SyncEvery < 0 {
		return nil
	}
	err := r.f.Sync()
	if err == nil && !r.named {
		err = r.s.fs.SyncDir(r.s.dir)
	}
	if err != nil {
		return r.s.kill(r.id, errs.Wrap(errs.JournalIntegrity, "release", r.path, "the sync failed", err))
	}
	r.named, r.pending = true, 0
	return nil
}

// remove deletes the journal, so that a writer who waits for its append lock
// finds it gone.
func (r *run) remove() error {
	r.file.Lock()
	defer r.file.Unlock()
	q := &request{ctx: context.Background(), done: make(chan struct{})}
	if r.f == nil {
		if _, err := r.s.fs.Stat(r.path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if _, _, err := r.acquire([]*request{q}); err != nil {
		return err
	}
	err := r.s.fs.Remove(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, r.close())
}
