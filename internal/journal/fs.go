package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// FS is what the store asks of a file system. The operating system's is the
// default; a test puts one in its place that fails, or that forgets what was
// not synced. Errors are those of package os: fs.ErrNotExist and fs.ErrExist
// are told apart. All methods may be called from any goroutine.
type FS interface {
	// OpenFile opens as os.OpenFile does; the file is closed in a child
	// process.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Stat follows links, as os.Stat does.
	Stat(name string) (fs.FileInfo, error)
	// SameFile reports whether two infos of this FS are of one file.
	SameFile(a, b fs.FileInfo) bool
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Mkdir makes one directory.
	Mkdir(name string, perm fs.FileMode) error
	// Rename puts a file in another's place, at once.
	Rename(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
}

// File is an open file of an [FS].
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync makes the file's bytes and its length durable.
	Sync() error
	// TryLock takes the file's exclusive advisory lock if nobody else has it,
	// in this process or another. The lock belongs to this File: closing it,
	// and the death of the process, release the lock.
	TryLock() (bool, error)
	Unlock() error
}

// OS returns the operating system's file system.
func OS() FS { return osFS{} }

// osFS is the operating system's file system.
type osFS struct{}

type osFile struct{ *os.File }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (osFS) SameFile(a, b fs.FileInfo) bool             { return os.SameFile(a, b) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Mkdir(name string, perm fs.FileMode) error  { return os.Mkdir(name, perm) }
func (osFS) Rename(from, to string) error               { return os.Rename(from, to) }
func (osFS) Remove(name string) error                   { return os.Remove(name) }
func (osFS) SyncDir(name string) error                  { return syncDir(name) }
func (f osFile) Sync() error                            { return syncFile(f.File) }
func (f osFile) TryLock() (bool, error)                 { return tryLock(f.File) }
func (f osFile) Unlock() error                          { return unlock(f.File) }

// readAll reads a file from offset to its end, or to size where it has grown
// beyond. A file that shrank meanwhile gives what is left.
func readAll(f File, offset, size int64) ([]byte, error) {
	if size <= offset {
		return nil, nil
	}
	b := make([]byte, size-offset)
	n, err := f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// writeAll writes b at offset, all of it or with an error.
func writeAll(f File, b []byte, offset int64) error {
	n, err := f.WriteAt(b, offset)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}
