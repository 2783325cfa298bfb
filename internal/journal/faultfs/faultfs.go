// Package faultfs is a file system in memory for tests of what is written to
// one: it counts syncs, fails when it is told to, and can lose what was not
// synced, as a power cut does.
package faultfs

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// Op is a kind of call that can be made to fail.
type Op string

// The operations.
const (
	Open     Op = "open"
	Write    Op = "write"
	Truncate Op = "truncate"
	Sync     Op = "sync"
	SyncDir  Op = "syncdir"
	Rename   Op = "rename"
	Remove   Op = "remove"
	Mkdir    Op = "mkdir"
)

// Fault says what becomes of one call.
type Fault struct {
	Err error
	// Part is how many bytes a failing write still writes.
	Part int
}

// FS is a file system in memory. It holds the root directory and what is made
// in it. Its methods may be called from any goroutine.
type FS struct {
	mu      sync.Mutex
	root    *node
	clock   int64
	counts  map[Op]int
	pending []*link // directory changes since the last sync, oldest first

	// Inject is asked before each call of an Op with the path it is about;
	// a Fault with an error makes it fail. Nil fails nothing. It is called
	// with no lock held and must be set before the file system is shared.
	Inject func(op Op, path string) Fault
}

// node is a file or a directory.
type node struct {
	data    []byte   // as the running system sees it
	durable []byte   // as the disk holds it
	changes []change // since the last sync
	dir     map[string]*node
	onDisk  map[string]*node
	time    int64
	holder  *file // of the advisory lock
}

// change is one write or, with truncate set, a new length.
type change struct {
	at       int64
	data     []byte
	truncate bool
}

// link is a change of a directory that a power cut may undo.
type link struct {
	dir   *node
	names map[string]*node // nil: removed
}

// New returns an empty file system.
func New() *FS {
	return &FS{root: newDir(), counts: make(map[Op]int)}
}

func newDir() *node {
	return &node{dir: make(map[string]*node), onDisk: make(map[string]*node)}
}

// Count returns how many calls of op were made, failed ones included.
func (f *FS) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

// begin counts a call and asks for its fault.
func (f *FS) begin(op Op, name string) Fault {
	f.mu.Lock()
	f.counts[op]++
	f.mu.Unlock()
	if f.Inject == nil {
		return Fault{}
	}
	return f.Inject(op, name)
}

// walk finds the node of a path, or nil, and its directory.
func (f *FS) walk(name string) (dir, n *node, base string) {
	clean := strings.Trim(path.Clean(filepath.ToSlash(name)), "/")
	if clean == "." || clean == "" {
		return nil, f.root, ""
	}
	dir, n = nil, f.root
	for part := range strings.SplitSeq(clean, "/") {
		if dir = n; dir == nil || dir.dir == nil {
			return nil, nil, part
		}
		n, base = dir.dir[part], part
	}
	return dir, n, base
}

func (f *FS) touch(n *node) {
	f.clock++
	n.time = f.clock
}

// set changes directory entries together; a nil node removes a name.
func (f *FS) set(dir *node, names map[string]*node) {
	for name, n := range names {
		if n == nil {
			delete(dir.dir, name)
		} else {
			dir.dir[name] = n
		}
	}
	f.pending = append(f.pending, &link{dir, names})
}

func failed(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// OpenFile implements journal.FS.
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (journal.File, error) {
	if fault := f.begin(Open, name); fault.Err != nil {
		return nil, failed("open", name, fault.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base := f.walk(name)
	switch {
	case n == nil && (flag&os.O_CREATE == 0 || dir == nil):
		return nil, failed("open", name, fs.ErrNotExist)
	case n == nil:
		n = new(node)
		f.touch(n)
		f.set(dir, map[string]*node{base: n})
	case flag&os.O_EXCL != 0:
		return nil, failed("open", name, fs.ErrExist)
	case n.dir != nil:
		return nil, failed("open", name, fs.ErrInvalid)
	}
	return &file{fs: f, n: n, name: name}, nil
}

// Stat implements journal.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, n, base := f.walk(name)
	if n == nil {
		return nil, failed("stat", name, fs.ErrNotExist)
	}
	return f.info(n, base), nil
}

// SameFile implements journal.FS.
func (f *FS) SameFile(a, b fs.FileInfo) bool { return a.Sys() == b.Sys() }

// ReadDir implements journal.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, n, _ := f.walk(name)
	if n == nil || n.dir == nil {
		return nil, failed("readdir", name, fs.ErrNotExist)
	}
	var list []fs.DirEntry
	for base, child := range n.dir {
		list = append(list, fs.FileInfoToDirEntry(f.info(child, base)))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Mkdir implements journal.FS.
func (f *FS) Mkdir(name string, _ fs.FileMode) error {
	if fault := f.begin(Mkdir, name); fault.Err != nil {
		return failed("mkdir", name, fault.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base := f.walk(name)
	switch {
	case n != nil:
		return failed("mkdir", name, fs.ErrExist)
	case dir == nil:
		return failed("mkdir", name, fs.ErrNotExist)
	}
	f.set(dir, map[string]*node{base: newDir()})
	return nil
}

// Rename implements journal.FS, within one directory.
func (f *FS) Rename(from, to string) error {
	if fault := f.begin(Rename, to); fault.Err != nil {
		return failed("rename", to, fault.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base := f.walk(from)
	if n == nil || dir == nil {
		return failed("rename", from, fs.ErrNotExist)
	}
	other, _, target := f.walk(to)
	if other != dir {
		return failed("rename", to, fs.ErrInvalid)
	}
	f.set(dir, map[string]*node{base: nil, target: n})
	return nil
}

// Remove implements journal.FS.
func (f *FS) Remove(name string) error {
	if fault := f.begin(Remove, name); fault.Err != nil {
		return failed("remove", name, fault.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, n, base := f.walk(name)
	switch {
	case n == nil || dir == nil:
		return failed("remove", name, fs.ErrNotExist)
	case len(n.dir) > 0:
		return failed("remove", name, fs.ErrExist)
	}
	f.set(dir, map[string]*node{base: nil})
	return nil
}

// SyncDir implements journal.FS.
func (f *FS) SyncDir(name string) error {
	if fault := f.begin(SyncDir, name); fault.Err != nil {
		return failed("sync", name, fault.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, n, _ := f.walk(name)
	if n == nil || n.dir == nil {
		return failed("sync", name, fs.ErrNotExist)
	}
	f.pending = slices.DeleteFunc(f.pending, func(l *link) bool {
		if l.dir == n {
			l.apply()
		}
		return l.dir == n
	})
	return nil
}

// apply brings a change to the disk.
func (l *link) apply() {
	for name, n := range l.names {
		if n == nil {
			delete(l.dir.onDisk, name)
		} else {
			l.dir.onDisk[name] = n
		}
	}
}

// info describes a node.
type info struct {
	name string
	size int64
	time int64
	n    *node
}

func (f *FS) info(n *node, name string) info {
	return info{name: name, size: int64(len(n.data)), time: n.time, n: n}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Unix(0, i.time) }
func (i info) IsDir() bool        { return i.n.dir != nil }
func (i info) Sys() any           { return i.n }
func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// file is an open file.
type file struct {
	fs   *FS
	n    *node
	name string
}

func (o *file) ReadAt(b []byte, at int64) (int, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if at >= int64(len(o.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, o.n.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (o *file) WriteAt(b []byte, at int64) (int, error) {
	fault := o.fs.begin(Write, o.name)
	if fault.Err != nil {
		b = b[:min(fault.Part, len(b))]
	}
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	c := change{at: at, data: slices.Clone(b)}
	if len(b) > 0 {
		o.n.data = c.applyTo(o.n.data)
		o.n.changes = append(o.n.changes, c)
		o.fs.touch(o.n)
	}
	if fault.Err != nil {
		return len(b), failed("write", o.name, fault.Err)
	}
	return len(b), nil
}

func (o *file) Truncate(size int64) error {
	if fault := o.fs.begin(Truncate, o.name); fault.Err != nil {
		return failed("truncate", o.name, fault.Err)
	}
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	c := change{at: size, truncate: true}
	o.n.data = c.applyTo(o.n.data)
	o.n.changes = append(o.n.changes, c)
	o.fs.touch(o.n)
	return nil
}

// applyTo returns data with the change made; it never writes into data.
func (c change) applyTo(data []byte) []byte {
	size := max(int64(len(data)), c.at+int64(len(c.data)))
	if c.truncate {
		size = c.at
	}
	out := make([]byte, size)
	copy(out, data)
	copy(out[c.at:], c.data)
	return out
}

func (o *file) Sync() error {
	if fault := o.fs.begin(Sync, o.name); fault.Err != nil {
		return failed("sync", o.name, fault.Err)
	}
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	o.n.durable, o.n.changes = slices.Clone(o.n.data), nil
	return nil
}

func (o *file) Stat() (fs.FileInfo, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	return o.fs.info(o.n, path.Base(filepath.ToSlash(o.name))), nil
}

func (o *file) TryLock() (bool, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if o.n.holder != nil && o.n.holder != o {
		return false, nil
	}
	o.n.holder = o
	return true, nil
}

func (o *file) Unlock() error {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if o.n.holder == o {
		o.n.holder = nil
	}
	return nil
}

func (o *file) Close() error { return o.Unlock() }
