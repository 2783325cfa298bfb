package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// claim is the right to say what becomes of one tree, and its record as it is
// then. It is a lock on the file <id>.lock, so that it ends with its process
// however that dies. The file is made, locked and removed under the lock of the
// directory only: nobody ever locks one that has lost its name.
type claim struct {
	*record
	p    *GitProvider
	lock journal.File // nil once the claim is given back
}

// claimWait bounds the wait for somebody else's claim: for the removal of a
// large tree.
const claimWait = time.Minute

// claim takes a tree for the caller alone. It is nil where there is no such
// tree, or where it is the pool's.
func (p *GitProvider) claim(ctx context.Context, id string) (*claim, error) {
	var c *claim
	busy := false
	take := func() (err error) {
		c, busy, err = p.tryClaim(id)
		return err
	}
	end := time.Now().Add(claimWait)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if err := p.locked(ctx, take); err != nil {
			return nil, err
		}
		switch {
		case !busy:
			step("claim:taken")
			return c, nil
		case time.Now().After(end):
			return nil, errs.New(errs.Plain, "worktree", filepath.Join(p.dir, id), "the worktree is being released by somebody else, who does not come to an end")
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

func (p *GitProvider) tryClaim(id string) (c *claim, busy bool, err error) {
	t, err := p.load(id)
	if err != nil || t == nil || t.State == pooled {
		return nil, false, err
	}
	f, err := journal.OS().OpenFile(t.lockFile(), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, false, err
	}
	ok, err := f.TryLock()
	if err != nil || !ok {
		return nil, true, errors.Join(err, f.Close())
	}
	return &claim{record: t, p: p, lock: f}, false, nil
}

// free gives the claim back, where that has not been done.
func (c *claim) free(ctx context.Context) error {
	if c.lock == nil {
		return nil
	}
	return c.p.locked(context.WithoutCancel(ctx), c.drop)
}

// drop gives the claim back. The lock of the directory is held.
func (c *claim) drop() error {
	err := c.lock.Close()
	c.lock = nil
	if rErr := os.Remove(c.lockFile()); !errors.Is(rErr, os.ErrNotExist) {
		err = errors.Join(err, rErr)
	}
	return err
}

// destroy removes the tree that is claimed, and gives the claim back.
func (c *claim) destroy(ctx context.Context) error {
	if err := c.clear(); err != nil {
		return err
	}
	return c.p.locked(context.WithoutCancel(ctx), func() error { return errors.Join(c.drop(), c.forget()) })
}
