package rulvar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// jcsVector is a JSON text with its canonical form.
type jcsVector struct {
	Text   string
	Expect struct{ Canonical, SHA256, Error string }

	err error // what was said about the text here
}

var jcsVectors = func() vectorSuite {
	s := newVectorSuite("jcs", (*jcsVector).compare, map[string]func(*jcsVector) bool{
		"lone-surrogate": func(v *jcsVector) bool { return loneSurrogate([]byte(v.Text)) && v.refusedAs(jcs.ErrSurrogate) },
		"too-deep":       func(v *jcsVector) bool { return v.refusedAs(jcs.ErrDepth) },
	})
	s.exact, s.unmarked = true, s.rules
	return s
}()

// jcsRefusals maps the words of the recording to kinds.
var jcsRefusals = map[string]jcs.Kind{"parse": jcs.ErrSyntax, "non-finite": jcs.ErrNonFinite}

func (v *jcsVector) refusedAs(kind jcs.Kind) bool { return jcsKind(v.err) == kind }

func (v *jcsVector) compare(t *testing.T) (direction, string) {
	text := []byte(v.Text)
	got, err := jcs.Canonical(text)
	v.err = err
	tree, treeErr := jcs.Parse(text)
	require.Equal(t, err == nil, jcsKind(err) == "", "%v", err)
	require.Equal(t, jcsKind(err), jcsKind(treeErr), "the two readers disagree")
	if err == nil {
		v.checkHashes(t, got, tree)
	}
	detail := fmt.Sprintf("here %s %v\nrecorded %+v", got, err, v.Expect)
	want := jcsRefusals[v.Expect.Error]
	require.Equal(t, v.Expect.Error != "", want != "", "the recording says %q", v.Expect.Error)
	switch {
	case want != "" && jcsKind(err) == want:
		return same, ""
	case want != "" && err == nil:
		return looser, detail
	case want == "" && err != nil:
		return stricter, detail
	case err != nil, string(got) != v.Expect.Canonical, jcs.Sum(got) != v.Expect.SHA256:
		return other, detail
	}
	return same, ""
}

// checkHashes holds the hash of the tree to that of the text, and the strict
// reader to the same value where it takes the text at all.
func (v *jcsVector) checkHashes(t *testing.T, canonical []byte, tree any) {
	sum, err := jcs.Hash(tree)
	require.NoError(t, err)
	require.Equal(t, jcs.Sum(canonical), sum, "of the tree")
	strict, err := jcs.ParseStrict([]byte(v.Text))
	if err != nil {
		require.Contains(t, []jcs.Kind{jcs.ErrDuplicate, jcs.ErrInexact, jcs.ErrNonFinite}, jcsKind(err))
		return
	}
	sum, err = jcs.Hash(strict)
	require.NoError(t, err)
	require.Equal(t, jcs.Sum(canonical), sum, "of the strict tree")
}

// loneSurrogate reports whether a JSON text holds an escape of half a surrogate
// pair, which no UTF-8 can hold.
func loneSurrogate(text []byte) bool {
	high := false // the escape just read was the first half
	for i := 0; i < len(text); i++ {
		unit, length := escapeAt(text[i:])
		low := length == 6 && unit >= 0xDC00 && unit <= 0xDFFF
		if high != low {
			return true
		}
		high = length == 6 && unit >= 0xD800 && unit <= 0xDBFF
		i += max(length, 1) - 1
	}
	return high
}

// escapeAt returns the length of the escape at the beginning of text, 0 if
// there is none, and the code unit of a \u escape.
func escapeAt(text []byte) (unit uint64, length int) {
	if len(text) < 2 || text[0] != '\\' {
		return 0, 0
	}
	if text[1] == 'u' && len(text) >= 6 {
		if unit, err := strconv.ParseUint(string(text[2:6]), 16, 16); err == nil {
			return unit, 6
		}
	}
	return 0, 2
}

// jcsKind is the kind of an error of package jcs, "" of no error.
func jcsKind(err error) jcs.Kind {
	if e, ok := errors.AsType[*jcs.SyntaxError](err); ok {
		return e.Kind
	}
	return ""
}

// TestLoneSurrogate: the rule that excuses refusals reads escapes on its own.
func TestLoneSurrogate(t *testing.T) {
	for text, want := range map[string]bool{
		`"\ud83d\ude00"`: false, `"\ud83d"`: true, `"\ude00"`: true, `"\ud83dx\ude00"`: true, `"\\ud83d"`: false,
		`"\\\ud83d"`: true, `"\ud83d\ud83d\ude00"`: true, `"\uD83D\uDE00 \u00e9"`: false, `"\ude00\ud83d"`: true, `"\ud83d\n"`: true,
	} {
		require.Equal(t, want, loneSurrogate([]byte(text)), text)
		require.True(t, json.Valid([]byte(text)), text)
	}
}
