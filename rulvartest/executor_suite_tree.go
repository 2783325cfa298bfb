package rulvartest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/llm"
)

// oneTree gives every agent the same directory.
type oneTree string

func (t oneTree) Acquire(context.Context, isolation.Request) (isolation.Tree, error) {
	return isolation.Tree{ID: "tree", Path: string(t), Base: "base"}, nil
}
func (oneTree) Reattach(context.Context, isolation.Tree) error { return nil }
func (oneTree) Collect(context.Context, isolation.Tree) (isolation.Patch, error) {
	return isolation.Patch{}, nil
}
func (oneTree) Release(context.Context, isolation.Tree, isolation.Release) (bool, error) {
	return false, nil
}
func (oneTree) Trees(context.Context) ([]isolation.Tree, error) { return nil, nil }

// toolFor makes a tool of a program that an executor serves, and says under
// which kind.
func (u *executorTest) toolFor(x rulvar.ToolExecutor, p executor.Program) (*rulvar.Tool, rulvar.ExecutorKind) {
	u.Helper()
	var refused error
	for _, kind := range []rulvar.ExecutorKind{rulvar.ExecutorSubprocess, rulvar.ExecutorContainer} {
		tool, err := executor.NewTool[struct{}](rulvar.ToolConfig{Name: "suite_tool", Executor: kind}, p)
		if err != nil {
			u.Fatal(err)
		}
		c, checks := x.(interface{ CheckTool(*rulvar.Tool) error })
		if !checks {
			return tool, kind
		}
		if err = c.CheckTool(tool); err == nil {
			return tool, kind
		}
		refused = errors.Join(refused, err)
	}
	u.Fatalf("the executor serves the tool under no kind: %v", refused)
	return nil, ""
}

// agentCalls has an agent of an isolation call a program once, and returns what
// the model sees of it.
func (u *executorTest) agentCalls(x rulvar.ToolExecutor, p executor.Program, tree string, iso rulvar.Isolation) json.RawMessage {
	u.Helper()
	tool, kind := u.toolFor(x, p)
	model := NewProvider("suite", Script{Turns: []Turn{{Calls: []Call{{ID: "c1", Tool: "suite_tool"}}}, {Text: "done"}}})
	engine := NewEngine(u.TB, rulvar.Config{
		Providers: []llm.Provider{model}, Model: "suite:model", Isolation: oneTree(tree), Cwd: tree,
		Executors: map[rulvar.ExecutorKind]rulvar.ToolExecutor{kind: x},
	})
	workflow := rulvar.DefineWorkflow("suite", func(c *rulvar.Ctx, _ string) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}, Isolation: &iso})
	})
	run, err := rulvar.Run(u.Context(), engine, workflow, "", nil)
	if err != nil {
		u.Fatal(err)
	}
	if _, err := run.Result(u.Context()); err != nil {
		u.Fatal(err)
	}
	requests := model.Requests()
	last := requests[len(requests)-1].Messages
	return last[len(last)-1].Parts[0].Result
}

// checkTree has a program change a file of the agent's tree, and no other
// agent's.
func checkTree(u *executorTest) {
	const script = `read -r word < file && test "$word" = before && echo after > file && echo true`
	program := executor.Program{Command: "/bin/sh", Args: []string{"-c", script}, InTree: true}
	for _, row := range []struct {
		name      string
		program   executor.Program
		isolation rulvar.Isolation
		want      string // in the file
	}{
		{"in its tree", program, rulvar.Worktree(), "after\n"},
		{"an agent without a tree", program, rulvar.Isolation{}, "before\n"},
		{"an agent that is to change nothing", program, rulvar.Readonly(), "before\n"},
		{"a program that does not ask for it", executor.Program{Command: program.Command, Args: program.Args}, rulvar.Worktree(), "before\n"},
	} {
		tree := u.TempDir()
		file := filepath.Join(tree, "file")
		if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
			u.Fatal(err)
		}
		result := u.agentCalls(u.open(&ExecutorSetup{}), row.program, tree, row.isolation)
		now, err := os.ReadFile(file)
		if err != nil || string(now) != row.want || (string(result) == "true") != (row.want == "after\n") {
			u.Fatalf("%s: the file holds %q (%v), the result is %s; want %q", row.name, now, err, result, row.want)
		}
		if entries, _ := os.ReadDir(tree); len(entries) != 1 {
			u.Fatalf("%s: the tree holds %d files, want one", row.name, len(entries))
		}
	}
}
