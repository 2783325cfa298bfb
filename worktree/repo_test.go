package worktree_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

// gitIn runs git as a person would, with a configuration of nobody's.
func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	require.NoError(t, err, "git %q: %s", args, out)
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// hostFiles is what the host's repository begins with.
var hostFiles = map[string]string{
	"README.md": "hello\n", "src/main.txt": "line 1\nline 2\n", "src/deep/er.txt": "x\n", "bin/tool": "#!/bin/sh\n",
	".gitignore": "*.log\nbuild/\n.env\n", "latin1.txt": "caf\xe9\n", "data.bin": "\x00\x01\x02\xff",
	"crlf.txt": "a\r\nb\r\n", "sp ace/f.txt": "1\n",
}

// template is the repository that newRepo copies.
var template struct {
	sync.Once
	dir string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if template.dir != "" {
		_ = os.RemoveAll(template.dir)
	}
	os.Exit(code)
}

// newRepo makes a repository with one commit.
func newRepo(t testing.TB) string {
	t.Helper()
	template.Do(func() {
		dir, err := os.MkdirTemp("", "worktree-repo-")
		require.NoError(t, err)
		template.dir = dir
		gitIn(t, dir, "init", "-q", "-b", "main")
		write(t, dir, hostFiles)
		require.NoError(t, os.Chmod(filepath.Join(dir, "bin/tool"), 0o755))
		require.NoError(t, os.Symlink("README.md", filepath.Join(dir, "link")))
		gitIn(t, dir, "add", "-A")
		gitIn(t, dir, "commit", "-qm", "base")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, ".git", "hooks")))
	})
	dir := filepath.Join(realDir(t), "repo")
	require.NoError(t, os.CopyFS(dir, os.DirFS(template.dir)))
	return dir
}

func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
}

func newProvider(t testing.TB, opts worktree.GitOptions) *worktree.GitProvider {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	if opts.OnWarn == nil {
		opts.OnWarn = func(msg string) { t.Log("warned: " + msg) }
	}
	p, err := worktree.NewGitProvider(&opts)
	require.NoError(t, err)
	return p
}

func acquire(t testing.TB, p *worktree.GitProvider, ref string) isolation.Tree {
	t.Helper()
	tree, err := p.Acquire(t.Context(), isolation.Request{RunID: "run", SpanID: "s1", Ref: ref})
	require.NoError(t, err)
	return tree
}

// listing is every file of a tree with its kind, mode and content; .git is
// left out.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if name == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[name] = "link to " + target
			return err
		}
		text, err := os.ReadFile(path)
		out[name] = fmt.Sprintf("%v %x", info.Mode()&0o111 != 0, sha256.Sum256(text))
		return err
	}))
	return out
}

// applied is the base commit with a patch applied by git itself.
func applied(t testing.TB, repo, base string, patch []byte) string {
	t.Helper()
	clone := filepath.Join(realDir(t), "clone")
	gitIn(t, repo, "clone", "-q", "--shared", repo, clone)
	require.Equal(t, base, strings.TrimSpace(gitIn(t, clone, "rev-parse", "HEAD")))
	if len(patch) > 0 {
		file := filepath.Join(t.TempDir(), "patch")
		require.NoError(t, os.WriteFile(file, patch, 0o666))
		gitIn(t, clone, "apply", "--binary", "--whitespace=nowarn", file)
	}
	return clone
}

// leftOvers is what a provider's directory and the repository hold of trees.
func leftOvers(t testing.TB, repo, dir string) []string {
	t.Helper()
	left := []string{}
	for _, d := range []string{dir, filepath.Join(repo, ".git", "worktrees")} {
		list, err := os.ReadDir(d)
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		for _, e := range list {
			if e.Name() != "lock" {
				left = append(left, filepath.Join(filepath.Base(d), e.Name()))
			}
		}
	}
	return left
}

// hostState is all of the host's work tree, its index and its refs.
func hostState(t testing.TB, repo string) string {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(repo, ".git", "index"))
	require.NoError(t, err)
	refs, err := tryGit(repo, "for-each-ref")
	require.NoError(t, err)
	head, err := os.ReadFile(filepath.Join(repo, ".git", "HEAD"))
	require.NoError(t, err)
	return strings.Join([]string{fmt.Sprint(listing(t, repo)), fmt.Sprintf("%x", sha256.Sum256(index)), refs, string(head)}, "\n")
}
