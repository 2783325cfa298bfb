package replay

import (
	"slices"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// What an orchestrating agent leaves in the scope that it owns, beside the
// operations of its children:
//
//	spawn-admission  a child was admitted or refused; its seq is the handle
//	spawn-cancelled  the child with that handle shall not go on
//
// The running entry of a child names its handle in value.spawnRef. Equal
// children are told apart by that alone: a key would bind them in any order.

// Values of decisionType that say what became of a spawn.
const (
	DecisionSpawn       = "spawn-admission"
	DecisionSpawnCancel = "spawn-cancelled"
)

// SpawnDecisions returns the decisions about spawns in a scope, in journal
// order. They must not be changed.
func (f *Fold) SpawnDecisions(scope string) []*journal.Entry { return slices.Clone(f.spawns[scope]) }

// Entry returns an entry of the journal, nil where there is none.
func (f *Fold) Entry(seq int64) *journal.Entry { return f.known[seq] }

// Spawned binds the child with that handle to its last attempt in scope, and
// counts it. A child that has ended stays as it ended, also where it failed:
// what follows is for the agent that spawned it to say. One that was cancelled
// with its run runs again, unless keep says that it was cancelled for good.
func (m *Matcher) Spawned(scope string, handle int64, keep bool) Result {
	var op *Operation
	for _, o := range m.spawned[scope] {
		if ref, ok := spawnRef(o.Start); ok && ref == handle && !o.consumed {
			op = o
		}
	}
	if op == nil {
		m.misses++
		return Result{Disposition: Live}
	}
	op.consumed = true
	res := Result{Op: op, Disposition: m.disposition(op)}
	if end := op.Recorded(); res.Disposition == Rerun && !m.invalidated[op.Start.Seq] && (keep || end.Status != journal.StatusCancelled) {
		res.Disposition = Replay
	}
	switch res.Disposition {
	case Replay:
		m.hits++
	case Skip:
		m.skipped++
	default:
		m.reruns++
	}
	return res
}

// Children returns the operations of the agents in a scope, in journal order,
// and marks them as asked for.
func (m *Matcher) Children(scope string) []*Operation {
	for _, op := range m.spawned[scope] {
		op.consumed = true
	}
	return slices.Clone(m.spawned[scope])
}

// spawnRef reads the handle of a child from its running entry.
func spawnRef(e *journal.Entry) (int64, bool) {
	if e.Kind != journal.KindAgent || len(e.Value) == 0 {
		return 0, false
	}
	members, err := objectMembers(e.Value, "value")
	if err != nil {
		return 0, false
	}
	return seqMember(members, "spawnRef")
}

// Escalation returns the request for a decision about an escalation that an
// earlier segment has made for the call, nil where there is none, and counts a
// hit or a miss.
func (m *Matcher) Escalation(scope, toolCallID string) *Suspension {
	for _, op := range m.approvals[scope] {
		s := m.fold.Suspension(op.Start.Seq)
		if s == nil || s.Flavor() != FlavorEscalation {
			continue
		}
		if id, _ := stringMember(approvalValue(op.Start), "toolCallId"); id == toolCallID {
			op.consumed = true
			m.hits++
			return s
		}
	}
	m.misses++
	return nil
}
