package worktree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

// trap is a configuration that tries to run a program at every place that git
// has for one.
func trap(mark string) string {
	run := "touch " + mark + "; cat #"
	return strings.ReplaceAll(`
[core]
	fsmonitor = RUN
	pager = RUN
	editor = RUN
	sshCommand = RUN
	askPass = RUN
	gitProxy = RUN
	alternateRefsCommand = RUN
	hooksPath = HOOKS
	untrackedCache = true
	attributesFile = ATTRIBUTES
[diff]
	external = RUN
	noprefix = true
	mnemonicPrefix = true
	renames = copies
	algorithm = patience
	context = 0
[diff "x"]
	command = RUN
	textconv = RUN
[filter "x"]
	clean = RUN
	smudge = RUN
	process = RUN
	required = true
[merge "x"]
	driver = RUN
[pager]
	diff = RUN
	status = RUN
[alias]
	read-tree = !RUN
	diff-index = !RUN
	worktree = !RUN
[credential]
	helper = !RUN
[gpg]
	program = RUN
[commit]
	gpgSign = true
[uploadpack]
	packObjectsHook = RUN
[remote "origin"]
	url = ext::RUN
	promisor = true
	partialclonefilter = blob:none
[protocol "ext"]
	allow = always
[extensions]
	worktreeConfig = true
[includeIf "gitdir:/"]
	path = INCLUDED
[color]
	ui = always
`, "RUN", run)
}

// spring sets the trap in a repository: as its configuration, as hooks, as
// attributes and in the environment.
func spring(t *testing.T, repo, common string) (mark string) {
	t.Helper()
	mark = filepath.Join(t.TempDir(), "pwned")
	side := t.TempDir()
	hooks := filepath.Join(side, "hooks")
	script := "#!/bin/sh\ntouch " + mark + "\n"
	for _, dir := range []string{hooks, filepath.Join(common, "hooks")} {
		require.NoError(t, os.MkdirAll(dir, 0o777))
		for _, h := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit", "applypatch-msg", "pre-applypatch", "post-applypatch", "fsmonitor-watchman", "pre-auto-gc"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, h), []byte(script), 0o755))
		}
	}
	write(t, side, map[string]string{"attributes": "* filter=x diff=x merge=x\n", "included": trap(mark)})
	text := strings.NewReplacer("HOOKS", hooks, "ATTRIBUTES", filepath.Join(side, "attributes"), "INCLUDED", filepath.Join(side, "included")).Replace(trap(mark))
	f, err := os.OpenFile(filepath.Join(common, "config"), os.O_APPEND|os.O_WRONLY, 0o666)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	write(t, common, map[string]string{"info/attributes": "* filter=x diff=x merge=x\n", "config.worktree": text})
	write(t, repo, map[string]string{".gitattributes": "* filter=x diff=x merge=x\n"})
	return mark
}

func TestNothingOfTheRepositoryIsRun(t *testing.T) {
	for _, when := range []string{"before the tree is acquired", "by the agent"} {
		t.Run(when, func(t *testing.T) {
			repo, dir := newRepo(t), t.TempDir()
			gitIn(t, repo, "tag", "-a", "-m", "v1", "v1")
			before := listing(t, repo)
			common := filepath.Join(repo, ".git")
			p := newProvider(t, worktree.GitOptions{RepoRoot: repo, Dir: dir, PoolSize: 1, CopyIgnored: []string{".env"}})
			write(t, repo, map[string]string{".env": "secret\n"})
			mark := ""
			if when != "by the agent" {
				mark = spring(t, repo, common)
			}
			host := t.TempDir()
			for _, name := range []string{"GIT_DIR", "GIT_CONFIG_GLOBAL", "GIT_EXTERNAL_DIFF", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PAGER", "GIT_SSH_COMMAND"} {
				t.Setenv(name, filepath.Join(host, "evil"))
			}
			t.Setenv("GIT_EXTERNAL_DIFF", "touch "+filepath.Join(host, "pwned")+"; true")
			for _, ref := range []string{"", "v1"} {
				tree := acquire(t, p, ref)
				if when == "by the agent" {
					mark = spring(t, tree.Path, common)
					write(t, filepath.Join(common, "worktrees", tree.ID), map[string]string{"config.worktree": trap(mark), "info/attributes": "* filter=x\n"})
				}
				write(t, tree.Path, map[string]string{"new.txt": "new\n", "README.md": "changed\n"})
				patch, err := p.Collect(t.Context(), tree)
				require.NoError(t, err)
				require.Contains(t, patch.Files, "new.txt")
				require.Contains(t, string(patch.Patch), "diff --git a/new.txt b/new.txt\nnew file mode 100644\n")
				require.Contains(t, string(patch.Patch), "\n-hello\n+changed\n")
				require.NoError(t, p.Reattach(t.Context(), tree))
				require.NoError(t, worktree.ApplyPatch(t.Context(), repo, patch.Patch, nil))
				require.NoError(t, worktree.ApplyPatch(t.Context(), repo, patch.Patch, &worktree.ApplyOptions{Reverse: true}))
				kept, err := p.Release(t.Context(), tree, isolation.Release{Snapshot: patch.Snapshot})
				require.NoError(t, err)
				require.False(t, kept)
				require.NoFileExists(t, mark)
				require.NoFileExists(t, filepath.Join(host, "pwned"))
			}
			require.NoError(t, p.Drain(t.Context()))
			require.Empty(t, leftOvers(t, repo, dir))
			after := listing(t, repo)
			delete(after, ".gitattributes")
			delete(after, ".env")
			require.Equal(t, before, after)
			require.NoFileExists(t, mark)
		})
	}
}

func TestUnusualRepositories(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(t *testing.T, repo string) (root string)
		see  func(t *testing.T, dir string)
		// fails is what Collect says after an edit, where it does.
		edit  func(t *testing.T, dir string)
		fails string
	}{
		{name: "a sparse checkout", make: func(t *testing.T, repo string) string {
			gitIn(t, repo, "sparse-checkout", "set", "src")
			return repo
		}, see: func(t *testing.T, dir string) {
			require.FileExists(t, filepath.Join(dir, "bin/tool"))
			require.Empty(t, gitIn(t, dir, "status", "--porcelain"))
		}},
		{name: "worktreeConfig", make: func(t *testing.T, repo string) string {
			gitIn(t, repo, "config", "extensions.worktreeConfig", "true")
			gitIn(t, repo, "config", "--worktree", "core.sparseCheckout", "true")
			return repo
		}, see: func(t *testing.T, dir string) { require.FileExists(t, filepath.Join(dir, "bin/tool")) }},
		{name: "a bare repository", make: func(t *testing.T, repo string) string {
			bare := filepath.Join(t.TempDir(), "b.git")
			gitIn(t, repo, "clone", "-q", "--bare", repo, bare)
			return bare
		}},
		{name: "a linked worktree as the host", make: func(t *testing.T, repo string) string {
			linked := filepath.Join(t.TempDir(), "linked")
			gitIn(t, repo, "worktree", "add", "-q", "--detach", linked)
			write(t, linked, map[string]string{"only.txt": "here\n"})
			gitIn(t, linked, "add", "-A")
			gitIn(t, linked, "commit", "-qm", "linked")
			return linked
		}, see: func(t *testing.T, dir string) { require.FileExists(t, filepath.Join(dir, "only.txt")) }},
		{name: "packed refs, packed objects, alternates", make: func(t *testing.T, repo string) string {
			gitIn(t, repo, "gc", "-q")
			clone := filepath.Join(t.TempDir(), "c")
			gitIn(t, repo, "clone", "-q", "--shared", repo, clone)
			return clone
		}},
		{name: "pointers of git LFS", make: func(t *testing.T, repo string) string {
			write(t, repo, map[string]string{".gitattributes": "*.psd filter=lfs diff=lfs merge=lfs -text\n", "a.psd": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"})
			gitIn(t, repo, "add", "-A")
			gitIn(t, repo, "commit", "-qm", "lfs")
			gitIn(t, repo, "config", "filter.lfs.smudge", "false")
			gitIn(t, repo, "config", "filter.lfs.required", "true")
			return repo
		}, see: func(t *testing.T, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, "a.psd"))
			require.NoError(t, err)
			require.Contains(t, string(text), "oid sha256:00")
		}},
		{name: "a submodule", make: submodule, see: func(t *testing.T, dir string) { require.DirExists(t, filepath.Join(dir, "sub")) }},
		{name: "a submodule that is filled", make: submodule, edit: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"sub/new.txt": "n\n"})
		}, fails: `submodule "sub"`},
		{name: "a pipe in place of a file", make: func(_ *testing.T, repo string) string { return repo }, edit: func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "README.md")))
			makePipe(t, filepath.Join(dir, "README.md"))
		}, fails: "README.md"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			root, dir := row.make(t, newRepo(t)), t.TempDir()
			p := newProvider(t, worktree.GitOptions{RepoRoot: root, Dir: dir})
			tree := acquire(t, p, "")
			if row.see != nil {
				row.see(t, tree.Path)
			}
			write(t, tree.Path, map[string]string{"new.txt": "n\n"})
			if row.edit != nil {
				row.edit(t, tree.Path)
			}
			patch, err := p.Collect(t.Context(), tree)
			if row.fails != "" {
				require.ErrorContains(t, err, row.fails)
				kept, err := p.Release(t.Context(), tree, isolation.Release{})
				require.Error(t, err)
				require.True(t, kept)
				require.DirExists(t, tree.Path)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"new.txt"}, patch.Files)
			_, err = p.Release(t.Context(), tree, isolation.Release{Snapshot: patch.Snapshot})
			require.NoError(t, err)
			require.NoDirExists(t, tree.Path)
		})
	}
}

func submodule(t *testing.T, repo string) string {
	other := newRepo(t)
	gitIn(t, repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", other, "sub")
	gitIn(t, repo, "commit", "-qm", "submodule")
	return repo
}
