package argv

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// treeWord is a word of the tree while it is turned into one of ours.
type treeWord struct {
	Word
	buf         []byte
	first, last int // as in wordState
	bracket     bool
	open        bool
	seg         *Segment
}

// word turns a word of the tree into one of ours, and walks what it runs.
func (w *walker) word(x *syntax.Word, seg *Segment) Word {
	t := treeWord{seg: seg}
	for _, p := range x.Parts {
		w.part(&t, p, false)
	}
	raw := w.source(x)
	if t.open && (strings.Contains(raw, ",") || strings.Contains(raw, "..")) {
		t.flags |= brace
	}
	t.Text = string(t.buf)
	if t.kind != fixed {
		t.known, t.Text = &affixes{t.Text[:t.first], t.Text[t.last:]}, raw
	}
	return t.Word
}

func (t *treeWord) expansion(inQuotes, every bool) {
	if t.kind == fixed {
		t.kind, t.first = one, len(t.buf)
	}
	if !inQuotes || every {
		t.kind = many
	}
	t.last = len(t.buf)
}

func (w *walker) part(t *treeWord, p syntax.WordPart, inQuotes bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		t.literal(p.Value, inQuotes)
	case *syntax.SglQuoted:
		t.flags |= quoted
		value, ok := p.Value, true
		if p.Dollar {
			value, ok = decodeANSI(p.Value)
		}
		if !ok {
			t.expansion(true, false)
			t.seg.unclear(whyDollarQuote)
			return
		}
		t.text(value, true)
	case *syntax.DblQuoted:
		t.flags |= quoted
		for _, q := range p.Parts {
			w.part(t, q, true)
		}
	case *syntax.ParamExp:
		t.expansion(inQuotes, w.param(p, t.seg))
	case *syntax.CmdSubst:
		t.expansion(inQuotes, false)
		w.substitution(p.Stmts, t.seg)
	case *syntax.ProcSubst:
		t.expansion(true, false)
		w.substitution(p.Stmts, t.seg)
	case *syntax.ArithmExp:
		t.expansion(inQuotes, false)
		w.arithm(p.X, t.seg)
	case *syntax.ExtGlob:
		t.expansion(false, false)
		if strings.ContainsAny(p.Pattern.Value, "$`") {
			t.seg.unclear(whySubstitution)
			t.seg.capped = true
		}
	default:
		t.expansion(false, true)
		t.seg.unclear(whyExpansion)
	}
}

// text takes bytes as they are.
func (t *treeWord) text(s string, inQuotes bool) {
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
	t.buf = append(t.buf, s...)
}

// literal takes the text of a literal, in which the library leaves the
// backslashes.
func (t *treeWord) literal(s string, inQuotes bool) {
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
				t.text(s[i:i+n], true)
				i += n - 1
				continue
			}
		}
		if !inQuotes {
			t.special(c)
		}
		n := runeLen(s[i:])
		t.text(s[i:i+n], inQuotes)
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
func (t *treeWord) special(c byte) {
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
		if len(t.buf) == 0 && t.flags&quoted == 0 || len(t.buf) > 0 && strings.IndexByte(":=", t.buf[len(t.buf)-1]) >= 0 {
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
