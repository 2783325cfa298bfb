package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

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
	self    fs.FileInfo // of f, when it was opened: which file it is
	pos     position
	size    int64 // of the file behind pos
	padded  bool  // what is behind pos are newlines written ahead
	named   bool  // the file's name is durable
	pending int   // appends since the last sync
	buf     []byte

	tail atomic.Int64 // the last number that this store wrote, for a guess
}

// use returns the run's state, which its last user drops.
func (s *FileStore) use(runID string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil {
		r = &run{s: s, id: runID, path: s.journalPath(runID), pos: origin()}
		r.tail.Store(-1)
		s.runs[runID] = r
	}
	r.refs++
	return r
}

// tailOf guesses the number of a run's last entry.
func (s *FileStore) tailOf(runID string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[runID]; r != nil {
		return r.tail.Load()
	}
	return -1
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
	if err := r.put(buf, count, pads(good)); err != nil {
		return good, err
	}
	r.pos.end += int64(len(buf))
	r.pos.lines += count
	r.pos.lastSeq, r.pos.open = last, false
	r.tail.Store(last)
	return good, nil
}

// encode makes what is to be written of the requests that may be, and finishes
// the others.
func (r *run) encode(batch []*request) (good []*request, buf []byte, count int, last int64) {
	last = r.pos.lastSeq
	for _, q := range batch {
		if last < 0 && !q.create { // a journal that was made and never written
			q.finish(noRun(r.id))
			continue
		}
		next, err := q.place("append", last)
		if err != nil {
			q.finish(err)
			continue
		}
		last, count = next, count+len(q.lines)
		good = append(good, q)
	}
	if len(good) == 1 && !r.pos.open {
		return good, good[0].text, count, last
	}
	buf = r.buf[:0]
	if r.pos.open {
		buf = append(buf, '\n')
	}
	for _, q := range good {
		buf = append(buf, q.text...)
	}
	if cap(buf) <= maxKept {
		r.buf = buf
	}
	return good, buf, count, last
}

// pads reports whether a request comes from the holder of the run's lock, who
// takes newlines written ahead back at the end.
func pads(batch []*request) bool {
	for _, q := range batch {
		if q.create {
			return true
		}
	}
	return false
}

// put writes b at the tail and syncs it as the store is told to.
func (r *run) put(b []byte, count int, ahead bool) error {
	const op = "append"
	end := r.pos.end + int64(len(b))
	if err := writeAll(r.f, b, r.pos.end); err != nil {
		if undo := r.takeBack(); undo != nil {
			return r.s.kill(r.id, errs.Wrap(errs.JournalIntegrity, op, r.path, "the write failed and what it left could not be cut off", errors.Join(err, undo)))
		}
		return errs.Wrap(errs.JournalIntegrity, op, r.path, "not written; the journal is as it was", err)
	}
	r.pending += count
	every := max(r.s.opts.SyncEvery, 1)
	sync := r.s.opts.SyncEvery >= 0 && r.pending >= every
	if end > r.size {
		r.size, r.padded = end, false
		if ahead && sync && every == 1 {
			r.pad(end)
		}
	}
	if !sync {
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

// takeBack cuts off what a write that failed left behind the tail, for good:
// after a power cut blocks of it could stand among those of the next write.
func (r *run) takeBack() error {
	err := r.f.Truncate(r.pos.end)
	if err == nil {
		r.size, r.padded = r.pos.end, false
		if r.s.opts.SyncEvery >= 0 {
			err = r.f.Sync()
		}
	}
	return err
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
		now, err := r.s.fs.Stat(r.path)
		if err == nil && r.self != nil && r.s.fs.SameFile(r.self, now) {
			return batch, now, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(err, r.f.Unlock())
			return batch, nil, errs.Wrap(errs.JournalIntegrity, op, r.path, "cannot tell whether the journal is still the one that is open", err)
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
		return noRun(r.id)
	}
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "append", r.path, "cannot open the journal", err)
	}
	self, err := f.Stat()
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "append", r.path, "cannot tell which file is open", errors.Join(err, f.Close()))
	}
	r.f, r.self, r.pos, r.size, r.padded, r.named, r.pending = f, self, origin(), 0, false, false, 0
	return nil
}

func noRun(runID string) error {
	return errs.New(errs.Config, "append", runID, "there is no such run")
}

// close closes the journal; the next append opens it again.
func (r *run) close() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f, r.self, r.pos = nil, nil, origin()
	return err
}

// settle syncs what SyncEvery has left, when the lock is given back.
func (r *run) settle() error {
	r.file.Lock()
	defer r.file.Unlock()
	if r.f == nil || r.pending == 0 || r.s.opts.SyncEvery < 0 || r.s.deadRun(r.id) != nil {
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
func (r *run) remove(ctx context.Context) error {
	r.file.Lock()
	defer r.file.Unlock()
	q := &request{ctx: ctx}
	if r.f == nil {
		if _, err := r.s.fs.Stat(r.path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if _, _, err := r.acquire([]*request{q}); err != nil || q.err != nil {
		return errors.Join(err, q.err)
	}
	err := r.s.fs.Remove(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, r.close())
}
