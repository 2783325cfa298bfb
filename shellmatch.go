package rulvar

import (
	"strconv"

	"github.com/rulvar/rulvar-go/internal/argv"
	"github.com/rulvar/rulvar-go/internal/errs"
)

// ShellRules says which shell commands may run. Each entry of Deny, Ask and
// Allow is a pattern of words: a literal is one identical word, * any one word,
// ** (only as the last word) all that remain; redirections may follow, as in
//
//	go test ** > *
//
// For each simple command of a text a deny wins over an ask and an ask over an
// allow; what no pattern covers asks; the strictest answer of all commands is
// the answer for the text. The order of patterns never matters.
type ShellRules struct {
	Deny  []string `json:"deny,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Allow []string `json:"allow,omitempty"`
	// AllowEnv names environment variables that a command may set in front of
	// itself and still be allowed, as in CI=1 npm test. Without a name here, an
	// assignment asks unless the allow pattern spells it. Empty by default.
	AllowEnv []string `json:"allowEnv,omitempty"`
}

// ShellMatcher is compiled [ShellRules]. It is immutable and safe for concurrent
// use. Make it with [CompileShellRules].
type ShellMatcher struct {
	deny, ask, allow []*argv.Pattern
	env              map[string]bool
}

// CompileShellRules makes a matcher of rules. A pattern that is empty, holds a comment,
// an expansion, an operator that is none of the redirections after the words, or
// ** in front of another word, and a name in AllowEnv that is none, is an
// [ErrConfig] that names the table and the index.
func CompileShellRules(r ShellRules) (*ShellMatcher, error) {
	m := &ShellMatcher{}
	for _, t := range []struct {
		name string
		from []string
		to   *[]*argv.Pattern
	}{{"deny", r.Deny, &m.deny}, {"ask", r.Ask, &m.ask}, {"allow", r.Allow, &m.allow}} {
		for i, text := range t.from {
			p, err := argv.CompilePattern(text)
			if err != nil {
				return nil, errs.Wrap(errs.Config, "CompileShellRules", t.name+"["+strconv.Itoa(i)+"]", "", err)
			}
			*t.to = append(*t.to, p)
		}
	}
	for i, name := range r.AllowEnv {
		if !argv.IsName(name) {
			return nil, errs.New(errs.Config, "CompileShellRules", "allowEnv["+strconv.Itoa(i)+"]",
				strconv.Quote(name)+" is no name of an environment variable; write the name alone, such as CI")
		}
		if m.env == nil {
			m.env = make(map[string]bool)
		}
		m.env[name] = true
	}
	return m, nil
}

// MatchShellCommand judges a command text by rules: [CompileShellRules] and
// [ShellMatcher.Match] in one, for a hook that is not called often. Rules that
// do not compile answer ask.
func MatchShellCommand(command string, rules ShellRules) Verdict {
	m, err := CompileShellRules(rules)
	if err != nil {
		return VerdictAsk
	}
	return m.Match(command)
}

// Match answers allow, ask or deny. It answers allow only for a text that was
// understood completely and of which every simple command is covered by an allow
// pattern; a substitution, a here-document and anything that cannot be judged ask.
// A deny anywhere in the text denies, also in a loop or a function. A denied
// command that only may run, behind a wrapper, in another directory or in a text
// given to a shell, asks.
func (m *ShellMatcher) Match(command string) Verdict {
	line := argv.GetLine()
	defer line.Release()
	if line.Read(command) && (len(m.deny)+len(m.ask) == 0 || line.Simple()) {
		return m.verdict(line.Against, "", func() bool { return line.Allowed(m.allow) })
	}
	c := argv.Read(command)
	why, _ := c.Unjudgeable()
	return m.verdict(c.Against, why, func() bool { return m.allows(c) })
}

// verdict composes the tables over a whole text.
func (m *ShellMatcher) verdict(against func(*argv.Pattern) argv.Match, unclear string, allowed func() bool) Verdict {
	found := argv.No
	for _, p := range m.deny {
		if found = max(found, against(p)); found == argv.Yes {
			return VerdictDeny
		}
	}
	if found != argv.No || unclear != "" {
		return VerdictAsk
	}
	for _, p := range m.ask {
		if against(p) != argv.No {
			return VerdictAsk
		}
	}
	if allowed() {
		return VerdictAllow
	}
	return VerdictAsk
}

// allows tells whether every segment of the text is covered.
func (m *ShellMatcher) allows(c *argv.Command) bool {
	if _, ok := c.Complete(); !ok {
		return false
	}
	segs := c.Segments()[:c.Understood()]
	for i := range segs {
		if m.allowing(&segs[i]) == nil {
			return false
		}
	}
	return len(segs) > 0
}

// allowing returns the first allow pattern that covers a segment, or nil.
func (m *ShellMatcher) allowing(s *argv.Segment) *argv.Pattern {
	for _, p := range m.allow {
		if s.Allows(p, m.env) {
			return p
		}
	}
	return nil
}
