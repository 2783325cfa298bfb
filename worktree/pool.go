package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rulvar/rulvar-go/internal/process"
)

// A tree of the pool holds just its base, and a record that says so. It is
// cleaned when it is given back: what a scan has found in it goes, what was
// changed is checked out again, its link to the repository, which an agent may
// have written to, is removed. When it is handed out it gets another name,
// another id and, where that differs, another base, and a walk of the whole
// tree has to find nothing but that base, down to the directories and their
// modes. What does not pass is removed.

// toPool cleans a tree and puts it into the pool. It reports whether it did;
// the tree is then not the caller's any more, and its claim is given back.
func (p *GitProvider) toPool(ctx context.Context, t *claim, s *scan) bool {
	if p.counted(t.Common, pooled) >= p.opts.PoolSize {
		return false
	}
	if err := p.wipe(ctx, t.record, s); err != nil {
		return false
	}
	put := false
	err := p.locked(ctx, func() error {
		if p.counted(t.Common, pooled) >= p.opts.PoolSize {
			return nil
		}
		t.RunID, t.SpanID, t.Store, t.Snapshot = "", "", "", ""
		put = true
		if err := t.note(pooled); err != nil {
			// What can be read counts for others: a record that says so is in the
			// pool, and so may be one that cannot be read.
			now, lErr := p.load(t.ID)
			put = lErr != nil || now != nil && now.State == pooled
		}
		if !put {
			return nil
		}
		step("pool:put")
		return t.drop()
	})
	if put && err != nil {
		p.warn(fmt.Sprintf("the lock of the worktree %s could not be given back: %v", t.Path, err))
	}
	return put
}

func (p *GitProvider) counted(common string, s state) int {
	list, err := p.records()
	if err != nil {
		return 0
	}
	n := 0
	for _, t := range list {
		if t.State == s && t.Common == common {
			n++
		}
	}
	return n
}

// wipe makes a tree hold its base and nothing else.
func (p *GitProvider) wipe(ctx context.Context, t *record, s *scan) error {
	if err := t.note(removing); err != nil { // a tree that is half clean is nobody's
		return err
	}
	step("pool:marked")
	if err := p.locked(ctx, t.unlink); err != nil {
		return err
	}
	for _, name := range s.extra {
		if err := process.RemoveAll(filepath.Join(t.Path, filepath.FromSlash(strings.TrimSuffix(name, "/")))); err != nil {
			return err
		}
	}
	// Nor are the objects of the last agent's patch handed on.
	objects := filepath.Join(t.private(), "objects")
	shards, err := os.ReadDir(objects)
	if err != nil {
		return err
	}
	for _, d := range shards {
		if d.Name() == "info" || d.Name() == "pack" {
			continue
		}
		if err := process.RemoveAll(filepath.Join(objects, d.Name())); err != nil {
			return err
		}
	}
	again := append(s.changed[:len(s.changed):len(s.changed)], s.gone...)
	if len(again) == 0 {
		return nil
	}
	c := gitCall{dir: t.private(), tree: t.Path, stdin: joinNul(again)}
	if _, err := p.git.run(ctx, c, "checkout-index", "--force", "--index", "-z", "--stdin"); err != nil {
		return err
	}
	return t.noteIndex()
}

// fromPool hands out a tree of the pool as want; nil where there is none.
func (p *GitProvider) fromPool(ctx context.Context, want *record) (*record, error) {
	for p.opts.PoolSize > 0 {
		t, err := p.takePooled(ctx, want)
		if t == nil || err != nil {
			return nil, err
		}
		err = p.renew(ctx, t, want)
		if err == nil {
			return t, nil
		}
		p.warn(fmt.Sprintf("a worktree of the pool is not used again: %v", err))
		if err := t.destroy(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// takePooled takes a tree out of the pool, one with the wanted base before
// others, and gives it a new name.
func (p *GitProvider) takePooled(ctx context.Context, want *record) (t *record, err error) {
	err = p.locked(ctx, func() error {
		list, err := p.records()
		if err != nil {
			return err
		}
		for _, other := range list {
			switch {
			case other.State != pooled || other.Common != want.Common:
			case other.Boot != bootID(): // its files may not have come to the disk
				if err := other.destroy(); err != nil {
					return err
				}
			case t == nil || other.Base == want.Base && t.Base != want.Base:
				t = other
			}
		}
		if t == nil {
			return nil
		}
		return p.rename(t, want)
	})
	return t, err
}

// rename gives a pooled tree a new id, and with it another place. The old
// record goes last: a process that dies in between leaves a record whose tree
// is not there, which is nobody's.
func (p *GitProvider) rename(t, want *record) error {
	old := *t
	if err := old.note(removing); err != nil {
		return err
	}
	step("pool:taken")
	t.ID, t.RunID, t.SpanID, t.Store, t.Since = newTreeID(), want.RunID, want.SpanID, want.Store, want.Since
	t.Path = filepath.Join(p.dir, t.ID)
	if err := t.save(making); err != nil {
		return err
	}
	step("pool:renaming")
	if err := os.Rename(old.private(), t.private()); err != nil {
		return err
	}
	if err := os.Rename(old.Path, t.Path); err != nil {
		return err
	}
	step("pool:renamed")
	return old.forget()
}

// renew makes a tree of the pool hold the wanted base and proves it.
func (p *GitProvider) renew(ctx context.Context, t, want *record) error {
	if t.Base != want.Base {
		t.Base = want.Base
		if err := p.git.checkout(ctx, t); err != nil {
			return err
		}
		if err := t.noteIndex(); err != nil {
			return err
		}
	}
	fileMode, err := p.fileMode(t)
	if err != nil {
		return err
	}
	w, err := walkTree(t, fileMode)
	if err != nil {
		return err
	}
	gone := w.missing()
	switch {
	case len(w.changed)+len(w.extra)+len(w.filled)+len(gone) > 0:
		return fmt.Errorf("it does not hold its base: %d files changed, %d new, %d missing", len(w.changed), len(w.extra), len(gone))
	case !w.plainModes():
		return fmt.Errorf("the mode of a directory was changed")
	}
	if err := os.WriteFile(filepath.Join(t.private(), "HEAD"), []byte(t.Base+"\n"), 0o666); err != nil {
		return err
	}
	return p.locked(ctx, t.link)
}

// plainModes reports whether the directories have the modes that git gives.
func (w *walk) plainModes() bool {
	probe, err := os.MkdirTemp(filepath.Dir(w.tree), ".mode-")
	if err != nil {
		return false
	}
	defer func() { _ = process.RemoveAll(probe) }()
	plain := filepath.Join(probe, "d")
	if err := os.Mkdir(plain, 0o777); err != nil {
		return false
	}
	info, err := os.Lstat(plain)
	if err != nil {
		return false
	}
	for _, mode := range w.modes {
		if mode != uint32(info.Mode()) {
			return false
		}
	}
	return true
}

// Drain removes the trees of the pool.
func (p *GitProvider) Drain(ctx context.Context) error {
	if _, err := p.open(ctx); err != nil {
		return err
	}
	return p.locked(ctx, func() error {
		list, err := p.records()
		if err != nil {
			return err
		}
		for _, t := range list {
			if t.State != pooled {
				continue
			}
			if err := t.destroy(); err != nil {
				return err
			}
		}
		return nil
	})
}
