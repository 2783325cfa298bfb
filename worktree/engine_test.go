package worktree_test

import (
	"errors"
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

type fileInput struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// treeTools are tools that work in the agent's tree: edit, edit behind an
// approval, read, and one that fills the tree with what cannot be collected.
func treeTools(t testing.TB) []rulvar.ToolSource {
	t.Helper()
	edit := func(tc *rulvar.ToolContext, in fileInput) (string, error) {
		rulvartest.Point("tool:edit:" + in.Path)
		path := filepath.Join(tc.Cwd(), in.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return "", err
		}
		err := os.WriteFile(path, []byte(in.Text), 0o666)
		rulvartest.Point("tool:edited:" + in.Path)
		return "written", err
	}
	read := func(tc *rulvar.ToolContext, in fileInput) (string, error) {
		text, err := os.ReadFile(filepath.Join(tc.Cwd(), in.Path))
		return string(text), err
	}
	commit := func(tc *rulvar.ToolContext, _ fileInput) (string, error) {
		for _, args := range [][]string{{"add", "-A"}, {"commit", "-qm", "of the agent"}} {
			if out, err := tryGit(tc.Cwd(), args...); err != nil {
				return "", errors.New(out)
			}
		}
		return "committed", nil
	}
	spoil := func(tc *rulvar.ToolContext, _ fileInput) (string, error) {
		pid, err := filepath.Glob(tc.Cwd() + ".git/index")
		if err != nil || len(pid) != 1 {
			return "", errors.New("no index")
		}
		return "spoilt", os.WriteFile(pid[0], []byte("rubbish"), 0o666)
	}
	return []rulvar.ToolSource{
		newTool(t, "edit", rulvar.RiskWrite, false, edit), newTool(t, "careful", rulvar.RiskWrite, true, edit),
		newTool(t, "read", rulvar.RiskRead, false, read), newTool(t, "commit", rulvar.RiskWrite, false, commit),
		newTool(t, "spoil", rulvar.RiskWrite, false, spoil),
	}
}

func newTool(t testing.TB, name string, risk rulvar.Risk, approval bool, fn func(*rulvar.ToolContext, fileInput) (string, error)) *rulvar.Tool {
	t.Helper()
	tool, err := rulvar.NewTool(rulvar.ToolConfig{Name: name, Description: name + " a file.", Risk: risk, NeedsApproval: approval}, fn)
	require.NoError(t, err)
	return tool
}

func call(tool, path, text string) rulvartest.Call {
	return rulvartest.Call{ID: tool + "-" + path, Tool: tool, Args: fileInput{Path: path, Text: text}}
}

// world is a repository, a store and what engines are made of.
type world struct {
	repo, dir string
	opts      worktree.GitOptions
	store     rulvar.Store
	tools     []rulvar.ToolSource
	warned    []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := rulvar.OpenFileStore(t.TempDir(), nil)
	require.NoError(t, err)
	w := &world{repo: newRepo(t), dir: t.TempDir(), store: store, tools: treeTools(t)}
	w.opts = worktree.GitOptions{RepoRoot: w.repo, Dir: w.dir, OnWarn: func(m string) { w.warned = append(w.warned, m) }}
	return w
}

func (w *world) engine(t *testing.T, turns ...rulvartest.Turn) *rulvar.Engine {
	t.Helper()
	return rulvartest.NewEngine(t, rulvar.Config{
		Store: w.store, Providers: []llm.Provider{rulvartest.NewProvider("m", rulvartest.Script{Turns: turns})}, Model: "m:x",
		Isolation: newProvider(t, w.opts),
	})
}

// fix runs one agent in a worktree and returns its result.
func (w *world) fix() *rulvar.Workflow[string, rulvar.AgentResult[string]] {
	return rulvar.DefineWorkflow("fix", func(c *rulvar.Ctx, _ string) (rulvar.AgentResult[string], error) {
		iso := rulvar.Worktree()
		r, err := rulvar.AgentFull[string](c, "fix it", &rulvar.AgentOptions{Isolation: &iso, Tools: w.tools})
		if err == nil && r.Err != nil {
			r.Err = nil // the status says it
		}
		return r, err
	})
}

func (w *world) run(t *testing.T, e *rulvar.Engine) rulvar.Outcome[rulvar.AgentResult[string]] {
	t.Helper()
	h, err := rulvar.Run(t.Context(), e, w.fix(), "", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, _ := h.Result(t.Context())
	return out
}

func (w *world) resume(t *testing.T, e *rulvar.Engine) (rulvar.Outcome[rulvar.AgentResult[string]], []string) {
	t.Helper()
	var logs []string
	h, err := rulvar.Resume(t.Context(), e, w.fix(), "r1", &rulvar.ResumeOptions[string]{OnEvent: func(ev rulvar.Event) {
		if l, ok := ev.Body.(rulvar.LogEmitted); ok {
			logs = append(logs, l.Msg)
		}
	}})
	require.NoError(t, err)
	out, _ := h.Result(t.Context())
	return out, logs
}

func (w *world) patched(t *testing.T, r rulvar.AgentResult[string]) map[string]string {
	t.Helper()
	require.NotEmpty(t, r.Artifacts)
	a := r.Artifacts[0]
	require.Equal(t, rulvar.ArtifactPatch, a.Kind)
	patch, err := w.store.Get(t.Context(), a.Ref)
	require.NoError(t, err)
	return listing(t, applied(t, w.repo, a.Base, patch))
}

func TestAgentInWorktree(t *testing.T) {
	w := newWorld(t)
	host := hostState(t, w.repo)
	e := w.engine(t,
		rulvartest.Turn{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n"), call("commit", "", "")}},
		rulvartest.Turn{Calls: []rulvartest.Call{call("edit", "b.txt", "2\n"), call("edit", "x.log", "l\n")}},
		rulvartest.Turn{Text: "done"})
	out := w.run(t, e)
	require.NoError(t, out.Err)
	r := out.Value
	require.Equal(t, []string{"a.txt", "b.txt"}, r.Artifacts[0].Files)
	require.Equal(t, []string{"x.log"}, r.Artifacts[0].Ignored)
	require.Contains(t, w.patched(t, r), "a.txt")
	require.Empty(t, leftOvers(t, w.repo, w.dir))
	require.Equal(t, host, hostState(t, w.repo))
	again, _ := w.resume(t, e)
	require.Equal(t, r.Artifacts, again.Value.Artifacts, "a replay has them too")
	require.Empty(t, w.warned)
}

// parkedWorld is a run whose agent has edited and waits for an approval.
func parkedWorld(t *testing.T, opts func(*worktree.GitOptions)) *world {
	t.Helper()
	w := newWorld(t)
	if opts != nil {
		opts(&w.opts)
	}
	e := w.engine(t, rulvartest.Turn{Calls: []rulvartest.Call{call("edit", "a.txt", "before\n"), call("careful", "b.txt", "after\n"), call("read", "a.txt", "")}})
	out := w.run(t, e)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	return w
}

func (w *world) approve(t *testing.T, e *rulvar.Engine) {
	t.Helper()
	list, err := e.PendingOf(t.Context(), "r1")
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = e.Resolve(t.Context(), "r1", list[0].Key, rulvar.Approve("fine"))
	require.NoError(t, err)
}

func (w *world) tree(t *testing.T) string {
	t.Helper()
	list, err := newProvider(t, w.opts).Trees(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0].Path
}

func TestParkedAgentGoesOnInItsTree(t *testing.T) {
	w := parkedWorld(t, nil)
	require.FileExists(t, filepath.Join(w.tree(t), "a.txt"))
	done := rulvartest.Turn{Text: "done"}
	e := w.engine(t, rulvartest.Turn{}, done)
	removed, err := e.SweepTrees(t.Context())
	require.NoError(t, err)
	require.Empty(t, removed, "the agent needs it")
	// A resume without an answer leaves everything as it is.
	out, _ := w.resume(t, e)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	w.approve(t, e)
	out, logs := w.resume(t, w.engine(t, rulvartest.Turn{}, done))
	require.NoError(t, out.Err)
	require.Equal(t, []string{"a.txt", "b.txt"}, out.Value.Artifacts[0].Files)
	require.Contains(t, w.patched(t, out.Value), "b.txt")
	require.Empty(t, logs)
	require.Empty(t, leftOvers(t, w.repo, w.dir))
}

func TestParkedAgentWhoseTreeIsGoneBeginsAgain(t *testing.T) {
	for _, row := range []struct {
		name string
		opts func(*worktree.GitOptions)
		harm func(t *testing.T, path string)
		kept bool
	}{
		{name: "removed", harm: func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(path)) }},
		{name: "removed in part", harm: func(t *testing.T, path string) { require.NoError(t, os.Remove(filepath.Join(path, "a.txt"))) }, kept: true},
		{name: "changed", harm: func(t *testing.T, path string) { write(t, path, map[string]string{"a.txt": "by hand\n"}) }, kept: true},
		{name: "dropped for want of room", opts: func(o *worktree.GitOptions) { o.MaxPinnedWorktrees = -1 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := parkedWorld(t, row.opts)
			path := ""
			if row.harm != nil {
				path = w.tree(t)
				row.harm(t, path)
			} else {
				require.Len(t, w.warned, 1)
				require.Empty(t, leftOvers(t, w.repo, w.dir))
			}
			blob, err := w.store.Get(t.Context(), "r1/patch/0")
			require.NoError(t, err)
			require.Contains(t, string(blob), "+before", "the patch of the parked agent is in the store")
			e := w.engine(t, rulvartest.Turn{Calls: []rulvartest.Call{{ID: "n1", Tool: "edit", Args: fileInput{Path: "c.txt", Text: "new\n"}}}}, rulvartest.Turn{Text: "done"})
			out, logs := w.resume(t, e)
			require.NoError(t, out.Err)
			require.Equal(t, []string{"an agent begins again: its worktree is gone"}, logs)
			require.Equal(t, []string{"c.txt"}, out.Value.Artifacts[0].Files, "nothing of the first attempt")
			pending, err := e.PendingOf(t.Context(), "r1")
			require.NoError(t, err)
			require.Empty(t, pending, "the first attempt's request is closed")
			if row.kept {
				require.DirExists(t, path)
				require.NoError(t, e.DeleteRun(t.Context(), "r1"))
			}
			_, err = e.SweepTrees(t.Context())
			require.NoError(t, err)
			require.Empty(t, leftOvers(t, w.repo, w.dir))
		})
	}
}

func TestTreesThatAreKept(t *testing.T) {
	for _, row := range []struct {
		name  string
		turns []rulvartest.Turn
		opts  func(*worktree.GitOptions)
		kinds []string
		note  string
	}{
		{name: "a failed agent", turns: []rulvartest.Turn{{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n")}}, {Finish: llm.FinishRefusal, Text: "no"}},
			opts: func(o *worktree.GitOptions) { o.KeepOnError = true }, kinds: []string{"patch", "worktree"}, note: "status error"},
		{name: "a failed agent, not asked for", turns: []rulvartest.Turn{{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n")}}, {Finish: llm.FinishRefusal, Text: "no"}},
			kinds: []string{"patch"}},
		{name: "a failed agent, no room", turns: []rulvartest.Turn{{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n")}}, {Finish: llm.FinishRefusal, Text: "no"}},
			opts: func(o *worktree.GitOptions) { o.KeepOnError, o.MaxPinnedWorktrees = true, -1 }, kinds: []string{"patch"}},
		{name: "a failed collect", turns: []rulvartest.Turn{{Calls: []rulvartest.Call{call("edit", "a.txt", "1\n"), call("spoil", "", "")}}, {Text: "done"}},
			kinds: []string{"worktree"}, note: "malformed index"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			if row.opts != nil {
				row.opts(&w.opts)
			}
			e := w.engine(t, row.turns...)
			out := w.run(t, e)
			var kinds []string
			for _, a := range out.Value.Artifacts {
				kinds = append(kinds, a.Kind)
				if a.Kind == rulvar.ArtifactTree {
					require.FileExists(t, filepath.Join(a.Ref, "a.txt"))
					require.Contains(t, a.Note, row.note)
				}
			}
			require.Equal(t, row.kinds, kinds, "%v", out.Err)
			removed, err := e.SweepTrees(t.Context())
			require.NoError(t, err)
			require.Empty(t, removed)
			if len(kinds) > 0 && kinds[len(kinds)-1] == rulvar.ArtifactTree {
				require.NotEmpty(t, leftOvers(t, w.repo, w.dir))
				require.NoError(t, e.DeleteRun(t.Context(), "r1"))
				removed, err = e.SweepTrees(t.Context())
				require.NoError(t, err)
				require.Len(t, removed, 1)
			}
			require.Empty(t, leftOvers(t, w.repo, w.dir))
		})
	}
}

func TestSpawnRefused(t *testing.T) {
	w := newWorld(t)
	w.opts.RepoRoot = t.TempDir()
	for _, iso := range []rulvar.Isolation{rulvar.Worktree(), rulvar.Worktree("")} {
		p := rulvartest.NewProvider("m", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "x"}}})
		e := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{p}, Model: "m:x", Isolation: newProvider(t, w.opts)})
		h, err := rulvar.Run(t.Context(), e, rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ string) (string, error) {
			return rulvar.Agent[string](c, "x", &rulvar.AgentOptions{Isolation: &iso})
		}), "", nil)
		require.NoError(t, err)
		_, err = h.Result(t.Context())
		require.ErrorIs(t, err, rulvar.ErrConfig)
		require.Empty(t, p.Requests())
		trees, err := os.ReadDir(w.dir)
		require.NoError(t, err)
		require.Empty(t, trees)
	}
	require.True(t, strings.HasPrefix(string(isolation.KeepParked), "parked"))
}
