package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// tempFor opens a new file beside path under a name that nobody else uses.
func (s *FileStore) tempFor(path string) (string, File, error) {
	temp := path + "." + rand.Text()[:13] + tempSuffix
	f, err := s.fs.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return temp, f, err
}

// Put stores a blob under ref, <run id>/<name>, replacing what stood there. It
// costs two syncs, the file and its directory, and one more for each directory
// on the way that this store has not used before.
func (s *FileStore) Put(ctx context.Context, ref string, data []byte) error {
	if err := admit(ctx, CheckBlobRef(ref)); err != nil {
		return err
	}
	path := s.blobPath(ref)
	err := s.putFile(path, data)
	if errors.Is(err, fs.ErrNotExist) { // somebody has deleted the run
		s.mu.Lock()
		clear(s.known)
		s.mu.Unlock()
		err = s.putFile(path, data)
	}
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "put blob", path, "not written", err)
	}
	return nil
}

func (s *FileStore) putFile(path string, data []byte) error {
	if err := s.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return s.replace(path, data)
}

// Get returns the blob under ref, or nil where there is none.
func (s *FileStore) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := admit(ctx, CheckBlobRef(ref)); err != nil {
		return nil, err
	}
	b, _, err := s.readFile(s.blobPath(ref), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errs.Wrap(errs.JournalIntegrity, "get blob", s.blobPath(ref), "cannot read", err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// List returns the references of a run's blobs, sorted.
func (s *FileStore) List(ctx context.Context, runID string) ([]string, error) {
	if err := admit(ctx, CheckRunID(runID)); err != nil {
		return nil, err
	}
	refs, err := s.listUnder(runID, nil)
	if err != nil {
		return nil, errs.Wrap(errs.JournalIntegrity, "list blobs", runID, "cannot read", err)
	}
	slices.Sort(refs)
	return refs, nil
}

func (s *FileStore) listUnder(part string, refs []string) ([]string, error) {
	names, err := s.fs.ReadDir(filepath.Join(s.dir, filepath.FromSlash(part)))
	if errors.Is(err, fs.ErrNotExist) {
		return refs, nil
	}
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if n.IsDir() {
			if refs, err = s.listUnder(part+"/"+n.Name(), refs); err != nil {
				return nil, err
			}
		} else if name, ok := strings.CutSuffix(n.Name(), blobSuffix); ok {
			if ref := part + "/" + name; CheckBlobRef(ref) == nil {
				refs = append(refs, ref)
			}
		}
	}
	return refs, nil
}

// DeleteBlob removes the blob under ref; one that does not exist is no error.
func (s *FileStore) DeleteBlob(ctx context.Context, ref string) error {
	if err := admit(ctx, CheckBlobRef(ref)); err != nil {
		return err
	}
	path := s.blobPath(ref)
	err := s.fs.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.fs.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "delete blob", path, "not removed", err)
	}
	return nil
}

// removeBlobs removes a directory and everything in it.
func (s *FileStore) removeBlobs(dir string) error {
	names, err := s.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range names {
		path := filepath.Join(dir, n.Name())
		if n.IsDir() {
			err = s.removeBlobs(path)
		} else {
			err = s.fs.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.mu.Lock()
	delete(s.known, dir)
	s.mu.Unlock()
	return s.fs.Remove(dir)
}
