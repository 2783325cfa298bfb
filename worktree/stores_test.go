package worktree_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/worktree"
)

// bare is a store that does not tell who it is.
type bare struct{ rulvar.Store }

var failedTurns = []rulvartest.Turn{{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n")}}, {Finish: llm.FinishRefusal, Text: "no"}}

// fated dies before it removes a tree.
type fated struct {
	*worktree.GitProvider
	keeps bool
}

func (f *fated) Release(ctx context.Context, tree isolation.Tree, how isolation.Release) (bool, error) {
	if !f.keeps {
		return true, nil
	}
	return f.GitProvider.Release(ctx, tree, how)
}

// sharing is a world that shares the repository and the trees of another.
func (w *world) sharing(store rulvar.Store) *world {
	return &world{repo: w.repo, dir: w.dir, opts: w.opts, store: store, tools: w.tools}
}

func (w *world) sweep(t *testing.T) (paths []string) {
	t.Helper()
	removed, err := w.engine(t).SweepTrees(t.Context())
	require.NoError(t, err)
	for _, tree := range removed {
		paths = append(paths, tree.Path)
	}
	return paths
}

func TestSweepLeavesTreesOfOtherStores(t *testing.T) {
	w := parkedWorld(t, func(o *worktree.GitOptions) { o.KeepOnError = true })
	parked := w.tree(t)
	file, err := rulvar.OpenFileStore(t.TempDir(), nil)
	require.NoError(t, err)
	other := w.sharing(file)
	out := other.run(t, other.engine(t, failedTurns...))
	require.Len(t, out.Value.Artifacts, 2)
	failed := out.Value.Artifacts[1].Ref
	memory, without := w.sharing(rulvar.NewMemoryStore()), w.sharing(bare{w.store})
	for name, each := range map[string]*world{"first": w, "second": other, "memory": memory, "without identity": without} {
		require.Empty(t, each.sweep(t), name)
		require.DirExists(t, parked, name)
		require.DirExists(t, failed, name)
	}
	// A deleted run's tree goes with its own store's sweep.
	require.NoError(t, other.engine(t).DeleteRun(t.Context(), "r1"))
	require.Empty(t, w.sweep(t))
	require.Equal(t, []string{failed}, other.sweep(t))
	require.DirExists(t, parked)
}

func TestSweepKnowsItsStoreBehindALink(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	w := newWorld(t)
	w.opts.KeepOnError = true
	var err error
	w.store, err = rulvar.OpenFileStore(dir, nil)
	require.NoError(t, err)
	w.run(t, w.engine(t, failedTurns...))
	tree := w.tree(t)
	again, err := rulvar.OpenFileStore(link, nil)
	require.NoError(t, err)
	linked := w.sharing(rulvartest.CrashStore(again))
	require.Empty(t, linked.sweep(t), "its run is there")
	require.NoError(t, w.engine(t).DeleteRun(t.Context(), "r1"))
	require.Equal(t, []string{tree}, linked.sweep(t))
}

// TestSweepOfTreesWithoutStore has trees as an older version, or a store
// without an identity, makes them.
func TestSweepOfTreesWithoutStore(t *testing.T) {
	done := []rulvartest.Turn{{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n")}}, {Text: "done"}}
	for _, row := range []struct {
		name    string
		turns   []rulvartest.Turn
		release bool // otherwise the process dies before
		forget  bool // the run is deleted
		swept   bool
	}{
		{name: "an agent that has ended", turns: done, swept: true},
		{name: "a run that is not in the store", turns: done, forget: true},
		{name: "a failed agent's", turns: failedTurns, release: true},
		{name: "a failed agent's, whose run is deleted", turns: failedTurns, release: true, forget: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			w.opts.KeepOnError = true
			named := w
			w = w.sharing(bare{w.store})
			provider := newProvider(t, w.opts)
			e := rulvartest.NewEngine(t, rulvar.Config{
				Store: w.store, Providers: []llm.Provider{rulvartest.NewProvider("m", rulvartest.Script{Turns: row.turns})}, Model: "m:x",
				Isolation: &fated{GitProvider: provider, keeps: row.release},
			})
			w.run(t, e)
			text, err := os.ReadFile(w.tree(t) + ".json")
			require.NoError(t, err)
			require.False(t, strings.Contains(string(text), `"store"`))
			for name, other := range map[string]*world{"a file store": newWorld(t), "a memory store": {store: rulvar.NewMemoryStore()}} {
				require.Empty(t, w.sharing(other.store).sweep(t), name)
			}
			if row.forget {
				require.NoError(t, named.engine(t).DeleteRun(t.Context(), "r1"))
			}
			require.Equal(t, row.swept, len(w.sweep(t)) == 1)
			require.Equal(t, row.swept, len(leftOvers(t, w.repo, w.dir)) == 0)
		})
	}
}

// A store that tells who it is sweeps what the same one did without.
func TestSweepAfterAStoreHasAnIdentity(t *testing.T) {
	w := parkedWorld(t, nil)
	path := w.tree(t)
	text, err := os.ReadFile(path + ".json")
	require.NoError(t, err)
	old := strings.Replace(string(text), `"store":`, `"was":`, 1)
	require.NoError(t, os.WriteFile(path+".json", []byte(old), 0o666))
	require.Empty(t, w.sweep(t))
	w.approve(t, w.engine(t))
	out, logs := w.resume(t, w.engine(t, rulvartest.Turn{}, rulvartest.Turn{Text: "done"}))
	require.NoError(t, out.Err)
	require.Empty(t, logs)
	require.Equal(t, []string{"a.txt", "b.txt"}, out.Value.Artifacts[0].Files)
	require.Empty(t, leftOvers(t, w.repo, w.dir))
}
