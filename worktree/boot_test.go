package worktree_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/worktree"
)

var bootField = regexp.MustCompile(`"boot":"[^"]*"`)

// restart makes a tree one of an earlier run of the machine.
func restart(t *testing.T, tree string) {
	t.Helper()
	text, err := os.ReadFile(tree + ".json")
	require.NoError(t, err)
	if !bootField.Match(text) {
		t.Skip("the system does not tell one run of the machine from another")
	}
	require.NoError(t, os.WriteFile(tree+".json", bootField.ReplaceAll(text, []byte(`"boot":"before"`)), 0o666))
}

// TestTreesOutliveTheMachine starts the machine anew: what was in use may have
// lost what was written last, what was parked is compared with its snapshot.
func TestTreesOutliveTheMachine(t *testing.T) {
	t.Run("in use", func(t *testing.T) {
		var warned []string
		opts := worktree.GitOptions{RepoRoot: newRepo(t), OnWarn: func(msg string) { warned = append(warned, msg) }}
		p := newProvider(t, opts)
		tree := acquire(t, p, "")
		write(t, tree.Path, map[string]string{"a.txt": "1\n"})
		require.NoError(t, p.Reattach(t.Context(), tree))
		restart(t, tree.Path)
		require.ErrorIs(t, p.Reattach(t.Context(), tree), rulvar.ErrIsolationGone)
		require.FileExists(t, tree.Path+"/a.txt", "it is kept for a person")
		require.Len(t, warned, 1)
		require.Contains(t, warned[0], tree.Path)
		trees, err := p.Trees(t.Context())
		require.NoError(t, err)
		require.Equal(t, isolation.KeepUncollected, trees[0].Pinned)
	})
	t.Run("parked", func(t *testing.T) {
		w := parkedWorld(t, nil)
		restart(t, w.tree(t))
		w.approve(t, w.engine(t))
		out, logs := w.resume(t, w.engine(t, rulvartest.Turn{}, rulvartest.Turn{Text: "done"}))
		require.NoError(t, out.Err)
		require.Empty(t, logs)
		require.Equal(t, []string{"a.txt", "b.txt"}, out.Value.Artifacts[0].Files)
	})
	t.Run("in the pool", func(t *testing.T) {
		repo, dir := newRepo(t), t.TempDir()
		p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, PoolSize: 1})
		_, err := p.Release(t.Context(), acquire(t, p, ""), isolation.Release{})
		require.NoError(t, err)
		for _, name := range leftOvers(t, repo, dir) {
			if _, record, _ := strings.Cut(name, "/"); strings.HasSuffix(record, ".json") {
				restart(t, dir+"/"+strings.TrimSuffix(record, ".json"))
			}
		}
		_, err = p.Release(t.Context(), acquire(t, p, ""), isolation.Release{Discard: true})
		require.NoError(t, err)
		require.Empty(t, leftOvers(t, repo, dir), "the old one is gone too")
	})
}

// TestTornRecord cuts a record at each byte of its last state.
func TestTornRecord(t *testing.T) {
	repo, dir := newRepo(t), t.TempDir()
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir})
	tree := acquire(t, p, "")
	whole, err := os.ReadFile(tree.Path + ".json")
	require.NoError(t, err)
	first := strings.Index(string(whole), "\n") + 1
	if first == len(whole) {
		t.Skip("each state is synced here")
	}
	for cut := first; cut < len(whole); cut += 7 {
		require.NoError(t, os.WriteFile(tree.Path+".json", whole[:cut], 0o666))
		require.ErrorIs(t, p.Reattach(t.Context(), tree), rulvar.ErrIsolationGone, "at %d: it says that the tree is being made", cut)
	}
	require.NoError(t, os.WriteFile(tree.Path+".json", append(whole[:first:first], 0, 0, 0), 0o666))
	_, err = p.Release(t.Context(), tree, isolation.Release{})
	require.NoError(t, err)
	require.Empty(t, leftOvers(t, repo, dir))
}
