package argv

import "strings"

// againstFixed is against for words that are all plain text: no state is
// needed, since each token takes one word.
func (p *Pattern) againstFixed(words []Word) Match {
	m := Yes
	for i := range p.words {
		t := &p.words[i]
		if t.kind == rest {
			return m
		}
		if i >= len(words) {
			return No
		}
		if m = min(m, t.holdsFixed(words[i].Text, i == 0)); m == No {
			return No
		}
	}
	if len(words) > len(p.words) {
		return No
	}
	return m
}

func (t *token) holdsFixed(text string, first bool) Match {
	switch {
	case t.kind == star || text == t.text:
		return Yes
	case first:
		return t.namesFixed(text)
	}
	return No
}

// namesFixed compares a static command word with the name that a pattern begins
// with.
func (t *token) namesFixed(text string) Match {
	if strings.EqualFold(text, t.text) {
		return Maybe
	}
	if strings.IndexByte(text, '/') < 0 && (t.text == "" || t.text[0] != '/') {
		return No
	}
	if strings.EqualFold(base(text), base(t.text)) {
		return Maybe
	}
	return No
}

// mayRun tells whether a command of plain words may run another, or means more
// than its words show.
func mayRun(words []Word) bool {
	name := program(words[0].Text)
	if strings.Contains(subcommands, " "+name+" ") {
		// They run the subcommand that follows; only options may hide which.
		return len(words) > 1 && strings.HasPrefix(words[1].Text, "-")
	}
	return runners[name] != nil || evaluates(name, words) != ""
}
