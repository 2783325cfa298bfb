package argv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/argv"
)

// shapes are what a hostile text repeats: every opening of the grammar, quoted
// and not, and what makes a reader look ahead.
var shapes = []string{
	"(", "{ ", "$(", "$((", "\"$(", "a[", "'", "\"", "\\", "`", ";", "(\")\"", "[ \"]\" ", "{ '}' ", "! ", "time ", "a|", "a&&", "a||", "a;", "a\n", "a ", "a=b ",
	"if ", "while ", "case x in a) ", "f() ", "coproc ", "((", "((-", "((!", "$((a?", "$((~", "$((a=", "$((a**", "[[ ! ", "[[ (", "for a in b; do ", "a=(", "${", "${a:-", "${a", "${a[",
	"\"${a:-", "<<E ", "<<E\n", "cat <<E\n$(", "<(", "@(", "$a", "$a ", "\"$a\" ", "{a,", "*", "* ", "[", "$[", "let a=", "$'", "$\"", "a\\\n", " #", "\n#a\\\n", ">", ">a ", "2>&1 ", "&", "|", "|&", "<<<a ",
	"env ", "xargs ", "unshare ", "sh -c ", "sh -c '", "eval ", "eval 'a' ", "find -exec ", "find -exec a \\; ", "parallel a ", "sudo -u x ", "unshare env ", "unshare xargs ", "$x ", "\u00a0", "\xff", "\r", "\x00", "é ", "~", "!a ",
}

// TestAnyShape holds that a text of any size is answered and never overflows the
// stack. Growth that is not linear shows as a test that does not end;
// BenchmarkAnyShape has the figures.
func TestAnyShape(t *testing.T) {
	patterns := []*argv.Pattern{compile(t, "rm **"), compile(t, "git push * --force **"), compile(t, strings.Repeat("* ", 200)+"x")}
	check := func(size int, shapes []string) {
		for _, shape := range shapes {
			c := argv.Read(strings.Repeat(shape, size/len(shape)))
			for _, p := range patterns {
				c.Against(p)
			}
			c.Unjudgeable()
			for _, s := range c.Segments() {
				s.Allows(patterns[0], nil)
			}
		}
	}
	check(8<<10, shapes)
	// Past the size that the grammar library is given.
	check(66<<10, []string{"(", "$(", "'", "\"", ";", "a;", "a|", "${", "<<E\n", "env ", "sh -c 'a' ", "$a "})
}

func compile(t testing.TB, text string) *argv.Pattern {
	t.Helper()
	p, err := argv.CompilePattern(text)
	require.NoError(t, err)
	return p
}

// BenchmarkAnyShape times 1 MiB of each shape.
func BenchmarkAnyShape(b *testing.B) {
	p := compile(b, "rm **")
	for _, shape := range shapes {
		text := strings.Repeat(shape, 1<<20/len(shape))
		b.Run(strings.ReplaceAll(shape, "/", "_"), func(b *testing.B) {
			for b.Loop() {
				argv.Read(text).Against(p)
			}
		})
	}
}
