package worktree

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadPlainIndex has git write indexes, of names of all lengths modulo
// eight, of all modes, with a cache tree and without one.
func TestReadPlainIndex(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "index.version=2"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	for i := range 20 {
		path := filepath.Join(dir, fmt.Sprintf("d%d", i%3), fmt.Sprintf("%0*d\n\xff", i+1, 0))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o644|os.FileMode(i%2)*0o111))
	}
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	file := filepath.Join(dir, ".git", "index")
	compare := func(plain bool) {
		t.Helper()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		idx := readPlainIndex(text)
		require.Equal(t, plain, idx != nil)
		theirs, err := readIndex(bytes.NewReader(text))
		require.NoError(t, err)
		if plain {
			require.Equal(t, theirs.Entries, idx.Entries)
		}
		ours, err := readIndexFile(file)
		require.NoError(t, err)
		require.Equal(t, theirs.Entries, ours.Entries)
	}
	git("add", "-A")
	compare(true)
	git("commit", "-qm", "all")
	compare(true)
	git("read-tree", "--reset", "-u", "HEAD")
	compare(true)
	git("update-index", "--assume-unchanged", "link")
	compare(false)
	git("update-index", "--no-assume-unchanged", "link", "--index-version", "4")
	compare(false)
}

// FuzzReadPlainIndex holds our reader of plain indexes to go-git's: what it
// takes, that takes too, and finds the same in it. The checksum is made right.
func FuzzReadPlainIndex(f *testing.F) {
	entry := func(name string, flags uint16) []byte {
		b := make([]byte, indexEntry)
		copy(b, "\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04")
		copy(b[24:], "\x00\x00\x81\xa4")
		binary.BigEndian.PutUint16(b[60:], flags|uint16(len(name)))
		b = append(b, name...)
		return append(b, make([]byte, 8-len(b)%8)...)
	}
	head := func(n byte) []byte { return []byte{'D', 'I', 'R', 'C', 0, 0, 0, 2, 0, 0, 0, n} }
	tree := []byte("TREE\x00\x00\x00\x00")
	for _, seed := range [][]byte{
		nil, head(0), head(1), head(255), append(head(0), tree...), append(head(1), entry("a", 0)...), append(head(1), entry("a", 0x1000)...),
		append(head(2), append(entry("a", 0), entry("12345678", 0)...)...), append(append(head(1), entry("a/b", 0)...), tree...),
		append(head(1), entry("a", 0x4000)...), append(head(1), entry("", 0)...), append(append(head(0), tree...), tree...), append(head(0), "link\x00\x00\x00\x00"...),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha1.Sum(body)
		text := append(bytes.Clone(body), sum[:]...)
		idx := readPlainIndex(text)
		if idx == nil {
			return
		}
		theirs, err := readIndex(bytes.NewReader(text))
		if err != nil && bytes.Contains(body, []byte("TREE")) {
			return // it also reads what is inside the extension, which we do not use
		}
		require.NoError(t, err)
		require.Equal(t, len(theirs.Entries), len(idx.Entries))
		for i, e := range theirs.Entries {
			require.Equal(t, e, idx.Entries[i])
		}
	})
}
