package worktree

import (
	"context"
	"errors"
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/isolation"
)

// Release pins a tree or removes it.
func (p *GitProvider) Release(ctx context.Context, tree isolation.Tree, how isolation.Release) (kept bool, err error) {
	if _, err := p.open(ctx); err != nil {
		return true, err
	}
	t, err := p.claim(ctx, tree.ID)
	switch {
	case err != nil:
		return true, err
	case t == nil:
		return false, nil
	}
	defer func() { err = errors.Join(err, t.free(ctx)) }()
	switch {
	case t.State == removing: // nobody's any more
	case tree.Store != "" && t.Store != tree.Store:
		return true, errs.New(errs.Config, "worktree", t.Path, fmt.Sprintf("the worktree belongs to a run of another store: %q", t.Store))
	case t.RunID != tree.RunID:
		return true, errs.New(errs.Config, "worktree", t.Path, fmt.Sprintf("the worktree belongs to run %q", t.RunID))
	}
	switch how.Keep {
	case "":
	case isolation.KeepParked, isolation.KeepFailed, isolation.KeepUncollected:
		return p.pin(ctx, t.record, how)
	default:
		return true, errs.New(errs.Config, "worktree", t.Path, fmt.Sprintf("there is no reason %q to keep a tree: use parked, failed or uncollected", how.Keep))
	}
	if how.Discard || t.State == removing || t.State == making {
		return false, t.destroy(ctx)
	}
	return p.remove(ctx, t, how.Snapshot)
}

// pin keeps a tree where there is room for it. One that could not be collected
// is kept in any case.
func (p *GitProvider) pin(ctx context.Context, t *record, how isolation.Release) (kept bool, err error) {
	if how.Keep == isolation.KeepFailed && !p.opts.KeepOnError {
		return false, nil
	}
	err = p.locked(ctx, func() error {
		list, err := p.records()
		if err != nil {
			return err
		}
		pinned := 0
		for _, other := range list {
			if _, ok := pinnedStates[other.State]; ok && other.ID != t.ID && other.Common == t.Common {
				pinned++
			}
		}
		if how.Keep != isolation.KeepUncollected && pinned >= p.opts.MaxPinnedWorktrees {
			return nil
		}
		kept, t.Snapshot = true, how.Snapshot
		return t.save(state(how.Keep))
	})
	switch {
	case err != nil:
		return true, err
	case !kept:
		p.warn(fmt.Sprintf("the worktree %s of run %s is not kept (%s): %d are kept already, the bound of MaxPinnedWorktrees", t.Path, t.RunID, how.Keep, max(p.opts.MaxPinnedWorktrees, 0)))
	case how.Keep == isolation.KeepUncollected:
		p.warn(fmt.Sprintf("the worktree %s of run %s is kept, because its changes could not be collected", t.Path, t.RunID))
	}
	step("pin:done")
	return kept, nil
}

// remove takes a tree away that is proven to hold what the snapshot stands
// for, or puts it into the pool.
func (p *GitProvider) remove(ctx context.Context, t *claim, snapshot string) (kept bool, err error) {
	s, same, err := p.verify(ctx, t.record, snapshot)
	if err == nil && !same {
		err = errs.New(errs.Plain, "worktree", t.Path, "the worktree holds changes that were not collected")
	}
	if err != nil {
		p.warn(fmt.Sprintf("the worktree %s of run %s is kept: %v", t.Path, t.RunID, err))
		return true, err
	}
	step("remove:verified")
	if p.opts.PoolSize > 0 && p.toPool(ctx, t, s) {
		return false, nil
	}
	return false, t.destroy(ctx)
}
