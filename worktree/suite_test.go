package worktree_test

import (
	"testing"

	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/worktree"
)

func TestIsolationSuite(t *testing.T) {
	rulvartest.RunIsolationSuite(t, func(t *testing.T) rulvartest.Isolation {
		repo := newRepo(t)
		return rulvartest.Isolation{
			Provider: newProvider(t, worktree.GitOptions{RepoRoot: repo}),
			Apply:    func(t testing.TB, base string, patch []byte) string { return applied(t, repo, base, patch) },
		}
	})
}
