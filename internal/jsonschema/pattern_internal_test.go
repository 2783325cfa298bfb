package jsonschema

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPattern(t *testing.T) {
	rows := []struct {
		name, pattern string
		match, miss   []string
	}{
		{"start and end are those of the text", "^a$", []string{"a"}, []string{"a\n", "\na", "b"}},
		{"searched anywhere", "b", []string{"abc"}, []string{"ac", ""}},
		{"empty", "", []string{"", "x"}, nil},
		{"a dot is no line terminator", "^.$", []string{"a", "😀", "\v", "\u0085"}, []string{"\n", "\r", "\u2028", "\u2029", "ab"}},
		{"digits are ASCII", `^\d+$`, []string{"09"}, []string{"٣", "a"}},
		{"words are ASCII", `^\w+$`, []string{"aZ_9"}, []string{"é", "-", "ſ"}},
		{"blanks are those of ECMAScript", `^\s$`, []string{"\t", "\n", "\v", "\f", "\r", " ", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000", "\ufeff"}, []string{"\u0085", "\u200b", "\u180e", "a"}},
		{"and all the rest are not", `^\S$`, []string{"\u0085", "\u200b", "a", "\x00", "😀"}, []string{" ", "\ufeff", "\u2009"}},
		{"classes in a class", `^[\s\d]+$`, []string{"1 2\u3000"}, []string{"a"}},
		{"negated classes in a class", `^[\S]$`, []string{"a", "\u200b"}, []string{" "}},
		{"and negated again", `^[^\S\n]$`, []string{" ", "\ufeff"}, []string{"\n", "a"}},
		{"the empty class", `[]`, nil, []string{"", "a"}},
		{"the full class", `^[^]$`, []string{"a", "\n", "😀"}, []string{""}},
		{"a dash last, first, escaped", `^[\w\-][a-][-b]$`, []string{"-a-", "x-b"}, []string{"+a-"}},
		{"brackets in a class", `^[[(.]+$`, []string{"[(."}, []string{"a"}},
		{"a backspace in a class", `[\b]`, []string{"\b"}, []string{"b"}},
		{"a word boundary", `\bcat\b`, []string{"a cat", "cat-"}, []string{"concat", "cats"}},
		{"no word boundary", `\Bcat`, []string{"concat"}, []string{"cat"}},
		{"control letters", `^\cJ\cA$`, []string{"\n\x01"}, []string{"J"}},
		{"characters by number", `^\x41\u0042\u{1F600}\uD83D\uDE00$`, []string{"AB😀😀"}, []string{"AB"}},
		{"characters by letter", `^\t\n\v\f\r\0$`, []string{"\t\n\v\f\r\x00"}, nil},
		{"syntax characters", `^\^\$\\\.\*\+\?\(\)\[\]\{\}\|\/$`, []string{`^$\.*+?()[]{}|/`}, nil},
		{"what RE2 would read otherwise", `^a-z:#&<>!'"\u005C$`, []string{`a-z:#&<>!'"\`}, nil},
		{"categories", `^\p{Lu}\p{Letter}\P{L}\p{gc=Nd}$`, []string{"Éé-7"}, []string{"éé-7"}},
		{"scripts", `^[\p{Script=Greek}\p{sc=Cyrillic}]+$`, []string{"αЖ"}, []string{"a"}},
		{"other properties", `^\p{ASCII}\p{Any}$`, []string{"a\n", "a😀"}, []string{"é1"}},
		{"counts", `^a{2}b{1,}c{0,2}d{3,3}$`, []string{"aabddd", "aabbccddd"}, []string{"abddd", "aabcccddd"}},
		{"lazy", `^a+?b*?c??$`, []string{"aab", "ac"}, []string{"b"}},
		{"groups", `^(?:a|b)(c)(?<name>d)+$`, []string{"acdd"}, []string{"ac"}},
		{"alternatives that are empty", `^(|a)$`, []string{"", "a"}, []string{"b"}},
		{"a character beyond the plane repeats whole", `^😀{2}$`, []string{"😀😀"}, []string{"😀"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p, err := compilePattern(row.pattern)
			require.Nil(t, err)
			require.Equal(t, row.pattern, p.String())
			for _, s := range row.match {
				require.True(t, p.MatchString(s), "%q", s)
			}
			for _, s := range row.miss {
				require.False(t, p.MatchString(s), "%q", s)
			}
		})
	}
}

func TestPatternRefused(t *testing.T) {
	for _, text := range []string{
		"[", "(", ")", "]", "}", "a{", "a{1", "a{,2}", "a{2,1}", "*a", "a**", "a+*", "(?*)", "^*", "$?", `\b+`, "(?=a)*",
		`\-`, `\_`, `\A`, `\z`, `\a`, `\e`, `\8`, `\1`, `\01`, `\c1`, `\x4`, `\xzz`, `\u12`, `\u{}`, `\u{110000}`, `\u{1 }`,
		`[\w-.]`, `[a-\d]`, `[b-a]`, `[\c]`, `[\B]`, `(?<n>`, `(?<>a)`, `(?<1>a)`, `(?<n>a)(?<n>b)`, `\k<n>`, `\k`, `(?i)a`, `(?P<n>a)`,
		`\p`, `\pL`, `\p{`, `\p{}`, "a\xff", `\`, `[\`, "{", "a|*",
	} {
		_, err := compilePattern(text)
		require.NotNil(t, err, text)
		require.False(t, err.unsupported, "%s: %v", text, err)
		require.Error(t, validPattern(text), text)
	}
	for _, text := range []string{
		"(?=a)", "(?!a)b", "(?<=a)b", "(?<!a)b", `(a)\1`, `\1(a)`, `(?<n>a)\k<n>`, `\ud800`, `\u{DFFF}`, `[\ud83d-\ud83e]`,
		`\p{Emoji}`, `\p{Script_Extensions=Greek}`, `\p{Greek}`, `\p{lu}`, `\p{sc=Grek}`, "a{1001}", "(a{100}){100}", "a{99999999999999999999}",
		strings.Repeat("(", 101) + strings.Repeat(")", 101), strings.Repeat("a", maxPattern+1), "(?<é>a)",
	} {
		_, err := compilePattern(text)
		require.NotNil(t, err, text)
		require.True(t, err.unsupported, "%s: %v", text, err)
		require.NoError(t, validPattern(text), text)
	}
}

// genPattern makes patterns of which about half are valid.
func genPattern() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		atoms := []string{
			"a", "b", "-", "_", " ", ".", "^", "$", "|", "(", ")", "(?:", "[", "]", "[^", "*", "+", "?", "{2}", "{1,}", "{0,2}", ",", ":", "=", "&&", "[:",
			`\d`, `\D`, `\w`, `\W`, `\s`, `\S`, `\b`, `\B`, `\n`, `\t`, `\/`, `\-`, `\.`, `\\`, `\cA`, `\x41`, `\u0061`, `\u{61}`, `\0`, "é", "😀",
			`\p{L}`, `\P{Lu}`, `\p{Script=Greek}`, `a-z`, `^-`, `\]`, `\^`,
		}
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(atoms), 0, 8).Draw(t, "atoms"), "")
	})
}

// TestPatternNode holds the translation against an ECMAScript engine, where
// there is one: both have to accept the same patterns, and an accepted one has
// to match the same texts.
func TestPatternNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	texts := []string{"", "a", "b", "ab", "aab", "-", "_", "1", " ", "\n", "a\nb", "A", "é", "😀", "\u00a0", "\ufeff", "\u2028", "[", "]", "^", "|", "a-b", ":", "aaa", "\b", "&", ",", "Α", "\x00", "\x01"}
	var patterns []string
	for seed := range 800 {
		patterns = append(patterns, genPattern().Example(seed))
	}
	const script = `
let all = "";
process.stdin.on("data", d => all += d).on("end", () => {
  const {patterns, texts} = JSON.parse(all);
  console.log(JSON.stringify(patterns.map(p => {
    try { const re = new RegExp(p, "u"); return texts.map(s => re.test(s)) } catch { return null }
  })));
});`
	input, err := json.Marshal(map[string]any{"patterns": patterns, "texts": texts})
	require.NoError(t, err)
	cmd := exec.Command(node, "-e", script)
	cmd.Stdin = strings.NewReader(string(input))
	output, err := cmd.Output()
	require.NoError(t, err)
	var verdicts [][]bool
	require.NoError(t, json.Unmarshal(output, &verdicts))
	accepted := 0
	for i, source := range patterns {
		p, refused := compilePattern(source)
		switch {
		case verdicts[i] == nil:
			require.NotNil(t, refused, "accepts %q, which ECMAScript refuses", source)
		case refused != nil:
			require.True(t, refused.unsupported, "refuses %q as invalid: %v", source, refused)
		default:
			accepted++
			for k, s := range texts {
				require.Equal(t, verdicts[i][k], p.MatchString(s), "pattern %q, text %q", source, s)
			}
		}
	}
	t.Logf("%d patterns, %d accepted", len(patterns), accepted)
	require.Greater(t, accepted, 100)
}

func FuzzPattern(f *testing.F) {
	for seed := range 60 {
		f.Add(genPattern().Example(seed), "aab")
	}
	f.Add(`(?<n>a)\k<n>[\w-.]\p{Script=Greek}\u{1F600}\uD83D\uDE00`, "α😀")
	f.Fuzz(func(t *testing.T, source, text string) {
		p, err := compilePattern(source)
		if err != nil {
			return
		}
		p.MatchString(text)
		// A part of an alternative matches no less than the part itself.
		either, err := compilePattern("(?:" + source + ")|(?:b)")
		if err != nil {
			return // too deep or too large by now
		}
		if p.MatchString(text) && !either.MatchString(text) {
			t.Errorf("%q matches %q and an alternative of it does not", source, text)
		}
	})
}
