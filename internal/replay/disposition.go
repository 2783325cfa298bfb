package replay

import (
	"encoding/json"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// What a call does with the operation it binds to. An abandon comes first, an
// invalidation next; then, for entries of hash version 2:
//
//	ok, escalated   replay
//	error           rerun; replay if memoized and of the task's own class
//	limit           rerun; replay if memoized, or if the run settled ok with it
//	cancelled       rerun
//	no terminal     rerun-dangling
//	suspended       suspended; the fold knows more
//
// Of hash version 1 only ok is replayed.
func (m *Matcher) disposition(op *Operation) Disposition {
	if _, ok := m.fold.Covered(op.Start); ok {
		return Skip
	}
	if m.invalidated[op.Start.Seq] {
		return Rerun
	}
	if op.Start.Status == journal.StatusSuspended {
		return Suspended
	}
	end := op.Recorded()
	if end == nil {
		return RerunDangling
	}
	if m.replays(op, end) {
		return Replay
	}
	return Rerun
}

func (m *Matcher) replays(op *Operation, end *journal.Entry) bool {
	if end.Status == journal.StatusOK {
		return true
	}
	if op.Start.HashVersion < 2 {
		return false
	}
	memoized := end.MemoizeOutcome || op.Start.MemoizeOutcome
	switch end.Status {
	case journal.StatusEscalated:
		return true
	case journal.StatusError:
		return memoized && taskClass(end.Error)
	case journal.StatusLimit:
		return memoized || m.runStatus == string(journal.StatusOK)
	}
	return false
}

// taskClass reports whether an error lies in the task itself, so that another
// attempt would only fail again. An agent says so by the kind of its error,
// everything else by not being retryable. An unreadable error is not.
func taskClass(wire json.RawMessage) bool {
	members, err := objectMembers(wire, "error")
	if err != nil {
		return false
	}
	retryable := string(members["retryable"]) != "false"
	if code, _ := stringMember(members, "code"); code != "agent" {
		return !retryable
	}
	data, err := objectMembers(members["data"], "error.data")
	if err != nil {
		return false
	}
	switch kind, _ := stringMember(data, "kind"); kind {
	case "schema-mismatch", "terminal":
		return true
	case "tool":
		return !retryable
	}
	return false
}

// rank orders the candidates for one call, best first.
func (m *Matcher) rank(op *Operation) int {
	switch m.disposition(op) {
	case Skip, Suspended:
		return rankGood
	case Replay:
		if good(op.Recorded().Status) {
			return rankGood
		}
		return rankMemoized
	case RerunDangling:
		return rankDangling
	}
	return rankFailed
}

const (
	rankGood = iota
	rankMemoized
	rankDangling
	rankFailed
	ranks
)

// queue holds the candidates of one key by rank, each list in journal order.
// An operation may stand in two queues; the one that did not hand it out drops
// it when it comes up.
type queue [ranks][]*Operation

func push[K comparable](m map[K]*queue, k K, op *Operation, rank int) {
	q := m[k]
	if q == nil {
		q = &queue{}
		m[k] = q
	}
	q[rank] = append(q[rank], op)
}

// first returns the best operation of several queues that is still free.
func first(queues []*queue) *Operation {
	for rank := range ranks {
		var best *Operation
		for _, q := range queues {
			if q == nil {
				continue
			}
			for len(q[rank]) > 0 && q[rank][0].consumed {
				q[rank] = q[rank][1:]
			}
			if len(q[rank]) > 0 && (best == nil || q[rank][0].Start.Seq < best.Start.Seq) {
				best = q[rank][0]
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}
