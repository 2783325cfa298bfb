package worktree

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCutRaw(t *testing.T) {
	const raw = ":100644 100644 a b M\x00"
	for _, c := range []struct {
		name, text string
		names      []string
		patch      string
		ok         bool
	}{
		{"nothing", "", nil, "", true},
		{"one", raw + "x\x00\x00diff --git", []string{"x"}, "diff --git", true},
		{"two, one odd", raw + "x\x00" + raw + ":\n\x00\x00diff", []string{"x", ":\n"}, "diff", true},
		{"no patch", raw + "x\x00", []string{"x"}, "", false},
		{"no separator", raw + "x\x00diff", []string{"x"}, "diff", false},
		{"no name", raw, nil, "", false},
		{"an empty name", raw + "\x00\x00diff", nil, "", false},
		{"cut in a name", raw + "x", nil, "", false},
		{"no list", "diff --git", nil, "diff --git", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			names, patch, ok := cutRaw([]byte(c.text))
			require.Equal(t, c.ok, ok)
			if ok {
				require.Equal(t, c.names, names)
				require.Equal(t, c.patch, string(patch))
			}
		})
	}
}
