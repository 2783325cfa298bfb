package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// FileLedger is a [Ledger] in a file, one JSON line a record, that several
// processes may write at once. Every record is synced before the method that
// writes it returns. It is made by [OpenFileLedger] and is safe for concurrent
// use.
//
// It assumes a local file system, with locks that end with their process. What
// a call may have done is known for as long as its record stands: do not cut
// the file or begin another one while runs are unfinished.
type FileLedger struct {
	path string
	fs   journal.FS

	mu     sync.Mutex
	file   journal.File
	info   fs.FileInfo // of file
	lines  lines
	known  attempts
	closed bool
	failed error // a write went wrong: what the file holds is not known
}

// lockTimeout is how long another process may hold the file; a record takes
// one some milliseconds.
const lockTimeout = 10 * time.Second

// OpenFileLedger opens the ledger at path, which is made, readable to its owner
// alone, where it does not exist. A damaged ledger is an [ErrLedger], as from
// [ReadLedger]; only the beginning of a line at its end, which a crash can
// leave, is taken out, and kept in a line of its own.
func OpenFileLedger(path string) (*FileLedger, error) {
	return openFileLedger(journal.OS(), path)
}

func openFileLedger(fsys journal.FS, path string) (*FileLedger, error) {
	const op = "OpenFileLedger"
	if path == "" {
		return nil, configError(op, "path", "no file is named")
	}
	l := &FileLedger{path: path, fs: fsys, known: newAttempts()}
	_, err := fsys.Stat(path)
	created := errors.Is(err, fs.ErrNotExist)
	if l.file, err = fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, ledgerError(op, path, "it cannot be opened", err)
	}
	if l.info, err = l.file.Stat(); err == nil && created {
		err = fsys.SyncDir(filepath.Dir(path))
	}
	if err == nil && !l.info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		_ = l.file.Close()
		return nil, ledgerError(op, path, "it cannot be opened", err)
	}
	if err := l.locked(context.Background(), op, l.refresh); err != nil {
		_ = l.file.Close()
		return nil, err
	}
	return l, nil
}

// Close closes the file. Calls that are under way end first; later ones fail.
func (l *FileLedger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.file.Close()
}

// Attempts implements [Ledger].
func (l *FileLedger) Attempts(ctx context.Context, key string) (list []Attempt, err error) {
	err = l.locked(ctx, "Attempts", func(op string) error {
		if err := l.refresh(op); err != nil {
			return err
		}
		list = l.known.of(key)
		return nil
	})
	return list, err
}

// Intent implements [Ledger].
func (l *FileLedger) Intent(ctx context.Context, in *Intent) error {
	kept := *in
	return l.append(ctx, "Intent", row{intent: &kept})
}

// Outcome implements [Ledger].
func (l *FileLedger) Outcome(ctx context.Context, out *Outcome) error {
	if !out.Outcome.known() || out.NoEffect && out.Outcome != OutcomeError {
		return configError("Outcome", "", fmt.Sprintf("an outcome is ok, error or timeout, and only an error is without effect; this is %q", out.Outcome))
	}
	kept := *out
	return l.append(ctx, "Outcome", row{outcome: &kept})
}

// Open returns the attempts without an outcome, the oldest first: those whose
// program runs, and those whose host has died.
func (l *FileLedger) Open(ctx context.Context) (list []Attempt, err error) {
	err = l.locked(ctx, "Open", func(op string) error {
		if err := l.refresh(op); err != nil {
			return err
		}
		list = l.known.open()
		return nil
	})
	return list, err
}

// locked calls fn with the file's lock, which no other process and no other
// FileLedger has at the same time.
func (l *FileLedger) locked(ctx context.Context, op string, fn func(op string) error) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ledgerError(op, l.path, "the ledger is closed", nil)
	case l.failed != nil:
		return ledgerError(op, l.path, "an earlier record could not be written; open the ledger again", l.failed)
	}
	deadline := time.Now().Add(lockTimeout)
	for {
		ok, err := l.file.TryLock()
		switch {
		case err != nil:
			return ledgerError(op, l.path, "it cannot be locked", err)
		case ok:
			defer func() {
				if e := l.file.Unlock(); err == nil && e != nil {
					err = ledgerError(op, l.path, "it cannot be unlocked", e)
				}
			}()
			return fn(op)
		case time.Now().After(deadline):
			return ledgerError(op, l.path, fmt.Sprintf("another process has held its lock for %v", lockTimeout), nil)
		}
		select {
		case <-ctx.Done():
			return ledgerError(op, l.path, "its lock was waited for", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// refresh takes in what others have written since. It holds the lock.
func (l *FileLedger) refresh(op string) error {
	now, err := l.fs.Stat(l.path)
	if err != nil || !l.fs.SameFile(now, l.info) {
		return ledgerError(op, l.path, "the file was moved or replaced; open the ledger again", err)
	}
	size := now.Size()
	from := l.lines.offset
	switch {
	case size < from:
		return ledgerError(op, l.path, fmt.Sprintf("the file was cut: it has %d bytes and had %d", size, from), nil)
	case size == from:
		return nil
	}
	b := make([]byte, size-from)
	if n, err := l.file.ReadAt(b, from); n < len(b) {
		return ledgerError(op, l.path, "it cannot be read", err)
	}
	next := l.lines
	if next.open { // another writer has ended the line first
		if len(bytes.Trim(b, "\x00")) == 0 {
			return nil
		}
		if b[0] != '\n' {
			return ledgerError(op, l.path, fmt.Sprintf("the line before byte %d has no end", from), nil)
		}
		b, next.offset = b[1:], next.offset+1
	}
	var rows []row
	next.read(b, func(r row) { rows = append(rows, r) })
	if len(next.corrupt) > 0 {
		return corruption(op, l.path, next.corrupt)
	}
	l.lines = next
	l.take(rows)
	return nil
}

func (l *FileLedger) take(rows []row) {
	for _, r := range rows {
		switch {
		case r.intent != nil:
			l.known.add(r.intent)
		case r.outcome != nil:
			l.known.settle(r.outcome)
		}
	}
}

// append makes a row durable.
func (l *FileLedger) append(ctx context.Context, op string, r row) error {
	line, err := r.line()
	if err != nil {
		return ledgerError(op, l.path, "the record cannot be written as JSON", err)
	}
	if _, _, err := readRow(line[:len(line)-1]); err != nil {
		return ledgerError(op, l.path, "the record could not be read again", err)
	}
	return l.locked(ctx, op, func(op string) error {
		if err := l.refresh(op); err != nil {
			return err
		}
		if err := l.write(line); err != nil {
			l.failed = err
			return ledgerError(op, l.path, "the record could not be made durable", err)
		}
		l.take([]row{r})
		return nil
	})
}

// write appends a line, to an end that is whole.
func (l *FileLedger) write(line []byte) error {
	if err := l.repair(); err != nil {
		return err
	}
	return l.put(line)
}

// repair makes the end of the file whole where a crash has left it, and syncs
// that first: what is written next must not decide over what stands there.
func (l *FileLedger) repair() error {
	s := &l.lines
	if !s.open && len(s.torn) == 0 {
		return nil
	}
	text := []byte{'\n'}
	if !s.open {
		kept := row{torn: &TornTail{Bytes: s.torn, RecoveredAt: time.Now().UnixMilli()}}
		var err error
		if text, err = kept.line(); err != nil {
			return err
		}
	} else {
		s.number-- // it is counted
	}
	if err := l.file.Truncate(s.offset); err != nil {
		return err
	}
	if err := l.put(text); err != nil {
		return err
	}
	s.open, s.torn = false, nil
	return nil
}

// put writes a line behind the last one and makes it durable.
func (l *FileLedger) put(line []byte) error {
	n, err := l.file.WriteAt(line, l.lines.offset)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return err
	}
	l.lines.offset += int64(len(line))
	l.lines.number++
	return nil
}
