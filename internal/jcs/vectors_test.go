package jcs_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// vector is one case of testdata/vectors/jcs.json, recorded from the reference.
type vector struct {
	ID, Group, Text string
	Quirk           bool
	Expect          struct{ Canonical, SHA256, Error string }
}

func vectors(t testing.TB) []vector {
	data, err := os.ReadFile("../../testdata/vectors/jcs.json")
	require.NoError(t, err)
	var list []vector
	require.NoError(t, json.Unmarshal(data, &list))
	require.Len(t, list, 256)
	return list
}

// TestVectors holds every recorded text to the reference's bytes. The one
// difference is the group of lone surrogates, which are refused.
func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID+" "+v.Group, func(t *testing.T) {
			got, err := jcs.Canonical([]byte(v.Text))
			tree, treeErr := jcs.Parse([]byte(v.Text))
			want := refusals[v.Expect.Error]
			if v.Group == "lone-surrogate" {
				want = jcs.ErrSurrogate
			}
			if want != "" {
				require.ErrorIs(t, err, want)
				require.ErrorIs(t, treeErr, want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, v.Expect.Canonical, string(got))
			require.Equal(t, v.Expect.SHA256, jcs.Sum(got))

			require.NoError(t, treeErr)
			sum, err := jcs.Hash(tree)
			require.NoError(t, err)
			require.Equal(t, v.Expect.SHA256, sum, "of the tree")
		})
	}
}

// refusals maps the words of the recording to kinds.
var refusals = map[string]jcs.Kind{"parse": jcs.ErrSyntax, "non-finite": jcs.ErrNonFinite}

// TestVectorsStrict runs the strict reader over the same texts: it differs
// only where a name comes twice or an integer changes.
func TestVectorsStrict(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID+" "+v.Group, func(t *testing.T) {
			tree, err := jcs.ParseStrict([]byte(v.Text))
			_, lenient := jcs.Parse([]byte(v.Text))
			switch {
			case lenient == nil && hasDuplicate([]byte(v.Text)):
				require.True(t, errors.Is(err, jcs.ErrDuplicate) || errors.Is(err, jcs.ErrNonFinite) ||
					errors.Is(err, jcs.ErrInexact), "%v", err)
			case errors.Is(err, jcs.ErrInexact):
				require.NoError(t, lenient)
			case lenient != nil:
				require.Error(t, err)
			default:
				require.NoError(t, err)
				sum, err := jcs.Hash(tree)
				require.NoError(t, err)
				require.Equal(t, v.Expect.SHA256, sum)
			}
		})
	}
}
