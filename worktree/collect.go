package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/errs"
)

// diffOptions make one patch of one change, whoever asks.
var diffOptions = []string{
	"diff-index", "--cached", "--patch", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames",
	"--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "--no-indent-heuristic", "--unified=3", "--inter-hunk-context=0",
	"--ignore-submodules=none", "--submodule=short", "--no-relative", "--line-prefix=",
}

// collect takes the patch of what a scan has found: two small indexes of the
// files that may have changed, as they were and as they are.
func (p *GitProvider) collect(ctx context.Context, t *record, s *scan) (rulvar.IsolationPatch, error) {
	out := rulvar.IsolationPatch{Files: []string{}, Patch: []byte{}, Ignored: valid(s.ignored)}
	if !s.clean() {
		if err := p.diff(ctx, t, s, &out); err != nil {
			return rulvar.IsolationPatch{}, err
		}
	}
	sum := sha256.Sum256(out.Patch)
	out.Snapshot = hex.EncodeToString(sum[:]) + "." + s.print
	return out, nil
}

func (p *GitProvider) diff(ctx context.Context, t *record, s *scan, out *rulvar.IsolationPatch) error {
	tmp, err := os.MkdirTemp(t.private(), "collect-")
	if err != nil {
		return err
	}
	defer func() { _ = removeAll(tmp) }()
	before := gitCall{dir: t.private(), tree: t.Path, index: filepath.Join(tmp, "before")}
	after := gitCall{dir: t.private(), tree: t.Path, index: filepath.Join(tmp, "after")}
	var base []byte
	err = both(
		func() (err error) { base, err = p.writeBefore(ctx, before, s); return err },
		func() error { return p.writeAfter(ctx, after, s) },
	)
	if err != nil {
		return err
	}
	tree := strings.TrimSpace(string(base))
	var names []byte
	after.maxBytes = p.opts.MaxPatchBytes
	list := gitCall{dir: after.dir, tree: after.tree, index: after.index}
	err = both(
		func() (err error) {
			out.Patch, err = p.git.run(ctx, after, append(diffOptions[:len(diffOptions):len(diffOptions)], tree)...)
			return err
		},
		func() (err error) {
			names, err = p.git.run(ctx, list, "diff-index", "--cached", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "-z", tree)
			return err
		},
	)
	if err == errTooLarge {
		return errs.New(errs.Plain, "worktree", t.Path, fmt.Sprintf("the patch is larger than %d bytes, the bound of GitOptions.MaxPatchBytes", p.opts.MaxPatchBytes))
	}
	out.Files = valid(splitNul(names))
	sort.Strings(out.Files)
	return err
}

// writeBefore writes the tree object of the files that may have changed, as
// the base has them.
func (p *GitProvider) writeBefore(ctx context.Context, c gitCall, s *scan) ([]byte, error) {
	var info bytes.Buffer
	for _, list := range [][]string{s.changed, s.gone} {
		for _, name := range list {
			e := s.entries[name]
			fmt.Fprintf(&info, "%o %s\t%s\x00", uint32(e.Mode), e.Hash, name)
		}
	}
	write := c
	write.stdin = info.Bytes()
	if _, err := p.git.run(ctx, write, "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	return p.git.run(ctx, c, "write-tree", "--missing-ok")
}

// writeAfter writes the index of those files as they are.
func (p *GitProvider) writeAfter(ctx context.Context, c gitCall, s *scan) error {
	c.stdin = joinNul(append(s.changed[:len(s.changed):len(s.changed)], s.others...))
	_, err := p.git.run(ctx, c, "update-index", "--add", "--replace", "-z", "--stdin")
	return err
}

func both(a, b func() error) error {
	var wg sync.WaitGroup
	var errB error
	wg.Go(func() { errB = b() })
	errA := a()
	wg.Wait()
	if errA != nil {
		return errA
	}
	return errB
}

// valid makes texts of file names, for JSON.
func valid(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = strings.ToValidUTF8(n, "\uFFFD")
	}
	return list
}

// verify reports whether a tree holds what it held when the snapshot was
// taken.
func (p *GitProvider) verify(ctx context.Context, t *record, snapshot string) (*scan, bool, error) {
	s, err := p.scan(ctx, t)
	if err != nil {
		return nil, false, err
	}
	sum, print, ok := strings.Cut(snapshot, ".")
	if ok && print == s.print {
		return s, true, nil
	}
	now, err := p.collect(ctx, t, s)
	switch {
	case err != nil:
		return nil, false, err
	case snapshot == "":
		return s, len(now.Files) == 0, nil
	}
	return s, ok && strings.HasPrefix(now.Snapshot, sum+"."), nil
}
