package rulvar

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rulvar/rulvar-go/internal/argv"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// Evaluate holds one call against the chain and answers allow, deny or ask:
//
//	hooks -> deny rules -> ask rules -> a command that cannot be judged asks
//	      -> CanUseTool -> default (ask where the tool needs approval, else allow)
//
// The first decisive step ends it. call.Input is the tool's input as
// [EvaluatePermission] takes it in; its name, risk and approval flag are the
// tool's own, whatever call says. tc is handed to the closures. There is no
// trace. Without closures, argv rules, domain rules and declared hosts an allow
// costs no allocation. A nil or zero chain, a nil tool and a call without input deny.
func (c *PermissionChain) Evaluate(tc *ToolContext, tool *Tool, call Call) (out Evaluation) {
	if tool != nil && tool.cfg.Hosts == nil && len(call.Input) > 0 && c.evaluatePlain(tool, &call, &out) {
		return out
	}
	e := evaluator{chain: c, tc: tc, tool: tool, call: call}
	if tool != nil {
		e.call.Tool, e.call.Risk, e.call.NeedsApproval = tool.cfg.Name, tool.cfg.Risk, tool.cfg.NeedsApproval
	}
	e.run(tool != nil && len(call.Input) > 0)
	return e.out
}

// evaluatePlain is the way of most calls: without closures, and without a rule
// that looks at the input, the first rule that applies decides. It answers
// what the evaluator would and reports whether it has.
func (c *PermissionChain) evaluatePlain(tool *Tool, call *Call, out *Evaluation) bool {
	if !c.compiled() || len(c.all.hooks) > 0 || c.all.canUse.run != nil {
		return false
	}
	t := c.index.tables(tool.cfg.Name)
	if t.denyArgv || t.askArgv || t.advisory != nil {
		return false
	}
	slot := riskSlot(tool.cfg.Risk)
	switch {
	case len(t.deny[slot]) > 0:
		out.decide(VerdictDeny, DecidedByDenyRule, t.deny[slot][0])
	case len(t.ask[slot]) > 0:
		out.decide(VerdictAsk, DecidedByAskRule, t.ask[slot][0])
	case tool.cfg.NeedsApproval:
		out.Verdict, out.DecidedBy, out.Reason = VerdictAsk, DecidedByDefault, reasonNeedsApproval
	default:
		out.Verdict, out.DecidedBy = VerdictAllow, DecidedByDefault
	}
	out.Input, out.Given = call.Input, call.given
	if out.Given == nil {
		out.Given = call.Input
	}
	return true
}

// decide records that a rule decided.
func (o *Evaluation) decide(v Verdict, by DecidedBy, r *placedRule) {
	o.Verdict, o.DecidedBy, o.Layer, o.Rule, o.Reason = v, by, r.layer, r.rule, r.reason
}

// evaluator is one call on its way through a chain. Both the compiled path and
// the dry run go through it; the dry run looks at every rule and keeps notes.
type evaluator struct {
	chain  *PermissionChain
	tables *toolTables
	tc     *ToolContext
	tool   *Tool // nil where only a name is known
	call   Call
	out    Evaluation

	text    commandText
	hosts   hostsText
	held    *Decision // an inherited hook's ask
	rewrote *Call     // what an inherited closure has made of the call
	tracing bool
}

// commandText is the call's command, read at most once an input.
type commandText struct {
	read    bool
	command *argv.Command // nil where the input holds none
}

// run walks the chain and fills e.out.
func (e *evaluator) run(known bool) {
	if !known || !e.chain.compiled() {
		e.decide(VerdictDeny, DecidedByDefault, "", reasonPolicyError)
		e.note("default", "", 0, string(VerdictDeny), "there is no compiled chain, no tool or no input", nil)
	} else {
		made := e.call
		e.tables = e.chain.index.tables(e.call.Tool)
		switch {
		case e.runHooks():
		case e.chain.splits():
			e.runSplit()
		case !e.readTables() && !e.runCanUseTool():
			e.runDefault()
		}
		e.release()
		e.checkRewrite(made)
		if len(e.tables.advisory) > 0 && !e.enforcesHosts() {
			e.out.Advisory = slices.Clone(e.tables.advisory)
		}
	}
	e.out.Input, e.out.Given = e.call.Input, e.call.given
	if e.out.Given == nil {
		e.out.Given = e.call.Input
	}
}

func (e *evaluator) decide(v Verdict, by DecidedBy, layer Layer, reason string) bool {
	e.out.Verdict, e.out.DecidedBy, e.out.Layer, e.out.Reason = v, by, layer, reason
	return true
}

func (e *evaluator) note(step string, layer Layer, index int, outcome, detail string, saw json.RawMessage) {
	if e.tracing {
		e.out.Trace = append(e.out.Trace, TraceStep{Step: step, Layer: layer, Index: index, Outcome: outcome, Detail: detail, Input: saw})
	}
}

// noteRule notes what came of one rule; pattern is the place among its patterns
// of the one that made it, or -1.
func (e *evaluator) noteRule(by DecidedBy, r *placedRule, outcome string, pattern int) {
	if !e.tracing {
		return
	}
	detail := r.rule.String()
	if pattern >= 0 {
		detail += fmt.Sprintf(" by the pattern %q", r.rule.spec.argv.words[pattern])
		detail += segmentText(e.command(), r.rule.spec.patterns[pattern])
	}
	e.note(string(by), r.layer, r.index, outcome, detail, nil)
}

// segmentText names the part of a command that a pattern matches best.
func segmentText(command *argv.Command, p *argv.Pattern) string {
	best, text := argv.No, ""
	for i, s := range command.Segments() {
		if m, via := command.AgainstSegment(i, p); m > best {
			best, text = m, fmt.Sprintf(" on %q", s.Text)
			if via != "" {
				text += " behind " + via
			}
		}
	}
	return text
}

// readTables reads the deny table, the ask table, each with the hosts of a tool
// that enforces domain rules, and asks where argv rules speak of the tool and
// the command cannot be judged.
func (e *evaluator) readTables() bool {
	slot := riskSlot(e.call.Risk)
	maybe := e.scan(DecidedByDenyRule, e.tables.deny[slot], e.chain.all.deny)
	if e.out.Verdict != VerdictNone || e.judgeHosts(VerdictDeny) {
		return true
	}
	maybeAsk := e.scan(DecidedByAskRule, e.tables.ask[slot], e.chain.all.ask)
	if e.out.Verdict != VerdictNone || e.judgeHosts(VerdictAsk) {
		return true
	}
	if maybe == "" {
		maybe = maybeAsk
	}
	return (e.tables.denyArgv || e.tables.askArgv) && e.askUnjudged(maybe, "")
}

// scan reads one table. A rule that matches decides; maybe is the first rule
// that may match, in words, where none does. planned holds the rules that can
// match this call; a trace looks at all.
func (e *evaluator) scan(by DecidedBy, planned, all []*placedRule) (maybe string) {
	rules := planned
	if e.tracing {
		rules = all
	}
	verdict := VerdictDeny
	if by == DecidedByAskRule {
		verdict = VerdictAsk
	}
	for _, r := range rules {
		spec := r.rule.spec
		if e.tracing && !e.traceApplies(by, r) {
			continue
		}
		var command *argv.Command
		if spec.kind == ruleArgv {
			command = e.command()
		}
		m, pattern := spec.against(command)
		switch {
		case m == argv.Yes:
			e.out.decide(verdict, by, r)
			if pattern >= 0 && len(spec.patterns) > 1 {
				e.out.Reason += fmt.Sprintf(" (pattern %q)", spec.argv.words[pattern])
			}
			e.noteRule(by, r, string(verdict), pattern)
			return ""
		case m == argv.Maybe && command != nil:
			if maybe == "" {
				maybe = fmt.Sprintf("the command may match the pattern %q of %s", spec.argv.words[pattern], r.path)
			}
			e.noteRule(by, r, outcomeMaybe, pattern)
		default:
			e.noteRule(by, r, outcomeNoMatch, -1)
		}
	}
	return maybe
}

// traceApplies notes the rules of a table that the compiled path never sees.
func (e *evaluator) traceApplies(by DecidedBy, r *placedRule) bool {
	switch spec := r.rule.spec; {
	case !spec.appliesTo(e.call.Tool, e.call.Risk):
		e.noteRule(by, r, outcomeNoMatch, -1)
		return false
	case spec.kind == ruleDomains && e.enforcesHosts():
		return false // judgeHosts notes what comes of them
	case spec.kind == ruleDomains:
		e.noteRule(by, r, outcomeAdvisory, -1)
		return false
	}
	return true
}

// askUnjudged asks where the command may match a rule (maybe, in words),
// cannot be judged or is not there. An ask that a hook gave goes before the
// reason.
func (e *evaluator) askUnjudged(maybe, hookReason string) bool {
	reason := maybe
	if command := e.command(); command == nil {
		reason = "argv rules speak of the tool, and its input holds no command to judge"
	} else if why, yes := command.Unjudgeable(); yes && reason == "" {
		reason = "the command cannot be judged: " + why
	}
	if reason == "" {
		return false
	}
	e.note(stepArgv, "", 0, string(VerdictAsk), reason, nil)
	if hookReason != "" {
		reason = hookReason + "; " + reason
	}
	return e.decide(VerdictAsk, DecidedByAskRule, "", reason)
}

func (e *evaluator) runDefault() {
	if e.call.NeedsApproval {
		e.decide(VerdictAsk, DecidedByDefault, "", reasonNeedsApproval)
	} else {
		e.decide(VerdictAllow, DecidedByDefault, "", "")
	}
	e.note(string(DecidedByDefault), "", 0, string(e.out.Verdict), e.out.Reason, nil)
}

// command returns the call's command, or nil where its input holds none.
func (e *evaluator) command() *argv.Command {
	if !e.text.read {
		e.text = commandText{read: true, command: readCommand(e.call.Input)}
	}
	return e.text.command
}

// readCommand finds the command in a tool's input: the input itself where it
// is a string, otherwise its string member "command".
func readCommand(input json.RawMessage) *argv.Command {
	tree, err := jcs.Parse(input)
	if err != nil {
		return nil
	}
	if m, ok := tree.(map[string]any); ok {
		tree = m["command"]
	}
	if text, ok := tree.(string); ok {
		return argv.Read(text)
	}
	return nil
}
