package worktree_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

func collect(t testing.TB, p *worktree.GitProvider, tree isolation.Tree) isolation.Patch {
	t.Helper()
	patch, err := p.Collect(t.Context(), tree)
	require.NoError(t, err)
	return patch
}

func TestReleaseNeedsProof(t *testing.T) {
	repo := newRepo(t)
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo})
	for _, row := range []struct {
		name           string
		before, after  map[string]string
		snapshot, kept bool
	}{
		{name: "nothing changed, no snapshot"},
		{name: "a change, no snapshot", before: map[string]string{"a.txt": "1\n"}, kept: true},
		{name: "a change, its snapshot", before: map[string]string{"a.txt": "1\n"}, snapshot: true},
		{name: "a change after the snapshot", before: map[string]string{"a.txt": "1\n"}, after: map[string]string{"a.txt": "2\n"}, snapshot: true, kept: true},
		{name: "another file after the snapshot", after: map[string]string{"b.txt": "2\n"}, snapshot: true, kept: true},
		{name: "written again the same", before: map[string]string{"a.txt": "1\n"}, after: map[string]string{"a.txt": "1\n"}, snapshot: true},
		{name: "an ignored file after the snapshot", after: map[string]string{"x.log": "2\n"}, snapshot: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree := acquire(t, p, "")
			write(t, tree.Path, row.before)
			how := isolation.Release{}
			if row.snapshot {
				how.Snapshot = collect(t, p, tree).Snapshot
			}
			write(t, tree.Path, row.after)
			kept, err := p.Release(t.Context(), tree, how)
			require.Equal(t, row.kept, kept)
			if row.kept {
				require.ErrorContains(t, err, tree.Path)
				require.DirExists(t, tree.Path)
				return
			}
			require.NoError(t, err)
			require.NoDirExists(t, tree.Path)
			require.ErrorIs(t, p.Reattach(t.Context(), tree), rulvar.ErrIsolationGone)
		})
	}
}

func TestPins(t *testing.T) {
	repo, dir := newRepo(t), t.TempDir()
	var warned []string
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, KeepOnError: true, MaxPinnedWorktrees: 2, OnWarn: func(m string) { warned = append(warned, m) }})
	var trees []isolation.Tree
	for range 4 {
		trees = append(trees, acquire(t, p, ""))
	}
	pin := func(i int, why isolation.Keep) bool {
		write(t, trees[i].Path, map[string]string{"a.txt": "1\n"})
		kept, err := p.Release(t.Context(), trees[i], isolation.Release{Keep: why, Snapshot: collect(t, p, trees[i]).Snapshot})
		require.NoError(t, err)
		return kept
	}
	require.True(t, pin(0, isolation.KeepParked))
	require.True(t, pin(1, isolation.KeepFailed))
	require.Empty(t, warned)
	// Another provider, as of another process, counts the same trees.
	other := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, MaxPinnedWorktrees: 2, OnWarn: func(m string) { warned = append(warned, m) }})
	kept, err := other.Release(t.Context(), trees[2], isolation.Release{Keep: isolation.KeepParked})
	require.NoError(t, err)
	require.False(t, kept)
	require.Len(t, warned, 1)
	kept, err = other.Release(t.Context(), trees[2], isolation.Release{Keep: isolation.KeepFailed})
	require.NoError(t, err)
	require.False(t, kept, "KeepOnError is off")
	require.True(t, pin(3, isolation.KeepUncollected), "whatever the bound")

	require.NoError(t, p.Reattach(t.Context(), trees[0]))
	write(t, trees[0].Path, map[string]string{"b.txt": "1\n"})
	require.NoError(t, p.Reattach(t.Context(), trees[0]), "one that is in use may have any content")
	require.False(t, pin(2, isolation.KeepParked), "two are kept still")
	_, err = p.Release(t.Context(), trees[1], isolation.Release{Discard: true})
	require.NoError(t, err)
	require.True(t, pin(2, isolation.KeepParked))
	write(t, trees[2].Path, map[string]string{"a.txt": "by somebody else\n"})
	require.ErrorIs(t, p.Reattach(t.Context(), trees[2]), rulvar.ErrIsolationGone)
	require.FileExists(t, filepath.Join(trees[2].Path, "a.txt"), "it is kept for a person")
}

func TestReattachRefuses(t *testing.T) {
	repo, dir := newRepo(t), t.TempDir()
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir})
	tree := acquire(t, p, "")
	for _, other := range []isolation.Tree{
		{}, {ID: "../../etc", RunID: "run", Path: "/etc", Base: tree.Base}, {ID: tree.ID, RunID: "another", Path: tree.Path, Base: tree.Base},
		{ID: tree.ID, RunID: "run", Path: "/", Base: tree.Base}, {ID: tree.ID, RunID: "run", Path: tree.Path, Base: "x"},
	} {
		require.ErrorIs(t, p.Reattach(t.Context(), other), rulvar.ErrIsolationGone)
	}
	gitIn(t, repo, "worktree", "prune")
	require.NoError(t, p.Reattach(t.Context(), tree), "a prune leaves a locked worktree alone")
	require.NoError(t, os.RemoveAll(filepath.Join(repo, ".git", "worktrees", tree.ID)))
	write(t, tree.Path, map[string]string{"a.txt": "1\n"})
	require.NoError(t, p.Reattach(t.Context(), tree), "its link is made anew")
	require.Contains(t, gitIn(t, tree.Path, "status", "--porcelain"), "?? a.txt")
	require.Equal(t, []string{"a.txt"}, collect(t, p, tree).Files)
	require.NoError(t, os.Remove(filepath.Join(dir, tree.ID+".git", "index")))
	require.ErrorIs(t, p.Reattach(t.Context(), tree), rulvar.ErrIsolationGone)
	require.FileExists(t, filepath.Join(tree.Path, "a.txt"))
}

func TestSetUpAndCopyIgnored(t *testing.T) {
	repo, dir := newRepo(t), t.TempDir()
	write(t, repo, map[string]string{".env": "secret\n", "build/deep/x.o": "o\n", "src/y.log": "l\n", "plain.txt": "not ignored\n"})
	require.NoError(t, os.Symlink("../.env", filepath.Join(repo, "build/l")))
	fail := false
	p := newProvider(t, worktree.GitOptions{
		RepoRoot: repo, Dir: dir, CopyIgnored: []string{".env", "build", "src/*.log", "plain.txt", "README.md", "none"}, PoolSize: 1,
		SetUp: func(_ context.Context, dir string) error {
			if fail {
				return errors.New("no network")
			}
			return os.WriteFile(filepath.Join(dir, "ready.log"), nil, 0o666)
		},
	})
	for range 2 { // the second one is from the pool
		tree := acquire(t, p, "")
		got := listing(t, tree.Path)
		for _, name := range []string{".env", "build/deep/x.o", "build/l", "src/y.log", "ready.log"} {
			require.Contains(t, got, name)
		}
		require.NotContains(t, got, "plain.txt")
		patch := collect(t, p, tree)
		require.Empty(t, patch.Files)
		require.Len(t, patch.Ignored, 4)
		_, err := p.Release(t.Context(), tree, isolation.Release{Snapshot: patch.Snapshot})
		require.NoError(t, err)
	}
	fail = true
	_, err := p.Acquire(t.Context(), isolation.Request{RunID: "r"})
	require.ErrorContains(t, err, "no network")
	require.Empty(t, leftOvers(t, repo, dir))
}

func TestPoolShowsNothingOfAnother(t *testing.T) {
	repo, dir := newRepo(t), t.TempDir()
	write(t, repo, map[string]string{"later.txt": "2\n"})
	first := listing(t, repo)
	delete(first, "later.txt")
	gitIn(t, repo, "add", "-A")
	gitIn(t, repo, "commit", "-qm", "second")
	second := listing(t, repo)
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, PoolSize: 2})
	for i, row := range []struct {
		name string
		work func(t *testing.T, dir string)
		// spoils says that the tree cannot be used again.
		spoils bool
	}{
		{name: "files", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"a.txt": "1\n", "x.log": "1\n", "build/o": "1\n", "src/main.txt": "changed\n", "new/deep/f": "1\n"})
			require.NoError(t, os.Remove(filepath.Join(dir, "README.md")))
		}},
		{name: "empty and read-only directories", work: func(t *testing.T, dir string) {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "empty/er"), 0o777))
			write(t, dir, map[string]string{"cache/ro/f.log": "1\n"})
			require.NoError(t, os.Chmod(filepath.Join(dir, "cache/ro"), 0o555))
			require.NoError(t, os.Chmod(filepath.Join(dir, "cache"), 0o555))
		}},
		{name: "modes, links, repositories", work: func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(filepath.Join(dir, "README.md"), 0o777))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "src")))
			require.NoError(t, os.Symlink("/", filepath.Join(dir, "src")))
			sub := filepath.Join(dir, "lib")
			require.NoError(t, os.MkdirAll(sub, 0o777))
			gitIn(t, sub, "init", "-q")
		}},
		{name: "git's own state", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"a.txt": "1\n"})
			gitIn(t, dir, "checkout", "-qb", "side")
			gitIn(t, dir, "add", "-A")
			gitIn(t, dir, "commit", "-qm", "of the agent")
			gitIn(t, dir, "update-index", "--skip-worktree", "README.md")
			write(t, dir, map[string]string{"README.md": "hidden\n"})
			gitIn(t, dir, "stash", "list")
		}},
		{name: "the mode of a directory", work: func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(filepath.Join(dir, "src"), 0o700))
		}, spoils: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree := acquire(t, p, "")
			row.work(t, tree.Path)
			_, err := p.Release(t.Context(), tree, isolation.Release{Snapshot: collect(t, p, tree).Snapshot})
			require.NoError(t, err)
			require.NoDirExists(t, filepath.Join(repo, ".git", "worktrees", tree.ID))
			trees, err := p.Trees(t.Context())
			require.NoError(t, err)
			require.Empty(t, trees)
			ready, err := filepath.Glob(filepath.Join(dir, "*.json"))
			require.NoError(t, err)
			require.Len(t, ready, 1)
			ref, want := "HEAD", second
			if i%2 == 1 {
				ref, want = "HEAD~1", first
			}
			again := acquire(t, p, ref)
			require.NotEqual(t, tree.Path, again.Path)
			require.NoDirExists(t, tree.Path)
			require.Equal(t, want, listing(t, again.Path))
			require.NoDirExists(t, filepath.Join(again.Path, "empty"))
			require.Empty(t, gitIn(t, again.Path, "status", "--porcelain", "--ignored"))
			require.Equal(t, "HEAD", gitIn(t, again.Path, "rev-parse", "--abbrev-ref", "HEAD")[:4])
			write(t, again.Path, map[string]string{"README.md": "own\n"})
			patch := collect(t, p, again)
			require.Equal(t, []string{"README.md"}, patch.Files)
			_, err = p.Release(t.Context(), again, isolation.Release{Snapshot: patch.Snapshot})
			require.NoError(t, err)
		})
	}
	require.NoError(t, p.Drain(t.Context()))
	require.Empty(t, leftOvers(t, repo, dir))
}

func TestPoolIsNotShared(t *testing.T) {
	repo, dir := newRepo(t), t.TempDir()
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, PoolSize: 3})
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for range 4 {
		wg.Go(func() {
			for range 3 {
				tree, err := p.Acquire(t.Context(), isolation.Request{RunID: "run"})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[tree.Path] {
					t.Errorf("%s was handed out twice", tree.Path)
				}
				seen[tree.Path] = true
				mu.Unlock()
				if _, err := p.Release(t.Context(), tree, isolation.Release{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Drain(t.Context()))
	require.Empty(t, leftOvers(t, repo, dir))
}

func TestPatchBound(t *testing.T) {
	p := newProvider(t, worktree.GitOptions{RepoRoot: newRepo(t), MaxPatchBytes: 1000})
	tree := acquire(t, p, "")
	write(t, tree.Path, map[string]string{"big.txt": string(make([]byte, 4096)), "t.txt": "x\n"})
	_, err := p.Collect(t.Context(), tree)
	require.NoError(t, err, "zeros compress")
	text := ""
	for i := range 1000 {
		text += string(rune('a'+i%26)) + "line\n"
	}
	write(t, tree.Path, map[string]string{"big.txt": text})
	_, err = p.Collect(t.Context(), tree)
	require.ErrorContains(t, err, "MaxPatchBytes")
}
