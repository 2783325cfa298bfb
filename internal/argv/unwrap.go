package argv

import "strings"

// view is one command as rules are matched against it: a simple command of the
// text, or a command that another one runs.
type view struct {
	words []Word
	seg   *Segment // the simple command that it is or is part of
	cap   Match    // the strongest answer it may give
	via   string   // what runs it, such as "env", or "" for the command itself
}

// Bounds of what is looked for behind one simple command. Beyond them it counts
// as a command nobody can see.
const (
	maxLooks = 512
	maxDepth = 12
	maxLoose = 64 // words after which a loosely known wrapper is given up
)

const (
	whyInput    = "it runs commands read from its input"
	whyText     = "it runs text that is only known when it runs"
	whyInner    = "it runs a command that is only known when it runs"
	whyTooDeep  = "commands inside commands, too deep to follow"
	whyEvaluate = "a builtin that evaluates its argument"
	whyAlias    = "it changes what a later command name means"
	whyProgram  = "a program text that runs commands"
	whySetting  = "a setting that names a program to run"
)

// looker collects the views of one command.
type looker struct {
	views  []view
	seg    *Segment
	hidden string // why the text runs a command nobody can see, or ""
	looks  int
	via    string // what runs the command that is looked at
	depth  int    // nesting of texts given to shells
	bytes  int    // of such texts read so far
}

// hide notes that a command cannot be seen; the first reason stays.
func (l *looker) hide(why string) {
	if l.hidden == "" {
		l.hidden = why
	}
}

// segment adds the views of a simple command.
func (l *looker) segment(s *Segment) {
	l.seg, l.looks = s, 0
	for i := range s.Assigns {
		if a := &s.Assigns[i]; prompts(a.Name, &a.Value) {
			l.hide(whyEvaluate)
		}
	}
	limit := Yes
	if s.capped {
		limit = Maybe
	}
	l.look(s.Words, limit, "", 0)
}

// look adds a command and whatever it runs in turn.
func (l *looker) look(words []Word, limit Match, via string, level int) {
	l.views = append(l.views, view{words: words, seg: l.seg, cap: limit, via: via})
	if len(words) == 0 {
		return
	}
	if l.looks++; l.looks > maxLooks || level > maxDepth {
		l.hide(whyTooDeep)
		return
	}
	w := &words[0]
	if w.kind != fixed || w.flags&(glob|brace) != 0 {
		if via != "" {
			l.hide(whyInner)
		}
		return
	}
	name := program(w.Text)
	if run := runners[name]; run != nil {
		outer := l.via
		l.via = via
		run(l, words, level+1)
		l.via = outer
	}
	if why := evaluates(name, words); why != "" {
		l.hide(why)
	}
	for i := range words {
		if words[i].sets() {
			name, value, _ := strings.Cut(words[i].Text, "=")
			if prompts(strings.TrimSuffix(name, "+"), &Word{Text: value, kind: words[i].kind}) {
				l.hide(whyEvaluate)
			}
		}
	}
}

// prompts tells whether an assignment makes the shell evaluate the value later
// on: a prompt, which PS4 is under set -x, or a subscript with a substitution in
// it, which a variable with the integer attribute is given.
func prompts(name string, value *Word) bool {
	text := value.Text
	runs := strings.Contains(text, "$(") || strings.Contains(text, "`")
	switch name {
	case "PS0", "PS1", "PS2", "PS4", "ENV":
		return runs || value.kind != fixed
	case "PROMPT_COMMAND":
		return true
	}
	return runs && value.kind == fixed && strings.Contains(text, "[")
}

// program returns the name by which a command word is looked up: the last
// element of its path, in lower case, since some file systems know no other, and
// without a version behind it.
func program(word string) string {
	name := strings.ToLower(base(word))
	if runners[name] == nil {
		if short := strings.TrimRight(name, "0123456789.-"); short != "" {
			return short
		}
	}
	return name
}

// inner adds a command that the command named via runs.
func (l *looker) inner(via string, words []Word, level int) {
	l.look(words, Maybe, strings.TrimSpace(l.via+" "+via), level)
}

// inline reads a text that a shell will run.
func (l *looker) inline(via, text string, level int) {
	if l.bytes += len(text); l.depth+level > maxDepth || l.bytes > 4*maxTreeBytes {
		l.hide(whyTooDeep)
		return
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	sub := &Command{text: text, depth: l.depth + level, spent: l.bytes}
	sub.analyse()
	l.bytes = sub.look.bytes
	via = strings.TrimSpace(l.via + " " + via)
	for _, v := range sub.look.views {
		if v.via != "" {
			v.via = via + " " + v.via
		} else {
			v.via = via
		}
		v.cap = Maybe
		l.views = append(l.views, v)
	}
	if sub.look.hidden != "" {
		l.hide(sub.look.hidden)
	}
	if why, yes := sub.Unjudgeable(); yes {
		l.hide(why)
	}
}

// inlineWords is inline for words that are joined with blanks first, as eval
// does.
func (l *looker) inlineWords(via string, words []Word, level int) {
	parts := make([]string, len(words))
	for i := range words {
		if !words[i].IsStatic() {
			l.hide(whyText)
			return
		}
		parts[i] = words[i].Text
	}
	l.inline(via, strings.Join(parts, " "), level)
}

// wrapper describes how a program that runs another one is written: which of
// its options take an argument in the next word, and what stands between the
// options and the command.
type wrapper struct {
	short   string // letters of short options with an argument
	long    string // long options with an argument, each between blanks
	assigns bool   // NAME=value words may precede the command
	skip    int    // words between the options and the command
	stop    string // letters of options with which it runs nothing
	shell   bool   // without a command it runs a shell that reads its input
	login   string // letters of options with which it does
}

// wrapped finds the command of a known wrapper.
func (l *looker) wrapped(name string, wr *wrapper, words []Word, level int) {
	i, known := wr.command(words)
	switch {
	case !known:
		l.hide(whyInner)
	case i < len(words):
		l.inner(name, words[i:], level)
	case wr.shell || wr.asks(words):
		l.hide(whyInput)
	}
}

// asks tells whether an option makes the wrapper run a shell.
func (wr *wrapper) asks(words []Word) bool {
	for i := range words {
		if s := words[i].Text; wr.login != "" && len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.ContainsAny(s, wr.login) {
			return true
		}
	}
	return false
}

// command returns the index of the word at which the wrapped command begins,
// len(words) if there is none, and false if that depends on an expansion.
func (wr *wrapper) command(words []Word) (start int, known bool) {
	i := 1
	for i < len(words) {
		w := &words[i]
		if wr.assigns && w.sets() {
			if w.loosely() {
				return 0, false
			}
			i++
			continue
		}
		if !w.IsStatic() {
			return 0, false
		}
		n, none := wr.option(w.Text)
		if none {
			return len(words), true
		}
		if n == 0 {
			break
		}
		if n == 2 && i+1 < len(words) && words[i+1].loosely() {
			return 0, false
		}
		i += n
		if w.Text == "--" && !wr.assigns {
			break
		}
	}
	for k := 0; k < wr.skip && i < len(words); k++ {
		if words[i].loosely() {
			return 0, false
		}
		i++
	}
	return min(i, len(words)), true
}

// option returns how many words the option s takes, 0 if s is no option, and
// whether nothing is run with it.
func (wr *wrapper) option(s string) (words int, none bool) {
	switch {
	case len(s) < 2 || s[0] != '-':
		return 0, false
	case s[:2] == "--":
		if strings.Contains(wr.long, " "+s[2:]+" ") {
			return 2, false
		}
		return 1, s == "--version" || s == "--help"
	}
	for k := 1; k < len(s); k++ {
		if strings.IndexByte(wr.stop, s[k]) >= 0 {
			return 0, true
		}
		if strings.IndexByte(wr.short, s[k]) >= 0 {
			if k+1 == len(s) {
				return 2, false
			}
			break
		}
	}
	return 1, false
}

// loosely tells whether w may become another number of words than one.
func (w *Word) loosely() bool { return !w.IsOne() || w.flags&glob != 0 }

// sets tells whether w sets a variable where a program takes such words before
// a command: it holds an equals sign, whatever stands before it. Such programs
// do not care whether a shell would take that for a name.
func (w *Word) sets() bool {
	text := w.Text
	if w.kind != fixed {
		text = w.prefix()
	}
	return strings.Contains(text, "=")
}

// more tells whether the word at i of a command that runs others is still
// looked at. Whoever hides a command behind that many words is asked about.
func (l *looker) more(i int) bool {
	if i > maxLoose || l.looks > maxLooks {
		l.hide(whyTooDeep)
		return false
	}
	return true
}

// looseSuffixes takes every word of a command as one at which a command it runs
// may begin.
func (l *looker) looseSuffixes(name string, words []Word, from, level int) {
	for i := from; i < len(words) && l.more(i); i++ {
		if words[i].kind == fixed && strings.HasPrefix(words[i].Text, "-") {
			continue
		}
		l.inner(name, words[i:], level)
	}
}
