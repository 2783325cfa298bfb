package worktree

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReadIndex reads indexes that an agent may have written: none may panic,
// hang or take memory that its bytes do not account for.
func FuzzReadIndex(f *testing.F) {
	for _, seed := range []string{"", "DIRC", "DIRC\x00\x00\x00\x02\x00\x00\x00\x00", "DIRC\x00\x00\x00\x02\xff\xff\xff\xff", "DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + string(make([]byte, 80))} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		idx, err := readIndex(bytes.NewReader(data))
		if err == nil && len(idx.Entries)*62 > len(data) {
			t.Fatalf("%d entries of %d bytes", len(idx.Entries), len(data))
		}
	})
}

// FuzzParseRecord reads records of trees: a record never leads outside of its
// directory.
func FuzzParseRecord(f *testing.F) {
	const id = "rulvar-01hzzzzzzzzzzzzzzzzzzzzzzz"
	const whole = `{"id":"` + id + `","runId":"r","path":"/x","base":"0123456789012345678901234567890123456789","repository":"/r/.git","state":"live"}` + "\n"
	for _, seed := range []string{
		whole, whole + "\n" + strings.Replace(whole, "live", "removing", 1), whole + `{"id":"`, whole + "\x00\x00", whole + "\n\n", whole + "x\n",
		`{"id":"../x","state":"live"}` + "\n", "{\n", "\n", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord("/dir", id, data)
		if err != nil {
			return
		}
		require.Equal(t, filepath.Join("/dir", id), r.Path)
		require.Equal(t, filepath.Join("/dir", id+".git"), r.private())
		require.True(t, isHex(r.Base))
	})
}

// FuzzParseConfig reads configurations of repositories: what is taken over is
// one plain word for a known key.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("[core]\n\tfilemode = false\n\tautocrlf = input\n[extensions]\n\tobjectformat = sha256\n"))
	f.Add([]byte("[core]\n\tfilemode = \"false\\n[alias]\\n x = !y\"\n"))
	f.Add([]byte("[core \"x\"]\n\tfilemode\n[include]\n\tpath = /etc/passwd\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), data, 0o600))
		if _, err := parseConfig(data); err != nil {
			return // git would be asked
		}
		r := &repo{common: dir}
		require.NoError(t, r.readConfig(t.Context(), nil))
		for key, value := range r.core {
			require.True(t, safeKeys[key], key)
			require.Regexp(t, `^[A-Za-z0-9]{1,16}$`, value)
		}
	})
}

// FuzzCheckRef looks for refs that git would take as an option or as something
// else than a revision.
func FuzzCheckRef(f *testing.F) {
	for _, seed := range []string{"main", "-x", "--upload-pack=x", "a:b", "a\nb", "HEAD~1", "\xff", ":/x", "@{-1}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		if checkRef(ref) != nil {
			return
		}
		require.NotRegexp(t, `^-|[\x00-\x1f\x7f:]`, ref)
	})
}

// FuzzCutRaw reads what git diff-index prints: what is accepted loses no byte,
// names no file emptily, and has a list exactly where it has a patch. cutRaw
// must read what is written of the names and the patch again.
func FuzzCutRaw(f *testing.F) {
	const raw = ":100644 100644 5626abf0f72e58d7a153368ba57db4c673c0e171 f719efd430d52bcfc8566a43b2eb655688d38871 M\x00"
	for _, seed := range []string{
		"", raw + "a.txt\x00\x00diff --git a/a.txt b/a.txt\n", raw + "a\x00" + raw + ":\n\x00\x00diff", raw + "x\x00", raw + "x\x00diff",
		raw, raw + "\x00\x00diff", raw + "x", "diff --git", ":\x00:\x00\x00", raw + "x\x00\x00", raw + "x\x00\x00" + raw + "x\x00\x00diff",
		raw + "\xff\xfe\x00\x00GIT binary patch\n\x00\x00", "\x00diff", "::", ":\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		names, patch, ok := cutRaw(text)
		if !ok {
			return
		}
		require.Equal(t, len(text) == 0, len(names) == 0)
		size := len(patch)
		for _, name := range names {
			require.NotEmpty(t, name)
			require.NotContains(t, name, "\x00")
			require.Contains(t, string(text), "\x00"+name+"\x00")
			size += len(name) + 1
		}
		require.LessOrEqual(t, size, len(text))
		require.True(t, bytes.HasSuffix(text, patch))
		var again bytes.Buffer
		for _, name := range names {
			again.WriteString(raw + name + "\x00")
		}
		if len(names) > 0 {
			again.WriteByte(0)
		}
		again.Write(patch)
		names2, patch2, ok2 := cutRaw(again.Bytes())
		require.True(t, ok2)
		require.Equal(t, names, names2)
		require.True(t, bytes.Equal(patch, patch2))
	})
}
