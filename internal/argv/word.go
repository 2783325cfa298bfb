package argv

import "strings"

// wordKind says how much of a word is known before it is expanded.
type wordKind uint8

const (
	fixed wordKind = iota // known text, exactly one word
	one                   // unknown text, exactly one word: "$x"
	many                  // unknown text, any number of words: $x, "$@"
)

// wordFlags are facts about unquoted characters of a word. They do not matter
// to an allow, for which nothing is expanded, except where they decide how many
// words there are; for a deny they mean "may become something else".
type wordFlags uint8

const (
	quoted wordFlags = 1 << iota // some character was quoted or escaped
	glob                         // an unquoted * ? or [...]
	tilde                        // an unquoted ~ where a shell expands it
	brace                        // an unquoted {a,b} or {a..b}
)

// Word is one word of a command, after quote removal and before expansion.
type Word struct {
	// Text is the word without its quotes where it is static, else the source
	// text of the word.
	Text  string
	known *affixes // of a dynamic word only
	kind  wordKind
	flags wordFlags
}

// affixes are the static text with which a dynamic word begins and ends.
type affixes struct{ prefix, suffix string }

// prefix is the static text in front of the first expansion of a dynamic word.
func (w *Word) prefix() string {
	if w.known == nil {
		return ""
	}
	return w.known.prefix
}

// suffix is the static text behind the last expansion of a dynamic word.
func (w *Word) suffix() string {
	if w.known == nil {
		return ""
	}
	return w.known.suffix
}

// Static returns a word of known text, as an argv has it.
func Static(text string) Word { return Word{Text: text} }

// IsStatic tells whether w is known text that no expansion changes.
func (w *Word) IsStatic() bool {
	return w.kind == fixed && w.flags&(glob|tilde|brace) == 0
}

// IsOne tells whether w is certainly exactly one word when it is passed on
// unchanged, as a quoted expansion or plain text is.
func (w *Word) IsOne() bool { return w.kind != many && w.flags&brace == 0 }

// loose returns w as a deny must see it: the kind it may have after every
// expansion, and the text that surely begins and ends it.
func (w *Word) loose() (kind wordKind, prefix, suffix string) {
	switch {
	case w.kind != fixed:
		return w.kind, w.prefix(), w.suffix()
	case w.flags&brace != 0:
		return many, cutBefore(w.Text, "{*?[~"), cutAfter(w.Text, "}*?]")
	case w.flags&glob != 0:
		return many, cutBefore(w.Text, "*?[~"), cutAfter(w.Text, "*?]")
	case w.flags&tilde != 0:
		// Up to the tilde, and from the slash that ends the user's name.
		i := strings.IndexByte(w.Text, '~')
		j := strings.LastIndexByte(w.Text, '/')
		if j < i {
			j = len(w.Text)
		}
		return one, w.Text[:i], w.Text[j:]
	}
	return fixed, w.Text, w.Text
}

func cutBefore(s, chars string) string {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i]
	}
	return s
}

func cutAfter(s, chars string) string {
	if i := strings.LastIndexAny(s, chars); i >= 0 {
		return s[i+1:]
	}
	return s
}

// dynamic returns one word of unknown text between two known ends.
func dynamic(source, prefix, suffix string) Word {
	return Word{Text: source, kind: one, known: &affixes{prefix, suffix}}
}

// unknown is a word of which nothing is known, not even that it is one.
func unknown(source string) Word { return Word{Text: source, kind: many} }

// Assign is one NAME=value in front of a command.
type Assign struct {
	Name  string
	Value Word
	// odd marks the forms only some shells know: NAME+=value, NAME[i]=value,
	// NAME=(...).
	odd bool
}

// Redirect is one redirection of a command. Here-documents and here-strings
// are not in the list; their segment is marked instead.
type Redirect struct {
	FD     string // digits or {name} in front of the operator, or ""
	Op     string // > >> < <> >| >& <& &> &>>
	Target Word
	at     int  // number of words of the command in front of it
	glued  bool // the target follows the operator without a blank
}

// Harmless tells whether r names no file: it duplicates or closes a
// descriptor, or its target is /dev/null.
func (r *Redirect) Harmless() bool {
	if r.FD != "" && r.FD[0] == '{' || !r.Target.IsStatic() {
		return false
	}
	if r.Op == ">&" || r.Op == "<&" {
		return r.Target.Text == "-" || isDigits(r.Target.Text)
	}
	return r.Target.Text == "/dev/null"
}

// String returns r as a person would write it.
func (r *Redirect) String() string { return r.FD + r.Op + " " + r.Target.Text }

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Segment is one simple command of a text, or the part of it that stands where
// a simple command should.
type Segment struct {
	// Text is the source of the segment, without the separators around it.
	Text      string
	Words     []Word
	Assigns   []Assign
	Redirects []Redirect
	// Problem says why no allow can be given to the segment, in words that can
	// follow "cannot be allowed: "; empty where it was understood completely.
	Problem string
	// Unclear says why the segment cannot be judged at all, not even by a
	// deny; empty where it can be.
	Unclear string
	// capped marks a segment with a substitution or a here-document: it asks,
	// whatever the tables say, so a deny in it is never more than a maybe.
	capped bool
	// rough marks what the strict reader found after it had lost its place.
	rough bool
}

// problem records why s cannot be allowed; the first reason stays.
func (s *Segment) problem(why string) {
	if s.Problem == "" {
		s.Problem = why
	}
}

// unclear records why s cannot be judged, and so cannot be allowed either.
func (s *Segment) unclear(why string) {
	s.problem(why)
	if s.Unclear == "" {
		s.Unclear = why
	}
}

func (s *Segment) empty() bool {
	return len(s.Words) == 0 && len(s.Assigns) == 0 && len(s.Redirects) == 0 && s.Problem == ""
}
