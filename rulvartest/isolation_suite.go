package rulvartest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/isolation"
)

// Isolation is an isolation provider under test.
type Isolation struct {
	Provider isolation.Provider
	// Apply makes a directory that holds a base with a patch applied to it, by
	// other means than the provider's own.
	Apply func(t testing.TB, base string, patch []byte) (dir string)
}

// RunIsolationSuite holds a provider to what is asked of a
// [isolation.Provider]. open returns one, anew for each subtest, that has
// no trees yet, whose base holds a file at all, and that keeps at least one
// parked tree. Each obligation is a subtest with a name of its own.
func RunIsolationSuite(t *testing.T, open func(t *testing.T) Isolation) {
	t.Helper()
	for _, o := range isolationObligations {
		t.Run(o.name, func(t *testing.T) {
			u := &isolationTest{TB: t, Isolation: open(t)}
			o.check(u)
		})
	}
}

type isolationTest struct {
	testing.TB
	Isolation
}

const (
	isolationRun   = "run-1"
	isolationStore = "store-1"
)

var isolationObligations = []struct {
	name  string
	check func(u *isolationTest)
}{
	{"a tree is a directory of its own", func(u *isolationTest) {
		a, b := u.acquire(), u.acquire()
		if a.ID == b.ID || a.Path == b.Path || a.Base != b.Base || a.Base == "" {
			u.Fatalf("two trees are %+v and %+v", a, b)
		}
		for _, tree := range []isolation.Tree{a, b} {
			if info, err := os.Stat(tree.Path); err != nil || !info.IsDir() {
				u.Fatalf("the path %s is no directory: %v", tree.Path, err)
			}
		}
		u.write(a, "only-in-one.txt", "1")
		if u.exists(b, "only-in-one.txt") {
			u.Fatal("what is written in one tree is seen in another")
		}
		u.listed(a, b)
	}},
	{"trees can be acquired at once", func(u *isolationTest) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[string]bool)
		for range 4 {
			wg.Go(func() {
				tree, err := u.Provider.Acquire(u.Context(), isolation.Request{RunID: isolationRun})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || seen[tree.Path] {
					u.Errorf("tree %+v: %v", tree, err)
				}
				seen[tree.Path] = true
			})
		}
		wg.Wait()
	}},
	{"a ref that names nothing is a config error and leaves nothing", func(u *isolationTest) {
		for _, ref := range []string{"there is no such ref", "--help", "-x"} {
			_, err := u.Provider.Acquire(u.Context(), isolation.Request{RunID: isolationRun, Ref: ref})
			if !errors.Is(err, rulvar.ErrConfig) {
				u.Fatalf("ref %q: %v, want a config error", ref, err)
			}
		}
		u.listed()
	}},
	{"a tree that was not touched has an empty patch", func(u *isolationTest) {
		p := u.collect(u.acquire())
		if len(p.Files) != 0 || len(p.Patch) != 0 {
			u.Fatalf("the patch is %+v", p)
		}
	}},
	{"the patch makes the base into the tree", func(u *isolationTest) {
		tree := u.acquire()
		u.write(tree, "new/file.txt", "one\ntwo\n")
		u.write(tree, "raw.bin", "\x00\xff\xfe\r\n\x00")
		u.write(tree, "wörd space.txt", "x")
		p := u.collect(tree)
		want := []string{"new/file.txt", "raw.bin", "wörd space.txt"}
		if !slices.Equal(p.Files, want) {
			u.Fatalf("the changed files are %q, want %q", p.Files, want)
		}
		if again := u.collect(tree); string(again.Patch) != string(p.Patch) || again.Snapshot != p.Snapshot {
			u.Fatal("a second collect of the same tree differs")
		}
		dir := u.Apply(u, tree.Base, p.Patch)
		for _, name := range want {
			a, errA := os.ReadFile(filepath.Join(tree.Path, name))
			b, errB := os.ReadFile(filepath.Join(dir, name))
			if errA != nil || errB != nil || string(a) != string(b) {
				u.Fatalf("%s is %q in the tree and %q where the patch was applied (%v, %v)", name, a, b, errA, errB)
			}
		}
	}},
	{"nothing is removed without proof", func(u *isolationTest) {
		tree := u.acquire()
		u.write(tree, "a.txt", "1")
		u.stays(tree, isolation.Release{})
		stale := u.collect(tree).Snapshot
		u.write(tree, "a.txt", "22")
		u.stays(tree, isolation.Release{Snapshot: stale})
		u.stays(tree, isolation.Release{Snapshot: "rubbish"})
		u.goes(tree, isolation.Release{Snapshot: u.collect(tree).Snapshot})
	}},
	{"discard removes whatever is there", func(u *isolationTest) {
		tree := u.acquire()
		u.write(tree, "a.txt", "1")
		u.goes(tree, isolation.Release{Discard: true})
	}},
	{"a tree that could not be collected is kept", func(u *isolationTest) {
		tree := u.acquire()
		u.write(tree, "a.txt", "1")
		kept, err := u.Provider.Release(u.Context(), tree, isolation.Release{Keep: isolation.KeepUncollected})
		if err != nil || !kept || !u.exists(tree, "a.txt") {
			u.Fatalf("kept %v, %v", kept, err)
		}
		list, err := u.Provider.Trees(u.Context())
		if err != nil || len(list) != 1 || list[0].Pinned != isolation.KeepUncollected || list[0].RunID != isolationRun || list[0].Store != isolationStore {
			u.Fatalf("the trees are %+v, %v", list, err)
		}
	}},
	{"a parked tree is taken up again as it was", func(u *isolationTest) {
		tree := u.parked()
		if err := u.Provider.Reattach(u.Context(), tree); err != nil || !u.exists(tree, "a.txt") {
			u.Fatalf("reattach: %v", err)
		}
		u.write(tree, "b.txt", "2")
		if p := u.collect(tree); !slices.Equal(p.Files, []string{"a.txt", "b.txt"}) {
			u.Fatalf("the changed files are %q", p.Files)
		}
	}},
	{"a parked tree that was changed is not what it was", func(u *isolationTest) {
		tree := u.parked()
		u.write(tree, "a.txt", "somebody else's")
		if err := u.Provider.Reattach(u.Context(), tree); !errors.Is(err, rulvar.ErrIsolationGone) {
			u.Fatalf("reattach: %v, want isolation_gone", err)
		}
		if !u.exists(tree, "a.txt") {
			u.Fatal("the changed tree was removed")
		}
	}},
	{"a tree that is gone is told as gone", func(u *isolationTest) {
		tree := u.parked()
		if err := os.RemoveAll(tree.Path); err != nil {
			u.Fatal(err)
		}
		other := tree
		other.ID = "no-such-tree"
		for _, gone := range []isolation.Tree{tree, other, {}} {
			if err := u.Provider.Reattach(u.Context(), gone); !errors.Is(err, rulvar.ErrIsolationGone) {
				u.Fatalf("reattach of %+v: %v, want isolation_gone", gone, err)
			}
			if _, err := u.Provider.Collect(u.Context(), gone); err == nil {
				u.Fatalf("collect of %+v succeeds", gone)
			}
		}
	}},
	{"a second release does nothing", func(u *isolationTest) {
		tree := u.acquire()
		u.goes(tree, isolation.Release{})
		u.goes(tree, isolation.Release{Discard: true})
	}},
}

func (u *isolationTest) acquire() isolation.Tree {
	u.Helper()
	tree, err := u.Provider.Acquire(u.Context(), isolation.Request{RunID: isolationRun, SpanID: "s1", Store: isolationStore})
	if err != nil {
		u.Fatalf("acquire: %v", err)
	}
	tree.RunID = isolationRun
	return tree
}

func (u *isolationTest) collect(tree isolation.Tree) isolation.Patch {
	u.Helper()
	p, err := u.Provider.Collect(u.Context(), tree)
	if err != nil {
		u.Fatalf("collect: %v", err)
	}
	return p
}

func (u *isolationTest) parked() isolation.Tree {
	u.Helper()
	tree := u.acquire()
	u.write(tree, "a.txt", "1")
	kept, err := u.Provider.Release(u.Context(), tree, isolation.Release{Keep: isolation.KeepParked, Snapshot: u.collect(tree).Snapshot})
	if err != nil || !kept {
		u.Fatalf("park: kept %v, %v", kept, err)
	}
	return tree
}

func (u *isolationTest) write(tree isolation.Tree, name, text string) {
	u.Helper()
	path := filepath.Join(tree.Path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		u.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		u.Fatal(err)
	}
}

func (u *isolationTest) exists(tree isolation.Tree, name string) bool {
	_, err := os.Stat(filepath.Join(tree.Path, name))
	return err == nil
}

// stays releases a tree that must not go.
func (u *isolationTest) stays(tree isolation.Tree, how isolation.Release) {
	u.Helper()
	kept, err := u.Provider.Release(u.Context(), tree, how)
	if err == nil || !kept {
		u.Fatalf("release %+v of a changed tree: kept %v, %v", how, kept, err)
	}
	if _, err := os.Stat(tree.Path); err != nil {
		u.Fatalf("the tree is gone: %v", err)
	}
}

// goes releases a tree that must go.
func (u *isolationTest) goes(tree isolation.Tree, how isolation.Release) {
	u.Helper()
	kept, err := u.Provider.Release(u.Context(), tree, how)
	if err != nil || kept {
		u.Fatalf("release %+v: kept %v, %v", how, kept, err)
	}
	if _, err := os.Stat(tree.Path); err == nil {
		u.Fatal("the tree is still there")
	}
	u.listed()
}

// listed holds the provider's list to the trees that are there.
func (u *isolationTest) listed(want ...isolation.Tree) {
	u.Helper()
	list, err := u.Provider.Trees(u.Context())
	if err != nil {
		u.Fatalf("trees: %v", err)
	}
	for _, tree := range want {
		if !slices.ContainsFunc(list, func(t isolation.Tree) bool { return t.ID == tree.ID && t.Path == tree.Path }) {
			u.Fatalf("%s is not listed", tree.Path)
		}
	}
	if len(list) != len(want) {
		u.Fatalf("%d trees are listed, want %d: %+v", len(list), len(want), list)
	}
}
