package worktree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

func TestPatchIsTheTree(t *testing.T) {
	rows := []struct {
		name    string
		work    func(t *testing.T, dir string)
		files   []string
		ignored []string
		// unlike names files that the tree has and the patch does not.
		unlike []string
		// noReturn: the attributes that the patch brings hold for its reversal.
		noReturn bool
	}{
		{name: "nothing", work: func(*testing.T, string) {}, files: []string{}},
		{name: "edit, create, delete", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"src/main.txt": "line 1\nline two\n", "new.txt": "brand new\n"})
			require.NoError(t, os.Remove(filepath.Join(dir, "README.md")))
		}, files: []string{"README.md", "new.txt", "src/main.txt"}},
		{name: "an edit of the same size at once", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"src/deep/er.txt": "y\n"})
		}, files: []string{"src/deep/er.txt"}},
		{name: "touched only", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"README.md": "hello\n"})
		}, files: []string{}},
		{name: "binary, not UTF-8, carriage returns, no newline", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{
				"data.bin": "\x00\x01\x03\xfe\xff", "new.bin": string([]byte{0, 1, 2, 3, 0}), "latin1.txt": "th\xe9\n",
				"crlf.txt": "a\r\nc\r\n", "cr.txt": "a\rb", "none.txt": "no newline", "empty.txt": "",
			})
		}, files: []string{"cr.txt", "crlf.txt", "data.bin", "empty.txt", "latin1.txt", "new.bin", "none.txt"}},
		{name: "odd names", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{
				"naïve/文字.txt": "u\n", "new\nline.txt": "n\n", "tab\there": "t\n", `quo"te`: "q\n", "-dash": "d\n",
				":(top)x": "p\n", "*": "s\n", " lead": "l\n", "raw\xff": "r\n", "sp ace/f.txt": "2\n",
			})
		}, files: []string{" lead", "*", "-dash", ":(top)x", "naïve/文字.txt", "new\nline.txt", `quo"te`, "raw\uFFFD", "sp ace/f.txt", "tab\there"}},
		{name: "modes", work: func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(filepath.Join(dir, "README.md"), 0o755))
			require.NoError(t, os.Chmod(filepath.Join(dir, "bin/tool"), 0o644))
		}, files: []string{"README.md", "bin/tool"}},
		{name: "links", work: func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "link")))
			require.NoError(t, os.Symlink("src", filepath.Join(dir, "link")))
			require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "away")))
			require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
		}, files: []string{"away", "dangling", "link"}},
		{name: "a directory becomes a link, a file a directory", work: func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "src")))
			require.NoError(t, os.Symlink("bin", filepath.Join(dir, "src")))
			require.NoError(t, os.Remove(filepath.Join(dir, "README.md")))
			write(t, dir, map[string]string{"README.md/inside": "i\n"})
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "sp ace")))
			write(t, dir, map[string]string{"sp ace": "now a file\n"})
		}, files: []string{"README.md", "README.md/inside", "sp ace", "sp ace/f.txt", "src", "src/deep/er.txt", "src/main.txt"}},
		{name: "commits, staged and not", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"one.txt": "1\n"})
			gitIn(t, dir, "add", "-A")
			gitIn(t, dir, "commit", "-qm", "of the agent")
			write(t, dir, map[string]string{"two.txt": "2\n"})
			gitIn(t, dir, "add", "two.txt")
			write(t, dir, map[string]string{"two.txt": "2b\n", "three.txt": "3\n"})
		}, files: []string{"one.txt", "three.txt", "two.txt"}},
		{name: "a branch of the agent's", work: func(t *testing.T, dir string) {
			gitIn(t, dir, "checkout", "-qb", "mine")
			write(t, dir, map[string]string{"one.txt": "1\n"})
			gitIn(t, dir, "add", "-A")
			gitIn(t, dir, "commit", "-qm", "of the agent")
		}, files: []string{"one.txt"}},
		{name: "flags that hide changes from git", work: func(t *testing.T, dir string) {
			gitIn(t, dir, "update-index", "--assume-unchanged", "README.md")
			gitIn(t, dir, "update-index", "--skip-worktree", "src/main.txt")
			write(t, dir, map[string]string{"README.md": "hidden\n", "src/main.txt": "hidden\n"})
		}, files: []string{"README.md", "src/main.txt"}},
		{name: "attributes that would change the bytes", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{
				".gitattributes": "* text=auto eol=crlf\n*.txt ident working-tree-encoding=UTF-16 -diff filter=x\n",
				"mixed.txt":      "a\r\nb\n$Id$\n", "src/main.txt": "line 1\r\nline 2\n",
			})
		}, files: []string{".gitattributes", "mixed.txt", "src/main.txt"}, noReturn: true},
		{name: "ignored files", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"a.log": "l\n", "build/x/y.o": "o\n", ".env": "s\n", "pkg/new.txt": "n\n", "pkg/b.log": "l\n", "pkg/build/z": "z\n"})
		}, files: []string{"pkg/new.txt"}, ignored: []string{".env", "a.log", "build/", "pkg/b.log", "pkg/build/"},
			unlike: []string{".env", "a.log", "build/x/y.o", "pkg/b.log", "pkg/build/z"}},
		{name: "ignored files that were added all the same", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"build/keep.o": "o\n", "forced.log": "l\n", "build/not.o": "o\n"})
			gitIn(t, dir, "add", "-f", "forced.log", "build/keep.o")
			gitIn(t, dir, "commit", "-qm", "forced")
		}, files: []string{"build/keep.o", "forced.log"}, ignored: []string{"build/not.o"}, unlike: []string{"build/not.o"}},
		{name: "an ignore rule of the agent's over tracked files", work: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{".gitignore": "*\n", "src/main.txt": "changed\n"})
		}, files: []string{".gitignore", "src/main.txt"}},
		{name: "a repository inside", work: func(t *testing.T, dir string) {
			sub := filepath.Join(dir, "vendor/lib")
			require.NoError(t, os.MkdirAll(sub, 0o777))
			gitIn(t, sub, "init", "-q")
			write(t, sub, map[string]string{"lib.txt": "lib\n", "d/e.txt": "e\n"})
			gitIn(t, sub, "add", "-A")
			gitIn(t, sub, "commit", "-qm", "lib")
		}, files: []string{"vendor/lib/d/e.txt", "vendor/lib/lib.txt"}, ignored: []string{"vendor/lib/.git/"}},
		{name: "an index that is none", work: func(t *testing.T, dir string) {
			index := gitIn(t, dir, "rev-parse", "--git-path", "index")
			require.NoError(t, os.WriteFile(index[:len(index)-1], []byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xffrubbish"), 0o666))
			write(t, dir, map[string]string{"new.txt": "n\n"})
		}, files: []string{"new.txt"}},
		{name: "a .git that leads elsewhere", work: func(t *testing.T, dir string) {
			evil := filepath.Join(t.TempDir(), "evil")
			require.NoError(t, os.MkdirAll(evil, 0o777))
			gitIn(t, evil, "init", "-q")
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: "+evil+"/.git\n"), 0o666))
			write(t, dir, map[string]string{"new.txt": "n\n"})
		}, files: []string{"new.txt"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			repo, dir := newRepo(t), t.TempDir()
			p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir})
			host := listing(t, repo)
			tree := acquire(t, p, "")
			require.Equal(t, host, listing(t, tree.Path))
			require.Empty(t, gitIn(t, tree.Path, "status", "--porcelain"))
			row.work(t, tree.Path)
			want := listing(t, tree.Path)
			patch, err := p.Collect(t.Context(), tree)
			require.NoError(t, err)
			require.Equal(t, row.files, patch.Files)
			require.ElementsMatch(t, row.ignored, patch.Ignored)
			for _, name := range row.unlike {
				delete(want, name)
			}
			for name := range want {
				if inGitDir(name) {
					delete(want, name)
				}
			}
			require.Equal(t, want, listing(t, applied(t, repo, tree.Base, patch.Patch)))
			again, err := p.Collect(t.Context(), tree)
			require.NoError(t, err)
			require.Equal(t, patch, again)
			require.Equal(t, host, listing(t, repo))
			kept, err := p.Release(t.Context(), tree, isolation.Release{Snapshot: patch.Snapshot})
			require.NoError(t, err)
			require.False(t, kept)
			require.Empty(t, leftOvers(t, repo, dir))
			require.NoError(t, worktree.ApplyPatch(t.Context(), repo, patch.Patch, nil))
			require.Equal(t, want, listing(t, repo))
			if row.noReturn {
				return
			}
			require.NoError(t, worktree.ApplyPatch(t.Context(), repo, patch.Patch, &worktree.ApplyOptions{Reverse: true}))
			require.Equal(t, host, listing(t, repo))
		})
	}
}

func inGitDir(name string) bool {
	for d := filepath.Dir(name); d != "."; d = filepath.Dir(d) {
		if filepath.Base(d) == ".git" {
			return true
		}
	}
	return false
}

func TestRefused(t *testing.T) {
	repo := newRepo(t)
	gitIn(t, repo, "tag", "-a", "-m", "v1", "v1")
	gitIn(t, repo, "branch", "feature/x")
	empty := realDir(t)
	gitIn(t, empty, "init", "-q")
	sha256 := realDir(t)
	if out, err := tryGit(sha256, "init", "-q", "--object-format=sha256"); err != nil {
		t.Logf("no SHA-256 repositories here: %s", out)
		sha256 = empty
	}
	for _, row := range []struct{ name, repo, ref, says string }{
		{"no repository", t.TempDir(), "", "not a git repository"},
		{"no directory", filepath.Join(repo, "nowhere"), "", "cannot be read"},
		{"no commit", empty, "", "no commit"},
		{"no commit, a branch", empty, "main", "does not name a commit"},
		{"an unknown ref", repo, "nope", "does not name a commit"},
		{"an option", repo, "--upload-pack=touch pwned", "looks like an option"},
		{"a short option", repo, "-h", "looks like an option"},
		{"a file", repo, "HEAD:README.md", "names a file"},
		{"a search", repo, ":/base", "names a file"},
		{"a tree", repo, "HEAD^{tree}", "does not name a commit"},
		{"a newline", repo, "HEAD\nx", "control character"},
		{"an unknown commit", repo, "0123456789012345678901234567890123456789", "does not name a commit"},
		{"another object format", sha256, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			p := newProvider(t, worktree.GitOptions{RepoRoot: row.repo, Dir: dir})
			_, err := p.Acquire(t.Context(), isolation.Request{RunID: "r", Ref: row.ref})
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.says)
			require.Empty(t, leftOvers(t, row.repo, dir))
		})
	}
	head := gitIn(t, repo, "rev-parse", "HEAD")[:40]
	p := newProvider(t, worktree.GitOptions{RepoRoot: filepath.Join(repo, "src")})
	for _, ref := range []string{"", "HEAD", "main", "refs/heads/main", "feature/x", "v1", head, head[:12], "HEAD^{commit}", "main@{0}"} {
		require.Equal(t, head, acquire(t, p, ref).Base, "ref %q", ref)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, o := range []worktree.GitOptions{
		{MaxPinnedWorktrees: -2}, {PoolSize: -1}, {MaxPatchBytes: -1}, {CopyIgnored: []string{"../x"}}, {CopyIgnored: []string{"a["}},
		{CopyIgnored: []string{".git/config"}}, {CopyIgnored: []string{"/etc/passwd"}},
	} {
		_, err := worktree.NewGitProvider(&o)
		require.ErrorIs(t, err, rulvar.ErrConfig, "%+v", o)
	}
	repo := newRepo(t)
	p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: filepath.Join(repo, "trees")})
	_, err := p.Acquire(t.Context(), isolation.Request{RunID: "r"})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	t.Setenv("PATH", t.TempDir())
	_, err = worktree.NewGitProvider(nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = exec.LookPath("git")
	require.Error(t, err)
}
