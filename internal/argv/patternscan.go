package argv

import (
	"strings"
	"unicode/utf8"
)

// patternWord is one blank-separated word of a pattern's text.
type patternWord struct {
	text       string // after quote removal, without the operator
	op         string // an unquoted redirection operator that begins the word
	quoted     bool   // some character was quoted
	quotedGlob bool   // a glob character was quoted
	nameEnd    int    // index of the = of NAME=, or 0
}

// patternScanner splits a pattern into words and keeps what quoting a splitter
// of plain words forgets: whether a star was quoted.
type patternScanner struct {
	src   string
	pos   int
	words []patternWord
	buf   []byte
}

// scan fills words, or says what is wrong with the text.
func (s *patternScanner) scan() string {
	if !utf8.ValidString(s.src) {
		return "the pattern is not valid UTF-8"
	}
	for {
		for s.pos < len(s.src) && isBlank(s.src[s.pos]) {
			s.pos++
		}
		if s.pos == len(s.src) {
			return ""
		}
		if s.src[s.pos] == '#' {
			return "the pattern holds a comment; quote the #"
		}
		var w patternWord
		s.operator(&w)
		if msg := s.word(&w); msg != "" {
			return msg
		}
		s.words = append(s.words, w)
	}
}

// operator takes a redirection operator where the word begins with one.
func (s *patternScanner) operator(w *patternWord) {
	from := s.pos
	i := from
	for i < len(s.src) && s.src[i] >= '0' && s.src[i] <= '9' {
		i++
	}
	if i == len(s.src) || s.src[i] != '>' && (s.src[i] != '<' || i > from) {
		return
	}
	c := s.src[i]
	i++
	if c == '>' && i-1 == from && i < len(s.src) && s.src[i] == '>' {
		i++
	}
	w.op, s.pos = s.src[from:i], i
}

// word takes the rest of the word.
func (s *patternScanner) word(w *patternWord) string {
	s.buf = s.buf[:0]
	for s.pos < len(s.src) && !isBlank(s.src[s.pos]) {
		if msg := s.char(w); msg != "" {
			return msg
		}
	}
	w.text = string(s.buf)
	return ""
}

func (s *patternScanner) char(w *patternWord) string {
	c := s.src[s.pos]
	switch c {
	case '\'', '"':
		return s.quote(w, c)
	case '\\':
		return s.escape(w)
	case '<', '>':
		return "an operator inside a word; put a blank in front of a redirection, or quote it"
	case ';', '&', '|', '(', ')', '`':
		return "the operator " + string(c) + " never stands inside one command; quote it"
	case '$':
		if expands(s.src[s.pos+1:], false) {
			return "a pattern expands nothing; quote the $"
		}
	case '=':
		if w.nameEnd == 0 && !w.quoted && w.op == "" && isName(string(s.buf)) {
			w.nameEnd = len(s.buf)
		}
	}
	if c < ' ' || c == 0x7f {
		return "the pattern holds a control character"
	}
	s.buf = append(s.buf, c)
	s.pos++
	return ""
}

// quote takes a quoted part. A word that shlex would read differently is
// refused later, so escapes in double quotes need no care here beyond the two
// characters for which all readers agree.
func (s *patternScanner) quote(w *patternWord, q byte) string {
	w.quoted = true
	for s.pos++; s.pos < len(s.src); s.pos++ {
		c := s.src[s.pos]
		switch {
		case c == q:
			s.pos++
			return ""
		case c < ' ' && c != '\t' && c != '\n' || c == 0x7f:
			return "the pattern holds a control character"
		case q == '"' && (c == '`' || c == '$' && expands(s.src[s.pos+1:], true)):
			return "a pattern expands nothing; use single quotes"
		case q == '"' && c == '\\' && s.pos+1 < len(s.src) && strings.IndexByte("$`\"\\", s.src[s.pos+1]) >= 0:
			s.pos++
			c = s.src[s.pos]
		}
		s.add(w, c)
	}
	return "a quote is not closed"
}

func (s *patternScanner) escape(w *patternWord) string {
	w.quoted = true
	if s.pos+1 == len(s.src) {
		return "a backslash ends the pattern"
	}
	c := s.src[s.pos+1]
	if c < ' ' || c == 0x7f {
		return "the pattern holds a control character"
	}
	s.add(w, c)
	s.pos += 2
	return ""
}

// add appends a quoted character.
func (s *patternScanner) add(w *patternWord, c byte) {
	w.quotedGlob = w.quotedGlob || c == '*' || c == '?' || c == '['
	s.buf = append(s.buf, c)
}

// plain returns the words as a splitter of words gives them, operators being
// ordinary characters to it.
func (s *patternScanner) plain() []string {
	out := make([]string, len(s.words))
	for i, w := range s.words {
		out[i] = w.op + w.text
	}
	return out
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// expands tells whether a $ in front of after begins an expansion, or something
// that some shell takes for one.
func expands(after string, inQuotes bool) bool {
	if after == "" {
		return false
	}
	switch c := after[0]; {
	case c == '\'' || c == '"':
		return !inQuotes
	default:
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			strings.IndexByte("@*#?-$!({[`\\", c) >= 0
	}
}
