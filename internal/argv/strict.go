package argv

import (
	"strings"
	"unicode/utf8"
)

// Why a segment cannot be allowed, or judged. The texts can follow "ask: ".
const (
	whySubstitution = "a command or process substitution runs another command"
	whyHereDoc      = "a here-document"
	whyHereString   = "a here-string"
	whyCompound     = "a compound command, a function or a reserved word"
	whyExpansion    = "an expansion that is more than the value of a variable"
	whyDollarQuote  = "a quoting that not all shells know"
	whyQuote        = "a quote that is not closed"
	whyBackslash    = "a backslash at the end of the text"
	whyControl      = "a control character"
	whyBlank        = "a blank or an invisible character that a shell takes for a letter"
	whyUTF8         = "bytes that are not UTF-8"
	whyHistory      = "a history mark"
	whyOperator     = "an operator without the command it needs"
	whyTarget       = "a redirection without a plain target"
	whyCommandWord  = "the name of the command depends on an expansion"
	whyAssign       = "an assignment that not all shells know"
	whyAmpersand    = "words behind &>, which not all shells take for a redirection"
	whyBigNumber    = "a descriptor of two digits, which not all shells take for one"
	whyVarRedirect  = "a redirection to a descriptor in a variable"
	whyNothing      = "there is no command"
)

// strictReader splits a text into segments. It keeps its place as long as it
// meets only what it understands; what it cannot understand makes it lose its
// place: from there on the segments are rough, good for finding a denied
// command in a text that no parser takes, and for nothing else.
type strictReader struct {
	src  string
	pos  int
	segs []Segment
	cur  Segment
	from int // where cur begins
	// ampersand: the segment has a redirection by &>, which dash takes for the end
	// of a command and a redirection of the next.
	ampersand bool
	needs     bool // the last separator needs a command behind it
	lost      bool
	why       string // why the place was lost
	pending   []hereDoc
	buf       []byte
}

type hereDoc struct {
	delimiter string
	tabs      bool // <<-: leading tabs are not part of a line
}

// readStrict returns the segments of text, and why they are not certainly all
// there is, or "". With rough it goes on where it lost its place; without, it
// returns the segments in front of that place.
func readStrict(text string, rough bool) (segs []Segment, why string) {
	r := strictReader{src: text}
	for r.pos < len(r.src) {
		if r.token(); r.lost && !rough {
			return r.sure(), r.why
		}
	}
	if r.needs && r.cur.empty() {
		r.lose(whyOperator)
	}
	r.end()
	return r.segs, r.why
}

// sure returns the segments that ended before the reader lost its place.
func (r *strictReader) sure() []Segment {
	for i := range r.segs {
		if r.segs[i].rough {
			return r.segs[:i]
		}
	}
	return r.segs
}

// lose notes that the reader is no longer certain where it is, and why the
// current segment cannot be allowed.
func (r *strictReader) lose(why string) {
	if !r.lost {
		r.lost, r.why = true, why
	}
	r.cur.rough = true
	if !r.cur.empty() {
		r.cur.problem(why)
	}
}

// end closes the current segment, if there is anything in it.
func (r *strictReader) end() {
	if !r.cur.empty() {
		r.cur.Text = strings.TrimSpace(r.src[r.from:r.pos])
		r.cur.finish()
		r.segs = append(r.segs, r.cur)
	}
	r.cur = Segment{rough: r.lost}
	r.from, r.ampersand = r.pos, false
}

// finish applies what can be said only of a whole segment.
func (s *Segment) finish() {
	if len(s.Words) > 0 {
		w := &s.Words[0]
		switch {
		case w.kind != fixed || w.flags&(glob|brace) != 0 || w.flags&tilde != 0 && !strings.Contains(w.Text, "/"):
			s.unclear(whyCommandWord)
		case w.flags&tilde != 0:
			s.problem(whyCommandWord)
		}
	}
}

// token takes one token, or one blank, from the text.
func (r *strictReader) token() {
	c := r.src[r.pos]
	switch c {
	case ' ', '\t':
		r.pos++
	case '\n':
		r.newline()
	case '#':
		if i := strings.IndexByte(r.src[r.pos:], '\n'); i >= 0 {
			r.skip(i)
		} else {
			r.skip(len(r.src) - r.pos)
		}
	case ';', '&', '|':
		r.separator(c)
	case '(', ')':
		r.lose(whyCompound)
		r.end()
		r.pos++
		r.from, r.needs = r.pos, false
	case '<', '>':
		r.redirect("")
	case '\\':
		if strings.HasPrefix(r.src[r.pos:], "\\\n") {
			r.skip(2)
			return
		}
		r.takeWord()
	default:
		r.takeWord()
	}
}

// skip passes over n bytes that belong to no segment when none has begun.
func (r *strictReader) skip(n int) {
	r.pos += n
	if r.cur.empty() {
		r.from = r.pos
	}
}

func (r *strictReader) newline() {
	if r.cur.empty() {
		r.skip(1)
	} else {
		r.end()
		r.needs = false
		r.skip(1)
	}
	if len(r.pending) > 0 {
		r.skipHereDocs()
	}
}

// separator takes ; & && | || |& and &>, and refuses ;; and its kin.
func (r *strictReader) separator(c byte) {
	n := 1
	next := byte(0)
	if r.pos+1 < len(r.src) {
		next = r.src[r.pos+1]
	}
	switch {
	case c == '&' && next == '>':
		r.redirect("")
		return
	case c != ';' && next == c, c == '|' && next == '&':
		n = 2
	case c == ';' && (next == ';' || next == '&'):
		r.lose(whyOperator)
		n = 2
	}
	if r.cur.empty() {
		r.lose(whyOperator)
	}
	r.end()
	r.pos += n
	r.from = r.pos
	r.needs = n == 2 && c != ';' || c == '|'
}

// takeWord takes a word and puts it where it belongs: an assignment, the number
// of a redirection, or a word of the command.
func (r *strictReader) takeWord() {
	start := r.pos
	w, nameEnd := r.word()
	if r.pos == start { // a character no word can hold
		r.lose(whyControl)
		r.pos++
		return
	}
	raw := r.src[start:r.pos]
	if r.pos < len(r.src) && (r.src[r.pos] == '<' || r.src[r.pos] == '>') && w.kind == fixed && w.flags&quoted == 0 {
		switch {
		case isDigits(w.Text):
			if raw != w.Text {
				r.lose(whyTarget)
			}
			if len(raw) > 1 {
				r.cur.problem(whyBigNumber)
			}
			r.redirect(w.Text)
			return
		case raw[0] == '{' && raw[len(raw)-1] == '}':
			r.cur.problem(whyVarRedirect)
			r.redirect(w.Text)
			return
		}
	}
	if r.ampersand {
		r.cur.problem(whyAmpersand)
	}
	if len(r.cur.Words) == 0 {
		if nameEnd > 0 {
			r.assign(w, raw, nameEnd)
			return
		}
		if w.flags&quoted == 0 && w.kind == fixed && isReserved(w.Text) {
			r.reserved(w)
			return
		}
	}
	r.cur.Words = append(r.cur.Words, w)
}

// reserved handles a reserved word in command position. A rough reading goes on
// behind those that a command can follow.
func (r *strictReader) reserved(w Word) {
	r.lose(whyCompound)
	switch w.Text {
	case "if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "coproc":
		r.from = r.pos
	default:
		r.cur.Words = append(r.cur.Words, w)
	}
}

// assign records NAME=value; nameEnd is the index of = in the word's text.
func (r *strictReader) assign(w Word, raw string, nameEnd int) {
	name := raw[:nameEnd]
	a := Assign{Name: strings.TrimSuffix(name, "+"), Value: w.after(nameEnd + 1)}
	if a.Name != name || !isName(a.Name) {
		a.odd = true
		r.cur.problem(whyAssign)
		r.lose(whyAssign)
	}
	r.cur.Assigns = append(r.cur.Assigns, a)
}

// after returns w without its first n bytes, which are static text.
func (w Word) after(n int) Word {
	if w.kind == fixed {
		w.Text = w.Text[n:]
		return w
	}
	w.known = &affixes{w.prefix()[n:], w.suffix()}
	return w
}

// skipHereDocs passes over the bodies of the here-documents that the line
// before announced.
func (r *strictReader) skipHereDocs() {
	for _, h := range r.pending {
		for r.pos < len(r.src) {
			line := r.src[r.pos:]
			if i := strings.IndexByte(line, '\n'); i >= 0 {
				line = line[:i]
				r.skip(1)
			}
			r.skip(len(line))
			if h.tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if line == h.delimiter {
				break
			}
		}
	}
	r.pending = r.pending[:0]
}

// oddRune says what is wrong with a character beyond ASCII, if anything is:
// a blank or an invisible character outside quotes, or anywhere a mark that
// reverses the order in which a person reads the text.
func oddRune(s string, inQuotes bool) (size int, why string) {
	c, size := utf8.DecodeRuneInString(s)
	switch {
	case c == utf8.RuneError && size == 1:
		return 1, whyUTF8
	case c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069:
		return size, whyBlank
	case inQuotes:
		return size, ""
	case c == 0x85, c == 0xa0, c == 0xad, c == 0x34f, c == 0x61c, c == 0x1680, c == 0x180e, c >= 0x2000 && c <= 0x200f,
		c == 0x2028, c == 0x2029, c == 0x202f, c >= 0x205f && c <= 0x2065, c == 0x3000, c == 0x3164, c == 0xfeff,
		c >= 0xfff0 && c <= 0xfffb, c >= 0xe0000 && c <= 0xe0fff, c >= 0x80 && c < 0xa0:
		return size, whyBlank
	}
	return size, ""
}
