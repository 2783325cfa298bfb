package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// scan is what an agent may have changed.
type scan struct {
	*walk
	gone    []string // entries that are not there
	others  []string // files to be added
	ignored []string
	// print changes whenever a file that a patch would hold does, as far as
	// stat data tell.
	print string
}

func (p *GitProvider) scan(ctx context.Context, t *record) (*scan, error) {
	s, err := p.look(t)
	if err != nil {
		return nil, err
	}
	return s, p.complete(ctx, t, s)
}

// look finds what differs from the base, and does not know yet which of the
// new files are ignored.
func (p *GitProvider) look(t *record) (*scan, error) {
	fileMode, err := p.fileMode(t)
	if err != nil {
		return nil, err
	}
	w, err := walkTree(t, fileMode)
	if err != nil {
		return nil, err
	}
	if len(w.filled) > 0 {
		return nil, errs.New(errs.Plain, "worktree", t.Path, fmt.Sprintf("the directory of the submodule %q holds files, which no patch of this repository can hold", w.filled[0]))
	}
	return &scan{walk: w, gone: w.missing()}, nil
}

// complete finds that out.
func (p *GitProvider) complete(ctx context.Context, t *record, s *scan) error {
	if len(s.extra) > 0 {
		if err := s.sort(ctx, p.git, t); err != nil {
			return err
		}
	}
	return s.fingerprint()
}

// holds reports whether all that is new or changed is what a fingerprint was
// taken of. Nothing is ignored then, and git need not be asked. Where it is
// false, that may be so all the same.
func (s *scan) holds(print string) bool {
	if slices.ContainsFunc(s.extra, func(name string) bool { return strings.HasSuffix(name, "/") }) {
		return false
	}
	s.others = s.extra
	if err := s.fingerprint(); err == nil && s.print == print {
		return true
	}
	s.others = nil
	return false
}

// fileMode reports whether the file system keeps the executable bit, as our
// configuration has it from the repository's.
func (p *GitProvider) fileMode(t *record) (bool, error) {
	text, err := os.ReadFile(filepath.Join(t.private(), "config"))
	return !strings.Contains(strings.ToLower(string(text)), "\tfilemode = false\n"), err
}

// sort parts what is new in the tree into files to be added and ignored ones.
func (s *scan) sort(ctx context.Context, g *git, t *record) error {
	args := []string{"ls-files", "-z", "--others", "--exclude-standard"}
	if len(s.extra) <= 500 { // else the command line would be too long
		args = append(append(args, "--"), s.extra...)
	}
	out, err := g.run(ctx, gitCall{dir: t.private(), tree: t.Path}, args...)
	if err != nil {
		return err
	}
	added := make(map[string]bool)
	for _, name := range splitNul(out) {
		if repo, ok := strings.CutSuffix(name, "/"); ok {
			if err := s.nested(repo, added); err != nil {
				return err
			}
			continue
		}
		added[name] = true
	}
	s.forced(t, added)
	for name := range added {
		s.others = append(s.others, name)
	}
	sort.Strings(s.others)
	for _, name := range s.extra {
		s.ignore(name)
	}
	return nil
}

// nested takes a repository inside the tree as the files of its work tree.
func (s *scan) nested(repo string, added map[string]bool) error {
	return filepath.WalkDir(filepath.Join(s.tree, filepath.FromSlash(repo)), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && d.IsDir():
			return filepath.SkipDir
		case d.Name() == ".git" || d.IsDir() || !d.Type().IsRegular() && d.Type()&os.ModeSymlink == 0:
			return nil
		}
		name, err := filepath.Rel(s.tree, path)
		added[filepath.ToSlash(name)] = true
		return err
	})
}

// forced adds what the agent has put into its index although it is ignored.
func (s *scan) forced(t *record, added map[string]bool) {
	if !slices.ContainsFunc(s.extra, func(name string) bool { return !added[name] }) {
		return // nothing new is ignored
	}
	theirs, err := readIndexFile(filepath.Join(t.admin(), "index"))
	if err != nil {
		return // an agent may have left it in any state
	}
	for _, e := range theirs.Entries {
		if s.entries[e.Name] != nil || added[e.Name] || !s.isExtra(e.Name) {
			continue
		}
		info, err := os.Lstat(filepath.Join(s.tree, filepath.FromSlash(e.Name)))
		if err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeSymlink != 0) && s.isPlain(e.Name) {
			added[e.Name] = true
		}
	}
}

// isExtra reports whether a name was found as something new.
func (s *scan) isExtra(name string) bool {
	if _, ok := slices.BinarySearch(s.extra, name); ok {
		return true
	}
	for d := parent(name); d != ""; d = parent(d) {
		if _, ok := slices.BinarySearch(s.extra, d+"/"); ok {
			return true
		}
	}
	return false
}

// isPlain reports whether no directory on the way to name is a link.
func (s *scan) isPlain(name string) bool {
	for d := parent(name); d != ""; d = parent(d) {
		info, err := os.Lstat(filepath.Join(s.tree, filepath.FromSlash(d)))
		if err != nil || !info.IsDir() || strings.HasSuffix(d, "/.git") || d == ".git" {
			return false
		}
	}
	return !strings.HasSuffix(name, "/.git")
}

// ignore notes a new file, or directory, that no patch will hold; of a
// directory that is held in part, the parts that are not.
func (s *scan) ignore(name string) {
	dir, isDir := strings.CutSuffix(name, "/")
	if !isDir {
		if _, ok := slices.BinarySearch(s.others, name); !ok {
			s.ignored = append(s.ignored, name)
		}
		return
	}
	list, err := os.ReadDir(filepath.Join(s.tree, filepath.FromSlash(dir)))
	if err != nil || len(list) == 0 {
		return
	}
	i, _ := slices.BinarySearch(s.others, name)
	if i == len(s.others) || !strings.HasPrefix(s.others[i], name) {
		s.ignored = append(s.ignored, name)
		return
	}
	for _, d := range list {
		if d.IsDir() {
			s.ignore(name + d.Name() + "/")
		} else {
			s.ignore(name + d.Name())
		}
	}
}

// fingerprint hashes the stat data of all that is or may be changed.
func (s *scan) fingerprint() error {
	h := sha256.New()
	for _, name := range s.gone {
		fmt.Fprintf(h, "gone %q\n", name)
	}
	for _, name := range s.changed {
		fmt.Fprintf(h, "changed %q %+v\n", name, s.stats[name])
	}
	for _, name := range s.others {
		info, err := os.Lstat(filepath.Join(s.tree, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "new %q %+v\n", name, statOf(info))
	}
	s.print = hex.EncodeToString(h.Sum(nil)[:16])
	return nil
}

// clean reports whether nothing may be changed, nor new.
func (s *scan) clean() bool { return len(s.changed)+len(s.gone)+len(s.others) == 0 }
