package replay

import (
	"encoding/json"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// The value of an approval entry, as far as binding needs it:
//
//	toolName        what the key is made of
//	input           what the key is made of: the input after hooks
//	toolCallId      the one call it is about; absent in a foreign entry
//	effectiveInput  what is shown and will run, where schema defaults change it
//	inputHash       hash of effectiveInput, or of input where that is absent

// ApprovalQuery describes a tool call that the chain wants approved.
type ApprovalQuery struct {
	// Scope is that of the agent, see [AgentScope].
	Scope string
	// ToolCallID is the id of the call in the agent's history.
	ToolCallID string
	// Key is the [ApprovalKey] of the call as it would run now.
	Key string
	// InputHash is the [InputHash] of the effective input that would run now.
	InputHash string
	// Awaiting says that the checkpoint names this call as the one that was
	// parked. Only then a foreign entry, which knows no call id, can be meant.
	Awaiting bool
	// Earlier is how many earlier calls of this agent's history have the same
	// key. It guards a foreign journal that ends between a checkpoint and its
	// suspension: there the last entry belongs to an earlier call.
	Earlier int
}

// ApprovalStatus is what the journal holds for a call.
type ApprovalStatus uint8

// The statuses. The zero value has nothing: suspend, and never run.
const (
	// ApprovalNone: no entry is about this call with this input.
	ApprovalNone ApprovalStatus = iota
	// ApprovalOpen: the entry waits. Park again, append nothing.
	ApprovalOpen
	// ApprovalDecided: Decision holds.
	ApprovalDecided
	// ApprovalAbandoned: the entry was abandoned. Decision is a deny.
	ApprovalAbandoned
)

// Refusal says why a recorded allow is a deny after all.
type Refusal string

// The refusals.
const (
	// RefusedRevoked: somebody took the allow back.
	RefusedRevoked Refusal = "revoked"
	// RefusedChanged: another input would run than the one that was approved.
	RefusedChanged Refusal = "input-changed"
	// RefusedAltered: the entry's value does not fit its own key or hash, so
	// the approver was shown something else.
	RefusedAltered Refusal = "entry-altered"
	// RefusedSpent: the grant was consumed by another call.
	RefusedSpent Refusal = "consumed"
)

// Approval is the answer of [Matcher.Approval].
type Approval struct {
	Status     ApprovalStatus
	Suspension *Suspension // nil for ApprovalNone
	// Decision is set for ApprovalDecided and ApprovalAbandoned. Its expiry
	// is not yet judged; see [ApprovalDecision.Allows].
	Decision ApprovalDecision
	Refusal  Refusal
	// Consumed says that this call has used the grant before: the tool may
	// have run.
	Consumed bool
}

// Approval finds the approval of one tool call that the chain wants approved,
// and counts a hit, or a miss for ApprovalNone. An entry that names a call id is about that call alone; an
// entry without one is bound by its key to the awaiting call, and only if
// nothing later shows that its own call is over. A grant that a call has
// consumed is that call's.
//
// Of several entries about one call a deny or a revocation wins, then an allow
// for just this input, then an open request for it. An allow for another input
// is a deny.
func (m *Matcher) Approval(q ApprovalQuery) Approval {
	a, op := m.findApproval(q)
	switch {
	case op == nil:
		m.misses++
	case !op.consumed:
		op.consumed = true
		m.hits++
	}
	return a
}

// PeekApproval is [Matcher.Approval] without counting. It is for a call that
// the chain as it is now would let through or deny without asking: a recorded
// deny or revocation still holds for it, and an open request still waits.
func (m *Matcher) PeekApproval(q ApprovalQuery) Approval {
	a, _ := m.findApproval(q)
	return a
}

func (m *Matcher) findApproval(q ApprovalQuery) (Approval, *Operation) {
	var best Approval
	var chosen *Operation
	bestRank := rankNone
	for _, op := range m.boundTo(q) {
		if a, rank := m.judge(op, q); rank < bestRank {
			best, bestRank, chosen = a, rank, op
		}
	}
	return best, chosen
}

// boundTo returns the entries about the call of the query.
func (m *Matcher) boundTo(q ApprovalQuery) []*Operation {
	if q.ToolCallID == "" {
		return nil
	}
	ops := m.approvals[q.Scope]
	var bound []*Operation
	for _, op := range ops {
		if s := m.fold.Suspension(op.Start.Seq); s != nil && s.Flavor() == FlavorEscalation {
			continue // it asks for no permission
		}
		if id, own := m.callID(op); own && id == q.ToolCallID {
			bound = append(bound, op)
		}
	}
	if bound == nil && q.Awaiting {
		if op := m.foreign(ops, q); op != nil {
			bound = append(bound, op)
		}
	}
	return bound
}

// Ranks of the entries about one call, strongest first.
const (
	rankDeny = iota
	rankAllow
	rankOpen
	rankAbandoned
	rankStaleAllow
	rankNone
)

// judge says what one entry means for the call.
func (m *Matcher) judge(op *Operation, q ApprovalQuery) (Approval, int) {
	s := m.fold.Suspension(op.Start.Seq)
	if s == nil || m.invalidated[op.Start.Seq] {
		return Approval{}, rankNone
	}
	a := Approval{Suspension: s, Status: ApprovalDecided, Decision: s.Decision(),
		Consumed: s.Consumed != nil && s.Consumed.ToolCallID == q.ToolCallID}
	refuse := func(why Refusal, reason string) Approval {
		a.Refusal, a.Decision = why, ApprovalDecision{Decision: DecisionDeny, Reason: reason}
		return a
	}
	intact, fits := m.fit(op.Start, q)
	switch {
	case s.Revoked != nil:
		a.Refusal = RefusedRevoked
		return a, rankDeny
	case s.State == Abandoned:
		a.Status = ApprovalAbandoned
		if !fits {
			return Approval{}, rankNone
		}
		return a, rankAbandoned
	case s.State == Open:
		// One that asks about another input is left to its orphanage: the
		// call has to be asked about as it is now.
		if !intact || !fits {
			return Approval{}, rankNone
		}
		a.Status, a.Decision = ApprovalOpen, ApprovalDecision{}
		return a, rankOpen
	case a.Decision.Decision != DecisionAllow:
		return a, rankDeny
	case !intact:
		return refuse(RefusedAltered, "the recorded request does not fit its own key"), rankDeny
	case s.Consumed != nil && !a.Consumed:
		return refuse(RefusedSpent, "the approval was used by another call"), rankDeny
	case !fits:
		return refuse(RefusedChanged, "the input is not the one that was approved"), rankStaleAllow
	}
	return a, rankAllow
}

// callID returns the call an approval entry is about, and whether it is about
// a particular one: the one it names, or the one that consumed it. A toolCallId
// that is no text is nobody's.
func (m *Matcher) callID(op *Operation) (string, bool) {
	members := approvalValue(op.Start)
	if _, named := members["toolCallId"]; named {
		id, _ := stringMember(members, "toolCallId")
		return id, true
	}
	if s := m.fold.Suspension(op.Start.Seq); s != nil && s.Consumed != nil {
		return s.Consumed.ToolCallID, true
	}
	return "", false
}

// foreign returns the entry without a call id that belongs to the awaiting
// call. Calls are asked about one at a time, so that is the last approval of
// the agent; it is over as soon as the agent has called its model again.
func (m *Matcher) foreign(ops []*Operation, q ApprovalQuery) *Operation {
	if len(ops) == 0 || q.Key == "" {
		return nil
	}
	last := ops[len(ops)-1]
	if _, own := m.callID(last); own || last.Start.Key != q.Key {
		return nil
	}
	if m.fold.lastCall[scopeAgent(q.Scope)] > last.Start.Seq {
		return nil
	}
	same := 0
	for _, op := range ops {
		if op.Start.Key == q.Key {
			same++
		}
	}
	if same <= q.Earlier {
		return nil
	}
	return last
}

// scopeAgent is the agent that owns a scope, -1 for a scope of another kind.
func scopeAgent(scope string) int64 {
	segs, err := ParseScope(scope)
	if err != nil || len(segs) == 0 {
		return -1
	}
	if a, ok := segs[len(segs)-1].(AgentSegment); ok {
		return a.Seq
	}
	return -1
}

// fit says whether an approval entry fits itself, and whether it is about the
// call as it would run now.
func (m *Matcher) fit(e *journal.Entry, q ApprovalQuery) (intact, fits bool) {
	members := approvalValue(e)
	shown := members["input"]
	toolName, ok := stringMember(members, "toolName")
	if !ok || shown == nil {
		return false, false
	}
	if key, err := ApprovalKey(toolName, shown); err != nil || key != e.Key {
		return false, false
	}
	effective := members["effectiveInput"]
	if effective != nil {
		shown = effective
	}
	fits = q.Key == e.Key
	// Nothing but the hash ties the effective input to the entry.
	if _, has := members["inputHash"]; has || effective != nil {
		recorded, _ := stringMember(members, "inputHash")
		b, err := jcs.Canonical(shown)
		if err != nil || jcs.Sum(b) != recorded {
			return false, false
		}
		fits = fits && recorded == q.InputHash
	}
	return true, fits
}

func approvalValue(e *journal.Entry) map[string]json.RawMessage {
	members, err := objectMembers(e.Value, "value")
	if err != nil {
		return nil
	}
	return members
}
