package rulvar

import (
	"strconv"

	"github.com/rulvar/rulvar-go/internal/argv"
)

// ShellLint is one remark about [ShellRules]: a rule that compiles, but likely
// does more or less than its author means.
type ShellLint struct {
	// Table is deny, ask, allow or allowEnv, and Index the place in it.
	Table string `json:"table"`
	Index int    `json:"index"`
	// Pattern is the entry as written.
	Pattern string `json:"pattern"`
	// Kind is error (the entry does not compile), open-ended (an allow lets run
	// more than the program it names), misses-arguments (a deny or an ask without
	// **), covered (another entry always decides) or risky-name (a variable that
	// makes programs run or load something).
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Lint looks for rules that do more or less than they seem to. An empty result
// does not make a policy safe; it has no plain mistakes.
func (r ShellRules) Lint() []ShellLint {
	l := &shellLinter{}
	deny := l.compile("deny", r.Deny)
	ask := l.compile("ask", r.Ask)
	allow := l.compile("allow", r.Allow)
	l.misses("deny", deny)
	l.misses("ask", ask)
	for i, p := range allow {
		if p == nil {
			continue
		}
		if runs := p.Runs(); runs != "" {
			l.add("allow", i, p.String(), "open-ended", "it allows "+runs+"; spell the arguments, or ask")
		}
	}
	l.covered("deny", deny, nil, "")
	l.covered("ask", ask, deny, "deny")
	l.covered("allow", allow, append(append([]*argv.Pattern(nil), deny...), ask...), "deny or ask")
	for i, name := range r.AllowEnv {
		switch {
		case !argv.IsName(name):
			l.add("allowEnv", i, name, "error", "it is no name of an environment variable")
		case argv.RiskyEnv(name):
			l.add("allowEnv", i, name, "risky-name", "with it a command can be made to run or load something else")
		}
	}
	return l.found
}

type shellLinter struct{ found []ShellLint }

func (l *shellLinter) add(table string, i int, pattern, kind, message string) {
	l.found = append(l.found, ShellLint{Table: table, Index: i, Pattern: pattern, Kind: kind, Message: message})
}

// compile returns the patterns of a table, nil where one does not compile.
func (l *shellLinter) compile(table string, texts []string) []*argv.Pattern {
	out := make([]*argv.Pattern, len(texts))
	for i, text := range texts {
		p, err := argv.CompilePattern(text)
		if err != nil {
			l.add(table, i, text, "error", err.Error())
			continue
		}
		out[i] = p
	}
	return out
}

// misses remarks on a deny or an ask that meets one number of words only.
func (l *shellLinter) misses(table string, patterns []*argv.Pattern) {
	for i, p := range patterns {
		if p != nil && !p.Open() && p.Plain() {
			l.add(table, i, p.String(), "misses-arguments", "with one more word the command is another one to it; end it in **")
		}
	}
}

// covered remarks on patterns that never decide: an earlier one of the table
// matches whatever they do, or one of a stricter table.
func (l *shellLinter) covered(table string, patterns, stricter []*argv.Pattern, name string) {
	for i, p := range patterns {
		if p == nil {
			continue
		}
		for k, q := range patterns[:i] {
			if q != nil && q.Covers(p) {
				l.add(table, i, p.String(), "covered", "everything it matches is matched by "+table+"["+strconv.Itoa(k)+"] "+q.String())
				break
			}
		}
		for _, q := range stricter {
			if q != nil && q.Covers(p) {
				l.add(table, i, p.String(), "covered", "everything it matches is decided by "+q.String()+" of the "+name+" table")
				break
			}
		}
	}
}
