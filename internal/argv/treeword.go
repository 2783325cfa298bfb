package argv

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// treeWord is a word of the tree while it is turned into one of ours. Its text
// is the end of the walker's buffer, from base on.
type treeWord struct {
	Word
	base        int
	first, last int // as in wordState, from the beginning of the buffer
	bracket     bool
	open        bool
	seg         *Segment
}

// word turns a word of the tree into one of ours, and walks what it runs.
func (w *walker) word(x *syntax.Word, seg *Segment) Word {
	if len(x.Parts) == 1 {
		if plain, ok := plainPart(x.Parts[0]); ok {
			return plain
		}
	}
	t := treeWord{seg: seg, base: len(w.buf)}
	for _, p := range x.Parts {
		w.part(&t, p, false)
	}
	if t.open || t.kind != fixed {
		raw := w.source(x)
		if t.open && (strings.Contains(raw, ",") || strings.Contains(raw, "..")) {
			t.flags |= brace
		}
		if t.kind != fixed {
			t.Text, t.known = raw, &affixes{string(w.buf[t.base:t.first]), string(w.buf[t.last:])}
		}
	}
	if t.kind == fixed {
		t.Text = string(w.buf[t.base:])
	}
	w.buf = w.buf[:t.base]
	return t.Word
}

// plainPart returns the word of a part in which nothing needs a second look.
func plainPart(p syntax.WordPart) (Word, bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		for i := 0; i < len(p.Value); i++ {
			if c := plainClass[p.Value[i]]; c != bare && c != assigns {
				return Word{}, false
			}
		}
		return Word{Text: p.Value}, true
	case *syntax.SglQuoted:
		if p.Dollar || !plainText(p.Value) {
			return Word{}, false
		}
		return Word{Text: p.Value, flags: quoted}, true
	case *syntax.DblQuoted:
		if p.Dollar || len(p.Parts) != 1 {
			return Word{}, false
		}
		if l, ok := p.Parts[0].(*syntax.Lit); ok && plainText(l.Value) && strings.IndexByte(l.Value, '\\') < 0 {
			return Word{Text: l.Value, flags: quoted}, true
		}
	}
	return Word{}, false
}

// plainText tells whether s is printable ASCII.
func plainText(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func (w *walker) expansion(t *treeWord, inQuotes, every bool) {
	if t.kind == fixed {
		t.kind, t.first = one, len(w.buf)
	}
	if !inQuotes || every {
		t.kind = many
	}
	t.last = len(w.buf)
}

func (w *walker) part(t *treeWord, p syntax.WordPart, inQuotes bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		w.literal(t, p.Value, inQuotes)
	case *syntax.SglQuoted:
		t.flags |= quoted
		value, ok := p.Value, true
		if p.Dollar {
			w.onlyBash = true
			value, ok = decodeANSI(p.Value)
		}
		if !ok {
			w.expansion(t, true, false)
			t.seg.unclear(whyDollarQuote)
			return
		}
		w.text(t, value, true)
	case *syntax.DblQuoted:
		t.flags |= quoted
		w.onlyBash = w.onlyBash || p.Dollar
		for _, q := range p.Parts {
			w.part(t, q, true)
		}
	case *syntax.ParamExp:
		w.expansion(t, inQuotes, w.param(p, t.seg))
	case *syntax.CmdSubst:
		w.expansion(t, inQuotes, false)
		w.substitution(p.Stmts, t.seg)
	case *syntax.ProcSubst:
		w.onlyBash = true
		w.expansion(t, true, false)
		w.substitution(p.Stmts, t.seg)
	case *syntax.ArithmExp:
		w.onlyBash = w.onlyBash || p.Bracket
		w.expansion(t, inQuotes, false)
		w.arithm(p.X, t.seg)
	case *syntax.ExtGlob:
		w.onlyBash = true
		w.expansion(t, false, false)
		if strings.ContainsAny(p.Pattern.Value, "$`") {
			t.seg.unclear(whySubstitution)
			t.seg.capped = true
		}
	default:
		w.onlyBash = true
		w.expansion(t, false, true)
		t.seg.unclear(whyExpansion)
	}
}

// text takes bytes as they are.
func (w *walker) text(t *treeWord, s string, inQuotes bool) {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c == 0 || !inQuotes && (c < ' ' && c != '\t' && c != '\n' || c == 0x7f) {
				t.seg.unclear(whyControl)
			}
			i++
			continue
		}
		n, why := oddRune(s[i:], inQuotes)
		if why != "" {
			t.seg.unclear(why)
		}
		i += n
	}
	w.buf = append(w.buf, s...)
}

// literal takes the text of a literal, in which the library leaves the
// backslashes.
func (w *walker) literal(t *treeWord, s string, inQuotes bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			if next := s[i+1]; !inQuotes || strings.IndexByte("$`\"\\\n", next) >= 0 {
				i++
				if next == '\n' {
					continue
				}
				if !inQuotes {
					t.flags |= quoted
				}
				n := runeLen(s[i:])
				w.text(t, s[i:i+n], true)
				i += n - 1
				continue
			}
		}
		if !inQuotes {
			w.special(t, c)
		}
		n := runeLen(s[i:])
		w.text(t, s[i:i+n], inQuotes)
		i += n - 1
	}
}

func runeLen(s string) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// special notes what an unquoted character may expand to.
func (w *walker) special(t *treeWord, c byte) {
	switch c {
	case '*', '?':
		t.flags |= glob
	case '[':
		t.bracket = true
	case ']':
		if t.bracket {
			t.flags |= glob
		}
	case '{':
		t.open = true
	case '~':
		if len(w.buf) == t.base && t.flags&quoted == 0 || len(w.buf) > t.base && strings.IndexByte(":=", w.buf[len(w.buf)-1]) >= 0 {
			t.flags |= tilde
		}
	}
}

// substitution walks the commands of a substitution in seg.
func (w *walker) substitution(list []*syntax.Stmt, seg *Segment) {
	seg.unclear(whySubstitution)
	seg.capped = true
	w.capped++
	w.stmts(list)
	w.capped--
}

// param walks a parameter expansion and tells whether it may yield several
// words even inside quotes.
func (w *walker) param(p *syntax.ParamExp, seg *Segment) (every bool) {
	every = p.Param != nil && p.Param.Value == "@"
	if p.Excl || p.Names != 0 || p.NestedParam != nil || p.Index != nil || p.Slice != nil || p.Repl != nil ||
		p.Exp != nil && p.Exp.Op >= syntax.UpperFirst {
		w.onlyBash = true
	}
	if p.Excl || p.Names != 0 || p.NestedParam != nil {
		every = true
		if p.Excl && p.Names == 0 {
			seg.unclear(whyEvaluate) // ${!x} evaluates what x holds
		}
	}
	if p.Index != nil {
		if x, ok := p.Index.(*syntax.Word); ok && (x.Lit() == "@" || x.Lit() == "*") {
			every = every || x.Lit() == "@"
		} else {
			w.subscript(p.Index, seg)
		}
	}
	if p.Slice != nil {
		w.arithm(p.Slice.Offset, seg)
		w.arithm(p.Slice.Length, seg)
	}
	if p.Repl != nil {
		w.visit(p.Repl.Orig, seg)
		w.visit(p.Repl.With, seg)
	}
	if p.Exp != nil {
		w.visit(p.Exp.Word, seg)
		every = true
		if p.Exp.Op == syntax.OtherParamOps && (p.Exp.Word == nil || p.Exp.Word.Lit() != "Q") {
			seg.unclear(whyEvaluate) // ${x@P} runs the substitutions in x
		}
	}
	return every
}

// subscript walks the index of an array element.
func (w *walker) subscript(x syntax.ArithmExpr, seg *Segment) { w.arithm(x, seg) }

// arithm walks an arithmetic expression. The shell evaluates the value of a
// variable in it as an expression again, and a subscript in that may hold a
// substitution: a[$(rm x)].
func (w *walker) arithm(x syntax.ArithmExpr, seg *Segment) {
	switch x := x.(type) {
	case nil:
	case *syntax.Word:
		if x == nil {
			return
		}
		v := w.word(x, seg)
		if (v.kind != fixed || !isNumber(v.Text)) && w.holdsSubscript() {
			seg.unclear(whyEvaluate)
		}
	case *syntax.BinaryArithm:
		w.arithm(x.X, seg)
		w.arithm(x.Y, seg)
	case *syntax.UnaryArithm:
		w.arithm(x.X, seg)
	case *syntax.ParenArithm:
		w.arithm(x.X, seg)
	default:
		seg.unclear(whyExpansion)
	}
}

// holdsSubscript tells whether the text may bring a subscript into a variable:
// whether it has a bracket that is not just a test command, or an escape that
// could make one. Without it, arithmetic on variables is only arithmetic, unless
// the value comes from a file or from the environment.
func (w *walker) holdsSubscript() bool {
	if strings.Contains(w.src, "\\") {
		return true
	}
	rest := w.src
	for {
		i := strings.IndexByte(rest, '[')
		if i < 0 {
			return false
		}
		n := 1
		if strings.HasPrefix(rest[i:], "[[") {
			n = 2
		}
		before := i == 0 || strings.IndexByte(" \t\n;&|(!", rest[i-1]) >= 0
		if after := i + n; !before || after >= len(rest) || !isBlank(rest[after]) {
			return true
		}
		rest = rest[i+n:]
	}
}

func isNumber(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !isNameByte(c) && c != '#' || i == 0 && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// test walks the expression of [[ ]].
func (w *walker) test(x syntax.TestExpr, seg *Segment) {
	switch x := x.(type) {
	case *syntax.Word:
		w.visit(x, seg)
	case *syntax.BinaryTest:
		w.test(x.X, seg)
		w.test(x.Y, seg)
		if x.Op >= syntax.TsEql && x.Op <= syntax.TsGtr && w.holdsSubscript() {
			seg.unclear(whyEvaluate)
		}
	case *syntax.UnaryTest:
		w.test(x.X, seg)
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			seg.unclear(whyEvaluate)
		}
	case *syntax.ParenTest:
		w.test(x.X, seg)
	}
}
