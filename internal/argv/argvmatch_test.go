package argv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/argv"
)

func TestMatchArgv(t *testing.T) {
	for name, row := range map[string]struct {
		pattern string
		args    []string
		want    argv.Match
	}{
		"equal":               {"rm -rf *", []string{"rm", "-rf", "x"}, argv.Yes},
		"one word more":       {"rm -rf *", []string{"rm", "-rf", "x", "y"}, argv.No},
		"one word less":       {"rm -rf *", []string{"rm", "-rf"}, argv.No},
		"all words":           {"rm **", []string{"rm"}, argv.Yes},
		"a blank in a word":   {"rm **", []string{"rm x"}, argv.No},
		"a path":              {"rm **", []string{"/bin/rm", "x"}, argv.Maybe},
		"a pattern of a path": {"/bin/rm **", []string{"rm", "x"}, argv.Maybe},
		"another directory":   {"/bin/rm **", []string{"/usr/bin/rm", "x"}, argv.Maybe},
		"another program":     {"./test **", []string{"test", "-f", "x"}, argv.No},
		"a wrapper":           {"rm **", []string{"env", "A=1", "rm", "x"}, argv.Maybe},
		"a text":              {"rm **", []string{"sh", "-c", "ls; rm x"}, argv.Maybe},
		"a harmless text":     {"rm **", []string{"sh", "-c", "ls; echo rm x"}, argv.No},
		"what a shell reads":  {"rm **", []string{"sh"}, argv.Maybe},
		"a star in a word":    {"ls *.go", []string{"ls", "a.go"}, argv.No},
		"the same star":       {"ls *.go", []string{"ls", "*.go"}, argv.Yes},
		"nothing":             {"rm **", nil, argv.No},
		"nothing, all words":  {"**", nil, argv.Yes},
		"a spelled file":      {"ls ** > f", []string{"ls"}, argv.No},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, compile(t, row.pattern).MatchArgv(row.args))
		})
	}
}

func TestMatchRedirect(t *testing.T) {
	for name, row := range map[string]struct {
		pattern, op, target string
		want                argv.Match
	}{
		"any command, any file":    {"** > *", ">", "x", argv.Yes},
		"any command, this file":   {"** > /etc/passwd", ">", "/etc/passwd", argv.Yes},
		"by another way":           {"** > /etc/passwd", ">", "/etc//x/../passwd", argv.Maybe},
		"another file":             {"** > /etc/passwd", ">", "/etc/hosts", argv.No},
		"one command":              {"ls ** > *", ">", "x", argv.Maybe},
		"no redirection":           {"**", ">", "x", argv.No},
		"appending":                {"** > *", ">>", "x", argv.No},
		"appending, spelled":       {"** >> *", ">>", "x", argv.Yes},
		"reading":                  {"** < *", "<", "x", argv.Yes},
		"reading and writing":      {"** > *", "<>", "x", argv.Yes},
		"another descriptor":       {"** > *", "2>", "x", argv.Yes},
		"the descriptor":           {"** 2> *", "2>", "x", argv.Yes},
		"not the descriptor":       {"** 2> *", ">", "x", argv.No},
		"clobbering":               {"** > *", ">|", "x", argv.Yes},
		"everything":               {"** > *", "&>", "x", argv.Yes},
		"the null device":          {"** > *", ">", "/dev/null", argv.No},
		"a duplication":            {"** > *", "2>&", "1", argv.No},
		"one of two redirections":  {"** > * 2> err", ">", "x", argv.Maybe},
		"the assignment is spoken": {"A=1 ** > *", ">", "x", argv.Maybe},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, compile(t, row.pattern).MatchRedirect(row.op, row.target))
		})
	}
}

func TestShowsArgv(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		args string // blank-separated
		want bool
	}{
		"plain":              {"git push origin", "git push origin", true},
		"quoted":             {`git "push" or'igin'`, "git push origin", true},
		"in a loop":          {"for i in 1; do rm x; done", "rm x", true},
		"in a substitution":  {"echo $(rm x)", "rm x", true},
		"behind eval":        {"eval 'rm x'", "rm x", true},
		"the wrapper":        {"env rm x", "env rm x", true},
		"an expansion":       {"rm $X", "rm x", false},
		"a quoted expansion": {`rm "$X"`, "rm x", false},
		"a glob":             {"rm *", "rm *", false},
		"a tilde":            {"rm ~", "rm ~", false},
		"one word more":      {"rm x", "rm x y", false},
		"another word":       {"rm x", "rm y", false},
		"nothing":            {"rm x", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, argv.Read(row.text).ShowsArgv(strings.Fields(row.args)))
		})
	}
}

// TestLine holds that a plain line is answered the same way with and without the
// short cut.
func TestLine(t *testing.T) {
	words := []string{"ls", "rm", "RM", "/bin/rm", "git", "push", "-C", "x", "'a b'", "\"c\"", ";", "&&", "|", "&", "\n", "2>&1", ">/dev/null", "env", "sh", "-c", "echo", "test", "--force", "cd"}
	texts := []string{"rm **", "ls **", "git push **", "* x", "**", "ls *", "/bin/rm *", "echo 'a b'", "git **", "** > *"}
	var patterns []*argv.Pattern
	for _, s := range texts {
		patterns = append(patterns, compile(t, s))
	}
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 10).Draw(t, "words"), " ")
		line := argv.GetLine()
		defer line.Release()
		if !line.Read(text) {
			return
		}
		plain++
		c := argv.Read(text)
		segs := c.Segments()
		require.Len(t, segs, line.Commands())
		for i, p := range patterns {
			if line.Simple() {
				require.Equal(t, c.Against(p), line.Against(p), "%q against %s", text, texts[i])
			}
		}
		for n := range patterns {
			want := true
			for i := range segs {
				covered := false
				for _, p := range patterns[:n] {
					covered = covered || segs[i].Allows(p, nil)
				}
				want = want && covered
			}
			require.Equal(t, want, line.Allowed(patterns[:n]), "%q by %v", text, texts[:n])
		}
	})
	require.NotZero(t, plain)
}
