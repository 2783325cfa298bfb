package replay

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// Decisions that change what an earlier entry means. All have kind decision,
// status ok and an object as value:
//
//	run_settle             {runStatus, segment, …}; key [SettleKey]
//	approval_revoked       {targetRef, principal, reason}; key "approval-revoked:<targetRef>"
//	approval_consumed      {targetRef, toolCallId}; key "approval-consumed:<targetRef>"
//	operation_invalidated  {targetRef}; key "operation-invalidated:<targetRef>"
//	provider-intent        {agentRef, ordinal, …}; a request is about to be sent
//	provider-call          {agentRef, record: {ordinal, …}}; it has ended
//	open_wire_intents_acknowledged  {segment, count}; no earlier intent is open
//	model.fallback         {targetRef, trigger, model}; no key
//
// A revoked grant is a deny from then on. A consumed grant may be used by the
// call that it names and by no other; the mark is written before the call is
// dispatched. An invalidated operation is never replayed again.

// Values of decisionType that the fold reads.
const (
	DecisionSettle      = "run_settle"
	DecisionRevoked     = "approval_revoked"
	DecisionConsumed    = "approval_consumed"
	DecisionInvalidated = "operation_invalidated"
	DecisionFallback    = "model.fallback"
	DecisionIntent      = "provider-intent"
	DecisionCall        = "provider-call"
	DecisionIntentsAck  = "open_wire_intents_acknowledged"
)

// Revocation is an approval_revoked decision.
type Revocation struct {
	Seq               int64
	Principal, Reason string
}

// Consumption is an approval_consumed decision.
type Consumption struct {
	Seq        int64
	ToolCallID string
}

// RevokedEntry returns key and value of the decision that revokes the approval
// suspended at target.
func RevokedEntry(target int64, principal, reason string) (key string, value json.RawMessage, err error) {
	value, err = objectText(text("decisionType", DecisionRevoked), text("principal", principal),
		text("reason", reason), number("targetRef", target))
	return "approval-revoked:" + strconv.FormatInt(target, 10), value, err
}

// ConsumedEntry returns key and value of the decision that the call consumes
// the grant of the approval suspended at target.
func ConsumedEntry(target int64, toolCallID string) (key string, value json.RawMessage, err error) {
	value, err = objectText(text("decisionType", DecisionConsumed), number("targetRef", target),
		text("toolCallId", toolCallID))
	return "approval-consumed:" + strconv.FormatInt(target, 10), value, err
}

// InvalidatedEntry returns key and value of the decision that the operation
// whose first entry is target shall not be replayed.
func InvalidatedEntry(target int64) (key string, value json.RawMessage, err error) {
	value, err = objectText(text("decisionType", DecisionInvalidated), number("targetRef", target))
	return "operation-invalidated:" + strconv.FormatInt(target, 10), value, err
}

// decide folds a decision. Decisions of other types mean nothing here.
func (f *Fold) decide(e *journal.Entry) error {
	members, err := objectMembers(e.Value, "value")
	if err != nil {
		return nil // no decisionType, so none of ours
	}
	switch word, _ := stringMember(members, "decisionType"); word {
	case DecisionSettle:
		f.runStatus, _ = stringMember(members, "runStatus")
	case DecisionRevoked:
		return f.revoke(e, members)
	case DecisionConsumed:
		return f.consume(e, members)
	case DecisionFallback:
		f.fallback(members)
	case DecisionInvalidated:
		target, err := f.targetRef(e, members)
		if err != nil {
			return err
		}
		f.invalidated[target] = true
	case DecisionIntent:
		f.intend(e, members)
	case DecisionCall:
		f.called(e, members)
	case DecisionIntentsAck:
		clear(f.intents)
	case DecisionSpawn, DecisionSpawnCancel:
		f.spawns[e.Scope] = append(f.spawns[e.Scope], e)
	}
	return nil
}

func (f *Fold) revoke(e *journal.Entry, members map[string]json.RawMessage) error {
	s, err := f.approvalTarget(e, members)
	if s == nil || s.Revoked != nil {
		return err
	}
	r := Revocation{Seq: e.Seq}
	r.Principal, _ = stringMember(members, "principal")
	r.Reason, _ = stringMember(members, "reason")
	s.Revoked = &r
	return nil
}

func (f *Fold) consume(e *journal.Entry, members map[string]json.RawMessage) error {
	id, ok := stringMember(members, "toolCallId")
	if !ok || id == "" {
		return orderError(e, "an approval_consumed decision needs a toolCallId")
	}
	s, err := f.approvalTarget(e, members)
	if s == nil {
		return err
	}
	if s.Consumed == nil {
		s.Consumed = &Consumption{e.Seq, id}
	} else if s.Consumed.ToolCallID != id {
		f.reject(e, s.Entry.Seq, fmt.Sprintf("approval %d was consumed by call %q before", s.Entry.Seq, s.Consumed.ToolCallID))
	}
	return nil
}

// approvalTarget returns the approval a decision names. A decision about
// another kind of entry is reported and has no effect.
func (f *Fold) approvalTarget(e *journal.Entry, members map[string]json.RawMessage) (*Suspension, error) {
	target, err := f.targetRef(e, members)
	if err != nil {
		return nil, err
	}
	s := f.suspensions[target]
	if s == nil || s.Entry.Kind != journal.KindApproval {
		f.reject(e, target, fmt.Sprintf("target %d is not an approval", target))
		return nil, nil
	}
	return s, nil
}

// targetRef reads the target of a decision that takes something back. One that
// cannot be read could be about any grant, so the journal is refused.
func (f *Fold) targetRef(e *journal.Entry, members map[string]json.RawMessage) (int64, error) {
	target, ok := seqMember(members, "targetRef")
	if !ok {
		return 0, orderError(e, "its targetRef is missing or no sequence number")
	}
	if f.known[target] == nil {
		return 0, orderError(e, fmt.Sprintf("targetRef %d names no earlier entry", target))
	}
	return target, nil
}
