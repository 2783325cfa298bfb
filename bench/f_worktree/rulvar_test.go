package worktree

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rulvar/rulvar-go/isolation"
	"github.com/rulvar/rulvar-go/worktree"
)

func newProvider(b *testing.B, src string, pool int) *worktree.GitProvider {
	p, err := worktree.NewGitProvider(&worktree.GitOptions{RepoRoot: src, Dir: b.TempDir(), PoolSize: pool, OnWarn: func(m string) { panic(m) }})
	must(err)
	return p
}

func acquire(p *worktree.GitProvider) isolation.Tree {
	tree, err := p.Acquire(context.Background(), isolation.Request{RunID: "bench"})
	must(err)
	return tree
}

// BenchmarkAcquire times the first step alone: a checkout that an agent can
// work in.
func BenchmarkAcquire(b *testing.B) {
	src := source()
	b.Run("git-cli-worktree-add", func(b *testing.B) {
		dst := filepath.Join(b.TempDir(), "wt")
		for b.Loop() {
			run(src, "git", "worktree", "add", "-q", "--detach", dst, "HEAD")
			b.StopTimer()
			run(src, "git", "worktree", "remove", "--force", dst)
			syscall.Sync()
			b.StartTimer()
		}
	})
	for name, pool := range map[string]int{"rulvar-cold": 0, "rulvar-pooled": 1} {
		b.Run(name, func(b *testing.B) {
			p := newProvider(b, src, pool)
			give := func(tree isolation.Tree) {
				_, err := p.Release(context.Background(), tree, isolation.Release{})
				must(err)
			}
			if pool > 0 {
				give(acquire(p)) // fills the pool
			}
			for b.Loop() {
				tree := acquire(p)
				b.StopTimer()
				give(tree)
				syscall.Sync()
				b.StartTimer()
			}
			must(p.Drain(context.Background()))
		})
	}
}

// rulvarCycle is the cycle of an agent's tree: acquired, edited, collected,
// proven to be as it was collected, and removed or put into the pool.
func rulvarCycle(b *testing.B, src string, pool int) {
	p := newProvider(b, src, pool)
	ctx := context.Background()
	var add, diff, remove time.Duration
	cycle := func() {
		t0 := time.Now()
		tree := acquire(p)
		t1 := time.Now()
		edit(tree.Path)
		t2 := time.Now()
		patch, err := p.Collect(ctx, tree)
		must(err)
		wantPatch(string(patch.Patch))
		t3 := time.Now()
		_, err = p.Release(ctx, tree, isolation.Release{Snapshot: patch.Snapshot})
		must(err)
		add, diff, remove = add+t1.Sub(t0), diff+t3.Sub(t2), remove+time.Since(t3)
	}
	if pool > 0 {
		cycle() // fills the pool
		add, diff, remove = 0, 0, 0
	}
	for b.Loop() {
		if pool == 0 {
			b.StopTimer()
			syscall.Sync()
			b.StartTimer()
		}
		cycle()
	}
	report(b, add, diff, remove)
	must(p.Drain(ctx))
}

// rulvarCollect takes the patch of a tree that stays edited.
func rulvarCollect(b *testing.B, src string) func() {
	p := newProvider(b, src, 0)
	tree := acquire(p)
	b.Cleanup(func() {
		_, err := p.Release(context.Background(), tree, isolation.Release{Discard: true})
		must(err)
	})
	edit(tree.Path)
	return func() {
		patch, err := p.Collect(context.Background(), tree)
		must(err)
		wantPatch(string(patch.Patch))
	}
}
