package argv

import "sync"

// MatchArgv answers for a deny or ask table about an argv that is about to be
// executed, after every expansion. It looks through wrappers and into the text
// given to a shell, as [Command.Against] does.
func (p *Pattern) MatchArgv(argv []string) Match {
	seg := Segment{Words: make([]Word, len(argv))}
	for i, s := range argv {
		seg.Words[i] = Static(s)
	}
	var l looker
	l.segment(&seg)
	m := No
	if l.hidden != "" {
		m = Maybe
	}
	var buf []Match
	for i := range l.views {
		m = max(m, p.view(&l.views[i], &buf))
	}
	return m
}

// ShowsArgv tells whether the text shows exactly this argv as static words, for
// a reader who approved the text: as one of its commands, or as a command that
// one of them runs.
func (c *Command) ShowsArgv(argv []string) bool {
	c.analyse()
	for i := range c.look.views {
		if shows(c.look.views[i].words, argv) {
			return true
		}
	}
	return false
}

func shows(words []Word, argv []string) bool {
	if len(words) != len(argv) || len(argv) == 0 {
		return false
	}
	for i := range words {
		if !words[i].IsStatic() || words[i].Text != argv[i] {
			return false
		}
	}
	return true
}

// Line reads plain lines for an allow table, again and again without
// allocating. The zero Line is ready. It is not safe for concurrent use;
// [GetLine] hands out one that nobody else has.
type Line struct{ line plainLine }

var lines = sync.Pool{New: func() any { return new(Line) }}

// GetLine returns a Line; give it back with [Line.Release].
func GetLine() *Line { return lines.Get().(*Line) }

// Release gives l back. A line that grew large is left to the collector.
func (l *Line) Release() {
	if l.line.line = ""; cap(l.line.words) <= 4096 {
		clear(l.line.words)
		lines.Put(l)
	}
}

// Read reads text and tells whether it is a plain line. If it is not, the other
// methods must not be used.
func (l *Line) Read(text string) bool { return l.line.read(text) }

// Commands returns how many commands the line has.
func (l *Line) Commands() int { return len(l.line.ends) }

// Allowed tells whether every command of the line is covered by one of the
// patterns.
func (l *Line) Allowed(allow []*Pattern) bool {
	from := 0
	for _, end := range l.line.ends {
		words, found := l.line.words[from:end], false
		for _, p := range allow {
			if len(p.assigns)+len(p.redirects) == 0 && p.covers(words) {
				found = true
				break
			}
		}
		if !found {
			return false
		}
		from = end
	}
	return true
}

// Simple tells whether no command of the line runs another: then a deny or ask
// pattern needs to be matched against the commands as they stand only, as
// [Line.Against] does.
func (l *Line) Simple() bool {
	from := 0
	for _, end := range l.line.ends {
		if mayRun(l.line.words[from:end]) {
			return false
		}
		from = end
	}
	return true
}

// Against is [Command.Against] for a line that is Simple.
func (l *Line) Against(p *Pattern) Match {
	if len(p.assigns)+len(p.redirects) > 0 {
		return No
	}
	m, from := No, 0
	for _, end := range l.line.ends {
		if m = max(m, p.againstFixed(l.line.words[from:end])); m == Yes {
			break
		}
		from = end
	}
	return m
}
