package argv

import (
	"strings"
	"unicode/utf8"
)

// wordState is what the reader knows of the word it is in.
type wordState struct {
	Word
	start    int  // of the word in the source
	first    int  // bytes of text in front of the first expansion
	last     int  // bytes of text in front of what follows the last expansion
	bracket  bool // an unquoted [ was seen
	open     bool // an unquoted { was seen
	nameEnd  int  // index of an = behind what may be a name, or 0
	contBack bool // a line continuation stands inside the word
}

// word takes the word at the current place and returns, if it has the shape
// of an assignment, the index of its = in the text. It always takes at least one
// byte that belongs to a word, unless none does.
func (r *strictReader) word() (Word, int) {
	r.buf = r.buf[:0]
	s := wordState{start: r.pos}
	for r.pos < len(r.src) {
		c := r.src[r.pos]
		if isBlank(c) || c == '\n' || strings.IndexByte(";&|<>()", c) >= 0 {
			break
		}
		if !r.unquoted(&s, c) {
			break
		}
	}
	return r.finishWord(&s)
}

// finishWord turns the collected text into the word.
func (r *strictReader) finishWord(s *wordState) (Word, int) {
	raw := r.src[s.start:r.pos]
	if s.open && (strings.Contains(raw, ",") || strings.Contains(raw, "..")) {
		s.flags |= brace
	}
	switch {
	case s.kind != fixed:
		s.Text = raw
		s.known = &affixes{string(r.buf[:s.first]), string(r.buf[s.last:])}
	case len(r.buf) == len(raw) && s.flags&quoted == 0:
		s.Text = raw
	default:
		s.Text = string(r.buf)
	}
	if s.nameEnd > 0 && (s.kind != fixed && s.first < s.nameEnd+1) {
		s.nameEnd = 0
	}
	return s.Word, s.nameEnd
}

// unquoted takes one unquoted character, or the quoted part or the expansion it
// begins; it is false where the word cannot go on.
func (r *strictReader) unquoted(s *wordState, c byte) bool {
	switch c {
	case '\'':
		return r.single(s)
	case '"':
		return r.double(s)
	case '\\':
		return r.escape(s)
	case '$':
		return r.dollar(s, false)
	case '`':
		return r.backquote()
	case '!':
		r.history()
	case '*', '?':
		s.flags |= glob
	case '[':
		s.bracket = true
	case ']':
		if s.bracket {
			s.flags |= glob
		}
	case '{':
		s.open = true
	case '~':
		if len(r.buf) == 0 && s.flags&quoted == 0 || len(r.buf) > 0 && strings.IndexByte(":=", r.buf[len(r.buf)-1]) >= 0 {
			s.flags |= tilde
		}
	case '=':
		r.equals(s)
	}
	r.plainChar(c, false)
	return true
}

// equals notes where a name ends, if what stands in front of = is one, in the
// forms NAME=, NAME+= and NAME[...]=.
func (r *strictReader) equals(s *wordState) {
	if s.nameEnd > 0 || s.flags&quoted != 0 || s.kind != fixed || s.contBack {
		return
	}
	name := strings.TrimSuffix(string(r.buf), "+")
	if i := strings.IndexByte(name, '['); i > 0 && name[len(name)-1] == ']' {
		name = name[:i]
		s.flags &^= glob
	}
	if isName(name) {
		s.nameEnd = len(r.buf)
	}
}

// plainChar takes one character as text.
func (r *strictReader) plainChar(c byte, inQuotes bool) {
	if c < utf8.RuneSelf {
		if c == 0 || !inQuotes && (c < ' ' && c != '\t' && c != '\n' || c == 0x7f) {
			r.cur.unclear(whyControl)
		}
		r.buf = append(r.buf, c)
		r.pos++
		return
	}
	n, why := oddRune(r.src[r.pos:], inQuotes)
	if why != "" {
		r.cur.unclear(why)
	}
	r.buf = append(r.buf, r.src[r.pos:r.pos+n]...)
	r.pos += n
}

// history looks behind a ! that is not in single quotes: an interactive shell
// would put an earlier command there. Behind a colon it would only take a part of
// one, which "feat!: ..." in a commit message does not mean.
func (r *strictReader) history() {
	if r.pos+1 < len(r.src) && strings.IndexByte(" \t\n=();&|<>\"'\\,:", r.src[r.pos+1]) < 0 {
		r.cur.problem(whyHistory)
	}
}

func (r *strictReader) single(s *wordState) bool {
	s.flags |= quoted
	for r.pos++; r.pos < len(r.src); {
		c := r.src[r.pos]
		if c == '\'' {
			r.pos++
			return true
		}
		r.plainChar(c, true)
	}
	r.lose(whyQuote)
	r.cur.unclear(whyQuote)
	return false
}

func (r *strictReader) double(s *wordState) bool {
	s.flags |= quoted
	for r.pos++; r.pos < len(r.src); {
		switch c := r.src[r.pos]; c {
		case '"':
			r.pos++
			return true
		case '\\':
			r.doubleEscape()
		case '$':
			if !r.dollar(s, true) {
				return false
			}
		case '`':
			return r.backquote()
		case '!':
			r.history()
			r.plainChar(c, true)
		default:
			r.plainChar(c, true)
		}
	}
	r.lose(whyQuote)
	r.cur.unclear(whyQuote)
	return false
}

// doubleEscape takes a backslash in double quotes, which escapes only a few
// characters and else stands for itself.
func (r *strictReader) doubleEscape() {
	if r.pos+1 < len(r.src) {
		switch n := r.src[r.pos+1]; n {
		case '\n':
			r.pos += 2
			return
		case '$', '`', '"', '\\':
			r.buf = append(r.buf, n)
			r.pos += 2
			return
		}
	}
	r.plainChar('\\', true)
}

// escape takes a backslash outside quotes.
func (r *strictReader) escape(s *wordState) bool {
	if r.pos+1 == len(r.src) {
		r.pos++
		r.buf = append(r.buf, '\\')
		s.flags |= quoted
		r.lose(whyBackslash)
		r.cur.unclear(whyBackslash)
		return true
	}
	if r.src[r.pos+1] == '\n' {
		r.pos += 2
		s.contBack = true
		return true
	}
	s.flags |= quoted
	r.pos++
	r.plainChar(r.src[r.pos], true)
	return true
}

// dollar takes an expansion, or a $ that begins none. It understands only the
// value of a variable or parameter; at anything else the reader loses its place.
func (r *strictReader) dollar(s *wordState, inQuotes bool) bool {
	after := r.src[r.pos+1:]
	if !expands(after, inQuotes) || after[0] == '\\' && !strings.HasPrefix(after, "\\\n") {
		r.plainChar('$', inQuotes)
		return true
	}
	n, every := parameter(after)
	switch {
	case n > 0 && !strings.HasPrefix(after[n:], "\\\n"):
		r.expansion(s, inQuotes, every)
		r.pos += 1 + n
		return true
	case strings.HasPrefix(after, "(("):
		r.lose(whyExpansion)
	case after[0] == '(':
		r.cur.capped = true
		r.cur.unclear(whySubstitution)
		r.lose(whySubstitution)
	case after[0] == '\'' || after[0] == '"':
		r.lose(whyDollarQuote)
	default:
		r.lose(whyExpansion)
	}
	// The rough reading goes on behind the $, with a word of unknown text.
	r.expansion(s, inQuotes, true)
	r.pos++
	return after[0] != '('
}

// expansion notes that the word is unknown from here on.
func (r *strictReader) expansion(s *wordState, inQuotes, every bool) {
	if s.kind == fixed {
		s.kind, s.first = one, len(r.buf)
	}
	if !inQuotes || every {
		s.kind = many
	}
	s.last = len(r.buf)
}

// parameter returns the length of a parameter's name, with its braces, at the
// beginning of s, or 0, and whether its value is every positional parameter.
func parameter(s string) (n int, every bool) {
	if s[0] == '{' {
		body := s[1:]
		for n < len(body) && isNameByte(body[n]) {
			n++
		}
		if n > 0 && body[0] >= '0' && body[0] <= '9' && !isDigits(body[:n]) {
			return 0, false
		}
		if n == 0 && body != "" && strings.IndexByte("@*#?-$!", body[0]) >= 0 {
			n = 1
		}
		if n == 0 || n == len(body) || body[n] != '}' {
			return 0, false
		}
		return n + 2, body[0] == '@'
	}
	if s[0] >= '0' && s[0] <= '9' {
		return 1, false
	}
	for n < len(s) && isNameByte(s[n]) {
		n++
	}
	if n == 0 && strings.IndexByte("@*#?-$!", s[0]) >= 0 {
		return 1, s[0] == '@'
	}
	return n, false
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// backquote meets an old-style substitution.
func (r *strictReader) backquote() bool {
	r.cur.capped = true
	r.cur.unclear(whySubstitution)
	r.lose(whySubstitution)
	r.pos++
	return false
}
