package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// FileOptions configures a [FileStore]. The zero value is the durable default.
type FileOptions struct {
	// SyncEvery is after how many appends to a run its journal is synced: 0
	// and 1 sync each before Append returns. With n > 1 up to n-1 appends
	// that were acknowledged are lost when the power fails (not when the
	// process dies); below 0 nothing is synced. Metadata and blobs are synced
	// always.
	SyncEvery int
	// Logger hears of each torn or glued last line that is repaired, and of
	// entries that a Load leaves out behind a missing block. Nil says nothing.
	Logger *slog.Logger
	// FS is the file system; nil is the operating system's.
	FS FS
}

// FileStore keeps the journals, metadata and blobs of many runs as files in
// one directory; see the package comment for what it promises. Its methods may
// be called from any goroutine, and several stores, in this process and in
// others on the same machine, may share the directory.
type FileStore struct {
	dir  string
	fs   FS
	opts FileOptions
	log  *slog.Logger

	mu    sync.Mutex
	runs  map[string]*run     // those in use
	seen  map[string]*glimpse // what Load found last
	known map[string]bool     // directories whose own entries are durable
	dead  map[string]error    // runs whose journal failed to sync
}

// Open returns a store over dir, which is made, open to its owner alone, if it
// does not exist.
func Open(dir string, opts *FileOptions) (*FileStore, error) {
	if opts == nil {
		opts = &FileOptions{}
	}
	s := &FileStore{
		dir: filepath.Clean(dir), fs: opts.FS, opts: *opts, log: opts.Logger,
		runs: make(map[string]*run), seen: make(map[string]*glimpse),
		known: make(map[string]bool), dead: make(map[string]error),
	}
	if s.fs == nil {
		s.fs = osFS{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if dir == "" {
		return nil, errs.New(errs.Config, "open store", "", "no directory is named")
	}
	if err := s.makeDir(s.dir); err != nil {
		return nil, errs.Wrap(errs.Config, "open store", dir, "cannot make the directory", err)
	}
	return s, nil
}

// makeDir makes dir and what is missing above it, and makes sure, once a store
// and directory, that the way to it survives a power cut: another process may
// have made it and died before it synced.
func (s *FileStore) makeDir(dir string) error {
	s.mu.Lock()
	known := s.known[dir]
	s.mu.Unlock()
	if known {
		return nil
	}
	parent := filepath.Dir(dir)
	if dir != s.dir {
		if err := s.makeDir(parent); err != nil {
			return err
		}
	} else if _, err := s.fs.Stat(parent); parent != dir && errors.Is(err, fs.ErrNotExist) {
		if err := s.makeParents(parent); err != nil {
			return err
		}
	}
	if err := s.fs.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := s.fs.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a directory")}
	}
	if err := s.fs.SyncDir(parent); err != nil && dir != s.dir {
		return err // above the store's own directory the permission may be missing
	}
	s.mu.Lock()
	if len(s.known) >= maxSeen {
		clear(s.known)
	}
	s.known[dir] = true
	s.mu.Unlock()
	return nil
}

// makeParents makes the directories above the store's own.
func (s *FileStore) makeParents(dir string) error {
	if _, err := s.fs.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := s.makeParents(parent); err != nil {
			return err
		}
		if err := s.fs.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return s.fs.SyncDir(parent)
	}
	return nil
}

// loadMeta brings g's metadata up to date. A change replaces the file, so that
// a file that is the same one holds the same text.
func (s *FileStore) loadMeta(runID string, g *glimpse) error {
	path := s.metaPath(runID)
	info, err := s.fs.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		g.meta, g.of = nil, nil
		return nil
	}
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "load", path, "cannot read the metadata", err)
	}
	if g.of != nil && s.unchanged(g.of, info) {
		return nil
	}
	m, err := s.readMeta(runID)
	if err != nil {
		return err
	}
	g.meta, g.of = m, info
	return nil
}

// unchanged reports whether now is the file that before was, as it was.
func (s *FileStore) unchanged(before, now fs.FileInfo) bool {
	return before.Size() == now.Size() && before.ModTime().Equal(now.ModTime()) && s.fs.SameFile(before, now)
}

// readMeta reads a run's metadata; nil where there is none.
func (s *FileStore) readMeta(runID string) (*Meta, error) {
	path := s.metaPath(runID)
	b, _, err := s.readFile(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errs.Wrap(errs.JournalIntegrity, "load", path, "cannot read the metadata", err)
	}
	m, err := ParseMeta(b)
	if err != nil {
		return nil, damagedMeta(path, err)
	}
	if m.RunID != runID {
		at := max(0, bytes.Index(b, []byte(`"runId"`)))
		e := errs.New(errs.JournalOrder, "load", path, fmt.Sprintf("the metadata is of run %q; a file system that does not tell capital letters apart mixes runs up", m.RunID))
		e.Data = map[string]any{"file": path, "line": 1 + bytes.Count(b[:at], []byte("\n")), "offset": int64(at)}
		return nil, e
	}
	return m, nil
}

// damagedMeta adds the file to an error of [ParseMeta], as the journal's
// damage names it: Data has it under "file", beside "line" and "offset".
func damagedMeta(path string, cause error) error {
	e := errs.Wrap(errs.JournalOrder, "load", path, "the metadata is damaged; repair or remove the file", cause)
	e.Data = map[string]any{"file": path}
	if parse, ok := errors.AsType[*errs.Error](cause); ok {
		maps.Copy(e.Data, parse.Data)
	}
	return e
}

// readFile reads a file from offset to its end.
func (s *FileStore) readFile(path string, offset int64) ([]byte, fs.FileInfo, error) {
	f, err := s.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !fits(info.Size()) {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("too large for this machine's memory")}
	}
	var b []byte
	if err == nil {
		b, err = readAll(f, offset, info.Size())
	}
	return b, info, errors.Join(err, f.Close())
}

// PutMeta replaces a run's metadata. The caller holds the run's lock. Members
// of the stored metadata that this library does not know are kept unless
// meta.Extra has them. Stored metadata that cannot be read is an error, and
// stays as it is. PutMeta costs two syncs: the file, and its directory.
func (s *FileStore) PutMeta(ctx context.Context, meta *Meta, lock *RunLock) error {
	const op = "put metadata"
	if err := CheckRunID(meta.RunID); err != nil {
		return err
	}
	done, err := s.holdFor(op, meta.RunID, lock)
	if err != nil {
		return err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return err
	}
	old, err := s.readMeta(meta.RunID)
	if err != nil {
		return err
	}
	text, err := meta.over(old).AppendText(nil)
	if err != nil {
		return err
	}
	if err := s.replace(s.metaPath(meta.RunID), text); err != nil {
		return errs.Wrap(errs.JournalIntegrity, op, s.metaPath(meta.RunID), "not written", err)
	}
	return nil
}

// over is m with the unknown members of old that it lacks.
func (m *Meta) over(old *Meta) *Meta {
	if old == nil || len(old.Extra) == 0 {
		return m
	}
	c := m.clone()
	for name, v := range m.Extra {
		old.Extra[name] = v
	}
	c.Extra = old.Extra
	return c
}

// holdFor enters a call that only the lock's holder may make.
func (s *FileStore) holdFor(op, runID string, lock *RunLock) (done func(), err error) {
	if lock != nil {
		return lock.Use(s, op, runID)
	}
	h, held, err := s.holderOf(runID)
	if err != nil {
		return nil, errs.Wrap(errs.JournalIntegrity, op, s.lockPath(runID), "cannot look at the lock", err)
	}
	if held {
		return nil, HeldBy(op, runID, h)
	}
	return nil, NeedsLock(op, runID)
}

// replace writes a file under a name of its own, syncs it, puts it in path's
// place and syncs the directory.
func (s *FileStore) replace(path string, text []byte) error {
	temp, f, err := s.tempFor(path)
	if err != nil {
		return err
	}
	err = writeAll(f, text, 0)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = s.fs.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, s.fs.Remove(temp))
	}
	return s.fs.SyncDir(filepath.Dir(path))
}

// ListRuns returns the metadata of every run for which keep says true (nil
// keeps all), sorted by run id. A run without metadata is listed with its
// RunID alone. Metadata that cannot be read is reported by the error, beside
// the runs that could. Files that are not named as a run's are passed over.
func (s *FileStore) ListRuns(ctx context.Context, keep func(*Meta) bool) ([]*Meta, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, errs.Wrap(errs.JournalIntegrity, "list runs", s.dir, "cannot read the directory", err)
	}
	var ids []string
	for _, n := range names {
		for _, suffix := range []string{journalSuffix, metaSuffix} {
			if id, ok := strings.CutSuffix(n.Name(), suffix); ok && !n.IsDir() && CheckRunID(id) == nil {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	var metas []*Meta
	var bad []error
	for _, id := range slices.Compact(ids) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := s.readMeta(id)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		if m == nil {
			m = &Meta{RunID: id}
		}
		if keep == nil || keep(m) {
			metas = append(metas, m)
		}
	}
	return metas, errors.Join(bad...)
}

// Delete removes a run: its blobs, its journal, its metadata and its lock, in
// this order, so that a run whose removal was cut short is still listed and
// can be deleted again. lock is the run's, and is released whatever comes of
// it; without one Delete takes it itself, which is a lease_held error while
// somebody else holds it. A run that does not exist is no error. Cancelling ctx
// ends the wait for who is appending. Delete costs one sync of the directory,
// and one more for a run that has blobs.
func (s *FileStore) Delete(ctx context.Context, runID string, lock *RunLock) error {
	const op = "delete"
	lock, err := retired(ctx, s, runID, lock)
	if err != nil {
		return err
	}
	err = s.removeRun(ctx, runID, s.use(runID))
	if err = errors.Join(err, lock.free()); err != nil {
		return errs.Wrap(errs.JournalIntegrity, op, runID, "not all of the run was removed", err)
	}
	return nil
}

func (s *FileStore) removeRun(ctx context.Context, runID string, r *run) error {
	defer s.drop(r)
	blobs := filepath.Join(s.dir, runID)
	if _, err := s.fs.Stat(blobs); err == nil {
		if err := errors.Join(s.removeBlobs(blobs), s.fs.SyncDir(s.dir)); err != nil {
			return err
		}
	}
	if err := r.remove(ctx); err != nil {
		return err
	}
	if err := s.removeTemps(runID); err != nil {
		return err
	}
	for _, path := range []string{s.metaPath(runID), s.lockPath(runID)} {
		if err := s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.mu.Lock()
	delete(s.seen, runID)
	delete(s.dead, runID)
	s.mu.Unlock()
	return s.fs.SyncDir(s.dir)
}

// removeTemps removes what writes of the run's files left behind when their
// process died.
func (s *FileStore) removeTemps(runID string) error {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		for _, suffix := range []string{metaSuffix, journalSuffix} {
			if strings.HasPrefix(n.Name(), runID+suffix+".") && strings.HasSuffix(n.Name(), tempSuffix) {
				if err := s.fs.Remove(filepath.Join(s.dir, n.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	return nil
}
