package argv

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pieces are what texts for the readers are made of: more than half of any
// random choice of them is read by one of the readers.
var pieces = []string{
	"ls", "rm", "-rf", "x", " ", " ", " ", "\t", ";", "&&", "||", "|", "&", "\n", "'a b'", "\"c d\"", "''", "\"\"", "\\ ", "\\\n", "$x", "\"$x\"", "${x}", "$@", "\"$@\"", "$(", ")", "`", ">", "<", ">f", "2>&1", "> /dev/null",
	"&>f", "<<E\n", "\nE\n", "#", " # x\n", "a=b", "a+=b", "a[0]=b", "{", "}", "{a,b}", "*", "?", "[a]", "~", "!", "if ", "then ", "fi", "for i in a", "do ", "done", "case ", "esac", "in", "time ", "[[", "]]", "((", "))",
	"$'a'", "$\"b\"", "${x:-y}", "${x[0]}", "$((1+x))", "function f", "f()", "é", "\u00a0", "\x01", "\r", "\\", "'", "\"", "$", "=", "1", "-",
}

// drawText draws a text from pieces.
func drawText(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 14).Draw(t, "pieces"), "")
}

// checkReaders holds what is true of the readers for any text.
func checkReaders(t require.TestingT, text string) {
	segs, lost := readStrict(text, false)
	_, _ = readStrict(text, true)
	var line plainLine
	if line.read(text) {
		require.Empty(t, lost, "a plain line is understood: %q", text)
		plain := line.segments()
		require.Len(t, plain, len(segs), "%q", text)
		for i := range segs {
			require.Empty(t, segs[i].Problem, "%q", text)
			require.Empty(t, segs[i].Assigns, "%q", text)
			for k := range segs[i].Redirects {
				require.True(t, segs[i].Redirects[k].Harmless(), "%q", text)
			}
			require.Equal(t, segs[i].Words, plain[i].Words, "%q", text)
			require.Equal(t, segs[i].Text, plain[i].Text, "%q", text)
		}
	}
	if treeFits(text) != "" {
		return
	}
	bash := readBash(text)
	if line.read(text) {
		require.True(t, bash.parsed, "a plain line is parsed: %q", text)
		require.True(t, agree(segs, bash.segs), "%q: plain and tree disagree", text)
	}
	if bash.parsed && !bash.onlyBash {
		posix := readPOSIX(text, nil)
		require.True(t, posix.parsed && agree(bash.segs, posix.segs), "%q holds nothing of Bash, but the dialects differ: %v, %v", text, bash, posix)
	}
}

func TestReadersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkReaders(t, drawText(t)) })
}

func FuzzReaders(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		f.Add(b.String())
	}
	f.Add("git commit -m \"fix; a && b\" 2>&1 | tee out\nls > /dev/null &")
	f.Add("echo a # b \\\nrm x")
	f.Fuzz(func(t *testing.T, text string) {
		checkReaders(t, text)
		c := Read(text)
		c.Unjudgeable()
		for i := range c.Segments() {
			c.Segments()[i].Suggest()
		}
	})
}

func TestDecodeANSI(t *testing.T) {
	for name, row := range map[string]struct {
		in, want string
		ok       bool
	}{
		"plain":           {"abc", "abc", true},
		"letters":         {`\a\b\e\E\f\n\r\t\v`, "\a\b\x1b\x1b\f\n\r\t\v", true},
		"quotes":          {`\'\"\\\?`, `'"\?`, true},
		"octal":           {`\162\155\7x`, "rm\ax", true},
		"hexadecimal":     {`\x72\x6Dg`, "rmg", true},
		"one digit":       {`\x7z`, "\az", true},
		"code points":     {`\u0072\U0000006d\ue9`, "rmé", true},
		"control":         {`\ca\cZ`, "\x01\x1a", true},
		"unknown":         {`\q`, "", false},
		"NUL":             {`a\0b`, "", false},
		"NUL in hex":      {`\x00`, "", false},
		"no digits":       {`\xz`, "", false},
		"surrogate":       {`\ud800`, "", false},
		"beyond Unicode":  {`\U00110000`, "", false},
		"last backslash":  {`a\`, `a\`, true},
		"control of none": {`\c`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := decodeANSI(row.in)
			require.Equal(t, row.ok, ok)
			require.Equal(t, row.want, got)
		})
	}
}
