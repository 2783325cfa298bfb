package isolation

import "context"

// Provider makes the trees of agents under worktree isolation. It is
// registered in rulvar.Config.Isolation; package worktree has one for git. Its
// methods may be called at once, for several trees; calls of one engine for
// one tree come one after the other. rulvartest.RunIsolationSuite is for who
// writes one.
type Provider interface {
	// Acquire makes a new tree. A host that has none to give, and a ref that
	// does not name a commit, is a rulvar.ErrConfig. An Acquire that fails
	// leaves nothing behind.
	Acquire(ctx context.Context, req Request) (Tree, error)
	// Reattach takes up a tree that another process or segment has left, and
	// undoes a pin. From then on it belongs to tree.Store, where that is given:
	// a store may have moved. A tree that is gone, in part or as a whole, and a
	// parked one that does not hold what it held, is a rulvar.ErrIsolationGone;
	// any other error says that the tree may still be there.
	Reattach(ctx context.Context, tree Tree) error
	// Collect returns what has changed since the base, commits included. It
	// changes nothing in the tree and may be called again.
	Collect(ctx context.Context, tree Tree) (Patch, error)
	// Release ends the use of a tree: it pins or removes it. kept says whether
	// it is still there.
	Release(ctx context.Context, tree Tree, how Release) (kept bool, err error)
	// Trees lists all trees that are there, of all runs.
	Trees(ctx context.Context) ([]Tree, error)
}

// Request is for whom a tree is made, and from what.
type Request struct {
	RunID, SpanID string
	// Store tells the store of the run from others, whose runs may have the
	// same names. Empty is a store that cannot tell. The provider gives it back
	// in [Tree.Store], whichever process asks.
	Store string
	// Ref names a commit; empty is HEAD.
	Ref string
}

// Tree is a tree as the journal records it.
type Tree struct {
	// ID names the tree among those of its provider, for ever.
	ID string `json:"id"`
	// RunID is the run that it was made for. Among the trees that a provider
	// lists, none is nobody's any more: its removal was cut short.
	RunID string `json:"runId,omitempty"`
	// Store is that of the request. Engines with another one leave the tree
	// alone; where it is empty, nobody takes it for a tree of a deleted run.
	Store string `json:"store,omitempty"`
	// Path is the directory that tools work in.
	Path string `json:"path"`
	// Base is the commit that it was made from.
	Base string `json:"base"`
	// Pinned says why the tree was kept, empty where it is in use.
	Pinned Keep `json:"pinned,omitempty"`
}

// Patch is what has changed in a tree.
type Patch struct {
	// Files are the changed files, sorted, as paths from the tree's root.
	Files []string
	// Patch is what makes the base into the tree, byte for byte.
	Patch []byte
	// Ignored are changes that the patch does not hold because they are to
	// files that are ignored; a whole directory ends in a slash.
	Ignored []string
	// Snapshot stands for the tree's content. The provider understands it.
	Snapshot string
}

// Keep is why a tree is kept.
type Keep string

// The reasons. A parked agent goes on in its tree. A failed one's is for
// inspection, where the provider wants that. One that could not be collected
// is kept always.
const (
	KeepParked      Keep = "parked"
	KeepFailed      Keep = "failed"
	KeepUncollected Keep = "uncollected"
)

// Release says what becomes of a tree.
type Release struct {
	// Keep asks for the tree to be pinned. A provider that keeps no more trees
	// answers false for the first two reasons and leaves the tree as it is.
	Keep Keep
	// Snapshot is what the tree is known to hold. Where Keep is empty it is
	// the proof without which nothing is removed: a tree that holds something
	// else stays, and that is an error which names its path.
	Snapshot string
	// Discard removes the tree whatever it holds.
	Discard bool
}
