package worktree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

// TestPatchOfManyNames has more names than a command line is given: what is
// collected is the same as with few.
func TestPatchOfManyNames(t *testing.T) {
	repo, dir := newRepo(t), t.TempDir()
	many := map[string]string{}
	for i := range 400 {
		many[fmt.Sprintf("many/%03d-%s", i, strings.Repeat("n", 80))] = fmt.Sprintf("%d\n", i)
	}
	write(t, repo, many)
	gitIn(t, repo, "add", "-A")
	gitIn(t, repo, "commit", "-qm", "many")
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir})
	edit := func(path string) {
		write(t, path, map[string]string{"src/main.txt": "changed\n", "new.txt": "new\n", "odd\nname": "o\n", "many/400": "one more\n"})
		require.NoError(t, os.Remove(filepath.Join(path, "README.md")))
		require.NoError(t, os.RemoveAll(filepath.Join(path, "src", "deep")))
		write(t, path, map[string]string{"src/deep": "a file now\n"})
	}
	var patches []isolation.Patch
	for _, touched := range []bool{false, true} {
		tree := acquire(t, p, "")
		if touched {
			write(t, tree.Path, many) // the same bytes: git must look at each
		}
		edit(tree.Path)
		patch := collect(t, p, tree)
		require.Equal(t, listing(t, tree.Path), listing(t, applied(t, repo, tree.Base, patch.Patch)))
		kept, err := p.Release(t.Context(), tree, isolation.Release{Snapshot: patch.Snapshot})
		require.NoError(t, err)
		require.False(t, kept)
		patches = append(patches, patch)
	}
	require.Equal(t, string(patches[0].Patch), string(patches[1].Patch))
	require.Equal(t, patches[0].Files, patches[1].Files)

	// All of them have changed: the list in the patch is as long.
	tree := acquire(t, p, "")
	changed := map[string]string{}
	for name := range many {
		changed[name] = "changed\n"
	}
	write(t, tree.Path, changed)
	patch := collect(t, p, tree)
	require.Len(t, patch.Files, len(many))
	require.Equal(t, listing(t, tree.Path), listing(t, applied(t, repo, tree.Base, patch.Patch)))
	kept, err := p.Release(t.Context(), tree, isolation.Release{Snapshot: patch.Snapshot})
	require.NoError(t, err)
	require.False(t, kept)
	require.Empty(t, leftOvers(t, repo, dir))
}
