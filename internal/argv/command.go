package argv

import (
	"strconv"
	"strings"
)

// Command is a command text and what the readers found in it. It is read when
// something is first asked about it. A Command is not safe for concurrent use.
type Command struct {
	text     string
	depth    int // of a text given to a shell inside another
	spent    int // bytes of such texts read before
	done     bool
	complete bool // the strict reader understood every segment's place
	segs     []Segment
	look     looker
	other    int    // if not 0, the segments from here on are another shell's reading
	views    []int  // where the views of each segment begin, and the end
	unjudged string // why the text as a whole cannot be judged
	unread   string // why the strict reader lost its place
}

const (
	whyParse    = "it is no complete shell command"
	whyDisagree = "two readers of shell text disagree about it"
	whySwallow  = "a comment that ends in a backslash"
)

// Read returns the command of a text. It never fails: what could not be read is
// part of the answers.
func Read(text string) *Command { return &Command{text: text} }

// Text returns the text.
func (c *Command) Text() string { return c.text }

// analyse reads the text once.
func (c *Command) analyse() {
	if c.done {
		return
	}
	c.done = true
	c.look.depth, c.look.bytes = c.depth, c.spent
	var line plainLine
	if line.read(c.text) {
		c.complete = true
		c.segs = line.segments()
	} else {
		c.readBoth()
	}
	if len(c.segs) == 0 && c.unjudged == "" {
		c.unjudged = whyNothing
	}
	c.look.views, c.views = make([]view, 0, len(c.segs)+4), make([]int, 0, len(c.segs)+1)
	for i := range c.segs {
		s := &c.segs[i]
		if len(s.Words) > 0 && s.Words[0].kind == fixed && evaluates(program(s.Words[0].Text), s.Words) == whyEvaluate {
			s.problem(whyEvaluate)
		}
		c.views = append(c.views, len(c.look.views))
		c.look.segment(s)
	}
	c.views = append(c.views, len(c.look.views))
}

// segments returns the commands of a plain line, as the strict reader does.
func (l *plainLine) segments() []Segment {
	segs := make([]Segment, len(l.ends))
	from, at := 0, 0
	for i, end := range l.ends {
		text := strings.TrimLeft(l.line[at:l.cuts[i]], ";&| \t\n")
		segs[i] = Segment{Words: l.words[from:end:end], Text: strings.TrimRight(text, " \t\n")}
		from, at = end, l.cuts[i]
	}
	return segs
}

// readBoth runs the two readers and joins what they found.
func (c *Command) readBoth() {
	c.unjudged = treeFits(c.text)
	alone := c.unjudged != ""
	strict, lost := readStrict(c.text, alone)
	c.complete, c.unread = lost == "", lost
	if alone {
		c.segs = strict
		return
	}
	bash := readBash(c.text)
	var posix tree
	if bash.onlyBash {
		posix = readPOSIX(c.text, bash.ampersands)
	}
	if !bash.parsed {
		c.unjudged = whyParse
		strict, _ = readStrict(c.text, true)
		c.join(bash.segs, posix.segs, strict)
		return
	}
	agreed := c.compare(strict, bash.segs)
	switch {
	case agreed && c.complete && !bash.onlyBash:
		c.segs = strict
		c.note(strict)
	case agreed && !bash.onlyBash:
		c.segs = bash.segs
		c.note(bash.segs)
	case c.complete:
		c.join(strict)
		c.other = len(c.segs)
		c.join(c.segs, bash.segs, posix.segs)
	default:
		c.join(bash.segs, posix.segs, strict)
	}
}

// compare notes where the readers disagree about a text that both have read: on
// all of it, or on what stands in front of the place where the strict reader was
// lost.
func (c *Command) compare(strict, bash []Segment) (agreed bool) {
	if !c.complete {
		bash = bash[:min(len(strict), len(bash))]
	}
	switch {
	case !agree(strict, bash):
		// What one of them could not judge is the better reason, if there is one.
		if c.note(strict); c.unjudged == "" {
			c.unjudged = whyDisagree
		}
		return false
	case !c.complete && commentSwallows(c.text):
		c.unjudged = whySwallow
	case !c.complete && holdsControl(c.text):
		c.unjudged = whyControl
	}
	return true
}

// holdsControl tells whether text holds a control character other than the tab
// and the newline. The grammar library drops some that shells keep.
func holdsControl(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' && c != '\t' && c != '\n' || c == 0x7f {
			return true
		}
	}
	return false
}

// join makes one list of what the readers found, without repeating what they
// agree on.
func (c *Command) join(lists ...[]Segment) {
	seen := make(map[string]bool)
	c.segs = nil
	for _, list := range lists {
		for i := range list {
			if k := list[i].key(); !seen[k] {
				seen[k] = true
				c.segs = append(c.segs, list[i])
			}
		}
	}
	c.note(c.segs)
}

// note takes over what makes a segment impossible to judge.
func (c *Command) note(segs []Segment) {
	for i := range segs {
		if c.unjudged == "" {
			c.unjudged = segs[i].Unclear
		}
	}
}

// key is equal for segments that every rule answers alike.
func (s *Segment) key() string {
	var b strings.Builder
	put := func(w *Word) {
		b.WriteByte(byte(w.kind) + 'a')
		b.WriteByte(byte(w.flags&^quoted) + 'a')
		b.WriteString(w.Text)
		b.WriteByte(0)
	}
	for i := range s.Words {
		put(&s.Words[i])
	}
	for i := range s.Assigns {
		b.WriteString("\x01" + s.Assigns[i].Name)
		put(&s.Assigns[i].Value)
	}
	for i := range s.Redirects {
		r := &s.Redirects[i]
		b.WriteString("\x02" + r.FD + r.Op)
		b.WriteString(strconv.Itoa(r.at))
		put(&r.Target)
	}
	if s.capped {
		b.WriteByte(3)
	}
	return b.String()
}

// agree tells whether two readings found the same commands.
func agree(a, b []Segment) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].same(&b[i]) {
			return false
		}
	}
	return true
}

func (s *Segment) same(o *Segment) bool {
	if len(s.Words) != len(o.Words) || len(s.Assigns) != len(o.Assigns) || len(s.Redirects) != len(o.Redirects) {
		return false
	}
	for i := range s.Words {
		if !s.Words[i].same(&o.Words[i]) {
			return false
		}
	}
	for i := range s.Assigns {
		if s.Assigns[i].Name != o.Assigns[i].Name || !s.Assigns[i].Value.same(&o.Assigns[i].Value) {
			return false
		}
	}
	for i := range s.Redirects {
		r, q := &s.Redirects[i], &o.Redirects[i]
		if r.FD != q.FD || r.Op != q.Op || !r.Target.same(&q.Target) {
			return false
		}
	}
	return true
}

func (w *Word) same(o *Word) bool {
	if w.kind == fixed || o.kind == fixed {
		return w.kind == o.kind && w.Text == o.Text
	}
	return w.prefix() == o.prefix() && w.suffix() == o.suffix()
}

// Unjudgeable tells whether some part of the text cannot be judged, and why: a
// substitution or a here-document, a name that depends on an expansion, a text
// that is empty, too long, too deep or no shell command, or one about which the
// readers disagree. A chain asks about it, unless a rule denies.
func (c *Command) Unjudgeable() (reason string, yes bool) {
	c.analyse()
	return c.unjudged, c.unjudged != ""
}

// Hidden says why the text runs a command that nobody can see in it, such as
// what a shell reads from its input, or "". Every rule of a deny or ask table
// may match such a command; [Command.Against] counts it.
func (c *Command) Hidden() string {
	c.analyse()
	return c.look.hidden
}

// Segments returns the simple commands of the text, each once, in the order in
// which the readers found them. The caller must not change them.
func (c *Command) Segments() []Segment {
	c.analyse()
	return c.segs
}

// Understood returns how many of [Command.Segments], from the first, an allow has
// to cover where the text is Complete. Those behind them are what some shell may
// also read in it: they matter to a deny or ask only.
func (c *Command) Understood() int {
	c.analyse()
	if c.other > 0 {
		return c.other
	}
	return len(c.segs)
}

// Complete tells whether the strict reader kept its place to the end and the
// text can be judged, without which nothing in it can be allowed, and if not, why
// not.
func (c *Command) Complete() (why string, ok bool) {
	c.analyse()
	if c.complete && c.unjudged == "" {
		return "", true
	}
	if c.unjudged != "" {
		return c.unjudged, false
	}
	return c.unread, false
}

// Judged tells whether the text as a whole can be judged, so that what was said
// about its segments is the whole answer.
func (c *Command) Judged() bool {
	c.analyse()
	return c.unjudged == ""
}
