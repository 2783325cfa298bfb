package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// rawAttributes makes git take every file as its bytes are, whatever the
// tree's own attributes say: info/attributes goes before them.
const rawAttributes = "* -text !eol -ident !filter !working-tree-encoding !diff !merge !whitespace\n"

// settings is the configuration of a git directory of ours.
func (r *repo) settings(keys ...string) string {
	var b strings.Builder
	b.WriteString("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogAllRefUpdates = false\n\ttrustctime = true\n\tfsync = none\n")
	fmt.Fprintf(&b, "\thooksPath = %s\n\tattributesFile = %s\n\texcludesFile = %s\n\tfsmonitor = false\n\tuntrackedCache = false\n",
		os.DevNull, os.DevNull, os.DevNull)
	sort.Strings(keys)
	for _, k := range keys {
		if v, ok := r.core["core."+k]; ok {
			fmt.Fprintf(&b, "\t%s = %s\n", k, v)
		}
	}
	b.WriteString("[index]\n\tthreads = false\n\tversion = 2\n[checkout]\n\tworkers = 0\n[gc]\n\tauto = 0\n[feature]\n\tmanyFiles = false\n")
	return b.String()
}

// makePrivate writes a git directory of ours at dir, with the repository's
// objects as an alternate.
func (r *repo) makePrivate(dir, base string) error {
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			return err
		}
	}
	exclude, err := os.ReadFile(filepath.Join(r.common, "info", "exclude"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	objects := filepath.Join(r.common, "objects")
	if strings.ContainsAny(objects, "\n\"") {
		return fmt.Errorf("the path %q of the repository's objects cannot be written as an alternate", objects)
	}
	for name, text := range map[string]string{
		"config":                  r.settings("filemode", "symlinks", "ignorecase", "precomposeunicode", "longpaths"),
		"info/attributes":         rawAttributes,
		"info/exclude":            string(exclude),
		"objects/info/alternates": objects + "\n",
		"HEAD":                    base + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// checkout makes the tree hold just the base, with git's index in our git
// directory.
func (g *git) checkout(ctx context.Context, t *record) error {
	_, err := g.run(ctx, gitCall{dir: t.private(), tree: t.Path}, "read-tree", "--reset", "-u", "--no-recurse-submodules", t.Base)
	return err
}
