package argv

import "strings"

// Match is the answer of a pattern to a command.
type Match uint8

const (
	// No: the command is none that the pattern describes.
	No Match = iota
	// Maybe: it depends on what an expansion, a wrapper or a path turns out to
	// be.
	Maybe
	// Yes: the pattern describes the command.
	Yes
)

// String returns "no", "maybe" or "yes".
func (m Match) String() string {
	switch m {
	case Yes:
		return "yes"
	case Maybe:
		return "maybe"
	}
	return "no"
}

// against matches the words of one command for a deny or ask table. It runs the
// pattern as a small automaton: state[i] is the best answer with i tokens used
// up. A command of static words keeps one state alive and is matched in one
// pass; an expansion of unknown length opens several.
func (p *Pattern) against(words []Word, buf *[]Match) Match {
	n := len(p.words)
	if cap(*buf) < 2*(n+1) {
		*buf = make([]Match, 2*(n+1))
	}
	state, next := (*buf)[:n+1], (*buf)[n+1:2*(n+1)]
	clear(state)
	state[0] = Yes
	for j := range words {
		clear(next)
		if !p.step(state, next, &words[j], j == 0) {
			return No
		}
		state, next = next, state
		if p.open() && state[n-1] == Yes {
			return Yes // everything that follows is matched by **
		}
	}
	if p.open() {
		return max(state[n-1], state[n])
	}
	return state[n]
}

// open tells whether the pattern ends in **.
func (p *Pattern) open() bool {
	return len(p.words) > 0 && p.words[len(p.words)-1].kind == rest
}

// step moves every live state over one word and tells whether any is left.
func (p *Pattern) step(state, next []Match, w *Word, first bool) bool {
	kind, prefix, suffix := w.loose()
	alive, begun := false, false
	for i, m := range state {
		var t *token
		if i < len(p.words) {
			t = &p.words[i]
		}
		if m != No {
			if t != nil && t.kind == rest {
				next[i] = max(next[i], m)
			} else if kind == many {
				next[i] = max(next[i], Maybe) // it may vanish
			}
			if t != nil && t.kind != rest {
				next[i+1] = max(next[i+1], min(m, t.holds(w, first)))
			}
			begun = begun || kind == many && t != nil && (first || t.mayBegin(prefix))
		}
		// A word of unknown number may be this token and any before it, and what
		// is left of it may be matched by a ** behind.
		if begun && t != nil && t.kind != rest && (t.mayEnd(suffix) || i+1 < len(p.words) && p.words[i+1].kind == rest) {
			next[i+1] = max(next[i+1], Maybe)
		}
		alive = alive || next[i] != No
	}
	return alive || next[len(next)-1] != No
}

// holds answers whether w, as exactly one word, is what t describes. The word
// a command begins with is also compared by the name of its file and without
// regard to case, since file systems differ: that is a maybe.
func (t *token) holds(w *Word, first bool) Match {
	if t.kind == star {
		return Yes
	}
	kind, prefix, suffix := w.loose()
	if w.kind == fixed && w.Text == t.text {
		if t.exact && w.flags&glob != 0 {
			return Maybe
		}
		return Yes
	}
	if first {
		return t.names(w, kind, suffix)
	}
	if kind != fixed && hasFold(t.text, prefix, suffix) {
		return Maybe
	}
	return No
}

// names compares a command word with the name that a pattern begins with.
func (t *token) names(w *Word, kind wordKind, suffix string) Match {
	switch {
	case kind == fixed:
		return t.namesFixed(w.Text)
	case w.kind == fixed && w.flags&(glob|brace) == glob:
		// A glob never yields a slash that it does not show.
		name := base(w.Text)
		if hasFold(base(t.text), cutBefore(name, "*?[~"), cutAfter(name, "*?]")) {
			return Maybe
		}
		return No
	case kind == many || hasFold(base(t.text), "", suffix):
		return Maybe
	case strings.Contains(suffix, "/") && strings.EqualFold(base(t.text), base(suffix)):
		return Maybe
	}
	return No
}

// base returns what follows the last slash, which for a path that names a
// program is the program.
func base(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// mayBegin and mayEnd tell whether a word that an expansion yields, of which
// only its beginning or its end is known, may be what t describes.
func (t *token) mayBegin(prefix string) bool { return t.kind != lit || hasFold(t.text, prefix, "") }
func (t *token) mayEnd(suffix string) bool   { return t.kind != lit || hasFold(t.text, "", suffix) }

// hasFold tells whether s may be a text that begins with prefix and ends with
// suffix, in any case: a shell can be told to expand globs that way.
func hasFold(s, prefix, suffix string) bool {
	return len(s) >= len(prefix)+len(suffix) &&
		strings.EqualFold(s[:len(prefix)], prefix) &&
		strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// covers answers for an allow table: whether the words are, as they stand,
// what the pattern describes. The caller has made sure that the command word is
// static.
func (p *Pattern) covers(words []Word) bool {
	for i := range p.words {
		t := &p.words[i]
		if t.kind == rest {
			return true
		}
		if i >= len(words) || !t.covers(&words[i]) {
			return false
		}
	}
	return len(words) == len(p.words)
}

func (t *token) covers(w *Word) bool {
	if !w.IsOne() {
		return false
	}
	if t.kind == star {
		return true
	}
	return w.kind == fixed && w.Text == t.text && !(t.exact && w.flags&glob != 0)
}
