package worktree

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/isolation"
)

// GitOptions refine a [GitProvider].
type GitOptions struct {
	// RepoRoot is a directory of the host's repository; trees are made of the
	// whole repository. Default: the process's working directory.
	RepoRoot string
	// Dir is where trees are kept. It must outlive the process where parked
	// runs do. Engines with different stores may share it where the stores tell
	// who they are, as rulvar's own do by their directory: two on different
	// machines, or in different containers, must then not have the same path.
	// Default: a directory of the repository's in the user's cache directory.
	Dir string
	// KeepOnError keeps the trees of agents that ended otherwise than ok, while
	// there is room. Default: they are removed like the others, once their
	// patch is recorded.
	KeepOnError bool
	// MaxPinnedWorktrees is how many trees are kept, for parked agents and
	// after errors. A parked agent for whose tree there is no room begins again
	// when it is resumed. Default 4; -1 keeps none.
	MaxPinnedWorktrees int
	// OnWarn is told what a person should know: a tree that was dropped for
	// want of room, kept because it could not be collected, or found damaged.
	// It may be called from any goroutine. Default: slog.Default warns.
	OnWarn func(message string)
	// CopyIgnored are paths, with the wildcards of path.Match, from the root of
	// the host's work tree. What they name and git ignores is copied into each
	// new tree: an .env, a node_modules. A directory is copied whole.
	CopyIgnored []string
	// SetUp prepares a new tree before its agent sees it. Files that it leaves
	// and that git does not ignore become part of the patch. Its error is that
	// of the spawn, and the tree goes.
	SetUp func(ctx context.Context, dir string) error
	// PoolSize is how many trees are kept ready: instead of being removed a
	// tree is cleaned, of ignored files too, verified, and handed out again.
	// Default 0: none.
	PoolSize int
	// MaxPatchBytes bounds a patch; a tree with a larger one is kept. Default
	// 256 MiB.
	MaxPatchBytes int
}

const (
	defaultMaxPinned     = 4
	defaultMaxPatchBytes = 256 << 20
)

// GitProvider makes git worktrees of one repository. It is safe for concurrent
// use, and several providers, in several processes, may share a directory.
type GitProvider struct {
	opts GitOptions
	git  *git

	mu  sync.Mutex
	dir string // empty until the repository is known
}

var _ isolation.Provider = (*GitProvider)(nil)

// NewGitProvider makes a provider. It refuses options that cannot be met and a
// machine without a usable git; whether RepoRoot is a repository is seen when
// a tree is acquired.
func NewGitProvider(opts *GitOptions) (*GitProvider, error) {
	p := &GitProvider{}
	if opts != nil {
		p.opts = *opts
	}
	o := &p.opts
	refuse := func(field, msg string) (*GitProvider, error) {
		return nil, errs.New(errs.Config, "NewGitProvider", field, msg)
	}
	switch {
	case o.MaxPinnedWorktrees < -1:
		return refuse("MaxPinnedWorktrees", "a number of trees is not negative; -1 keeps none")
	case o.PoolSize < 0:
		return refuse("PoolSize", "a number of trees is not negative")
	case o.MaxPatchBytes < 0:
		return refuse("MaxPatchBytes", "a bound is not negative")
	}
	if o.MaxPinnedWorktrees == 0 {
		o.MaxPinnedWorktrees = defaultMaxPinned
	}
	if o.MaxPatchBytes == 0 {
		o.MaxPatchBytes = defaultMaxPatchBytes
	}
	if o.RepoRoot == "" {
		o.RepoRoot = "."
	}
	abs, err := filepath.Abs(o.RepoRoot)
	if err != nil {
		return nil, errs.Wrap(errs.Config, "NewGitProvider", "RepoRoot", "the path cannot be resolved", err)
	}
	o.RepoRoot = abs
	if err := checkPatterns(o.CopyIgnored); err != nil {
		return nil, err
	}
	if p.git, err = findGit(context.Background()); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *GitProvider) warn(message string) {
	if p.opts.OnWarn != nil {
		p.opts.OnWarn(message)
		return
	}
	slog.Default().Warn("rulvar: " + message)
}

// open finds the repository and makes the directory that trees are kept in.
func (p *GitProvider) open(ctx context.Context) (*repo, error) {
	r, err := p.git.findRepo(ctx, p.opts.RepoRoot)
	if err != nil {
		return nil, err
	}
	return r, p.openDir(r)
}

func (p *GitProvider) openDir(r *repo) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" {
		return nil
	}
	dir, err := p.opts.Dir, error(nil)
	if dir == "" {
		if dir, err = defaultDir(r); err != nil {
			return err
		}
	}
	if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return errs.Wrap(errs.Config, "worktree", dir, "the directory for worktrees cannot be made: set GitOptions.Dir", err)
	}
	if r.root != "" && strings.HasPrefix(dir+string(filepath.Separator), r.root+string(filepath.Separator)) {
		return errs.New(errs.Config, "worktree", dir, "the directory for worktrees lies in the host's work tree: set GitOptions.Dir to a place outside")
	}
	p.dir = dir
	return nil
}

func defaultDir(r *repo) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", errs.Wrap(errs.Config, "worktree", "Dir", "the user has no cache directory: set GitOptions.Dir", err)
	}
	sum := sha256.Sum256([]byte(r.common))
	name := filepath.Base(r.root)
	if r.root == "" {
		name = filepath.Base(r.dir)
	}
	return filepath.Join(cache, "rulvar", "worktrees", name+"-"+hex.EncodeToString(sum[:8])), nil
}

// Acquire makes a tree from req.Ref, or takes one from the pool.
func (p *GitProvider) Acquire(ctx context.Context, req isolation.Request) (isolation.Tree, error) {
	none := isolation.Tree{}
	r, err := p.open(ctx)
	if err != nil {
		return none, err
	}
	base, err := r.resolve(ctx, p.git, req.Ref)
	if err != nil {
		return none, err
	}
	want := &record{RunID: req.RunID, SpanID: req.SpanID, Store: req.Store, Base: base, Common: r.common, Since: time.Now().UTC()}
	t, err := p.fromPool(ctx, want)
	if err != nil {
		return none, err
	}
	if t == nil {
		if t, err = p.make(ctx, r, want); err != nil {
			return none, err
		}
	}
	if err := p.furnish(ctx, r, t); err != nil {
		return none, err
	}
	return t.tree(), nil
}

// make makes a new tree.
func (p *GitProvider) make(ctx context.Context, r *repo, t *record) (*record, error) {
	t.ID = newTreeID()
	t.Path = filepath.Join(p.dir, t.ID)
	err := t.save(making)
	step("acquire:recorded")
	if err == nil {
		err = os.Mkdir(t.Path, 0o777)
	}
	if err == nil {
		err = r.makePrivate(t.private(), t.Base)
	}
	step("acquire:private")
	if err == nil {
		err = p.locked(ctx, t.link)
	}
	step("acquire:linked")
	if err == nil {
		err = p.git.checkout(ctx, t)
		if err != nil && ctx.Err() == nil {
			err = errs.Wrap(errs.Config, "worktree", p.opts.RepoRoot, "the commit "+t.Base+" cannot be checked out", err)
		}
	}
	step("acquire:checkedout")
	if err == nil {
		err = t.noteIndex()
	}
	if err != nil {
		return nil, errors.Join(err, t.destroy())
	}
	return t, nil
}

// furnish completes a tree that holds its base, and makes it the agent's.
func (p *GitProvider) furnish(ctx context.Context, r *repo, t *record) error {
	err := t.lendIndex()
	if err == nil {
		err = p.copyIgnored(ctx, r, t)
	}
	if err == nil && p.opts.SetUp != nil {
		if err = p.opts.SetUp(ctx, t.Path); err != nil {
			err = fmt.Errorf("the worktree could not be set up: %w", err)
		}
	}
	step("acquire:furnished")
	if err == nil {
		err = t.note(live)
	}
	if err != nil {
		return errors.Join(err, t.destroy())
	}
	step("acquire:done")
	return nil
}

func newTreeID() string {
	return "rulvar-" + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
}

// find returns the record of a tree that is somebody's.
func (p *GitProvider) find(ctx context.Context, tree isolation.Tree) (*record, error) {
	if _, err := p.open(ctx); err != nil {
		return nil, err
	}
	t, err := p.load(tree.ID)
	if err != nil {
		return nil, err
	}
	return t, checkTree(t, tree)
}

// checkTree reports whether a record is that of the tree, and somebody's.
func checkTree(t *record, tree isolation.Tree) error {
	gone := func(msg string) error {
		return errs.New(errs.IsolationGone, "worktree", tree.Path, msg)
	}
	switch {
	case t == nil:
		return gone("there is no such worktree any more")
	case t.State == pooled || t.State == removing:
		return gone("the worktree was given back")
	case t.State == making:
		return gone("the worktree was not made to its end")
	case t.RunID != tree.RunID || t.Base != tree.Base || t.Path != tree.Path:
		return gone(fmt.Sprintf("the worktree is another one: of run %q, at %s", t.RunID, t.Path))
	}
	if info, err := os.Lstat(t.Path); err != nil || !info.IsDir() {
		return gone("the directory of the worktree is gone")
	}
	return nil
}

// Reattach takes up a tree that was left.
func (p *GitProvider) Reattach(ctx context.Context, tree isolation.Tree) error {
	if _, err := p.open(ctx); err != nil {
		return err
	}
	c, err := p.claim(ctx, tree.ID)
	if err != nil {
		return err
	}
	if c == nil {
		return checkTree(nil, tree)
	}
	err = p.reattach(ctx, c.record, tree)
	return errors.Join(err, c.free(ctx))
}

func (p *GitProvider) reattach(ctx context.Context, t *record, tree isolation.Tree) error {
	if err := checkTree(t, tree); err != nil {
		return err
	}
	if t.State == live && t.Boot != bootID() {
		return p.spoilt(t, fmt.Sprintf("the machine was started anew while an agent worked in the worktree %s, so that some of its changes may be lost; it is kept and its agent begins again", t.Path))
	}
	if _, err := readIndexFile(t.index()); err != nil {
		return p.spoilt(t, fmt.Sprintf("the worktree %s has lost its index (%v); it is kept and its agent begins again", t.Path, err))
	}
	if t.State == parked && t.Snapshot != "" {
		_, same, err := p.verify(ctx, t, t.Snapshot)
		if err != nil {
			return err
		}
		if !same {
			return p.spoilt(t, fmt.Sprintf("the worktree %s was changed while its agent was parked; it is kept and its agent begins again", t.Path))
		}
	}
	step("reattach:verified")
	if !t.linked() {
		p.warn(fmt.Sprintf("the worktree %s was pruned from its repository; it is linked again, at its base", t.Path))
		if err := p.locked(ctx, t.link); err != nil {
			return err
		}
		if err := t.lendIndex(); err != nil {
			return err
		}
	}
	t.Snapshot = ""
	if tree.Store != "" {
		t.Store = tree.Store
	}
	return t.save(live)
}

// spoilt keeps a tree that is not what its agent left.
func (p *GitProvider) spoilt(t *record, message string) error {
	p.warn(message)
	err := t.save(uncollected)
	return errors.Join(errs.New(errs.IsolationGone, "worktree", t.Path, "the worktree is not what its agent left; it is kept"), err)
}

// Collect takes the patch of a tree.
func (p *GitProvider) Collect(ctx context.Context, tree isolation.Tree) (isolation.Patch, error) {
	t, err := p.find(ctx, tree)
	if err != nil {
		return isolation.Patch{}, err
	}
	s, err := p.scan(ctx, t)
	if err != nil {
		return isolation.Patch{}, err
	}
	out, err := p.collect(ctx, t, s)
	step("collect:done")
	return out, err
}

// Trees lists the trees that are somebody's.
func (p *GitProvider) Trees(ctx context.Context) ([]isolation.Tree, error) {
	if _, err := p.open(ctx); err != nil {
		return nil, err
	}
	list, err := p.records()
	if err != nil {
		return nil, err
	}
	trees := []isolation.Tree{}
	for _, t := range list {
		if t.State != pooled {
			trees = append(trees, t.tree())
		}
	}
	return trees, nil
}
