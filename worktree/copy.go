package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

func checkPatterns(patterns []string) error {
	for i, p := range patterns {
		_, err := path.Match(p, "")
		if err != nil || !fs.ValidPath(p) || p == "." || p == ".git" || strings.HasPrefix(p, ".git/") {
			return errs.Wrap(errs.Config, "NewGitProvider", fmt.Sprintf("CopyIgnored[%d]", i), fmt.Sprintf("%q is no path from the repository's root", p), err)
		}
	}
	return nil
}

// copyIgnored copies what the host's work tree has of the wanted ignored files.
func (p *GitProvider) copyIgnored(ctx context.Context, r *repo, t *record) error {
	if len(p.opts.CopyIgnored) == 0 || r.root == "" {
		return nil
	}
	var names []string
	for _, pattern := range p.opts.CopyIgnored {
		found, err := fs.Glob(os.DirFS(r.root), pattern)
		if err != nil {
			return err
		}
		for _, name := range found {
			if name == ".git" {
				continue
			}
			name = "./" + name // so that no name looks like pathspec magic
			if info, err := os.Lstat(filepath.Join(r.root, filepath.FromSlash(name))); err == nil && info.IsDir() {
				name += "/" // rules may be for directories only
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	// The rules are those of the base, which the new tree holds; what the base
	// has itself is not ignored.
	out, err := p.git.run(ctx, gitCall{dir: t.private(), tree: t.Path, stdin: joinNul(names), magic: true}, "check-ignore", "-z", "--stdin")
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil // none of them is ignored
	}
	if err != nil {
		return err
	}
	dst, err := os.OpenRoot(t.Path)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	for _, name := range splitNul(out) {
		if err := copyTree(ctx, r.root, dst, path.Clean(name)); err != nil {
			return fmt.Errorf("the ignored file %q could not be copied: %w", name, err)
		}
	}
	return nil
}

// copyTree copies a file, a link or a directory to the same place in dst.
// What is there already stays.
func copyTree(ctx context.Context, root string, dst *os.Root, name string) error {
	if err := dst.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(root, filepath.FromSlash(name)), func(from string, d os.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, from)
		if err != nil {
			return err
		}
		switch {
		case d.Name() == ".git":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return dst.MkdirAll(rel, 0o777)
		case d.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err != nil {
				return err
			}
			return there(dst.Symlink(target, rel))
		case d.Type().IsRegular():
			return copyFile(from, dst, rel)
		}
		return nil // a socket or the like
	})
}

func copyFile(from string, dst *os.Root, rel string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	out, err := dst.OpenFile(rel, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o200)
	if err != nil {
		return there(err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, src)
	return err
}

func there(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
