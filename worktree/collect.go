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

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/process"
	"github.com/rulvar/rulvar-go/isolation"
)

// diffOptions make one patch of one change, whoever asks.
var diffOptions = []string{
	"diff-index", "--cached", "--raw", "-z", "--patch", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames",
	"--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "--no-indent-heuristic", "--unified=3", "--inter-hunk-context=0",
	"--ignore-submodules=none", "--submodule=short", "--no-relative", "--line-prefix=",
}

// collect takes the patch of what a scan has found: the base's
// tree beside a small index of the files that may have changed, as they are.
// No git reads or writes the whole index for it.
func (p *GitProvider) collect(ctx context.Context, t *record, s *scan) (isolation.Patch, error) {
	out := isolation.Patch{Files: []string{}, Patch: []byte{}, Ignored: valid(s.ignored)}
	if !s.clean() {
		if err := p.diff(ctx, t, s, &out); err != nil {
			return isolation.Patch{}, err
		}
	}
	sum := sha256.Sum256(out.Patch)
	out.Snapshot = hex.EncodeToString(sum[:]) + "." + s.print
	return out, nil
}

func (p *GitProvider) diff(ctx context.Context, t *record, s *scan, out *isolation.Patch) error {
	tmp, err := os.MkdirTemp(t.private(), "collect-")
	if err != nil {
		return err
	}
	defer func() { _ = process.RemoveAll(tmp) }()
	after := gitCall{dir: t.private(), tree: t.Path, index: filepath.Join(tmp, "after")}
	var against []string
	err = both(
		func() (err error) { against, err = p.against(ctx, t, s, filepath.Join(tmp, "before")); return err },
		func() error { return p.writeAfter(ctx, after, s) },
	)
	if err != nil {
		return err
	}
	after.maxBytes = p.opts.MaxPatchBytes + s.listBytes()
	text, err := p.git.run(ctx, after, append(diffOptions[:len(diffOptions):len(diffOptions)], against...)...)
	if err != nil && err != errTooLarge {
		return err
	}
	names, patch, ok := cutRaw(text)
	switch {
	case err == errTooLarge || len(patch) > p.opts.MaxPatchBytes:
		return errs.New(errs.Plain, "worktree", t.Path, fmt.Sprintf("the patch is larger than %d bytes, the bound of GitOptions.MaxPatchBytes", p.opts.MaxPatchBytes))
	case !ok:
		return errs.New(errs.Plain, "worktree", t.Path, "the output of git diff-index cannot be read: this version of git is not one that can be worked with")
	}
	out.Patch = append(out.Patch, patch...)
	out.Files = valid(names)
	sort.Strings(out.Files)
	return nil
}

// cutRaw parts the output of a diff with --raw -z and --patch: a record of
// metadata and name for each file, an empty one, and the patch.
func cutRaw(text []byte) (names []string, patch []byte, ok bool) {
	for len(text) > 0 && text[0] == ':' {
		_, rest, found := bytes.Cut(text, []byte{0})
		name, rest, ended := bytes.Cut(rest, []byte{0})
		if !found || !ended || len(name) == 0 {
			return nil, nil, false
		}
		names, text = append(names, string(name)), rest
	}
	if len(text) == 0 {
		return names, nil, len(names) == 0 // each file that differs is in the patch
	}
	patch, ok = bytes.CutPrefix(text, []byte{0})
	return names, patch, ok && len(names) > 0
}

// listBytes bounds what --raw lists of the files that may have changed.
func (s *scan) listBytes() int {
	n := 1
	for _, list := range [][]string{s.changed, s.gone, s.others} {
		for _, name := range list {
			n += len(name) + rawBytes
		}
	}
	return n
}

// rawBytes is a raw record but for its name: two modes, two hashes, a status.
const rawBytes = 2*6 + 2*40 + 16

// againstBytes is how long a command line of names may be.
const againstBytes = 16 << 10

// against returns what the files that may have changed are compared with: the
// base, where they can be named on a command line, else a tree of their own.
func (p *GitProvider) against(ctx context.Context, t *record, s *scan, index string) ([]string, error) {
	if s.listBytes() > againstBytes {
		tree, err := p.writeBefore(ctx, gitCall{dir: t.private(), tree: t.Path, index: index}, s)
		return []string{strings.TrimSpace(string(tree))}, err
	}
	// A name also stands for what is below it. There is nothing that has not
	// changed: where a file has taken the place of a directory, or the other
	// way round, the files of the directory are all in the lists.
	args := []string{t.Base, "--"}
	for _, list := range [][]string{s.changed, s.gone, s.others} {
		args = append(args, list...)
	}
	return args, nil
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
	if len(s.changed)+len(s.others) == 0 {
		return nil // git takes an index that is not there as an empty one
	}
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
	s, err := p.look(t)
	if err != nil {
		return nil, false, err
	}
	sum, print, ok := strings.Cut(snapshot, ".")
	if ok && s.holds(print) {
		return s, true, nil
	}
	if err := p.complete(ctx, t, s); err != nil {
		return nil, false, err
	}
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
