package argv_test

import (
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rulvar/rulvar-go/internal/argv"
)

// benchCommands are the lines of the b rows: what a model sends most, and one
// that needs a syntax tree.
var benchCommands = []struct{ name, line string }{
	{"npm", `npm test`},
	{"git", `git commit -m "fix; a && b"`},
	{"chain", `cd a && npm run build 2>&1 | tee out.log; echo done`},
}

// benchTree is 2 kB in the style of a model's: assignments, quoted arguments,
// pipes, redirections and a substitution.
func benchTree() string {
	const part = `FOO=bar go test -run 'Test(A|B)' -count=1 ./internal/... 2>&1 | grep -v "no test files" | tee "$OUT/log.txt" && echo "exit: $(cat status)" ; `
	return strings.TrimRight(strings.Repeat(part, 2048/len(part)), " ;")
}

var benchClass = func() (t [256]uint8) {
	for _, c := range " \t\n|&;<>()$`\"'\\#*?[]{}~=" {
		t[c] = 1
	}
	return t
}()

var benchSink int

func benchLoop(b *testing.B, line string) {
	for b.Loop() {
		n := 0
		for i := 0; i < len(line); i++ {
			n += int(benchClass[line[i]])
		}
		benchSink += n
	}
}

// BenchmarkPlain is row b1: a plain line to the words of its commands, beside a
// loop over its bytes, which is the least it can cost, and the grammar library.
func BenchmarkPlain(b *testing.B) {
	for _, c := range benchCommands {
		b.Run(c.name+"/byte-loop", func(b *testing.B) { benchLoop(b, c.line) })
		b.Run(c.name+"/ours", func(b *testing.B) {
			var l argv.Line
			b.ReportAllocs()
			for b.Loop() {
				if !l.Read(c.line) {
					b.Fatal("not plain")
				}
				benchSink += l.Commands()
			}
		})
		b.Run(c.name+"/grammar-library", func(b *testing.B) {
			p := syntax.NewParser(syntax.Variant(syntax.LangBash))
			r := strings.NewReader("")
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(c.line)
				f, err := p.Parse(r, "")
				if err != nil {
					b.Fatal(err)
				}
				benchSink += len(f.Stmts)
			}
		})
	}
}

// BenchmarkTree is row b2: a line that needs the tree to its segments, beside one
// parse of it.
func BenchmarkTree(b *testing.B) {
	line := benchTree()
	b.Run("grammar-library", func(b *testing.B) {
		p := syntax.NewParser(syntax.Variant(syntax.LangBash))
		r := strings.NewReader("")
		b.ReportAllocs()
		for b.Loop() {
			r.Reset(line)
			f, err := p.Parse(r, "")
			if err != nil {
				b.Fatal(err)
			}
			benchSink += len(f.Stmts)
		}
	})
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchSink += len(argv.Read(line).Segments())
		}
	})
}
