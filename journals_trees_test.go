package rulvar_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

// newFixtureTrees makes the scenario's repository and a provider on it.
func newFixtureTrees(t *testing.T, spec json.RawMessage) *worktree.GitProvider {
	t.Helper()
	var repo struct {
		Files   map[string]string
		Message string
	}
	require.NoError(t, json.Unmarshal(spec, &repo))
	dir := t.TempDir()
	for name, text := range repo.Files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", repo.Message}} {
		gitIn(t, dir, args...)
	}
	p, err := worktree.NewGitProvider(&worktree.GitOptions{RepoRoot: dir, Dir: t.TempDir(), OnWarn: func(msg string) { t.Log(msg) }})
	require.NoError(t, err)
	return p
}

func gitIn(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %q: %s", args, out)
}

// fixtureTrees is the provider of one segment. A segment that was stopped is
// dead: what it does to its trees while it is being cancelled did not happen.
type fixtureTrees struct {
	*worktree.GitProvider
	stopped chan struct{}
}

func (p *fixtureTrees) Release(ctx context.Context, tree isolation.Tree, how isolation.Release) (bool, error) {
	select {
	case <-p.stopped:
		return true, nil
	default:
		return p.GitProvider.Release(ctx, tree, how)
	}
}

// artifactFacts is what both systems say of an artifact. They name the blob of
// a patch differently; a scenario has one agent, whose patch is the second
// blob of the reference's.
func artifactFacts(list []rulvar.Artifact) []map[string]any {
	facts := []map[string]any{}
	for _, a := range list {
		ref := a.Ref
		if run, _, ok := strings.Cut(ref, "/patch/"); ok && a.Kind == rulvar.ArtifactPatch {
			ref = run + "/t1"
		}
		facts = append(facts, map[string]any{"id": a.ID, "kind": a.Kind, "files": a.Files, "ref": ref})
	}
	return facts
}
