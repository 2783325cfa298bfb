package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/isolation"
)

// The kinds of an [Artifact].
const (
	ArtifactPatch = "patch"
	ArtifactTree  = "worktree"
)

// Artifact is something that an agent leaves beside its answer.
type Artifact struct {
	ID string `json:"id"`
	// Kind is "patch" for the changes of an agent under worktree isolation,
	// and "worktree" for a tree that was kept.
	Kind string `json:"kind"`
	// Files are the changed files, sorted, as paths from the root of the tree.
	Files []string `json:"files"`
	// Ref is the blob that holds a patch, for TranscriptStore.Get; for a tree
	// its path on the machine that the agent ran on.
	Ref string `json:"ref"`
	// Base is the commit that a patch applies to.
	Base string `json:"base,omitempty"`
	// Ignored are files that git ignores and that a patch therefore does not
	// hold; a whole directory ends in a slash. At most 100 are named.
	Ignored []string `json:"ignored,omitempty"`
	// Note says why a tree was kept.
	Note string `json:"note,omitempty"`
}

func readArtifacts(en *Entry) ([]Artifact, error) {
	if en.Artifacts == nil {
		return nil, nil
	}
	var list []Artifact
	if err := json.Unmarshal(en.Artifacts, &list); err != nil {
		return nil, errs.Wrap(errs.JournalOrder, "replay", fmt.Sprintf("entry %d", en.Seq), "the recorded artifacts have a wrong shape", err)
	}
	return list, nil
}

// collectTree stores what the agent has changed and says what becomes of its
// tree: how it is to be released once the end is recorded, nil where it stays.
func (a *agentRun) collectTree(out *agentOutcome) (*isolation.Release, error) {
	if a.tree == nil {
		return nil, nil
	}
	ctx, t := context.WithoutCancel(a.ctx), a.tree.Tree
	p, err := a.isolationProvider().Collect(ctx, t)
	if err != nil {
		a.warnHost("the changes of an agent could not be collected; its worktree is kept", "path", t.Path, "error", err)
		a.pin(ctx, t, isolation.Release{Keep: isolation.KeepUncollected})
		out.artifacts = append(out.artifacts, Artifact{ID: "worktree", Kind: ArtifactTree, Files: []string{}, Ref: t.Path, Base: t.Base, Note: err.Error()})
		return nil, nil
	}
	if err := a.putPatch(p.Patch); err != nil {
		return nil, err
	}
	if p.Files == nil {
		p.Files = []string{}
	}
	out.artifacts = append(out.artifacts, Artifact{
		ID: "worktree-patch", Kind: ArtifactPatch, Files: p.Files, Ref: patchRef(a.seg.runID, a.running.Seq), Base: t.Base,
		Ignored: p.Ignored[:min(len(p.Ignored), maxIgnored)],
	})
	if out.status != AgentOK && a.pin(ctx, t, isolation.Release{Keep: isolation.KeepFailed, Snapshot: p.Snapshot}) {
		out.artifacts = append(out.artifacts, Artifact{ID: "worktree", Kind: ArtifactTree, Files: []string{}, Ref: t.Path, Base: t.Base, Note: fmt.Sprintf("the agent ended with status %s", out.status)})
		return nil, nil
	}
	return &isolation.Release{Snapshot: p.Snapshot}, nil
}

// maxIgnored is how many ignored files an artifact names.
const maxIgnored = 100

// pin asks the provider to keep a tree, and reports whether it does.
func (a *agentRun) pin(ctx context.Context, t isolation.Tree, how isolation.Release) bool {
	kept, err := a.isolationProvider().Release(ctx, t, how)
	if err != nil {
		a.warnHost("a worktree could not be marked as kept; it stays where it is", "path", t.Path, "error", err)
		return true
	}
	return kept
}

// releaseTree removes a tree whose agent's end is recorded. A tree that holds
// something else than what was collected stays, and is told of.
func (a *agentRun) releaseTree(how *isolation.Release) {
	if a.tree == nil {
		return
	}
	t := a.tree.Tree
	a.letGo()
	if how == nil {
		return
	}
	if _, err := a.isolationProvider().Release(context.WithoutCancel(a.ctx), t, *how); err != nil {
		a.warnHost("the worktree of an agent could not be removed; it stays where it is", "path", t.Path, "error", err)
	}
}

// warnHost tells both who watches the run and who reads the engine's log.
func (a *agentRun) warnHost(msg string, data ...any) {
	a.log(msg, data...)
	a.seg.e.log.Log(context.WithoutCancel(a.ctx), slog.LevelWarn, "rulvar: "+msg, append([]any{"run", a.seg.runID}, data...)...)
}

// parkTrees pins the trees of the agents that a suspended segment leaves, and
// drops those that there is no room for. Such an agent begins again when it is
// resumed; what it had done is in the blob of its snapshot.
func (s *segment) parkTrees() {
	s.mu.Lock()
	trees, suspended := s.trees, s.suspended
	s.trees = nil
	s.mu.Unlock()
	for _, t := range trees {
		t.park(suspended)
	}
}

func (t *agentTree) park(suspended bool) {
	a := t.agent
	ctx := context.WithoutCancel(a.ctx)
	note := a.state.Tree
	if !suspended {
		a.warnHost("an agent has left no end in the journal; its worktree stays where it is", "path", t.Path)
		return
	}
	if note == nil || note.Snapshot == "" {
		a.pin(ctx, t.Tree, isolation.Release{Keep: isolation.KeepUncollected})
		return
	}
	if a.pin(ctx, t.Tree, isolation.Release{Keep: isolation.KeepParked, Snapshot: note.Snapshot}) {
		return
	}
	if _, err := a.isolationProvider().Release(ctx, t.Tree, isolation.Release{Snapshot: note.Snapshot}); err != nil {
		a.warnHost("the worktree of a parked agent could not be removed; it stays where it is", "path", t.Path, "error", err)
		return
	}
	a.warnHost("the worktree of a parked agent was dropped, because too many are kept; the agent will begin again", "path", t.Path, "patch", note.Ref)
}
