package argv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/argv"
	"github.com/rulvar/rulvar-go/internal/errs"
)

func TestCompilePattern(t *testing.T) {
	for name, text := range map[string]string{
		"words":                  "git push --force",
		"one word":               "ls *",
		"all words":              "ls **",
		"any command":            "**",
		"a star first":           "* -l",
		"a star inside a word":   "ls *.go",
		"three stars":            "ls ***",
		"quotes":                 `grep 'a b' "c d" e\ f`,
		"a quoted star":          `grep '*' "*" \*`,
		"tabs and many blanks":   " ls \t -l ",
		"a redirection":          "go test ** > *",
		"a glued redirection":    "go test ** >out.txt",
		"a descriptor":           "make 2> err.txt",
		"append and read":        "sort >> out < in",
		"a dollar for itself":    "grep ^a$ **",
		"a quoted dollar":        "echo '$HOME'",
		"an assignment":          "CI=1 npm test",
		"a hash inside":          "git show HEAD#1",
		"a quoted hash":          "echo '#1'",
		"braces and wildcards":   "ls {a,b} [a-z] ?",
		"not only ASCII":         "echo é 你好",
		"an empty word":          "git commit -m ''",
		"a number that is none":  "head -n 5",
		"an assignment later on": "make FOO=bar",
	} {
		t.Run(name, func(t *testing.T) {
			p, err := argv.CompilePattern(text)
			require.NoError(t, err)
			require.Equal(t, text, p.String())
		})
	}
}

func TestCompilePatternErrors(t *testing.T) {
	for name, row := range map[string]struct{ text, says string }{
		"empty":                      {"", "empty"},
		"blanks":                     {" \t ", "empty"},
		"** before a word":           {"a ** c", "** stands in front"},
		"** twice":                   {"a ** **", "** stands in front"},
		"** first":                   {"** rm", "** stands in front"},
		"a comment":                  {"ls # all", "comment"},
		"only a comment":             {"# x", "comment"},
		"a separator":                {"a; b", "operator"},
		"a glued separator":          {"a;b", "operator"},
		"a pipe":                     {"a | b", "operator"},
		"a background":               {"a &", "operator"},
		"a subshell":                 {"(a)", "operator"},
		"a substitution":             {"a $(b)", "quote the $"},
		"a backquote":                {"a `b`", "operator"},
		"a variable":                 {"echo $HOME", "quote the $"},
		"a variable in quotes":       {`echo "$HOME"`, "single quotes"},
		"an ANSI-C quote":            {"echo $'a'", "quote the $"},
		"a newline":                  {"ls\n-l", "control character"},
		"a carriage return":          {"ls\r", "control character"},
		"a NUL":                      {"ls \x00", "control character"},
		"a NUL in quotes":            {"ls '\x00'", "control character"},
		"an open quote":              {"ls 'a", "not closed"},
		"an open double quote":       {`ls "a`, "not closed"},
		"a last backslash":           {`ls \`, "backslash"},
		"an ambiguous escape":        {`ls "a\nb"`, "ambiguous"},
		"a redirection first":        {"> f ls", "in front of a word"},
		"a redirection in between":   {"ls > f -l", "in front of a word"},
		"a redirection of nothing":   {"ls >", "no target"},
		"two operators":              {"ls > > f", "no target"},
		"a redirection to all":       {"ls > **", "one file"},
		"a redirection to nothing":   {"ls > ''", "empty name"},
		"an operator inside a word":  {"ls a>b", "inside a word"},
		"a here-document":            {"cat <<E", "inside a word"},
		"a duplication":              {"ls 2>&1", "operator"},
		"only a redirection":         {"> f", "names no command"},
		"only an assignment":         {"A=1", "names no command"},
		"bytes that are not UTF-8":   {"ls \xff", "UTF-8"},
		"too long":                   {"a" + strings.Repeat("b", 5000), "4096"},
		"too many words":             {strings.Repeat("a ", 300), "256"},
		"an appending descriptor":    {"ls 2>> f", "inside a word"},
		"a descriptor that is read":  {"ls 0< f", "inside a word"},
		"the null device":            {"ls > /dev/null", "never matters"},
		"an escaped control":         {"ls \\\x01", "control character"},
		"a substitution in quotes":   {`echo "$(a)"`, "single quotes"},
		"a backquote in quotes":      {"echo \"`a`\"", "single quotes"},
		"a continuation":             {"ls \\\n-l", "control character"},
		"a redirection without name": {"ls > 2> f", "no target"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := argv.CompilePattern(row.text)
			require.ErrorIs(t, err, errs.Config)
			require.Contains(t, err.Error(), row.says)
		})
	}
}

// TestQuotedPatternMatchesItself holds that any argv, spelled by Quote, compiles
// to a pattern that matches it and that covers it.
func TestQuotedPatternMatchesItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab*?[]{}~!#'\"\\ $=<>;é/.-1")), 0, 8, -1), 1, 5).Draw(t, "argv")
		text := argv.QuoteAll(args)
		p, err := argv.CompilePattern(text)
		require.NoError(t, err, text)
		require.Equal(t, argv.Yes, p.MatchArgv(args), text)
		if c := argv.Read(text); len(c.Segments()) == 1 && c.Segments()[0].Problem == "" {
			require.True(t, c.Segments()[0].Allows(p, nil), text)
		}
	})
}

func FuzzCompilePattern(f *testing.F) {
	for _, s := range []string{"ls **", "go test ** > *", `a 'b c' "d" \e`, "A=1 b", "2> f", "a ** b", "# x", "a$b", "é", "\xff", "a>b", "***"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := argv.CompilePattern(text)
		if err != nil {
			require.ErrorIs(t, err, errs.Config)
			return
		}
		require.Equal(t, text, p.String())
		require.True(t, p.Covers(p))
		argv.Read(text).Against(p)
		p.MatchArgv(strings.Fields(text))
		p.MatchRedirect(">", "f")
	})
}
