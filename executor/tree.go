package executor

import (
	"fmt"
	"os"
	"path/filepath"

	rulvar "github.com/rulvar/rulvar-go"
)

// treeOf is the directory of an agent whose program works in it, or says why
// there is none. Without worktree isolation the agent's directory is the host's
// own, with whatever the host keeps there.
func treeOf(tc *rulvar.ToolContext, p Program) (dir, msg string) {
	if !p.InTree {
		return "", ""
	}
	if kind := tc.Isolation().Kind(); kind != rulvar.IsolationWorktree {
		return "", fmt.Sprintf("its program works in the agent's own tree, and the agent's isolation is %q: start the agent with rulvar.Worktree, or leave Program.InTree out", kind)
	}
	dir = tc.Cwd()
	if !filepath.IsAbs(dir) || filepath.Clean(dir) == string(filepath.Separator) {
		return "", fmt.Sprintf("the agent's tree %q is no absolute path of a directory of its own", dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Sprintf("the agent's tree %q is no directory", dir)
	}
	return filepath.Clean(dir), ""
}

// checkTool refuses a tool whose spec could not be run, or that is meant for
// another executor: a program that is to have a container gets no less.
func (d *dispatcher) checkTool(t *rulvar.Tool) error {
	path := fmt.Sprintf("tool %q", t.Name())
	switch {
	case d.launch == nil:
		return configError("CheckTool", path, "the executor is a zero value: make it with NewSubprocess or NewContainer")
	case t.Executor() != d.kind:
		return configError("CheckTool", path, fmt.Sprintf("the tool is to run as %q and the executor that is registered for that runs %q", t.Executor(), d.kind))
	}
	if _, msg := programOf(t.ExecutorSpec(), d.program); msg != "" {
		return configError("CheckTool", path, msg)
	}
	return nil
}
