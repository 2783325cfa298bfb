package jcs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// TestDepth holds texts and trees to MaxDepth, exactly.
func TestDepth(t *testing.T) {
	for _, row := range []struct{ name, open, middle, shut string }{
		{"arrays", "[", "0", "]"},
		{"objects", `{"a":`, "0", "}"},
		{"mixed", `{"a":[`, "0", "]}"},
	} {
		t.Run(row.name, func(t *testing.T) {
			per := strings.Count(row.open, "[") + strings.Count(row.open, "{")
			text := func(depth int) []byte {
				n := depth / per
				return []byte(strings.Repeat(row.open, n) + row.middle + strings.Repeat(row.shut, n))
			}
			fits, tooDeep := text(jcs.MaxDepth), text(jcs.MaxDepth+per)
			got, err := jcs.Canonical(fits)
			require.NoError(t, err)
			require.Equal(t, fits, got)
			tree, err := jcs.ParseStrict(fits)
			require.NoError(t, err)
			got, err = jcs.AppendTree(nil, tree)
			require.NoError(t, err)
			require.Equal(t, fits, got)

			_, err = jcs.Canonical(tooDeep)
			require.ErrorIs(t, err, jcs.ErrDepth)
			_, err = jcs.Parse(tooDeep)
			require.ErrorIs(t, err, jcs.ErrDepth)
			_, err = jcs.AppendTree(nil, []any{tree})
			require.ErrorIs(t, err, jcs.ErrDepth)
			_, err = jcs.AppendTree(nil, map[string]any{"t": json.RawMessage(fits)})
			require.ErrorIs(t, err, jcs.ErrDepth, "a raw text inside a tree counts on")
			_, err = jcs.AppendTree(nil, json.RawMessage(fits))
			require.NoError(t, err)
		})
	}
}

// TestHugeInputs are texts of a megabyte that a reader with a recursion, a
// quadratic sort or a quadratic path would not survive in reasonable time.
func TestHugeInputs(t *testing.T) {
	const size = 1 << 20
	for _, open := range []string{"[", `{"a":`, `[{"a":`, "[ "} {
		text := []byte(strings.Repeat(open, size/len(open)))
		_, err := jcs.ParseStrict(text)
		require.ErrorIs(t, err, jcs.ErrDepth, "%q", open)
		_, err = jcs.Canonical(text)
		require.ErrorIs(t, err, jcs.ErrDepth, "%q", open)
	}

	name := strings.Repeat("n", 1000)
	_, err := jcs.ParseStrict([]byte(strings.Repeat(`{"`+name+`":`, jcs.MaxDepth)))
	var e *jcs.SyntaxError
	require.ErrorAs(t, err, &e)
	require.Len(t, e.Path, jcs.MaxDepth*(len(name)+1))

	digits := strings.Repeat("1", size)
	_, err = jcs.ParseStrict([]byte(digits))
	require.ErrorIs(t, err, jcs.ErrNonFinite)
	_, err = jcs.ParseStrict([]byte("0." + digits))
	require.NoError(t, err)
}

// TestManyMembers sorts objects of 20,000 members that arrive in unkind
// orders.
func TestManyMembers(t *testing.T) {
	const count = 20_000
	shared := strings.Repeat("s", 40)
	for _, row := range []struct {
		name string
		key  func(i int) string
	}{
		{"ascending", func(i int) string { return fmt.Sprintf("%06d", i) }},
		{"descending", func(i int) string { return fmt.Sprintf("%06d", count-i) }},
		{"organ pipe", func(i int) string { return fmt.Sprintf("%06d", min(i, count-i)*2+i%2) }},
		{"long shared start", func(i int) string { return fmt.Sprintf("%s%06d", shared, i*7919%count) }},
		{"one name", func(int) string { return "same" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			var text strings.Builder
			tree := map[string]any{}
			text.WriteByte('{')
			for i := range count {
				if i > 0 {
					text.WriteByte(',')
				}
				fmt.Fprintf(&text, "%q:%d", row.key(i), i)
				tree[row.key(i)] = i
			}
			text.WriteByte('}')
			fromText, err := jcs.Canonical([]byte(text.String()))
			require.NoError(t, err)
			fromTree, err := jcs.AppendTree(nil, tree)
			require.NoError(t, err)
			require.Equal(t, string(fromTree), string(fromText))
		})
	}
}

// TestCycleIsRefused covers trees that contain themselves.
func TestCycleIsRefused(t *testing.T) {
	object := map[string]any{}
	object["self"] = object
	_, err := jcs.AppendTree(nil, object)
	require.ErrorIs(t, err, jcs.ErrDepth)
	list := []any{nil}
	list[0] = list
	_, err = jcs.Hash(list)
	require.ErrorIs(t, err, jcs.ErrDepth)
}
