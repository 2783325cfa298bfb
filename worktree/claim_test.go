package worktree_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/worktree"
)

// TestReleasesOfOneTree has two providers release each tree at once, while a
// third takes trees out of the pool and works in them.
func TestReleasesOfOneTree(t *testing.T) {
	for _, pool := range []int{0, 1} {
		t.Run(fmt.Sprintf("pool of %d", pool), func(t *testing.T) {
			opts := worktree.GitOptions{RepoRoot: newRepo(t), Dir: t.TempDir(), PoolSize: pool}
			var ps [3]*worktree.GitProvider
			for i := range ps {
				ps[i] = newProvider(t, opts)
			}
			for round := range 6 {
				tree := acquire(t, ps[0], "")
				write(t, tree.Path, map[string]string{"a.txt": "1\n"})
				how := isolation.Release{Snapshot: collect(t, ps[0], tree).Snapshot}
				if round%3 == 2 {
					how = isolation.Release{Discard: true}
				}
				var kept [2]bool
				var errs [3]error
				var wg sync.WaitGroup
				for i := range kept {
					wg.Go(func() { kept[i], errs[i] = ps[i].Release(t.Context(), tree, how) })
				}
				wg.Go(func() { errs[2] = borrow(t.Context(), ps[2]) })
				wg.Wait()
				require.NoError(t, errors.Join(errs[:]...))
				require.Equal(t, [2]bool{}, kept)
				trees, err := ps[0].Trees(t.Context())
				require.NoError(t, err)
				require.Empty(t, trees)
			}
			require.NoError(t, ps[0].Drain(t.Context()))
			require.Empty(t, leftOvers(t, opts.RepoRoot, opts.Dir))
		})
	}
}

// borrow acquires trees, and sees that each stays as it is left.
func borrow(ctx context.Context, p *worktree.GitProvider) error {
	for range 3 {
		tree, err := p.Acquire(ctx, isolation.Request{RunID: "borrower"})
		if err != nil {
			return err
		}
		mine := filepath.Join(tree.Path, "mine.txt")
		if err := os.WriteFile(mine, []byte("mine\n"), 0o666); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
		patch, err := p.Collect(ctx, tree)
		if err != nil {
			return err
		}
		if len(patch.Files) != 1 || patch.Files[0] != "mine.txt" {
			return fmt.Errorf("somebody else has worked in the tree: %q", patch.Files)
		}
		if kept, err := p.Release(ctx, tree, isolation.Release{Snapshot: patch.Snapshot}); kept || err != nil {
			return fmt.Errorf("kept %v: %w", kept, err)
		}
	}
	return nil
}

// TestReleaseBesideAnotherProcess releases a tree that another process is
// releasing: it waits for it, and takes its place where it dies.
func TestReleaseBesideAnotherProcess(t *testing.T) {
	worktree.SetStep(func(name string) { rulvartest.Point("tree:" + name) })
	defer worktree.SetStep(func(string) {})
	child := rulvartest.NewChild(t, "releaser", func(args []string) (string, error) {
		var opts worktree.GitOptions
		var tree isolation.Tree
		var how isolation.Release
		for i, v := range []any{&opts, &tree, &how} {
			if err := json.Unmarshal([]byte(args[i]), v); err != nil {
				return "", err
			}
		}
		p, err := worktree.NewGitProvider(&opts)
		if err != nil {
			return "", err
		}
		kept, err := p.Release(context.Background(), tree, how)
		return fmt.Sprint(kept), err
	})
	for _, row := range []struct {
		point string
		pool  int
	}{
		{"tree:claim:taken", 0}, {"tree:remove:verified", 0}, {"tree:remove:marked", 0}, {"tree:remove:private", 0},
		{"tree:claim:taken", 1}, {"tree:remove:verified", 1}, {"tree:pool:marked", 1},
	} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pool of %d/dies %v", row.point, row.pool, dies), func(t *testing.T) {
				type plain struct { // without its function, which is no JSON
					RepoRoot, Dir string
					PoolSize      int
				}
				at := plain{newRepo(t), realDir(t), row.pool}
				p := newProvider(t, worktree.GitOptions{RepoRoot: at.RepoRoot, Dir: at.Dir, PoolSize: at.PoolSize})
				tree := acquire(t, p, "")
				write(t, tree.Path, map[string]string{"a.txt": "1\n"})
				how := isolation.Release{Snapshot: collect(t, p, tree).Snapshot}
				var args []string
				for _, v := range []any{at, tree, how} {
					text, err := json.Marshal(v)
					require.NoError(t, err)
					args = append(args, string(text))
				}
				process := child.Start(t, &rulvartest.StartOptions{HoldAt: row.point}, args...)
				process.AwaitHold()
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				kept, err := p.Release(ctx, tree, how)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.True(t, kept)
				require.ErrorIs(t, p.Reattach(ctx, tree), context.DeadlineExceeded)
				if dies {
					process.Kill()
				} else {
					process.Release()
				}
				kept, err = p.Release(t.Context(), tree, how)
				require.NoError(t, err)
				require.False(t, kept)
				if v := process.Wait(); !dies {
					require.Equal(t, "false", v.Result)
				}
				require.ErrorIs(t, p.Reattach(t.Context(), tree), rulvar.ErrIsolationGone)
				require.NoError(t, p.Drain(t.Context()))
				require.Empty(t, leftOvers(t, at.RepoRoot, at.Dir))
			})
		}
	}
}
