package worktree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/worktree"
)

// crashTurns are those of the agent that is killed: it edits, asks, edits,
// commits, edits again.
var crashTurns = []rulvartest.Turn{
	{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n"), call("edit", "README.md", "changed\n")}},
	{Calls: []rulvartest.Call{call("careful", "b.txt", "2\n"), call("commit", "", "")}},
	{Calls: []rulvartest.Call{call("edit", "c.txt", "3\n")}},
	{Text: "done"},
}

// crashWorld is the world of a directory that several processes work in, one
// after the other.
func crashWorld(t testing.TB, dir string, pool int) (*world, *rulvar.Engine) {
	t.Helper()
	store, err := rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
	require.NoError(t, err)
	w := &world{repo: filepath.Join(dir, "repo"), dir: filepath.Join(dir, "trees"), store: rulvartest.CrashStore(store), tools: treeTools(t)}
	w.opts = worktree.GitOptions{RepoRoot: w.repo, Dir: w.dir, PoolSize: pool, OnWarn: func(string) {}}
	p, err := worktree.NewGitProvider(&w.opts)
	require.NoError(t, err)
	e, err := rulvar.NewEngine(rulvar.Config{
		Store: w.store, Providers: []llm.Provider{rulvartest.NewProvider("m", rulvartest.Script{Turns: crashTurns})}, Model: "m:x", Isolation: p,
	})
	require.NoError(t, err)
	return w, e
}

// takeTurn does what is next with the run: start it, answer it, resume it.
func takeTurn(t testing.TB, dir string, pool int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, e := crashWorld(t, dir, pool)
	defer func() { _ = e.Close(ctx) }()
	meta, entries, err := w.store.Load(ctx, "r1", -1)
	if err != nil {
		return "", err
	}
	var h *rulvar.RunHandle[rulvar.AgentResult[string]]
	if meta == nil && len(entries) == 0 {
		h, err = rulvar.Run(ctx, e, w.fix(), "", &rulvar.RunOptions{RunID: "r1"})
	} else {
		pending, pErr := e.PendingOf(ctx, "r1")
		if pErr != nil {
			return "", pErr
		}
		if len(pending) > 0 {
			_, err = e.Resolve(ctx, "r1", pending[0].Key, rulvar.Approve("fine"))
			return "", err
		}
		h, err = rulvar.Resume(ctx, e, w.fix(), "r1", nil)
	}
	if err != nil {
		return "", err
	}
	out, err := h.Result(ctx)
	if out.Status == rulvar.RunSuspended {
		return "", nil
	}
	if err != nil || len(out.Value.Artifacts) != 1 {
		return "", errors.Join(err, fmt.Errorf("artifacts: %+v", out.Value.Artifacts))
	}
	return strings.Join(out.Value.Artifacts[0].Files, " "), nil
}

// TestKilledAtEveryStep kills a run at each step of a tree's life, and of the
// records around it, and finishes it in further processes: every edit is in
// the patch then, nothing is left of any tree, and the host's repository is as
// it was. Without RULVAR_KILL_MATRIX=full a sample of the steps
// is taken.
func TestKilledAtEveryStep(t *testing.T) {
	for _, pool := range []int{0, 1} {
		t.Run(fmt.Sprintf("pool of %d", pool), func(t *testing.T) { killEverywhere(t, pool) })
	}
}

func killEverywhere(t *testing.T, pool int) {
	worktree.SetStep(func(name string) { rulvartest.Point("tree:" + name) })
	defer worktree.SetStep(func(string) {})
	child := rulvartest.NewChild(t, "turn", func(args []string) (string, error) { return takeTurn(t, args[0], pool) })
	whole := finishRun(t, child, prepareRun(t, pool), nil)
	type place struct {
		process int
		point   string
	}
	var all []place
	for i, v := range whole {
		for _, p := range v.Points {
			if strings.HasPrefix(p, "tree:") || strings.HasPrefix(p, "tool:") || strings.Contains(p, "append") || strings.Contains(p, "put:") {
				all = append(all, place{i, p})
			}
		}
	}
	require.Greater(t, len(all), 30)
	step := 1
	if os.Getenv("RULVAR_KILL_MATRIX") != "full" {
		step = 11
	}
	t.Logf("%d steps, every %d. is killed", len(all), step)
	for k := pool; k < len(all); k += step {
		at := all[k]
		t.Run(fmt.Sprintf("%d/%s", at.process+1, at.point), func(t *testing.T) {
			dir := prepareRun(t, pool)
			host := hostState(t, filepath.Join(dir, "repo"))
			var visits []rulvartest.Visit
			for range at.process {
				visits = append(visits, child.Run(t, dir))
			}
			visits = append(visits, child.RunTo(t, at.point, dir))
			finishRun(t, child, dir, visits)
			checkRun(t, dir, pool, host)
		})
	}
}

// prepareRun makes the directory of a run; its pool has a tree already.
func prepareRun(t *testing.T, pool int) string {
	t.Helper()
	dir := realDir(t)
	repo := filepath.Join(dir, "repo")
	require.NoError(t, os.CopyFS(repo, os.DirFS(newRepo(t))))
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: filepath.Join(dir, "trees"), PoolSize: pool})
	tree := acquire(t, p, "")
	write(t, tree.Path, map[string]string{"another's.log": "secret\n"})
	_, err := p.Release(t.Context(), tree, isolation.Release{})
	require.NoError(t, err)
	return dir
}

func finishRun(t *testing.T, child *rulvartest.Child, dir string, visits []rulvartest.Visit) []rulvartest.Visit {
	t.Helper()
	for range 10 {
		v := child.Run(t, dir)
		visits = append(visits, v)
		if v.Result != "" {
			require.Equal(t, "README.md a.txt b.txt c.txt", v.Result)
			return visits
		}
	}
	require.Fail(t, "the run does not come to an end")
	return nil
}

// checkRun looks at a finished run with the janitor.
func checkRun(t *testing.T, dir string, pool int, host string) {
	t.Helper()
	w, e := crashWorld(t, dir, pool)
	_, err := e.SweepTrees(t.Context())
	require.NoError(t, err)
	p, err := worktree.NewGitProvider(&w.opts)
	require.NoError(t, err)
	require.NoError(t, p.Drain(t.Context()))
	require.Empty(t, leftOvers(t, w.repo, w.dir))
	require.Equal(t, host, hostState(t, w.repo))
	h, err := rulvar.Resume(t.Context(), e, w.fix(), "r1", nil)
	require.NoError(t, err)
	out, err := h.Result(t.Context())
	require.NoError(t, err)
	got := w.patched(t, out.Value)
	require.NoError(t, e.Close(t.Context()))
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		require.Contains(t, got, name)
	}
}
