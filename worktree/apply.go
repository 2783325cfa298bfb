package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/process"
)

// ApplyOptions refine [ApplyPatch].
type ApplyOptions struct {
	// Check only says whether the patch applies. Default: it is applied.
	Check bool
	// Reverse takes the patch back. Default: it is applied forwards.
	Reverse bool
}

// ApplyPatch applies an agent's patch, which the host reads from its store, to
// the work tree of a repository. dir is the root of the work tree. The patch is
// applied whole or not at all; files that have changed since its base are
// accepted where the changed lines still fit. The index and the history stay as
// they are. nil options apply forwards.
//
// Nothing of the repository's configuration is run. Line endings are converted
// as its attributes and core.autocrlf say; files of git LFS are patched as the
// pointers that they are in the repository, so that a patch of one does not
// apply to a work tree that has its content.
//
// A patch is what a model made of your files: look at it before.
func ApplyPatch(ctx context.Context, dir string, patch []byte, opts *ApplyOptions) (err error) {
	if opts == nil {
		opts = &ApplyOptions{}
	}
	g, err := findGit(ctx)
	if err != nil {
		return err
	}
	r, err := g.findRepo(ctx, dir)
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil || r.root != abs {
		return errs.Wrap(errs.Config, "ApplyPatch", dir, "this is not the root of a work tree, which is "+r.root, err)
	}
	if len(patch) == 0 {
		return nil
	}
	private, err := os.MkdirTemp("", "rulvar-apply-")
	if err != nil {
		return err
	}
	defer func() { _ = process.RemoveAll(private) }()
	if err := r.makePrivate(private, emptyCommit); err != nil {
		return err
	}
	config := r.settings("filemode", "symlinks", "ignorecase", "precomposeunicode", "longpaths", "autocrlf", "eol")
	if err := os.WriteFile(filepath.Join(private, "config"), []byte(config), 0o666); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(private, "info", "attributes")); err != nil {
		return err
	}
	args := []string{"apply", "--binary", "--whitespace=nowarn", "-p1"}
	if opts.Reverse {
		args = append(args, "--reverse")
	}
	c := gitCall{dir: private, tree: r.root, stdin: patch}
	// A check first: an apply that fails half way may have written files.
	if _, err := g.run(ctx, c, append(args[:len(args):len(args)], "--check")...); err != nil {
		return errs.Wrap(errs.Plain, "ApplyPatch", dir, "the patch does not apply; nothing was changed", err)
	}
	if opts.Check {
		return nil
	}
	if _, err := g.run(ctx, c, args...); err != nil {
		return errs.Wrap(errs.Plain, "ApplyPatch", dir, fmt.Sprintf("the patch applies but could not be written whole: compare %s with the patch", dir), err)
	}
	return nil
}

// emptyCommit stands in HEAD where no commit is needed.
const emptyCommit = "0000000000000000000000000000000000000001"
