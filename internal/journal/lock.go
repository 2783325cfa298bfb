package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// Holder is who holds a run's segment lock, as the lock file names it.
type Holder struct {
	Owner string `json:"owner"`
	PID   int    `json:"pid"`
	Host  string `json:"host"`
	Since string `json:"since"` // RFC 3339
	Epoch int64  `json:"epoch"` // grows with each acquisition
}

func (h Holder) String() string {
	return fmt.Sprintf("%s (process %d on %s, since %s)", h.Owner, h.PID, h.Host, h.Since)
}

// NewRunLock makes the lock that a store's Lock returns: of a run, given by
// store, to holder. release gives it back; it is called once, after the calls
// under the lock have ended.
func NewRunLock(store any, runID string, holder Holder, release func() error) *RunLock {
	return &RunLock{store: store, runID: runID, holder: holder, free: release}
}

// RunLock is the segment lock of one run: while it is held, nobody else can
// take it and only its holder appends anything but resolutions, abandons and
// revocations. Its methods may be called from any goroutine.
type RunLock struct {
	runID  string
	holder Holder
	store  any // the store that gave it
	free   func() error

	mu       sync.Mutex
	released bool
	uses     sync.WaitGroup // appends under way
}

// RunID returns the run that is locked.
func (l *RunLock) RunID() string { return l.runID }

// Holder returns what the lock file says while this lock is held.
func (l *RunLock) Holder() Holder { return l.holder }

// Epoch returns this acquisition's number: higher than that of every earlier
// acquisition of the same run's lock.
func (l *RunLock) Epoch() int64 { return l.holder.Epoch }

// Release gives the lock back, once the appends that are under way have
// ended. A second Release does nothing.
func (l *RunLock) Release() error {
	if !l.retire() {
		return nil
	}
	return l.free()
}

// retire ends the use of the lock, without giving it back, once the calls
// under it have ended. It reports whether this call did.
func (l *RunLock) retire() bool {
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return false
	}
	l.released = true
	l.mu.Unlock()
	l.uses.Wait()
	return true
}

// Use marks the start of a store's call under the lock; done, which must be
// called, ends it. A lock that was released, or is of another run or store, is
// a config error. It is for stores.
func (l *RunLock) Use(store any, op, runID string) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.store != store:
		return nil, errs.New(errs.Config, op, runID, "the lock was given by another store")
	case l.runID != runID:
		return nil, errs.New(errs.Config, op, runID, fmt.Sprintf("the lock is of run %s", l.runID))
	case l.released:
		return nil, errs.New(errs.Config, op, runID, "the lock was released")
	}
	l.uses.Add(1)
	return l.uses.Done, nil
}

// locker is a store that retired takes a lock of.
type locker interface {
	Lock(ctx context.Context, runID, owner string) (*RunLock, error)
}

// retired returns a lock of the run's that nobody can use any more, and that
// is not given back yet: the caller's, or one that it takes.
func retired(ctx context.Context, s locker, runID string, lock *RunLock) (*RunLock, error) {
	const op = "delete"
	if lock == nil {
		var err error
		if lock, err = s.Lock(ctx, runID, op); err != nil {
			return nil, err
		}
	}
	done, err := lock.Use(s, op, runID)
	if err != nil {
		return nil, err
	}
	done()
	if !lock.retire() {
		return nil, errs.New(errs.Config, op, runID, "the lock was released")
	}
	return lock, nil
}

// NeedsLock is the error of a call that needs the run's lock and came without,
// while nobody holds it.
func NeedsLock(op, runID string) error {
	return errs.New(errs.Config, op, runID, "only the holder of the run's lock may do this; take it first")
}

// HeldBy is the error of a call that somebody else's lock keeps out. Its Data
// has h under "holder".
func HeldBy(op, runID string, h Holder) error {
	who := "another process"
	if h.Owner != "" || h.PID != 0 {
		who = h.String()
	}
	e := errs.New(errs.LeaseHeld, op, runID, "the run is locked by "+who+"; wait until that segment has settled")
	e.Data = map[string]any{"holder": h}
	return e
}

// nextEpoch follows prev. A lock file that was deleted, lost or damaged starts
// at the current microsecond, so that the numbers grow across that too.
func nextEpoch(prev int64, now time.Time) int64 { return max(prev+1, now.UnixMicro()) }

// lockTries is how often Lock looks again before it calls a lock held: a
// process that only looks whether it is takes it for some microseconds.
const lockTries = 4

// maxOwner keeps the lock file short enough to be read at once.
const maxOwner = 1000

// Lock takes the run's segment lock for owner, up to 1000 bytes for people to
// read. Held by somebody else, in this process or another, it is a lease_held
// error whose message names the holder, as far as the disk had room for the
// name, and whose Data has it under "holder". The kernel releases the lock of
// a process that dies. Lock syncs nothing.
func (s *FileStore) Lock(ctx context.Context, runID, owner string) (*RunLock, error) {
	const op = "lock"
	if err := checkLock(op, runID, owner); err != nil {
		return nil, err
	}
	f, err := s.takeLockFile(ctx, op, runID)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	now := time.Now().UTC()
	h := Holder{
		Owner: owner, PID: os.Getpid(), Host: host, Since: now.Format(time.RFC3339Nano),
		Epoch: nextEpoch(readHolder(f).Epoch, now),
	}
	if err := s.writeHolder(f, h); err != nil {
		return nil, errs.Wrap(errs.Config, op, s.lockPath(runID), "cannot write the lock file", errors.Join(err, f.Close()))
	}
	r := s.use(runID)
	return NewRunLock(s, runID, h, func() error {
		err := r.settle()
		r.trim()
		s.drop(r)
		if err = errors.Join(err, f.Unlock(), f.Close()); err != nil {
			return errs.Wrap(errs.JournalIntegrity, "release", s.lockPath(runID), "", err)
		}
		return nil
	}), nil
}

// writeHolder names the holder in the lock file. The lock is the kernel's and
// holds without the name, so that a full disk keeps nobody from deleting a run:
// what matters is that nobody else's name stands there.
func (s *FileStore) writeHolder(f File, h Holder) error {
	text, err := json.Marshal(h)
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return err
	}
	if err := writeAll(f, append(text, '\n'), 0); err != nil {
		s.log.Warn("a lock is held without a name: the lock file cannot be written", "error", err)
		return f.Truncate(0)
	}
	return nil
}

func checkLock(op, runID, owner string) error {
	if len(owner) > maxOwner {
		return errs.New(errs.Config, op, runID, fmt.Sprintf("the owner's name has %d bytes, of at most %d", len(owner), maxOwner))
	}
	return CheckRunID(runID)
}

// takeLockFile opens the lock file and locks it. The file may be deleted
// between the two, together with its run: a lock on a file that has no name
// any more excludes nobody.
func (s *FileStore) takeLockFile(ctx context.Context, op, runID string) (File, error) {
	path := s.lockPath(runID)
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := s.fs.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, errs.Wrap(errs.Config, op, path, "cannot open the lock file", err)
		}
		ok, err := f.TryLock()
		if err != nil {
			return nil, errs.Wrap(errs.Config, op, path, "cannot lock", errors.Join(err, f.Close()))
		}
		if ok && s.stillAt(f, path) {
			return f, nil
		}
		h := readHolder(f)
		if err := f.Close(); err != nil {
			return nil, errs.Wrap(errs.Config, op, path, "cannot close the lock file", err)
		}
		if !ok && try >= lockTries {
			return nil, HeldBy(op, runID, h)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// stillAt reports whether f is the file that path names now.
func (s *FileStore) stillAt(f File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := s.fs.Stat(path)
	return err == nil && s.fs.SameFile(mine, now)
}

// holderOf tells who holds the run's segment lock, if anybody does.
func (s *FileStore) holderOf(runID string) (h Holder, held bool, err error) {
	f, err := s.fs.OpenFile(s.lockPath(runID), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	ok, err := f.TryLock()
	h = readHolder(f)
	return h, !ok, errors.Join(err, f.Close())
}

// readHolder reads the lock file. A torn one, written while the power failed
// or being written now, names nobody.
func readHolder(f File) (h Holder) {
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0)
	if json.Unmarshal(b[:n], &h) != nil {
		return Holder{}
	}
	return h
}

// pause sleeps, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
