package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// gate does what the chain has said, after what the journal holds about this
// very call: a recorded deny or revocation beats any later configuration, a
// recorded allow yields to a rule that denies now, and an open request stays
// open.
func (j *toolJob) gate(tc *ToolContext) (executedCall, error) {
	if j.verdict.Verdict == VerdictDeny {
		return j.deny(policyText(j.tool.cfg.Name, &j.verdict)), nil
	}
	if err := j.stopped(); err != nil {
		return executedCall{}, err
	}
	approval, err := j.recorded()
	if err != nil {
		return executedCall{}, err
	}
	switch {
	case approval.Status == replay.ApprovalOpen:
		return j.awaitApproval(tc, approval.Suspension.Entry, true)
	case approval.Status != replay.ApprovalNone:
		return j.decided(tc, approval.Suspension, approval)
	case j.verdict.Verdict == VerdictAllow && !j.interrupted():
		return j.execute(tc, j.verdict.Input)
	case j.verdict.Verdict == VerdictAllow && j.a.seg.e.cfg.OnInterrupted == InterruptedReport:
		return j.interruptedResult(), nil
	case j.verdict.Verdict == VerdictAllow:
		j.verdict.Verdict, j.verdict.DecidedBy, j.verdict.Reason = VerdictAsk, DecidedByDefault, "the process died while this call was being executed; it may have had its effect"
		return j.suspend(tc)
	case j.verdict.Verdict == VerdictAsk:
		return j.suspend(tc)
	}
	return j.deny(fmt.Sprintf("tool %q denied by policy: the chain gave no verdict", j.tool.cfg.Name)), nil
}

// stopped ends a call whose agent was stopped while it was judged or waited:
// what has not begun does not begin, and a grant is not used up.
func (j *toolJob) stopped() error {
	if j.a.ctx.Err() == nil {
		return nil
	}
	j.a.emit(false, j.ended(ToolDenied, "cancelled", nil))
	return context.Cause(j.a.ctx)
}

// idempotent reports whether the call may run twice without harm.
func (j *toolJob) idempotent() bool { return j.tool.cfg.Idempotent || j.tool.cfg.Risk == RiskRead }

// interrupted reports whether this call may have been executed before the
// process died and the host wants to know.
func (j *toolJob) interrupted() bool {
	return j.dispatched && !j.idempotent() && j.a.seg.e.cfg.OnInterrupted != InterruptedRerun
}

func (j *toolJob) interruptedResult() executedCall {
	j.a.state.ToolCallsUsed++
	return j.fail("interrupted", map[string]any{"error": "the call was interrupted and its outcome is unknown: find out before you try again", "interrupted": true})
}

// recorded asks the journal for an approval of this very call.
func (j *toolJob) recorded() (replay.Approval, error) {
	key, err := replay.ApprovalKey(j.tool.cfg.Name, j.verdict.Given)
	if err != nil {
		return replay.Approval{}, err
	}
	earlier := 0
	if j.awaited { // only then an entry without a call id can be meant
		earlier = j.earlierCalls(key)
	}
	s := j.a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	q := replay.ApprovalQuery{
		Scope: replay.AgentScope(j.a.scope, j.a.running.Seq), ToolCallID: j.call.ID, Key: key,
		InputHash: jcs.Sum(j.verdict.Input), Awaiting: j.awaited, Earlier: earlier,
	}
	// A call that is let through and that nobody was asked about is no miss.
	if j.verdict.Verdict != VerdictAsk {
		if a := s.matcher.PeekApproval(q); a.Status == replay.ApprovalNone {
			return a, nil
		}
	}
	return s.matcher.Approval(q), nil
}

// earlierCalls counts earlier calls of the agent's history with the same key.
func (j *toolJob) earlierCalls(key string) int {
	n := 0
	for _, m := range j.a.state.Messages {
		for _, p := range m.Parts {
			if p.Type != llm.PartToolCall || p.Name != j.call.Name {
				continue
			}
			if p.ID == j.call.ID {
				return n
			}
			if k, err := replay.ApprovalKey(p.Name, p.Args); err == nil && k == key {
				n++
			}
		}
	}
	return n
}

// suspend writes the checkpoint and then the request for an approval, and
// waits for the answer.
func (j *toolJob) suspend(tc *ToolContext) (executedCall, error) {
	a := j.a
	if err := a.snapshotTree(); err != nil {
		return executedCall{}, err
	}
	if err := a.save(j.turn); err != nil {
		return executedCall{}, err
	}
	en, err := j.approvalEntry()
	if err != nil {
		return executedCall{}, err
	}
	if err := a.seg.append(en); err != nil {
		return executedCall{}, err
	}
	return j.awaitApproval(tc, en, false)
}

func (j *toolJob) approvalEntry() (*Entry, error) {
	a, ev := j.a, &j.verdict
	key, err := replay.ApprovalKey(j.tool.cfg.Name, ev.Given)
	if err != nil {
		return nil, err
	}
	value := approvalValue{
		ToolName: j.tool.cfg.Name, Input: ev.Given, Flavor: "approval", Risk: j.tool.cfg.Risk,
		ToolCallID: j.call.ID, InputHash: jcs.Sum(ev.Input), DecidedBy: ev.DecidedBy, Reason: ev.Reason,
		AgentPath: a.path(),
	}
	if string(ev.Input) != string(ev.Given) {
		value.EffectiveInput = ev.Input
	}
	if !ev.Rule.IsZero() {
		if value.Rule, err = marshalJSON(ev.Rule); err != nil {
			return nil, err
		}
	}
	payload, err := marshalJSON(value)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	en := &Entry{
		Scope: replay.AgentScope(a.scope, a.running.Seq), Key: key, Kind: journal.KindApproval, Status: journal.StatusSuspended,
		SpanID: a.span, StartedAt: stamp(now), Value: payload,
	}
	if d := a.chain.ApprovalDeadline(); d > 0 {
		en.DeadlineAt = stamp(now.Add(d))
	}
	return en, nil
}

// path names the agent for an approver: the workflow, the agents that spawned
// it, its profile, its label.
func (a *agentRun) path() string {
	kind := "agent"
	if a.orch != nil {
		kind = "orchestrator"
	}
	p := a.basePath + "/" + firstSet(a.info.Type, kind)
	if a.info.Label != "" {
		p += ":" + a.info.Label
	}
	return p
}

// awaitApproval tells of the request, parks, and acts on the answer.
func (j *toolJob) awaitApproval(tc *ToolContext, en *Entry, again bool) (executedCall, error) {
	a := j.a
	j.verdict.Verdict = VerdictAsk
	tell := ApprovalPending{
		ToolName: j.call.Name, ToolCallID: j.call.ID, EntryRef: en.Seq, Key: approvalKey(en.Seq),
		Risk: j.tool.cfg.Risk, Reason: j.verdict.Reason, AgentPath: a.path(),
	}
	at, err := a.seg.deadlineOf(en)
	if err != nil {
		return executedCall{}, err
	}
	tell.DeadlineAt = at
	a.emit(again, tell)
	disarm := a.seg.armDeadline(en, at)
	a.clock.pause()
	j.parked = true
	sus, err := a.seg.park(a.ctx, en.Seq) // ends the goroutine when the run settles suspended
	j.parked = false
	a.clock.resume()
	disarm()
	if err != nil {
		a.emit(false, j.ended(ToolDenied, "cancelled", nil))
		return executedCall{}, err
	}
	a.seg.mu.Lock()
	answer := replay.Approval{Status: replay.ApprovalDecided, Suspension: sus, Decision: sus.Decision()}
	a.seg.mu.Unlock()
	// Judged again by the record itself: what the entry shows must be what
	// would run now.
	var v approvalValue
	if err := json.Unmarshal(en.Value, &v); err != nil || !sameJSON(v.runs(), j.verdict.Input) {
		answer.Refusal = replay.RefusedChanged
		answer.Decision = replay.ApprovalDecision{Decision: replay.DecisionDeny, Reason: "the input is not the one that was approved"}
	}
	return j.decided(tc, sus, answer)
}

func sameJSON(a, b json.RawMessage) bool {
	x, errA := jcs.Canonical(a)
	y, errB := jcs.Canonical(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// decided acts on an answer. An allow is held against the deny rules once
// more, marked as used, durably, and only then executed.
func (j *toolJob) decided(tc *ToolContext, sus *replay.Suspension, answer replay.Approval) (executedCall, error) {
	if err := j.stopped(); err != nil {
		return executedCall{}, err
	}
	j.verdict.Verdict = VerdictAsk
	d := answer.Decision
	name := j.tool.cfg.Name
	switch {
	case d.Decision != replay.DecisionAllow && d.Reason != "":
		return j.deny(fmt.Sprintf("tool %q denied: %s", name, d.Reason)), nil
	case d.Decision != replay.DecisionAllow:
		return j.deny(fmt.Sprintf("tool %q denied by the approver", name)), nil
	case !d.Allows(time.Now()):
		return j.deny(fmt.Sprintf("tool %q denied: the approval has expired", name)), nil
	}
	input := j.verdict.Input
	if d.Input != nil {
		edited, issues := j.tool.intake(d.Input)
		if issues != nil || edited.repaired {
			return j.deny(fmt.Sprintf("tool %q denied: the approver's input does not fit the tool's schema: %v", name, issues)), nil
		}
		input = edited.effective
	}
	if ev, denied := j.a.chain.denies(j.tool, input); denied {
		j.verdict = ev
		return j.deny(policyText(name, &ev)), nil
	}
	if answer.Consumed {
		if j.interruptedAfterGrant() {
			return j.interruptedResult(), nil
		}
	} else if err := j.consume(sus); err != nil {
		return executedCall{}, err
	} else if reason, revoked := j.revokedBefore(sus); revoked {
		return j.deny(fmt.Sprintf("tool %q denied: %s", name, reason)), nil
	}
	return j.execute(tc, input)
}

// revokedBefore reports whether a revocation stands in the journal before the
// mark that the grant is used: it came after the answer was read.
func (j *toolJob) revokedBefore(sus *replay.Suspension) (reason string, revoked bool) {
	s := j.a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	if sus.Revoked == nil || sus.Consumed != nil && sus.Consumed.Seq < sus.Revoked.Seq {
		return "", false
	}
	return sus.Decision().Reason, true
}

// interruptedAfterGrant reports whether a used grant means an unknown outcome:
// the mark is written before the call is dispatched.
func (j *toolJob) interruptedAfterGrant() bool {
	return !j.idempotent() && j.a.seg.e.cfg.OnInterrupted != InterruptedRerun
}

// consume marks the grant as used by this call.
func (j *toolJob) consume(sus *replay.Suspension) error {
	key, value, err := replay.ConsumedEntry(sus.Entry.Seq, j.call.ID)
	if err != nil {
		return err
	}
	now := stamp(time.Now())
	return j.a.seg.append(&Entry{Key: key, Kind: journal.KindDecision, Status: journal.StatusOK, SpanID: j.a.span, StartedAt: now, EndedAt: now, Value: value})
}

// policyText tells the model which policy refused the call, and why.
func policyText(tool string, ev *Evaluation) string {
	text := fmt.Sprintf("tool %q denied by policy", tool)
	switch {
	case ev.DecidedBy == DecidedByDenyRule && !ev.Rule.IsZero():
		text += fmt.Sprintf(": deny rule %s (%s)", ev.Rule, ev.Layer)
	case ev.Layer != "":
		text += fmt.Sprintf(": %s (%s)", ev.DecidedBy, ev.Layer)
	default:
		text += fmt.Sprintf(": %s", ev.DecidedBy)
	}
	if ev.Reason != "" {
		text += ": " + ev.Reason
	}
	return text
}
