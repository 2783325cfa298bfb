package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	git5 "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// repo is the host's repository as it is on disk.
type repo struct {
	root   string // of the work tree; empty where the repository is bare
	dir    string // the git directory, which has HEAD
	common string // the git directory that linked worktrees share
	core   map[string]string
}

// findRepo finds the repository that root lies in and refuses what cannot be
// worked with.
func (g *git) findRepo(ctx context.Context, root string) (*repo, error) {
	refuse := func(msg string, err error) (*repo, error) {
		return nil, errs.Wrap(errs.Config, "worktree", root, msg, err)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return refuse("the path cannot be resolved", err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return refuse("the repository's directory cannot be read", err)
	}
	r := &repo{}
	for at := abs; ; at = filepath.Dir(at) {
		if dir, ok := gitDirOf(filepath.Join(at, ".git")); ok {
			r.root, r.dir = at, dir
			break
		}
		if isGitDir(at) {
			r.dir = at
			break
		}
		if at == filepath.Dir(at) {
			return refuse("this is not a git repository: worktree isolation needs one", nil)
		}
	}
	r.common = r.dir
	if text, err := os.ReadFile(filepath.Join(r.dir, "commondir")); err == nil {
		r.common = resolvePath(r.dir, string(text))
	}
	if err := r.readConfig(ctx, g); err != nil {
		return refuse("the repository's configuration cannot be read", err)
	}
	if f := r.core["extensions.objectformat"]; f != "" && !strings.EqualFold(f, "sha1") {
		return refuse(fmt.Sprintf("the repository's objects are %s: only repositories with SHA-1 objects can be worked with", f), nil)
	}
	return r, nil
}

// gitDirOf resolves a .git, which is a directory or a file that names one.
func gitDirOf(path string) (string, bool) {
	if isGitDir(path) {
		return path, true
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	target, ok := strings.CutPrefix(string(text), "gitdir:")
	if !ok {
		return "", false
	}
	dir := resolvePath(filepath.Dir(path), target)
	return dir, isGitDir(dir)
}

func resolvePath(from, text string) string {
	path := strings.TrimSpace(text)
	if !filepath.IsAbs(path) {
		path = filepath.Join(from, path)
	}
	return filepath.Clean(path)
}

// isGitDir reports whether dir is a git directory, or that of a linked
// worktree, which has its objects elsewhere.
func isGitDir(dir string) bool {
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return there("HEAD") && (there("objects") && there("refs") || there("commondir"))
}

// safeKeys are what is taken over from the repository's configuration: how its
// file system is, and how its objects are named.
var safeKeys = map[string]bool{
	"core.filemode": true, "core.symlinks": true, "core.ignorecase": true, "core.precomposeunicode": true, "core.longpaths": true,
	"core.autocrlf": true, "core.eol": true, "extensions.objectformat": true,
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9]{1,16}$`)

func (r *repo) readConfig(ctx context.Context, g *git) error {
	r.core = make(map[string]string)
	path := filepath.Join(r.common, "config")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	take := func(key, value string) {
		key = strings.ToLower(key)
		if safeKeys[key] && plainWord.MatchString(value) {
			r.core[key] = value
		}
	}
	if parsed, err := parseConfig(text); err == nil {
		for _, name := range []string{"core", "extensions"} {
			for _, o := range parsed.Section(name).Options {
				take(name+"."+o.Key, o.Value)
			}
		}
		return nil
	}
	// go-git does not read every configuration that git reads.
	out, err := g.run(ctx, gitCall{}, "config", "--file", path, "--no-includes", "--null", "--list")
	if err != nil {
		return err
	}
	for _, pair := range splitNul(out) {
		key, value, found := strings.Cut(pair, "\n")
		if !found {
			value = "true"
		}
		take(key, value)
	}
	return nil
}

// parseConfig reads a configuration with go-git, without its includes.
func parseConfig(text []byte) (c *config.Config, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("the configuration cannot be parsed: %v", p)
		}
	}()
	c = config.New()
	return c, config.NewDecoder(bytes.NewReader(text)).Decode(c)
}

// branchName is a ref that go-git resolves as git does.
var branchName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`)

// resolve returns the commit that ref names; empty is HEAD.
func (r *repo) resolve(ctx context.Context, g *git, ref string) (string, error) {
	if err := checkRef(ref); err != nil {
		return "", err
	}
	if hash := r.branch(ref); hash != "" {
		return hash, nil
	}
	name := ref
	if name == "" {
		name = "HEAD"
	}
	out, err := g.run(ctx, gitCall{dir: r.dir}, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	hash := strings.TrimSpace(string(out))
	switch {
	case err == nil && plumbing.IsHash(hash):
		return hash, nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case ref == "":
		return "", errs.Wrap(errs.Config, "worktree", r.dir, "the repository has no commit: a worktree needs one to begin from", err)
	}
	return "", errs.Wrap(errs.Config, "worktree", ref, "the ref does not name a commit of the repository", err)
}

func checkRef(ref string) error {
	refuse := func(msg string) error { return errs.New(errs.Config, "worktree", fmt.Sprintf("%q", ref), msg) }
	switch {
	case strings.HasPrefix(ref, "-"):
		return refuse("a ref does not begin with a dash: it looks like an option")
	case len(ref) > 1024:
		return refuse("the ref is too long")
	case strings.ContainsFunc(ref, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }):
		return refuse("the ref holds a control character or is not UTF-8")
	case strings.Contains(ref, ":"):
		return refuse("the ref names a file or a search, not a commit")
	}
	return nil
}

// branch resolves HEAD or a branch with go-git, which reads no object for it.
// It is empty where git must be asked: for other names, for one that is also a
// tag's, and for repositories that go-git does not open.
func (r *repo) branch(ref string) (hash string) {
	defer func() {
		if recover() != nil {
			hash = ""
		}
	}()
	if ref != "" && ref != "HEAD" && (!branchName.MatchString(ref) || plumbing.IsHash(ref)) {
		return ""
	}
	where := r.root
	if where == "" {
		where = r.dir
	}
	opened, err := git5.PlainOpenWithOptions(where, &git5.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return ""
	}
	if ref == "" || ref == "HEAD" {
		if head, err := opened.Reference(plumbing.HEAD, true); err == nil && !head.Hash().IsZero() {
			return head.Hash().String()
		}
		return ""
	}
	for _, other := range []string{ref, "refs/" + ref, "refs/tags/" + ref} {
		if _, err := opened.Reference(plumbing.ReferenceName(other), false); err == nil {
			return ""
		}
	}
	head, err := opened.Reference(plumbing.NewBranchReferenceName(ref), true)
	if err != nil || head.Hash().IsZero() {
		return ""
	}
	return head.Hash().String()
}
