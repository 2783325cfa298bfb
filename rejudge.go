package rulvar

import (
	"encoding/json"

	"github.com/rulvar/rulvar-go/internal/argv"
)

// What has been admitted once is judged again in three places: a recorded
// grant before it is used, the argv that a shell tool is about to start, the
// host that a fetch tool is about to connect to.

// denies holds an approved call against the deny table alone and reports
// whether it denies. input is the effective input that is about to run. A rule
// that only may match does not deny: somebody has looked at the call.
func (c *PermissionChain) denies(tool *Tool, input json.RawMessage) (Evaluation, bool) {
	e := evaluator{chain: c, tool: tool, call: Call{Input: input}}
	e.out.Input, e.out.Given = input, input
	if tool == nil || !c.compiled() {
		return e.out, e.decide(VerdictDeny, DecidedByDefault, "", reasonPolicyError)
	}
	e.call.Tool, e.call.Risk = tool.cfg.Name, tool.cfg.Risk
	e.tables = c.index.tables(e.call.Tool)
	e.scan(DecidedByDenyRule, e.tables.deny[riskSlot(e.call.Risk)], c.all.deny)
	if e.out.Verdict == VerdictNone {
		e.judgeHosts(VerdictDeny)
	}
	return e.out, e.out.Verdict == VerdictDeny
}

// judgeArgv holds the argv that tool is about to start, after every expansion,
// against the argv rules that name it. Deny and ask come with their rule where
// one matches; an ask without one means that the argv may match, or runs what
// its words do not show. Pass says that no rule has anything against it.
func (c *PermissionChain) judgeArgv(tool string, words []string) (Verdict, Rule) {
	if !c.compiled() || len(words) == 0 {
		return VerdictDeny, Rule{}
	}
	return c.judgePatterns(tool, func(p *argv.Pattern) argv.Match { return p.MatchArgv(words) })
}

// judgePatterns asks match about the patterns of every argv rule that names
// tool, in the order in which the chain reads its tables.
func (c *PermissionChain) judgePatterns(tool string, match func(*argv.Pattern) argv.Match) (Verdict, Rule) {
	tables := c.index.tables(tool)
	if !tables.denyArgv && !tables.askArgv {
		return VerdictPass, Rule{}
	}
	doubt := false
	for _, side := range []struct {
		verdict Verdict
		rules   []*placedRule
	}{{VerdictDeny, c.all.deny}, {VerdictAsk, c.all.ask}} {
		for _, r := range side.rules {
			if spec := r.rule.spec; spec.kind != ruleArgv || !spec.names(tool) {
				continue
			}
			for _, p := range r.rule.spec.patterns {
				switch match(p) {
				case argv.Yes:
					return side.verdict, r.rule
				case argv.Maybe:
					doubt = true
				}
			}
		}
	}
	if doubt {
		return VerdictAsk, Rule{}
	}
	return VerdictPass, Rule{}
}

// judgeRedirect holds a file that a redirection of tool's command is about to
// open against the argv rules that name it. names are the spellings of the
// file, as the shell has it first; text is the command as it was admitted, or
// nil.
//
// A pattern such as "curl ** > *" speaks of a command too, and which command
// the redirection belongs to is no longer known. Where the text shows it, the
// text answers; where it does not, the pattern may match.
func (c *PermissionChain) judgeRedirect(tool, op string, names []string, text *argv.Command) (Verdict, Rule) {
	if !c.compiled() || len(names) == 0 || !knownRedirect(op) {
		return VerdictDeny, Rule{}
	}
	var from []int
	if text != nil {
		from = redirecting(text, op, names[0])
	}
	return c.judgePatterns(tool, func(p *argv.Pattern) argv.Match {
		m := argv.No
		for _, name := range names {
			for _, fd := range []string{"", "1", "2"} {
				m = max(m, p.MatchRedirect(fd+op, name))
			}
		}
		if m != argv.Maybe || len(from) == 0 {
			return m
		}
		shown := argv.No
		for _, i := range from {
			seen, _ := text.AgainstSegment(i, p)
			shown = max(shown, seen)
		}
		return min(shown, argv.Maybe)
	})
}

// knownRedirect reports whether op opens a file: to read it, to write it anew,
// to append to it.
func knownRedirect(op string) bool { return op == "<" || op == ">" || op == ">>" }

// redirecting returns the segments of a text with a redirection that may be
// this one: it does the same to a file, whose name is this or an expansion.
func redirecting(text *argv.Command, op, name string) (segments []int) {
	segs := text.Segments()
	for i := range segs {
		for k := range segs[i].Redirects {
			r := &segs[i].Redirects[k]
			if sameEffect(r.Op, op) && (!r.Target.IsStatic() || r.Target.Text == name) {
				segments = append(segments, i)
				break
			}
		}
	}
	return segments
}

// showsRedirect reports whether a text shows the redirection as static words,
// for a reader who approved it.
func showsRedirect(text *argv.Command, op, name string) bool {
	for _, i := range redirecting(text, op, name) {
		for _, r := range text.Segments()[i].Redirects {
			if sameEffect(r.Op, op) && r.Target.IsStatic() && r.Target.Text == name {
				return true
			}
		}
	}
	return false
}

// sameEffect reports whether a redirection as it is written opens a file as op
// does.
func sameEffect(written, op string) bool {
	switch written {
	case "<":
		return op == "<"
	case ">>", "&>>":
		return op == ">>"
	case "<>":
		return true
	}
	return op == ">" // > >| >& &>
}
