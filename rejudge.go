package rulvar

import (
	"encoding/json"
	"strings"

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
	return e.out, e.out.Verdict == VerdictDeny
}

// judgeArgv holds the argv that tool is about to start, after every expansion,
// against the argv rules that name it. Deny and ask come with their rule where
// one matches; an ask without one means that the argv cannot be judged or may
// match. Pass says that no rule has anything against it.
func (c *PermissionChain) judgeArgv(tool string, words []string) (Verdict, *Rule) {
	if !c.compiled() || len(words) == 0 {
		return VerdictDeny, nil
	}
	tables := c.index.tables(tool)
	if !tables.denyArgv && !tables.askArgv {
		return VerdictPass, nil
	}
	command := argv.Read(quoteWords(words))
	doubt := false
	for _, side := range []struct {
		verdict Verdict
		rules   []*placedRule
	}{{VerdictDeny, c.all.deny}, {VerdictAsk, c.all.ask}} {
		for _, r := range side.rules {
			if spec := r.rule.spec; spec.kind != ruleArgv || !spec.names(tool) {
				continue
			}
			switch m, _ := r.rule.spec.against(command); m {
			case argv.Yes:
				rule := r.rule
				return side.verdict, &rule
			case argv.Maybe:
				doubt = true
			}
		}
	}
	if _, unjudgeable := command.Unjudgeable(); doubt || unjudgeable {
		return VerdictAsk, nil
	}
	return VerdictPass, nil
}

// quoteWords writes an argv as a command of static words.
func quoteWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = argv.Quote(w)
	}
	return strings.Join(quoted, " ")
}

// judgeHost holds a host ("example.com", "example.com:8443", "[2001:db8::1]";
// names in their ASCII form) that tool is about to connect to against the
// domain rules that name it. Deny beats ask; a text that is no host is denied
// without a rule. Pass says that no rule has anything against it.
func (c *PermissionChain) judgeHost(tool, host string) (Verdict, *Rule) {
	port := ""
	if h, p, ok := cutPort(host); ok {
		if !validPort(p) {
			return VerdictDeny, nil
		}
		host, port = h, p
	}
	name, why := canonicalHost(host)
	if why != "" || !c.compiled() {
		return VerdictDeny, nil
	}
	for _, side := range []struct {
		verdict Verdict
		rules   []*placedRule
	}{{VerdictDeny, c.all.deny}, {VerdictAsk, c.all.ask}} {
		for _, r := range side.rules {
			spec := r.rule.spec
			if spec.kind != ruleDomains || !spec.names(tool) {
				continue
			}
			for _, p := range spec.hosts {
				if p.matches(name, port) {
					rule := r.rule
					return side.verdict, &rule
				}
			}
		}
	}
	return VerdictPass, nil
}
