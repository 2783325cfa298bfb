package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/isolation"
)

// The life of an agent's tree, in the order in which things become durable:
//
//	Acquire       the tree is there; nobody has worked in it
//	running       the agent's entry names the tree
//	…             the agent works in it
//	park          the patch so far is stored; the checkpoint names it and the
//	              tree's path, base and snapshot; the approval is requested
//	suspend       the tree is pinned, or dropped where too many are
//	Collect       the patch is stored
//	terminal      the agent's entry names the patch
//	Release       the tree goes, if it still holds what was collected
//
// A process that dies in between leaves the tree where it is. What resumes the
// agent takes the tree up again; where it is gone the agent begins again, in a
// new tree that a decision names, and never goes on in a tree that does not
// hold what its history tells.

// agentTree is the tree of a live agent.
type agentTree struct {
	isolation.Tree
	agent *agentRun
}

// checkpointTree is what a checkpoint says of the tree of a parked agent.
type checkpointTree struct {
	Path     string `json:"path"`
	Base     string `json:"base"`
	Snapshot string `json:"snapshot,omitempty"`
	Ref      string `json:"ref,omitempty"` // of the patch so far
}

func patchRef(runID string, agentSeq int64) string {
	return fmt.Sprintf("%s/patch/%d", runID, agentSeq)
}

// treeDecision is the decision that names the tree of an agent that has begun
// again.
const treeDecision = "isolation-tree"

type treeValue struct {
	DecisionType string          `json:"decisionType,omitempty"`
	AgentRef     int64           `json:"agentRef,omitempty"`
	Isolation    IsolationKind   `json:"isolation,omitempty"`
	Tree         *isolation.Tree `json:"tree,omitempty"`
	SpawnRef     int64           `json:"spawnRef,omitempty"` // of a spawned agent
}

func (a *agentRun) isolated() bool { return a.isolation.Kind() == IsolationWorktree }

func (a *agentRun) isolationProvider() isolation.Provider { return a.seg.e.cfg.Isolation }

// cwd is the directory that the agent's tools work in.
func (a *agentRun) cwd() string {
	if a.tree != nil {
		return a.tree.Path
	}
	return a.seg.e.cfg.Cwd
}

// checkIsolation refuses an isolation that cannot be provided.
func (a *agentRun) checkIsolation() error {
	ref, given := a.isolation.Ref()
	switch {
	case !a.isolated():
		return nil
	case a.isolationProvider() == nil:
		return errs.New(errs.Config, "Agent", a.info.Type, "worktree isolation needs an isolation provider: set Config.Isolation, or use none or readonly")
	case given && ref == "":
		return errs.New(errs.Config, "Agent", a.info.Type, "the ref of a worktree is empty: name a commit, or give no ref for HEAD")
	}
	return nil
}

// acquireTree makes the agent's tree.
func (a *agentRun) acquireTree() error {
	if !a.isolated() {
		return nil
	}
	ref, _ := a.isolation.Ref()
	t, err := a.isolationProvider().Acquire(a.ctx, isolation.Request{RunID: a.seg.runID, SpanID: a.span, Store: a.seg.e.storeID(), Ref: ref})
	if err != nil {
		return err
	}
	if t.ID == "" || t.Path == "" {
		return errs.New(errs.Config, "Agent", a.info.Type, "the isolation provider gave a tree without an id or a path")
	}
	t.RunID, t.Store = a.seg.runID, a.seg.e.storeID()
	a.hold(t)
	return nil
}

func (a *agentRun) hold(t isolation.Tree) {
	a.tree = &agentTree{Tree: t, agent: a}
	s := a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trees == nil {
		s.trees = make(map[string]*agentTree)
	}
	s.trees[t.ID] = a.tree
}

func (a *agentRun) letGo() {
	s := a.seg
	s.mu.Lock()
	delete(s.trees, a.tree.ID)
	s.mu.Unlock()
	a.tree = nil
}

// dropUnused gives back a tree that no agent has worked in.
func (a *agentRun) dropUnused() {
	if a.tree == nil {
		return
	}
	t := a.tree.Tree
	a.letGo()
	if _, err := a.isolationProvider().Release(context.WithoutCancel(a.ctx), t, isolation.Release{Discard: true}); err != nil {
		a.log("a worktree that nobody has used could not be removed", "path", t.Path, "error", err)
	}
}

// reattachTree takes up the tree of an agent whose process died or that was
// parked. It reports whether the agent can go on in it; an error is one of the
// journal's or the store's.
func (a *agentRun) reattachTree() (bool, error) {
	t, err := a.recordedTree()
	if err != nil {
		return false, err
	}
	if t == nil {
		a.log("an agent begins again: its journal names no worktree")
		return false, nil
	}
	err = a.isolationProvider().Reattach(a.ctx, *t)
	switch {
	case err == nil:
		a.hold(*t)
		return true, nil
	case !errors.Is(err, ErrIsolationGone):
		return false, err // may be mended: the agent must not lose its work to it
	}
	data := []any{"path", t.Path, "error", err}
	if c := a.state.Tree; c != nil && c.Ref != "" {
		data = append(data, "patch", c.Ref)
	}
	a.log("an agent begins again: its worktree is gone", data...)
	return false, nil
}

// recordedTree returns the tree that the journal names last for this agent.
func (a *agentRun) recordedTree() (*isolation.Tree, error) {
	_, entries, err := a.seg.e.store.Load(context.WithoutCancel(a.ctx), a.seg.runID, -1)
	if err != nil {
		return nil, err
	}
	t := treesOf(entries)[a.running.Seq]
	if t != nil {
		t.RunID, t.Store = a.seg.runID, a.seg.e.storeID()
	}
	return t, nil
}

// treesOf returns the tree of each agent of a journal, by its running entry. A
// record that cannot be read names none.
func treesOf(entries []*Entry) map[int64]*isolation.Tree {
	trees := make(map[int64]*isolation.Tree)
	for _, en := range entries {
		var v treeValue
		switch {
		case en.Value == nil:
			continue
		case en.Kind == journal.KindAgent && en.Status == journal.StatusRunning:
			if json.Unmarshal(en.Value, &v) == nil && v.Tree != nil {
				trees[en.Seq] = v.Tree
			}
		case en.Kind == journal.KindDecision:
			if json.Unmarshal(en.Value, &v) == nil && v.DecisionType == treeDecision && v.Tree != nil {
				trees[v.AgentRef] = v.Tree
			}
		}
	}
	return trees
}

// restart puts an agent back to its beginning, in a new tree. What its turns
// have cost stays in its account; approvals that its calls wait for are
// answered with a deny, because those calls are gone.
func (a *agentRun) restart() error {
	a.state = checkpoint{Usage: a.state.Usage, UsageByModel: a.state.UsageByModel, ProviderCalls: a.state.ProviderCalls}
	a.state.Messages = a.firstMessages()
	if err := a.denyLeftOver(); err != nil {
		return err
	}
	// The old checkpoint, which speaks of another tree, goes before the new
	// tree is named.
	if err := a.save(nil); err != nil {
		return err
	}
	a.resumed = true
	if err := a.acquireTree(); err != nil {
		return err
	}
	t := a.tree.record()
	_, err := a.seg.decide(fmt.Sprintf("isolation:%d", a.running.Seq), treeValue{DecisionType: treeDecision, AgentRef: a.running.Seq, Tree: &t})
	return err
}

// record is the tree as the journal names it. The run is the journal's own:
// it has another id where it is imported.
func (t *agentTree) record() isolation.Tree {
	return isolation.Tree{ID: t.ID, Path: t.Path, Base: t.Base}
}

// denyLeftOver closes the open approvals of an attempt that is given up.
func (a *agentRun) denyLeftOver() error {
	s := a.seg
	scope := replay.AgentScope(a.scope, a.running.Seq)
	s.mu.Lock()
	var open []*Entry
	for _, sus := range s.fold.OpenSuspensions() {
		if sus.Entry.Scope == scope && sus.Entry.Kind == journal.KindApproval {
			open = append(open, sus.Entry)
		}
	}
	s.mu.Unlock()
	for _, en := range open {
		payload, err := marshalJSON(journal.Resolution{Target: en.Seq, By: "operator", Value: mustMarshal(Reject("the agent has begun again: its worktree is gone"))})
		if err != nil {
			return err
		}
		seq := en.Seq
		err = s.append(&Entry{
			Ref: &seq, Scope: en.Scope, Kind: journal.KindResolution, Status: journal.StatusOK,
			SpanID: en.SpanID, StartedAt: stamp(time.Now()), Resolution: payload,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshotTree stores the patch of an agent that is about to park, and notes
// it for the checkpoint.
func (a *agentRun) snapshotTree() error {
	if a.tree == nil {
		return nil
	}
	note := &checkpointTree{Path: a.tree.Path, Base: a.tree.Base}
	p, err := a.isolationProvider().Collect(context.WithoutCancel(a.ctx), a.tree.Tree)
	if err != nil {
		a.log("the patch of a parked agent could not be taken; its worktree is kept", "path", a.tree.Path, "error", err)
	} else {
		note.Snapshot, note.Ref = p.Snapshot, patchRef(a.seg.runID, a.running.Seq)
		if err := a.putPatch(p.Patch); err != nil {
			return err
		}
	}
	a.state.Tree = note
	return nil
}

func (a *agentRun) putPatch(patch []byte) error {
	ref := patchRef(a.seg.runID, a.running.Seq)
	if err := a.seg.e.store.Put(context.WithoutCancel(a.ctx), ref, patch); err != nil {
		return errs.Wrap(errs.JournalIntegrity, "patch", ref, "the patch could not be made durable; the worktree stays at "+a.tree.Path, err)
	}
	return nil
}
