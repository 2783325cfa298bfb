package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rulvar/rulvar-go/internal/process"
)

// link makes the tree a linked worktree of its repository: .git in the tree,
// and worktrees/<id> in the repository's git directory, as git itself lays them
// out. The worktree is locked, so that no prune of the host's removes what we
// still know of. What was there of it goes.
func (t *record) link() error {
	if err := t.unlink(); err != nil {
		return err
	}
	if err := os.MkdirAll(t.admin(), 0o777); err != nil {
		return err
	}
	for _, f := range []struct{ path, text string }{ // the lock is first
		{filepath.Join(t.admin(), "locked"), fmt.Sprintf("in use by run %q\n", t.RunID)},
		{filepath.Join(t.admin(), "gitdir"), filepath.Join(t.Path, ".git") + "\n"},
		{filepath.Join(t.admin(), "commondir"), filepath.Join("..", "..") + "\n"},
		{filepath.Join(t.admin(), "HEAD"), t.Base + "\n"},
		{filepath.Join(t.Path, ".git"), "gitdir: " + t.admin() + "\n"},
	} {
		if err := os.WriteFile(f.path, []byte(f.text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// linked reports whether the repository knows the tree.
func (t *record) linked() bool {
	_, err := os.Stat(filepath.Join(t.admin(), "HEAD"))
	return err == nil
}

func (t *record) unlink() error {
	git := filepath.Join(t.Path, ".git")
	if info, err := os.Lstat(git); err == nil && info.IsDir() {
		if err := process.RemoveAll(git); err != nil {
			return err
		}
	} else if err := os.Remove(git); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return process.RemoveAll(t.admin())
}

// lendIndex gives git in the tree an index of its own, a copy of ours. It
// keeps its time, by which git knows what may have been changed unseen.
func (t *record) lendIndex() error {
	text, err := os.ReadFile(t.index())
	if err != nil {
		return err
	}
	theirs := filepath.Join(t.admin(), "index")
	if err := os.WriteFile(theirs, text, 0o666); err != nil {
		return err
	}
	return os.Chtimes(theirs, t.IndexTime, t.IndexTime)
}

// noteIndex waits until the file system's clock is past every file of a
// checkout, so that what is changed from now on has another time, and
// remembers that moment. It dates the index ahead, so that git does not read
// every file anew when it writes it again within a second.
func (t *record) noteIndex() error {
	info, err := os.Stat(t.index())
	if err != nil {
		return err
	}
	probe := filepath.Join(t.private(), "clock")
	for range clockTries {
		if err := os.WriteFile(probe, nil, 0o666); err != nil {
			return err
		}
		now, err := os.Stat(probe)
		if err != nil {
			return err
		}
		if t.IndexTime = now.ModTime(); t.IndexTime.After(info.ModTime()) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ahead := t.IndexTime.Add(2 * time.Second)
	return os.Chtimes(t.index(), ahead, ahead)
}

// clockTries bounds the wait for a file system whose clock goes by seconds.
const clockTries = 2500

// destroy removes a tree that nobody else can have.
func (t *record) destroy() error {
	if err := t.clear(); err != nil {
		return err
	}
	return t.forget()
}

// clear removes everything that belongs to a tree but its record, which says
// so first and goes last.
func (t *record) clear() error {
	if err := t.note(removing); err != nil {
		return err
	}
	step("remove:marked")
	if err := process.RemoveAll(t.Path); err != nil {
		return err
	}
	step("remove:tree")
	if err := errors.Join(process.RemoveAll(t.admin()), process.RemoveAll(t.private())); err != nil {
		return err
	}
	step("remove:private")
	return nil
}

// forget removes the record of what is not there any more, and before it the
// lock that a process may have left.
func (t *record) forget() error {
	for _, path := range []string{t.lockFile(), t.file()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// step is told of each place at which a process may die; tests set it.
var step = func(string) {}
