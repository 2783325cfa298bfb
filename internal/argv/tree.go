package argv

import (
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// The grammar library calls itself for every level of nesting and cannot be
// stopped, and a stack that overflows ends the process. So a text that is too
// long, too deep or too rich in brackets is never given to it.
const (
	maxTreeBytes = 64 << 10
	maxNesting   = 200
	maxOpeners   = 4000
)

// treeFits tells whether the grammar library can be given text, or why not. The
// scan knows no quoting, so it may count a bracket in a quoted text: then a
// person is asked without need. That closing brackets in quotes hide depth from
// it is what the bound on all openers is for.
func treeFits(text string) (why string) {
	if len(text) > maxTreeBytes {
		return "the text is longer than 64 KiB"
	}
	depth, openers := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '{', '[', '`':
			openers++
			if depth++; depth > maxNesting || openers > maxOpeners {
				return "the text is nested too deep"
			}
		case ')', '}', ']':
			if depth > 0 {
				depth--
			}
		case ' ', '\t', '\n':
			if nestingWord(text[:i]) {
				if openers++; openers > maxOpeners {
					return "the text is nested too deep"
				}
			}
		}
	}
	return ""
}

// nestingWord tells whether text ends in a word that opens a level of nesting.
func nestingWord(text string) bool {
	if text == "" || strings.IndexByte("felrtc", text[len(text)-1]) < 0 {
		return false
	}
	for _, w := range [...]string{"if", "while", "until", "for", "case", "time", "coproc", "select"} {
		if strings.HasSuffix(text, w) {
			return true
		}
	}
	return false
}

// Parsers are kept: making one allocates its buffers.
var (
	bashParsers  = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}
	posixParsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangPOSIX)) }}
)

// tree is what the grammar library made of a text.
type tree struct {
	// segs are every simple command, wherever it stands. What stands in front of
	// an error is there too: a shell runs a text line by line and gets as far.
	segs []Segment
	// onlyBash: something in the text is only known to Bash, so that the POSIX
	// dialect may read it otherwise.
	onlyBash   bool
	ampersands []int // offsets of every &> and &>>
	parsed     bool  // to the end
}

// readTree reads text in the dialect of the parsers.
func readTree(text string, parsers *sync.Pool) (t tree) {
	w := walker{src: text, tree: tree{segs: make([]Segment, 0, 1+len(text)/32)}, buf: make([]byte, 0, 64)}
	defer func() {
		if recover() != nil {
			t = w.tree
			t.onlyBash, t.parsed = true, false
		}
	}()
	p := parsers.Get().(*syntax.Parser)
	for stmt, err := range p.StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			w.onlyBash = true
			return w.tree
		}
		w.stmt(stmt)
	}
	parsers.Put(p)
	w.parsed = true
	return w.tree
}

// readBash reads text in the Bash dialect.
func readBash(text string) tree { return readTree(text, &bashParsers) }

// readPOSIX reads text in the POSIX dialect. The library takes &> for an operator
// in that dialect too and gives up, where a POSIX shell takes it for the end of a
// command and a redirection of the next one; so they are put apart.
func readPOSIX(text string, ampersands []int) tree {
	if len(ampersands) > 0 {
		var b strings.Builder
		from := 0
		for _, i := range ampersands {
			if i < from || i >= len(text) || text[i] != '&' {
				continue
			}
			b.WriteString(text[from:i+1] + " ")
			from = i + 1
		}
		b.WriteString(text[from:])
		text = b.String()
	}
	return readTree(text, &posixParsers)
}

// commentSwallows tells whether text may hold a comment that ends in a
// backslash. The grammar library takes the line behind it for part of the
// command, although no shell does.
func commentSwallows(text string) bool {
	for i := strings.IndexByte(text, '#'); i >= 0; {
		if i == 0 || strings.IndexByte(" \t\n;&|()<>`", text[i-1]) >= 0 {
			line := text[i:]
			if n := strings.IndexByte(line, '\n'); n >= 0 {
				if strings.HasSuffix(strings.TrimRight(line[:n], "\r"), "\\") {
					return true
				}
			}
			if n := strings.IndexByte(line, '\n'); n < 0 {
				return false
			}
		}
		next := strings.IndexByte(text[i+1:], '#')
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}
