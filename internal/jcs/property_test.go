package jcs_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// names draws member names around the places where byte order and UTF-16
// order part.
func names() *rapid.Generator[string] {
	runes := []rune{'a', 'B', '0', '"', '\\', '\n', 0, 0x7f, 'é', 0xd7ff, 0xe000, 0xfb33, 0xfffd, 0xffff, 0x10000, 0x1f600, 0x10ffff}
	return rapid.StringOfN(rapid.SampledFrom(runes), 0, 12, -1)
}

// trees draws trees of a few levels.
func trees(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 6
		if depth > 0 {
			kinds = 8
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.String().Draw(t, "string")
		case 3:
			return names().Draw(t, "string")
		case 4:
			return rapid.Int64Range(-1<<53, 1<<53).Draw(t, "integer")
		case 5:
			return rapid.Float64().Draw(t, "float")
		case 6:
			return rapid.SliceOfN(trees(depth-1), 0, 5).Draw(t, "list")
		default:
			return rapid.MapOfN(names(), trees(depth-1), 0, 20).Draw(t, "object")
		}
	})
}

// shuffledText writes tree with its members in a random order, strings as
// encoding/json writes them and blanks here and there.
func shuffledText(r *rand.Rand, dst []byte, tree any) []byte {
	if r.IntN(3) == 0 {
		dst = append(dst, "\n\t\r          "[:r.IntN(14)]...)
	}
	switch v := tree.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		dst = append(dst, '{')
		for i, name := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(shuffledText(r, dst, name), ' ', ':')
			dst = shuffledText(r, dst, v[name])
		}
		dst = append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = shuffledText(r, dst, e)
		}
		dst = append(dst, ']')
	default:
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		dst = append(dst, b...)
	}
	return dst
}

// TestMemberOrderDoesNotMatter: however a value's text orders members, spells
// strings and spends blanks, its canonical form is that of the value.
func TestMemberOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := trees(3).Draw(t, "tree")
		want, err := jcs.AppendTree(nil, tree)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		text := shuffledText(r, nil, tree)
		got, err := jcs.Canonical(text)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		marshaled, err := jcs.Marshal(tree)
		require.NoError(t, err)
		require.Equal(t, string(want), string(marshaled))
		strict, err := jcs.ParseStrict(text)
		require.NoError(t, err)
		got, err = jcs.AppendTree(nil, strict)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

// TestMembersAreInUTF16Order reads the members of the canonical form back and
// compares their order with that of the names in real UTF-16.
func TestMembersAreInUTF16Order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{}
		for _, name := range rapid.SliceOfN(names(), 0, 40).Draw(t, "names") {
			object[name] = name
		}
		want := make([]string, 0, len(object))
		for name := range object {
			want = append(want, name)
		}
		slices.SortFunc(want, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		expected := []byte{'{'}
		for i, name := range want {
			if i > 0 {
				expected = append(expected, ',')
			}
			expected = jcs.AppendString(append(jcs.AppendString(expected, name), ':'), name)
		}
		got, err := jcs.AppendTree(nil, object)
		require.NoError(t, err)
		require.Equal(t, string(expected)+"}", string(got))
	})
}

// TestNumbersRoundTrip: the canonical text of a float64 reads back as the same
// float64, and every spelling of it gives that text.
func TestNumbersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			t.Skip("no JSON number")
		}
		got, err := jcs.AppendTree(nil, f)
		require.NoError(t, err)
		back, err := strconv.ParseFloat(string(got), 64)
		require.NoError(t, err)
		require.True(t, back == f, "%v reads back as %v", f, back)
		_, err = jcs.ParseStrict(got)
		require.NoError(t, err, "a canonical number is always exact")
		for _, format := range []byte{'e', 'E', 'f'} {
			for _, digits := range []int{-1, 17, 30} {
				again, err := jcs.Canonical(strconv.AppendFloat(nil, f, format, digits, 64))
				require.NoError(t, err)
				if format == 'f' && digits > 0 && math.Abs(f) < 1 {
					continue // digits count from the point: small numbers lose theirs
				}
				require.Equal(t, string(got), string(again))
			}
		}
	})
}

// TestShortDecimalsStay: numbers of up to 15 digits, written plainly and in
// the range without exponents, are their own canonical text.
func TestShortDecimalsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,7})\.[0-9]{0,5}[1-9]|[1-9][0-9]{0,14}`).Draw(t, "number")
		got, err := jcs.Canonical([]byte(text))
		require.NoError(t, err)
		f, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		fromFloat, err := jcs.AppendTree(nil, f)
		require.NoError(t, err)
		require.Equal(t, string(fromFloat), string(got))
		require.Equal(t, text, string(got))
	})
}

// TestStrictIntegers compares the exactness of integers with big decimals:
// taken is an integer whose canonical text denotes the same number.
func TestStrictIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?[1-9][0-9]{13,24}(\.0{1,3})?([eE]\+?[0-9])?`).Draw(t, "number")
		canonical, err := jcs.Canonical([]byte(text))
		require.NoError(t, err)
		_, err = jcs.ParseStrict([]byte(text))
		if same := rational(text).Cmp(rational(string(canonical))) == 0; same {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, jcs.ErrInexact)
		}
	})
}
