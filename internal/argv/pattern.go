package argv

import (
	"slices"

	"github.com/google/shlex"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// Limits of a pattern. They bound what one match can cost; a rule near them is
// a mistake.
const (
	maxPatternBytes = 4096
	maxPatternWords = 256
)

type tokenKind uint8

const (
	lit  tokenKind = iota // one identical word
	star                  // *: any one word
	rest                  // **: all remaining words, none included
)

// token is one word of a pattern.
type token struct {
	text  string
	kind  tokenKind
	exact bool // holds a quoted glob character: an unquoted one is not it
}

// redirectToken is one redirection that a pattern spells.
type redirectToken struct {
	op     string // > >> < or digits and >
	target token
}

// Pattern is a compiled pattern of a rule: the words of a command, then the
// redirections it may have.
//
//	pattern    = [assignment...] word... [redirect...]
//	word       = literal | "*" | "**"       ** only as the last word
//	redirect   = (">" | ">>" | "<" | digits">") (literal | "*")
//	assignment = NAME=value
//
// A literal is one identical word, with the quoting rules of the shell: 'a b',
// "a b" and a\ b are one word. A star inside a word is literal, and so is a
// quoted one. A Pattern is immutable and safe for concurrent use.
type Pattern struct {
	text      string
	assigns   []Assign
	words     []token
	redirects []redirectToken
}

// CompilePattern reads a pattern. Everything that could never match or means
// something else than it seems to is an error of code errs.Config: an empty
// pattern, a comment, an operator other than the redirections after the words,
// ** in front of another word, an unquoted expansion, an unterminated quote, and
// any quoting that two readers of shell words take differently.
func CompilePattern(text string) (*Pattern, error) {
	if len(text) > maxPatternBytes {
		return nil, patternError(text[:32]+"...", "the pattern is longer than 4096 bytes")
	}
	s := patternScanner{src: text}
	if msg := s.scan(); msg != "" {
		return nil, patternError(text, msg)
	}
	words, err := shlex.Split(text)
	if err != nil || !slices.Equal(words, s.plain()) {
		return nil, patternError(text, "the quoting is ambiguous; quote the whole word with single quotes")
	}
	p := &Pattern{text: text}
	for i := range s.words {
		if msg := p.add(&s.words[i]); msg != "" {
			return nil, patternError(text, msg)
		}
	}
	if msg := p.check(); msg != "" {
		return nil, patternError(text, msg)
	}
	return p, nil
}

func patternError(text, msg string) error {
	return errs.New(errs.Config, "pattern", text, msg)
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// add puts one scanned word into the part of the pattern it belongs to.
func (p *Pattern) add(w *patternWord) string {
	if n := len(p.redirects); n > 0 && p.redirects[n-1].target.text == "" && p.redirects[n-1].target.kind == lit {
		if w.op != "" {
			return "a redirection has no target; write a name or *"
		}
		return p.target(&p.redirects[n-1], w)
	}
	switch {
	case w.op != "":
		p.redirects = append(p.redirects, redirectToken{op: w.op})
		if w.text != "" || w.quoted {
			return p.target(&p.redirects[len(p.redirects)-1], w)
		}
		return ""
	case len(p.redirects) > 0:
		return "a redirection stands in front of a word; write redirections after all words"
	}
	if name, value, ok := w.assignment(); ok && len(p.words) == 0 {
		p.assigns = append(p.assigns, Assign{Name: name, Value: Static(value)})
		return ""
	}
	if n := len(p.words); n > 0 && p.words[n-1].kind == rest {
		return "** stands in front of another word; it can only be the last one"
	}
	p.words = append(p.words, w.token())
	return ""
}

// target sets what a redirection of the pattern may lead to.
func (p *Pattern) target(r *redirectToken, w *patternWord) string {
	if r.target = w.token(); r.target.kind == rest {
		return "a redirection leads to one file; write * for any"
	}
	switch {
	case r.target.kind != lit:
	case r.target.text == "":
		return "a redirection to an empty name"
	case r.target.text == "/dev/null":
		return "a redirection to /dev/null never matters; leave it out"
	}
	return ""
}

func (p *Pattern) check() string {
	switch n := len(p.redirects); {
	case len(p.words) == 0 && len(p.assigns)+n == 0:
		return "the pattern is empty; ** matches every command"
	case len(p.words) == 0:
		return "the pattern names no command; begin it with a word, * or **"
	case len(p.words)+n > maxPatternWords:
		return "the pattern has more than 256 words"
	case n > 0 && p.redirects[n-1].target.kind == lit && p.redirects[n-1].target.text == "":
		return "a redirection has no target; write a name or *"
	}
	return ""
}

// token returns w as a token; a quoted star is the only way to write the word *.
func (w *patternWord) token() token {
	if !w.quoted {
		switch w.text {
		case "*":
			return token{text: w.text, kind: star}
		case "**":
			return token{text: w.text, kind: rest}
		}
	}
	return token{text: w.text, exact: w.quotedGlob}
}

// assignment splits w where it is NAME=value with an unquoted name.
func (w *patternWord) assignment() (name, value string, ok bool) {
	if w.nameEnd <= 0 {
		return "", "", false
	}
	return w.text[:w.nameEnd], w.text[w.nameEnd+1:], true
}

// isName tells whether s is a name that a shell can assign to.
func isName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

// IsName tells whether s can be the name of an environment variable in a shell.
func IsName(s string) bool { return isName(s) }
