package rulvar

import (
	"context"
	"errors"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/isolation"
)

// storeID tells the engine's store from others; empty where it cannot.
func (e *Engine) storeID() string {
	if named, ok := e.store.(interface{ Identity() string }); ok {
		return named.Identity()
	}
	return ""
}

// SweepTrees is the janitor of worktrees: it removes those that no run can
// need any more, and returns them. They are the trees of runs that are not in
// the store, trees in which no agent has worked yet when its process died, and
// trees whose agent has ended and whose patch is recorded. It keeps those of
// agents that can be resumed, those that were pinned for somebody to look at,
// and all trees of a run that a segment works on.
//
// The trees of other stores are left alone, as [isolation.Tree] tells them; so
// are those of a [MemoryStore] whose process has died. Where a tree names no
// store, because the store has no identity or an older version has made the
// tree, it is removed only if a journal of this store names it and says that
// its agent has ended and that all of its changes are in a patch.
func (e *Engine) SweepTrees(ctx context.Context) (removed []isolation.Tree, err error) {
	p := e.cfg.Isolation
	if p == nil {
		return nil, errs.New(errs.Config, "SweepTrees", "", "the engine has no isolation provider: set Config.Isolation")
	}
	trees, err := p.Trees(ctx)
	if err != nil {
		return nil, err
	}
	byRun := make(map[string][]isolation.Tree)
	var runs []string
	store := e.storeID()
	for _, t := range trees {
		if t.Store != "" && t.Store != store && t.RunID != "" {
			continue // its run only looks like one that does not exist
		}
		if byRun[t.RunID] == nil {
			runs = append(runs, t.RunID)
		}
		byRun[t.RunID] = append(byRun[t.RunID], t)
	}
	var failed []error
	for _, run := range runs {
		gone, err := e.sweepRun(ctx, run, byRun[run])
		removed = append(removed, gone...)
		if err != nil {
			failed = append(failed, err)
		}
	}
	return removed, errors.Join(failed...)
}

// sweepRun removes what is useless of the trees of one run, under its lock:
// a tree that is being acquired is not named by its journal yet.
func (e *Engine) sweepRun(ctx context.Context, runID string, trees []isolation.Tree) (removed []isolation.Tree, err error) {
	var meta *RunMeta
	var entries []*Entry
	if runID != "" { // else nobody's: its removal was cut short
		if meta, entries, err = e.store.Load(ctx, runID, -1); err != nil {
			return nil, err
		}
	}
	if meta != nil || len(entries) > 0 {
		lock, err := e.store.Lock(ctx, runID, owner()+" SweepTrees")
		if errors.Is(err, ErrLeaseHeld) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
		if meta, entries, err = e.store.Load(ctx, runID, -1); err != nil {
			return nil, err
		}
	}
	exists := (meta != nil || len(entries) > 0) && (meta == nil || meta.WorkflowName != unfinished)
	needed, done := usedTrees(entries)
	for _, t := range trees {
		pinned := t.Pinned == isolation.KeepFailed || t.Pinned == isolation.KeepUncollected
		switch {
		case exists && (needed[t.ID] || pinned):
			continue
		case runID != "" && t.Store == "" && !(exists && done[t.ID]):
			continue // it may be another store's
		}
		if _, rErr := e.cfg.Isolation.Release(ctx, t, isolation.Release{Discard: true}); rErr != nil {
			err = errors.Join(err, rErr)
			continue
		}
		removed = append(removed, t)
	}
	return removed, err
}

// usedTrees parts the trees that a journal names: needed are those of the
// agents whose end is not recorded, and those that an end names as kept; all
// that was done in the others is in a patch.
func usedTrees(entries []*Entry) (needed, done map[string]bool) {
	needed, done = make(map[string]bool), make(map[string]bool)
	trees := treesOf(entries)
	for _, en := range entries {
		if en.Kind != journal.KindAgent || en.Ref == nil || !endsAgent(en.Status) {
			continue
		}
		artifacts, err := readArtifacts(en)
		if t := trees[*en.Ref]; t != nil && err == nil && hasPatch(artifacts, t.Path) {
			done[t.ID] = true
			delete(trees, *en.Ref)
		}
	}
	for _, t := range trees {
		needed[t.ID] = true
	}
	return needed, done
}

// hasPatch reports whether all that an agent did in a tree is in a patch.
func hasPatch(list []Artifact, path string) bool {
	patch := false
	for _, a := range list {
		if a.Kind == ArtifactTree && a.Ref == path {
			return false
		}
		patch = patch || a.Kind == ArtifactPatch
	}
	return patch
}
