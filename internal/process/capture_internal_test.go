package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// captured is what is kept of a stream that comes in pieces of n bytes.
func captured(limit int, stream []byte, n int) *Capture {
	c := NewCapture(limit)
	for len(stream) > 0 {
		k := min(n, len(stream))
		_, _ = c.Write(stream[:k])
		stream = stream[k:]
	}
	return c
}

func TestText(t *testing.T) {
	for _, row := range []struct {
		name, stream string
		limit        int
		text, note   string
		cut          bool
	}{
		{"nothing", "", 8, "", "", false},
		{"short", "abc", 8, "abc", "", false},
		{"as long as may be", "abcdefgh", 8, "abcdefgh", "", false},
		{"one too long", "abcdefghi", 8, "abcd\n[… 1 bytes cut …]\nfghi", "", true},
		{"a rune across the first cut", "abc€defgh", 8, "abc\n[… 4 bytes cut …]\nefgh", "", true},
		{"a rune across the last cut", "abcdef€gh", 8, "abcd\n[… 5 bytes cut …]\ngh", "", true},
		{"a rune of four bytes across both", "ab😀cd😀ef", 8, "ab\n[… 10 bytes cut …]\nef", "", true},
		{"a rune that just fits", "a€defghijkl", 8, "a€\n[… 5 bytes cut …]\nijkl", "", true},
		{"bytes that are not UTF-8", "0123456789 caf\xe9 0123456789", 64, "0123456789 caf\uFFFD 0123456789", notUTF8, false},
		{"a run of them", "0123456789 0123456789 0123456789\xff\xfe\xfd", 64, "0123456789 0123456789 0123456789\uFFFD", notUTF8, false},
		{"names between NULs", "first-name\x00second-name\x00", 64, "first-name\uFFFDsecond-name\uFFFD", notUTF8, false},
		{"surrogates", "0123456789 0123456789 0123456789\xed\xa0\x80", 64, "0123456789 0123456789 0123456789\uFFFD", notUTF8, false},
		{"colours stay", "\x1b[31mred\x1b[0m", 64, "\x1b[31mred\x1b[0m", "", false},
		{"no text", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", 64, "[16 bytes that are no text; the first are 89 50 4e 47 0d 0a 1a 0a 00 00 00 0d 49 48 44 52]", "is no text and is not shown", false},
		{"much that is no text", strings.Repeat("\x00\x01\x02\x03", 8), 8, "[32 bytes that are no text; the first are 00 01 02 03]", "is no text and is not shown", true},
		{"only the end of a rune", "\x80", 64, "[1 bytes that are no text; the first are 80]", "is no text and is not shown", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			for n := 1; n < 12; n++ {
				text, note, cut := captured(row.limit, []byte(row.stream), n).Text()
				require.Equal(t, row.text, text)
				require.Equal(t, row.note, note)
				require.Equal(t, row.cut, cut)
			}
		})
	}
}

const notUTF8 = "holds bytes that are not UTF-8, or NUL; each run of them is shown as U+FFFD"

// Whatever comes in, and in whatever pieces, its two ends are kept.
func TestCaptureKeepsBothEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 40).Draw(t, "limit") / 2 * 2
		stream := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "stream")
		c := NewCapture(limit)
		for rest := stream; len(rest) > 0; {
			k := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			n, err := c.Write(rest[:k])
			require.NoError(t, err)
			require.Equal(t, k, n)
			rest = rest[k:]
		}
		head, tail, missing := c.Parts()
		if len(stream) <= limit {
			require.Zero(t, missing)
			require.True(t, bytes.Equal(stream, head) && len(tail) == 0)
			return
		}
		require.EqualValues(t, len(stream)-limit, missing)
		require.True(t, bytes.HasPrefix(stream, head) && len(head) == limit/2)
		require.True(t, bytes.HasSuffix(stream, tail) && len(tail) == limit/2)
	})
}

// FuzzText: what the model sees is text that JSON carries unchanged, whatever a
// program writes, and a note tells where it is not what was written.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain text", "€uro and 😀", "\xff\xfe\x00", "a\x00b\x00c", "\xed\xa0\x80", strings.Repeat("😀", 30), "\x1b[0m\x07"} {
		f.Add([]byte(seed), 16)
	}
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		limit = 64 + limit&0xff
		text, note, cut := captured(limit, stream, 7).Text()
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "\x00")
		require.Equal(t, len(stream) > limit/2*2, cut)
		if note == "" && !cut {
			require.Equal(t, string(stream), text)
		}
		require.LessOrEqual(t, len(text), 3*limit+200)
		body, err := json.Marshal(text)
		require.NoError(t, err)
		var back string
		require.NoError(t, json.Unmarshal(body, &back))
		require.Equal(t, text, back)
	})
}

func BenchmarkCapture(b *testing.B) {
	for _, size := range []int{64, 4096, 65536} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			piece := make([]byte, size)
			for i := range piece {
				piece[i] = byte('a' + rand.IntN(26))
			}
			c := NewCapture(64 << 10)
			b.SetBytes(int64(size))
			for b.Loop() {
				_, _ = c.Write(piece)
			}
		})
	}
}
