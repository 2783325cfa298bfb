package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
)

// runHooks asks the hooks in order and reports whether the call is decided.
func (e *evaluator) runHooks() bool {
	for i := range e.chain.all.hooks {
		h := &e.chain.all.hooks[i]
		saw := e.call.Input
		d, ok := e.consult(DecidedByHook, h.layer, h.index, h.run)
		if !ok {
			return true
		}
		if e.holdInherited(h, d) {
			continue
		}
		switch d.Verdict {
		case VerdictNone, VerdictPass:
			e.note("hook", h.layer, h.index, outcomeNoOpinion, d.Reason, saw)
			continue
		case VerdictModify:
			if !e.retake(DecidedByHook, h.layer, h.index, d.Input) {
				return true
			}
			e.noteRewrite(h.layer)
			e.note("hook", h.layer, h.index, outcomeModified, string(e.call.Input), saw)
			continue
		case VerdictAllow:
			if e.chain.all.strict && e.call.NeedsApproval {
				e.note("hook", h.layer, h.index, outcomeFallsThrough, "an allow does not clear a tool that needs approval", saw)
				continue
			}
		}
		if d.Verdict != VerdictDeny && e.chain.all.advisory {
			e.note("hook", h.layer, h.index, outcomeHeld, string(d.Verdict), saw)
			return e.runHeld(h.layer, d)
		}
		e.note("hook", h.layer, h.index, string(d.Verdict), d.Reason, saw)
		return e.decide(d.Verdict, DecidedByHook, h.layer, d.Reason)
	}
	return false
}

// runHeld decides a hook's allow or ask that advisory mode holds while the
// deny table is read: a match denies, a doubt asks, otherwise the hook decides.
func (e *evaluator) runHeld(layer Layer, d Decision) bool {
	maybe := e.scan(DecidedByDenyRule, e.tables.deny[riskSlot(e.call.Risk)], e.chain.all.deny)
	if e.out.Verdict != VerdictNone || e.judgeHosts(VerdictDeny) {
		return true
	}
	reason := ""
	if d.Verdict == VerdictAsk {
		reason = d.Reason
	}
	if e.tables.denyArgv && e.askUnjudged(maybe, reason) {
		return true
	}
	return e.decide(d.Verdict, DecidedByHook, layer, d.Reason)
}

// runCanUseTool asks the one closure of the slot. Input that it rewrites goes
// through the tables once more, so that a rewrite escapes no rule.
func (e *evaluator) runCanUseTool() bool {
	slot := e.chain.all.canUse
	if slot.run == nil {
		return false
	}
	const step = string(DecidedByCanUseTool)
	saw := e.call.Input
	d, ok := e.consult(DecidedByCanUseTool, slot.layer, 0, slot.run)
	if !ok {
		return true
	}
	switch d.Verdict {
	case VerdictPass:
		e.note(step, slot.layer, 0, outcomeNoOpinion, d.Reason, saw)
		return false
	case VerdictModify:
		if !e.retake(DecidedByCanUseTool, slot.layer, 0, d.Input) {
			return true
		}
		e.noteRewrite(slot.layer)
		e.note(step, slot.layer, 0, outcomeModified, string(e.call.Input), saw)
		return e.readTables()
	case VerdictAllow:
		if e.chain.all.strict && e.call.NeedsApproval {
			e.note(step, slot.layer, 0, outcomeFallsThrough, "an allow does not clear a tool that needs approval", saw)
			return false
		}
	case VerdictNone:
		e.fail(DecidedByCanUseTool, slot.layer, 0, "it answered the zero Decision: answer Pass() to fall through")
		return true
	}
	e.note(step, slot.layer, 0, string(d.Verdict), d.Reason, saw)
	return e.decide(d.Verdict, DecidedByCanUseTool, slot.layer, d.Reason)
}

// consult calls a closure. ok is false where it failed or answered nonsense; the
// call is then denied.
func (e *evaluator) consult(by DecidedBy, layer Layer, index int, run func(*ToolContext, Call) (Decision, error)) (d Decision, ok bool) {
	if e.tc == nil {
		e.tc = &ToolContext{Context: context.Background(), tool: e.call.Tool}
	}
	call := e.call
	call.Input, call.given = slices.Clone(call.Input), nil // what a closure does to its copy changes nothing
	d, err := guardClosure(e.tc, call, run)
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case d.Verdict != VerdictModify && d.Input != nil:
		why = fmt.Sprintf("it answered an Input beside the verdict %q: use ModifyInput", d.Verdict)
	case d.Verdict == VerdictNone && d.Reason != "":
		why = fmt.Sprintf("it answered a reason (%q) and no verdict", d.Reason)
	case !slices.Contains(closureVerdicts, d.Verdict):
		why = fmt.Sprintf("it answered the unknown verdict %q", d.Verdict)
	default:
		return d, true
	}
	e.fail(by, layer, index, why)
	return Decision{}, false
}

// closureVerdicts are the words that a closure may answer.
var closureVerdicts = []Verdict{VerdictNone, VerdictPass, VerdictAllow, VerdictDeny, VerdictAsk, VerdictModify}

// guardClosure makes an error of a panic.
func guardClosure(tc *ToolContext, call Call, run func(*ToolContext, Call) (Decision, error)) (d Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = Decision{}, fmt.Errorf("it panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return run(tc, call)
}

// retake takes rewritten input in as if a model had sent it. It must be JSON
// as it stands and fit the schema.
func (e *evaluator) retake(by DecidedBy, layer Layer, index int, input json.RawMessage) bool {
	if len(input) == 0 {
		e.fail(by, layer, index, "it answered ModifyInput without an input")
		return false
	}
	var in takenInput
	var issues []string
	if e.tool != nil {
		in, issues = e.tool.intake(input)
	} else {
		in, issues = intakeUntyped(input)
	}
	if issues == nil && in.repaired {
		issues = []string{"it is not JSON"}
	}
	if issues != nil {
		e.fail(by, layer, index, "its rewritten input is refused: "+strings.Join(issues, "; "))
		return false
	}
	e.call.Input, e.call.given = in.effective, in.given
	e.text, e.hosts = commandText{}, hostsText{}
	return true
}

// fail denies because a closure failed. The model learns that the policy
// failed and nothing more; the log, and the trace of a dry run, say how.
func (e *evaluator) fail(by DecidedBy, layer Layer, index int, why string) {
	e.tc.Log(slog.LevelError, "a permission closure failed; the call is denied",
		"tool", e.call.Tool, "step", string(by), "layer", string(layer), "index", index, "why", why)
	e.note(string(by), layer, index, reasonPolicyError, why, e.call.Input)
	e.decide(VerdictDeny, by, layer, reasonPolicyError)
}
