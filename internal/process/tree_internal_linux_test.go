package process

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	for _, row := range []struct {
		name, text string
		state      byte
		parent     int
		ok         bool
	}{
		{"plain", "12 (cat) R 7 12 12 0 -1", 'R', 7, true},
		{"a name with blanks and brackets", "12 (a) S 1 (b) Z 9 12", 'Z', 9, true},
		{"a name with a newline", "12 (a\n) T 3 1", 'T', 3, true},
		{"cut", "12 (cat) R", 0, 0, false},
		{"no name", "12", 0, 0, false},
		{"empty", "", 0, 0, false},
		{"no number", "12 (cat) R x 1", 'R', 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			state, parent, ok := parseStat([]byte(row.text))
			require.Equal(t, row.ok, ok)
			require.Equal(t, row.state, state)
			require.Equal(t, row.parent, parent)
		})
	}
	text, err := os.ReadFile("/proc/self/stat")
	require.NoError(t, err)
	_, parent, ok := parseStat(text)
	require.True(t, ok)
	require.Equal(t, os.Getppid(), parent)
}

// FuzzParseStat: a process may give itself any name.
func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (cat) R 7 12 12 0 -1"))
	f.Add([]byte(")) S 1"))
	f.Add([]byte("("))
	f.Fuzz(func(t *testing.T, text []byte) {
		if state, _, ok := parseStat(text); ok {
			require.NotZero(t, state)
		}
		_, parent, ok := parseStat(append(append([]byte("1 ("), text...), ") S 42 "...))
		require.True(t, ok)
		require.Equal(t, 42, parent)
	})
}

func TestDescendants(t *testing.T) {
	require.NotContains(t, Children(os.Getpid()), os.Getpid())
	found := false
	for _, d := range Descendants(os.Getppid()) {
		found = found || d.is.pid == os.Getpid()
		require.NotEmpty(t, d.is.start)
	}
	require.True(t, found)
	stranger := Descendant{stat{pid: os.Getpid(), start: "another life"}}
	stranger.Signal(9)
	require.Empty(t, parseStart([]byte("1 (x) S 1 2")))
}
