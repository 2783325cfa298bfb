package rulvar

import (
	"strings"

	"github.com/rulvar/rulvar-go/internal/argv"
)

// ShellExplanation says how a command text was judged.
type ShellExplanation struct {
	Command string  `json:"command"`
	Verdict Verdict `json:"verdict"`
	// Why says what decided, in one line for a person.
	Why string `json:"why"`
	// Segments are the simple commands of the text, wherever they stand.
	Segments []ShellSegment `json:"segments"`
}

// ShellSegment is one simple command of a text and its own verdict. The verdict
// of the text is never looser.
type ShellSegment struct {
	// Text is the source of the segment.
	Text string `json:"text"`
	// Words are its words: static ones without their quotes, others as written.
	Words   []string `json:"words"`
	Verdict Verdict  `json:"verdict"`
	// Table is where the pattern that decided stands: deny, ask or allow; empty
	// if none did.
	Table   string `json:"table,omitempty"`
	Pattern string `json:"pattern,omitempty"`
	// Via names what runs the command that the pattern met, such as env or sh -c,
	// if it is not the segment itself.
	Via string `json:"via,omitempty"`
	Why string `json:"why"`
	// Suggest is the narrowest allow pattern that covers the segment, with every
	// star in it quoted, for a person who does not want to be asked again; empty
	// if the segment is not asked about for want of a pattern, or has none.
	Suggest string `json:"suggest,omitempty"`
}

// ExplainShellCommand is [MatchShellCommand] with the reasons. Rules that do not
// compile are the reason of an ask.
func ExplainShellCommand(command string, rules ShellRules) ShellExplanation {
	m, err := CompileShellRules(rules)
	if err != nil {
		return ShellExplanation{Command: command, Verdict: VerdictAsk, Why: err.Error(), Segments: []ShellSegment{}}
	}
	return m.Explain(command)
}

// Explain is [ShellMatcher.Match] with the reasons; the verdicts are the same.
func (m *ShellMatcher) Explain(command string) ShellExplanation {
	c := argv.Read(command)
	out := ShellExplanation{Command: command, Verdict: VerdictAllow, Segments: []ShellSegment{}}
	for i := range c.Segments() {
		s := m.segment(c, i)
		if i >= c.Understood() && s.Table != "deny" && s.Table != "ask" {
			continue // another shell's reading, which no rule meets
		}
		out.Segments = append(out.Segments, s)
		if stricter(s.Verdict, out.Verdict) {
			out.Verdict, out.Why = s.Verdict, s.Why
		}
	}
	why, complete := c.Complete()
	hidden := c.Hidden() != "" && len(m.deny)+len(m.ask) > 0
	if out.Verdict == VerdictDeny || !complete || hidden {
		// No allow pattern can make such a text run without a question.
		for i := range out.Segments {
			out.Segments[i].Suggest = ""
		}
	}
	if out.Verdict == VerdictDeny {
		return out
	}
	if !complete {
		if out.Verdict = VerdictAsk; out.Why == "" || !c.Judged() {
			out.Why = why
		}
		return out
	}
	if hidden {
		out.Verdict, out.Why = VerdictAsk, c.Hidden()
		return out
	}
	if out.Verdict == VerdictAllow {
		out.Why = "every command is covered by an allow pattern"
	}
	return out
}

// stricter tells whether verdict a asks for more care than b.
func stricter(a, b Verdict) bool {
	return a == VerdictDeny && b != VerdictDeny || a == VerdictAsk && b == VerdictAllow
}

// segment judges one segment.
func (m *ShellMatcher) segment(c *argv.Command, i int) ShellSegment {
	s := &c.Segments()[i]
	out := ShellSegment{Text: s.Text, Words: []string{}, Verdict: VerdictAsk}
	for k := range s.Words {
		out.Words = append(out.Words, s.Words[k].Text)
	}
	if p, match, via := strongest(c, i, m.deny); match != argv.No {
		out.Table, out.Pattern, out.Via = "deny", p.String(), via
		out.Why = met(match, "denied by", p, via)
		if match == argv.Yes {
			out.Verdict = VerdictDeny
		} else if s.Unclear != "" {
			out.Why = s.Unclear + ", and it " + out.Why
		}
		return out
	}
	if s.Unclear != "" {
		out.Why = s.Unclear
		return out
	}
	if p, match, via := strongest(c, i, m.ask); match != argv.No {
		out.Table, out.Pattern, out.Via = "ask", p.String(), via
		out.Why = met(match, "asked about by", p, via)
		return out
	}
	if p := m.allowing(s); p != nil {
		out.Verdict, out.Table, out.Pattern, out.Why = VerdictAllow, "allow", p.String(), "covered by "+p.String()
		return out
	}
	out.Why = m.uncovered(s)
	out.Suggest = s.Suggest()
	return out
}

// strongest returns the pattern of a table that answers strongest for a segment.
func strongest(c *argv.Command, i int, table []*argv.Pattern) (best *argv.Pattern, match argv.Match, via string) {
	for _, p := range table {
		if found, through := c.AgainstSegment(i, p); found > match {
			best, match, via = p, found, through
		}
	}
	return best, match, via
}

// met says how a pattern met a segment.
func met(match argv.Match, verb string, p *argv.Pattern, via string) string {
	text := verb + " " + p.String()
	if match == argv.Maybe {
		text = "may be " + text
	}
	if via != "" {
		text += " behind " + via
	}
	return text
}

// uncovered says why no allow pattern covers a segment.
func (m *ShellMatcher) uncovered(s *argv.Segment) string {
	if s.Problem != "" {
		return "cannot be allowed: " + s.Problem
	}
	for _, p := range m.allow {
		if !s.CoversWords(p) {
			continue
		}
		if r := s.FileRedirect(p); r != "" {
			return p.String() + " covers its words, but not the redirection " + r
		}
		if names := s.AssignedNames(p, m.env); len(names) > 0 {
			return p.String() + " covers its words, but not the assignment of " + strings.Join(names, ", ")
		}
	}
	return "no allow pattern covers it"
}
