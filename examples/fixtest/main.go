// Command fixtest has an agent fix a failing test in a git worktree of its
// own. The host's files stay as they are until the host, which has looked at
// the patch, applies it.
//
//	go run ./examples/fixtest
//
// It needs Go and git and nothing else: the model is a small local one that
// reads the tools' results (model.go). The repository is made in a temporary
// directory and removed again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/worktree"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := story(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fixtest:", err)
		os.Exit(1)
	}
}

// story makes a repository with a failing test, has it fixed, and applies the
// fix.
func story(ctx context.Context, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "fixtest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repo := filepath.Join(dir, "repo")
	if err := makeRepo(ctx, repo); err != nil {
		return err
	}
	out, passed := runTests(ctx, repo)
	if passed {
		return errors.New("the test passes before anything is fixed")
	}
	fmt.Fprintf(w, "== on the host, before\n%s\n", out)
	patch, err := fix(ctx, w, dir, repo)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "== the patch\n%s\n", patch)
	if _, passed := runTests(ctx, repo); passed {
		return errors.New("the host's files were changed")
	}
	if err := worktree.ApplyPatch(ctx, repo, patch, nil); err != nil {
		return err
	}
	out, passed = runTests(ctx, repo)
	fmt.Fprintf(w, "== on the host, with the patch applied\n%s", out)
	if !passed {
		return errors.New("the test still fails")
	}
	return nil
}

// fix runs the agent and returns the patch that it leaves.
func fix(ctx context.Context, w io.Writer, dir, repo string) (patch []byte, err error) {
	trees, err := worktree.NewGitProvider(&worktree.GitOptions{RepoRoot: repo, Dir: filepath.Join(dir, "trees")})
	if err != nil {
		return nil, err
	}
	store, err := rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
	if err != nil {
		return nil, err
	}
	tools, err := newTools()
	if err != nil {
		return nil, err
	}
	engine, err := rulvar.NewEngine(rulvar.Config{Store: store, Providers: []llm.Provider{localModel{}}, Model: "local:rules", Isolation: trees})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close(context.WithoutCancel(ctx))) }()
	isolation := rulvar.Worktree()
	fixTest := rulvar.DefineWorkflow("fix-test", func(c *rulvar.Ctx, task string) (rulvar.AgentResult[string], error) {
		return rulvar.AgentFull[string](c, task, &rulvar.AgentOptions{Isolation: &isolation, Tools: tools})
	})
	h, err := rulvar.Run(ctx, engine, fixTest, "Fix the failing test.", &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if call, ok := ev.Body.(rulvar.ToolEnded); ok {
			fmt.Fprintf(w, "the agent called %s: %s\n", call.ToolName, call.Outcome)
		}
	}})
	if err != nil {
		return nil, err
	}
	out, err := h.Result(ctx)
	if err != nil {
		return nil, err
	}
	if out.Value.Err != nil {
		return nil, out.Value.Err
	}
	fmt.Fprintf(w, "the agent: %s\n\n", out.Value.Output)
	for _, a := range out.Value.Artifacts {
		if a.Kind == rulvar.ArtifactPatch {
			return store.Get(ctx, a.Ref)
		}
	}
	return nil, errors.New("the agent has left no patch")
}
