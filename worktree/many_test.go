package worktree_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

// TestManyAtOnce has agents acquire, change, commit, collect and give back
// worktrees of one repository at the same time. Some are left in the middle, as
// by a process that dies; another provider takes those up again. No change is
// lost, nothing is left of any tree, and the host's repository stays as it is.
// Without RULVAR_KILL_MATRIX=full there are few of them.
func TestManyAtOnce(t *testing.T) {
	agents, rounds := 4, 2
	if os.Getenv("RULVAR_KILL_MATRIX") == "full" {
		agents, rounds = 16, 20
	}
	repo, dir := newRepo(t), t.TempDir()
	host := hostState(t, repo)
	for _, pool := range []int{0, 3} {
		p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, PoolSize: pool})
		m := &many{repo: repo, patches: map[string]isolation.Patch{}}
		for round := range rounds {
			var wg sync.WaitGroup
			for agent := range agents {
				wg.Go(func() { m.agent(t, p, fmt.Sprintf("%d-%d-%d", pool, round, agent), (round+agent)%5) })
			}
			wg.Wait()
		}
		require.False(t, t.Failed())
		require.Len(t, m.patches, agents*rounds-len(m.dead))
		m.takeUp(t, newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, PoolSize: pool}))
		require.Len(t, m.patches, agents*rounds)
		m.apply(t)
		require.NoError(t, p.Drain(t.Context()))
		require.Empty(t, leftOvers(t, repo, dir))
	}
	require.Equal(t, host, hostState(t, repo))
	gitIn(t, repo, "fsck", "--no-dangling")
}

type many struct {
	repo string

	mu      sync.Mutex
	patches map[string]isolation.Patch // by agent
	dead    map[string]isolation.Tree
}

// agent is one agent's work. fate says where it is left: 0 after its changes,
// 1 after it has collected, else not at all.
func (m *many) agent(t *testing.T, p *worktree.GitProvider, name string, fate int) {
	ctx := context.Background()
	tree, err := p.Acquire(ctx, isolation.Request{RunID: name})
	if err != nil {
		t.Errorf("%s: acquire: %v", name, err)
		return
	}
	if err := m.work(tree.Path, name); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if fate == 0 {
		m.left(name, tree)
		return
	}
	m.mu.Unlock()
	patch, err := p.Collect(ctx, tree)
	m.mu.Lock()
	switch {
	case err != nil:
		t.Errorf("%s: collect: %v", name, err)
		return
	case fate == 1:
		m.left(name, tree)
		return
	}
	m.mu.Unlock()
	kept, err := p.Release(ctx, tree, isolation.Release{Snapshot: patch.Snapshot})
	m.mu.Lock()
	if err != nil || kept {
		t.Errorf("%s: release: kept %v, %v", name, kept, err)
	}
	m.patches[name] = patch
}

func (m *many) left(name string, tree isolation.Tree) {
	if m.dead == nil {
		m.dead = make(map[string]isolation.Tree)
	}
	m.dead[name] = tree
}

// work edits, commits, and edits again.
func (m *many) work(dir, name string) error {
	file := func(path, text string) error { return os.WriteFile(filepath.Join(dir, path), []byte(text), 0o666) }
	if err := file("own-"+name+".txt", name+"\n"); err != nil {
		return err
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-qm", name}} {
		if out, err := tryGit(dir, args...); err != nil {
			return fmt.Errorf("git %v: %s", args, out)
		}
	}
	return file("src/main.txt", "line 1\n"+name+"\n")
}

// takeUp finishes what the dead have left.
func (m *many) takeUp(t *testing.T, p *worktree.GitProvider) {
	for name, tree := range m.dead {
		require.NoError(t, p.Reattach(t.Context(), tree))
		patch := collect(t, p, tree)
		m.patches[name] = patch
		_, err := p.Release(t.Context(), tree, isolation.Release{Snapshot: patch.Snapshot})
		require.NoError(t, err)
	}
}

// apply applies every patch to the base, and reads from it what its agent did.
func (m *many) apply(t *testing.T) {
	clone := filepath.Join(realDir(t), "clone")
	gitIn(t, m.repo, "clone", "-q", "--shared", m.repo, clone)
	for name, patch := range m.patches {
		require.Equal(t, []string{"own-" + name + ".txt", "src/main.txt"}, patch.Files)
		require.NoError(t, worktree.ApplyPatch(t.Context(), clone, patch.Patch, nil))
		text, err := os.ReadFile(filepath.Join(clone, "src/main.txt"))
		require.NoError(t, err)
		require.Equal(t, "line 1\n"+name+"\n", string(text))
		require.FileExists(t, filepath.Join(clone, "own-"+name+".txt"))
		require.NoError(t, worktree.ApplyPatch(t.Context(), clone, patch.Patch, &worktree.ApplyOptions{Reverse: true}))
	}
	require.Empty(t, gitIn(t, clone, "status", "--porcelain"))
}
