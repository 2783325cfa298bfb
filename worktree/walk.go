package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// walk is what stands in a tree beside what our index says.
type walk struct {
	tree     string
	racy     time.Time
	fileMode bool
	entries  map[string]*index.Entry
	dirs     map[string]bool // that hold an entry

	slots chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	err     error
	changed []string          // entries that may differ
	extra   []string          // files that are no entries; directories end in a slash
	modes   map[string]uint32 // of directories
	stats   map[string]fileStat
	filled  []string // submodules whose directory holds something
	present map[string]bool
}

// walkTree compares a tree with our index of it. Only the stat data of files
// is read.
func walkTree(t *record, fileMode bool) (*walk, error) {
	idx, err := readIndexFile(t.index())
	if err != nil {
		return nil, err
	}
	w := &walk{
		tree: t.Path, racy: t.IndexTime, fileMode: fileMode, entries: make(map[string]*index.Entry, len(idx.Entries)), dirs: map[string]bool{"": true},
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)), modes: make(map[string]uint32), stats: make(map[string]fileStat),
		present: make(map[string]bool, len(idx.Entries)),
	}
	for _, e := range idx.Entries {
		w.entries[e.Name] = e
		for d := parent(e.Name); d != "" && !w.dirs[d]; d = parent(d) {
			w.dirs[d] = true
		}
	}
	w.wg.Add(1)
	w.directory("")
	w.wg.Wait()
	sort.Strings(w.changed)
	sort.Strings(w.extra)
	return w, w.err
}

func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)]
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// found is what one directory holds.
type found struct {
	present, changed, extra, filled []string
	below                           []string // directories to look at
	stats                           map[string]fileStat
}

// directory looks at one directory, and hands those below it on.
func (w *walk) directory(dir string) {
	defer w.wg.Done()
	f := found{stats: make(map[string]fileStat)}
	path := filepath.Join(w.tree, filepath.FromSlash(dir))
	info, err := os.Lstat(path)
	if err == nil {
		err = w.list(path, dir, &f)
	}
	for _, name := range f.below { // none of which is held open for the next
		w.descend(name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if info != nil {
		w.modes[dir] = uint32(info.Mode())
	}
	w.err = errors.Join(w.err, err)
	w.changed, w.extra, w.filled = append(w.changed, f.changed...), append(w.extra, f.extra...), append(w.filled, f.filled...)
	for _, name := range f.present {
		w.present[name] = true
	}
	for name, s := range f.stats {
		w.stats[name] = s
	}
}

// list looks at what a directory holds.
func (w *walk) list(path, dir string, f *found) error {
	open, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = open.Close() }()
	list, err := open.ReadDir(-1)
	for _, d := range list {
		name := join(dir, d.Name())
		if name == ".git" {
			continue
		}
		if err == nil {
			err = w.entry(open, name, d, f)
		}
	}
	return err
}

func (w *walk) entry(dir *os.File, name string, d os.DirEntry, f *found) error {
	e := w.entries[name]
	switch {
	case d.IsDir() && e != nil && e.Mode == filemode.Submodule:
		f.present = append(f.present, name)
		inside, err := os.ReadDir(filepath.Join(w.tree, filepath.FromSlash(name)))
		if len(inside) > 0 {
			f.filled = append(f.filled, name)
		}
		return err
	case d.IsDir() && w.dirs[name]:
		f.below = append(f.below, name)
		return nil
	case d.IsDir():
		f.extra = append(f.extra, name+"/")
		return nil // the entry, where there is one, is missing
	case e == nil:
		f.extra = append(f.extra, name)
		return nil
	}
	s, err := statIn(dir, d)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f.present = append(f.present, name)
	if !unchanged(e, s, w.racy, w.fileMode) {
		f.changed = append(f.changed, name)
		f.stats[name] = s
	}
	return nil
}

// descend looks at a directory in a goroutine of its own where there is room
// for one.
func (w *walk) descend(dir string) {
	w.wg.Add(1)
	select {
	case w.slots <- struct{}{}:
		go func() {
			defer func() { <-w.slots }()
			w.directory(dir)
		}()
	default:
		w.directory(dir)
	}
}

// missing lists the entries that are not there.
func (w *walk) missing() []string {
	if len(w.present) == len(w.entries) {
		return nil
	}
	var list []string
	for name := range w.entries {
		if !w.present[name] {
			list = append(list, name)
		}
	}
	sort.Strings(list)
	return list
}
