package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// orchestrator is what an orchestrating agent knows of its children. It belongs
// to the goroutine of the agent; the children themselves are under the
// segment's lock.
type orchestrator struct {
	a      *agentRun
	c      *Ctx // the agent was called with
	sp     *spawning
	schema *compiledSchema // of the result; nil is text

	records  []*spawnRecord
	children map[int64]*spawned // by handle
	order    []*spawned
	known    map[string]bool // the calls of the conversation, when the agent began to work
	told     map[int64]bool  // children that the model knows to have failed
}

// The causes of a child's cancellation.
var (
	errDismissed = errors.New("the agent that spawned it has ended")
	errCalledOff = errors.New("the agent that spawned it has cancelled it")
)

// scope is what the agent owns; its children run there.
func (o *orchestrator) scope() string { return replay.AgentScope(o.a.scope, o.a.running.Seq) }

// adopt takes a child into the list.
func (o *orchestrator) adopt(ch *spawned) {
	if ch.ctx == nil {
		ch.ctx, ch.cancel = context.WithCancelCause(o.c.Context)
	}
	o.children[ch.handle] = ch
	o.order = append(o.order, ch)
}

// restore reads what an earlier process has left of the agent's children and
// lets those go on that its conversation knows. It is called once, before the
// agent goes on itself.
func (o *orchestrator) restore() error {
	s := o.a.seg
	s.mu.Lock()
	entries := s.fold.SpawnDecisions(o.scope())
	s.mu.Unlock()
	for _, en := range entries {
		if err := o.reread(en); err != nil {
			return errs.Wrap(errs.JournalOrder, "replay", fmt.Sprintf("entry %d", en.Seq), "the recorded decision about a spawn has a wrong shape", err)
		}
	}
	o.settleBatches()
	o.known = o.a.callIDs()
	o.recall()
	for _, ch := range o.order {
		if o.known[ch.ToolCallID] {
			o.start(ch)
		}
	}
	return nil
}

func (o *orchestrator) reread(en *Entry) error {
	var kind struct {
		DecisionType string `json:"decisionType"`
		TargetRef    int64  `json:"targetRef"`
	}
	if err := json.Unmarshal(en.Value, &kind); err != nil {
		return err
	}
	if kind.DecisionType == replay.DecisionSpawnCancel {
		at := slices.IndexFunc(o.records, func(r *spawnRecord) bool { return r.child != nil && r.handle == kind.TargetRef })
		if at < 0 {
			return fmt.Errorf("no agent was spawned with the handle %d", kind.TargetRef)
		}
		o.records[at].child.cancelled = true
		return nil
	}
	r := &spawnRecord{handle: en.Seq}
	if err := json.Unmarshal(en.Value, r); err != nil {
		return err
	}
	if r.ToolCallID == "" {
		return nil // of an agent's approach: see attempt.admission
	}
	if err := json.Unmarshal(r.Spec, &r.spec); err != nil {
		return err
	}
	o.records = append(o.records, r)
	if r.admitted() {
		r.child = &spawned{spawnRecord: r, orch: o, done: make(chan struct{})}
	}
	return nil
}

// callIDs are the ids of the calls of the agent's conversation.
func (a *agentRun) callIDs() map[string]bool {
	ids := make(map[string]bool)
	for _, id := range a.state.CallIDs {
		ids[id] = true
	}
	for _, m := range a.state.Messages {
		for _, p := range m.Parts {
			if p.Type == llm.PartToolCall {
				ids[p.ID] = true
			}
		}
	}
	return ids
}

func (o *orchestrator) isSettled(ch *spawned) bool {
	s := o.a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	return ch.settled
}

// unsettled are the children that have been started and have not ended.
func (o *orchestrator) unsettled() []*spawned {
	s := o.a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(o.order), func(ch *spawned) bool { return ch.settled || !ch.started })
}

// dismiss cancels the children that are still at work when the agent ends, and
// waits for their ends. Where the agent is not itself cancelled the decision is
// recorded first: a resume must not let them go on.
func (o *orchestrator) dismiss() error {
	list := o.unsettled()
	if len(list) == 0 {
		return nil
	}
	if o.c.Err() == nil {
		if err := o.callOff("its parent has ended", list...); err != nil {
			return err
		}
	}
	for _, ch := range list {
		ch.cancel(errDismissed)
	}
	for _, ch := range list {
		<-ch.done
	}
	return o.closeRequests()
}

// callOff records that children shall not go on.
func (o *orchestrator) callOff(reason string, list ...*spawned) error {
	var entries []*Entry
	now := stamp(time.Now())
	for _, ch := range list {
		if ch.cancelled {
			continue
		}
		entries = append(entries, o.cancelEntry(ch, reason, now))
	}
	if len(entries) == 0 {
		return nil
	}
	if err := o.a.seg.append(entries...); err != nil {
		return err
	}
	for _, ch := range list {
		ch.cancelled = true
	}
	return nil
}

func (o *orchestrator) cancelEntry(ch *spawned, reason, now string) *Entry {
	return &Entry{
		Scope: o.scope(), Key: fmt.Sprintf("spawn-cancelled:%d", ch.handle), Kind: journal.KindDecision,
		Status: journal.StatusOK, SpanID: o.a.span, StartedAt: now, EndedAt: now,
		Value: mustMarshal(map[string]any{"decisionType": replay.DecisionSpawnCancel, "targetRef": ch.handle, "reason": reason}),
	}
}

// closeRequests abandons what cancelled children have asked for: nobody shall
// be asked to approve a call that cannot run any more.
func (o *orchestrator) closeRequests() error {
	s := o.a.seg
	var entries []*Entry
	s.mu.Lock()
	for _, sus := range s.fold.OpenSuspensions() {
		for _, ch := range o.order {
			if ch.cancelled && ch.settled && ch.owned != "" && sus.Entry.Scope == ch.owned {
				entries = append(entries, abandonEntry(sus.Entry, ch))
			}
		}
	}
	s.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	return s.append(entries...)
}

func abandonEntry(target *Entry, ch *spawned) *Entry {
	seq := target.Seq
	return &Entry{
		Ref: &seq, Scope: target.Scope, Kind: journal.KindAbandon, Status: journal.StatusOK, SpanID: target.SpanID, StartedAt: stamp(time.Now()),
		Abandon: mustMarshal(journal.Abandon{Target: seq, AuthorizedBy: "engine", Reason: fmt.Sprintf("the agent %d was cancelled", ch.handle)}),
	}
}

// leave is the end of the agent's goroutine, however it comes: no child
// outlives it.
func (o *orchestrator) leave() {
	for _, ch := range o.order {
		ch.cancel(errDismissed)
		if ch.started {
			<-ch.done
		}
	}
}

// retell tells of the children of an agent that has ended in an earlier
// segment, and adds what they have used.
func (o *orchestrator) retell(seq int64) error {
	s, scope := o.a.seg, replay.AgentScope(o.a.scope, seq)
	s.mu.Lock()
	ops, decisions := s.matcher.Children(scope), s.fold.SpawnDecisions(scope)
	s.mu.Unlock()
	records := make(map[int64]*spawnRecord)
	for _, en := range decisions {
		r := &spawnRecord{handle: en.Seq}
		if json.Unmarshal(en.Value, r) == nil && json.Unmarshal(r.Spec, &r.spec) == nil {
			records[en.Seq] = r
		}
	}
	for _, op := range ops {
		var start struct {
			SpawnRef int64 `json:"spawnRef"`
		}
		if op.End == nil || json.Unmarshal(op.Start.Value, &start) != nil || records[start.SpawnRef] == nil {
			continue
		}
		if _, err := o.shadow(records[start.SpawnRef]).replayed(op); err != nil {
			return err
		}
	}
	return nil
}

// unfinished asks a model that says something, and calls nothing, to finish.
func (o *orchestrator) unfinished(reply *modelReply) (agentOutcome, bool, error) {
	a := o.a
	if reply.finish == llm.FinishMaxTokens && reply.text == "" {
		return a.end(a.cutShort())
	}
	if a.state.SchemaAttempts >= maxSchemaRetries {
		return a.end(agentOutcome{status: AgentErrored, err: agentError(AgentErrored, llm.KindSchemaMismatch, "the agent ended without a call of finish", false)})
	}
	a.state.SchemaAttempts++
	a.state.Messages = append(a.state.Messages, userText("Nobody reads what you say here. Call await_all to wait for agents, or finish with the result."))
	return agentOutcome{}, false, a.save(nil)
}
