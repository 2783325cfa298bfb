package replay

import (
	"fmt"
	"slices"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// Disposition says what a call does.
type Disposition uint8

// The dispositions. The zero value does the work and pays for it.
const (
	// Live: nothing recorded fits. Append a new running entry and do the work.
	Live Disposition = iota
	// Replay: return what Op recorded.
	Replay
	// Skip: the operation was abandoned. Do nothing, the result is empty.
	Skip
	// Rerun: an earlier attempt failed. As Live, with a new running entry.
	Rerun
	// RerunDangling: the attempt has no terminal. Do the work again under the
	// running entry that is there; an agent boots its checkpoint.
	RerunDangling
	// Suspended: the call waits or has waited; Suspension says what came of it.
	Suspended
)

// String returns the word of the disposition.
func (d Disposition) String() string {
	words := [...]string{"live", "replay", "skip", "rerun", "rerun-dangling", "suspended"}
	if int(d) < len(words) {
		return words[d]
	}
	return fmt.Sprintf("Disposition(%d)", d)
}

// Mode says where a call looks for a recorded operation.
type Mode uint8

// The modes.
const (
	Scoped Mode = iota // in its own scope
	Cache              // in every scope of the run
	Never              // nowhere: the call goes live
)

// Operation is what one earlier call left in the journal.
type Operation struct {
	// Start is its first entry: running, suspended, or the only one.
	Start *journal.Entry
	// End is its terminal; nil while dangling, and for a suspended or single
	// entry.
	End *journal.Entry

	consumed bool
}

// Recorded returns the entry that holds the result: the terminal, or Start for
// a single entry. It is nil for a dangling or suspended operation.
func (o *Operation) Recorded() *journal.Entry {
	switch {
	case o.End != nil:
		return o.End
	case o.Start.Status == journal.StatusRunning || o.Start.Status == journal.StatusSuspended:
		return nil
	}
	return o.Start
}

// Result is the answer of [Matcher.Match]. Op is nil for Live; Suspension is
// set for Suspended.
type Result struct {
	Disposition Disposition
	Op          *Operation
	Suspension  *Suspension
}

// Preview counts what the calls of a segment met. Its JSON form is that of a
// resume report; the lists are never null.
type Preview struct {
	Hits    int `json:"hits"`    // replayed, or bound to a suspension
	Misses  int `json:"misses"`  // nothing recorded
	Skipped int `json:"skipped"` // abandoned
	Reruns  int `json:"reruns"`  // failed or dangling before
	// Orphaned lists the first entries of dangling operations and open
	// suspensions that no call has asked for and no abandon covers.
	Orphaned           []int64             `json:"orphaned"`
	InvalidResolutions []InvalidResolution `json:"invalidResolutions"`
}

// Matcher binds the calls of one segment to the operations of earlier ones.
// Entries of the running segment never become candidates. Calls of one scope
// may come in any order; identical calls bind in journal order among equals,
// each operation to one call. It is not safe for concurrent use.
type Matcher struct {
	fold        *Fold
	runStatus   string
	invalidated map[int64]bool

	ops       []*Operation
	scoped    map[scopedKey]*queue
	anywhere  map[keyVersion]*queue
	approvals map[string][]*Operation
	spawned   map[string][]*Operation // children of agents, by scope

	hits, misses, skipped, reruns int
}

type scopedKey struct {
	scope string
	keyVersion
}

type keyVersion struct {
	version int
	key     string
}

// NewMatcher builds the matcher of a segment. fold is that of the same prior
// entries and may follow the live segment afterwards. invalidate holds the
// sequence numbers of first entries that shall run again; others have no
// effect. The error has code [errs.JournalOrder]: a terminal does not fit the
// running entry it refers to.
func NewMatcher(prior []*journal.Entry, fold *Fold, invalidate []int64) (*Matcher, error) {
	m := &Matcher{
		fold:        fold,
		runStatus:   fold.LastRunStatus(),
		invalidated: map[int64]bool{},
		scoped:      map[scopedKey]*queue{},
		anywhere:    map[keyVersion]*queue{},
		approvals:   map[string][]*Operation{},
		spawned:     map[string][]*Operation{},
	}
	for seq := range fold.invalidated {
		m.invalidated[seq] = true
	}
	for _, seq := range invalidate {
		m.invalidated[seq] = true
	}
	if err := m.collect(prior); err != nil {
		return nil, err
	}
	for _, op := range m.ops {
		m.index(op)
	}
	return m, nil
}

// collect pairs running entries with their terminals.
func (m *Matcher) collect(prior []*journal.Entry) error {
	running := map[int64]*Operation{}
	for i := range prior {
		e := prior[i]
		switch {
		case e.Ref != nil && twoPhase(e.Kind):
			op := running[*e.Ref]
			if op == nil {
				return orderError(e, fmt.Sprintf("ref %d is no running entry", *e.Ref))
			}
			if s := op.Start; s.Kind != e.Kind || s.Scope != e.Scope || s.Key != e.Key || !terminal(e.Status) {
				return orderError(e, fmt.Sprintf("it does not fit the running entry %d: want the same kind, scope and key, and a terminal status", *e.Ref))
			}
			// Two segments that raced left two terminals: good work is kept,
			// otherwise the later word counts.
			if op.End == nil || !good(op.End.Status) {
				op.End = e
			}
		case e.Ref != nil:
		case twoPhase(e.Kind) && e.Status == journal.StatusRunning:
			op := &Operation{Start: e}
			running[e.Seq] = op
			m.ops = append(m.ops, op)
		case suspends(e.Kind) && e.Status == journal.StatusSuspended,
			e.Kind == journal.KindRand && e.Status == journal.StatusOK:
			m.ops = append(m.ops, &Operation{Start: e})
		}
	}
	return nil
}

func twoPhase(k journal.Kind) bool {
	return k == journal.KindAgent || k == journal.KindStep || k == journal.KindChild
}

func suspends(k journal.Kind) bool {
	return k == journal.KindExternal || k == journal.KindApproval
}

func terminal(s journal.Status) bool {
	switch s {
	case journal.StatusOK, journal.StatusError, journal.StatusLimit, journal.StatusCancelled, journal.StatusEscalated:
		return true
	}
	return false
}

func good(s journal.Status) bool {
	return s == journal.StatusOK || s == journal.StatusEscalated
}

// index makes an operation a candidate. Approvals are bound to a call and not
// to a key, so they stand apart; see [Matcher.Approval]. So do
// the children of agents; see [Matcher.Spawned].
func (m *Matcher) index(op *Operation) {
	s := op.Start
	if _, ok := spawnRef(s); ok {
		m.spawned[s.Scope] = append(m.spawned[s.Scope], op)
		return
	}
	if s.Kind == journal.KindApproval {
		m.approvals[s.Scope] = append(m.approvals[s.Scope], op)
		return
	}
	r := m.rank(op)
	k := keyVersion{s.HashVersion, s.Key}
	push(m.scoped, scopedKey{s.Scope, k}, op, r)
	push(m.anywhere, k, op, r)
}

// Match binds a call to an operation, which no later call of this segment will
// get, and counts it. Of several operations with the key it takes the first of
// the best kind: one with a good result (or a suspension, or an abandon), a
// failure that was memoized, a dangling one, a failed one. So completed work
// is not paid again because an earlier attempt had failed.
func (m *Matcher) Match(scope string, keys Keys, mode Mode) Result {
	return m.MatchSettled(scope, keys, mode, nil)
}

// MatchSettled is [Matcher.Match] for a call whose failure may be settled: one
// that would run again is replayed where settled says so, unless it was
// invalidated. Nil settles nothing.
func (m *Matcher) MatchSettled(scope string, keys Keys, mode Mode, settled func(*Operation) bool) Result {
	op := m.find(scope, keys, mode)
	if op == nil {
		m.misses++
		return Result{Disposition: Live}
	}
	op.consumed = true
	res := Result{Disposition: m.disposition(op), Op: op}
	if res.Disposition == Rerun && !m.invalidated[op.Start.Seq] && settled != nil && settled(op) {
		res.Disposition = Replay
	}
	switch res.Disposition {
	case Replay:
		m.hits++
	case Suspended:
		m.hits++
		res.Suspension = m.fold.Suspension(op.Start.Seq)
	case Skip:
		m.skipped++
	default:
		m.reruns++
	}
	return res
}

// Peek says what [Matcher.Match] would answer now, without binding.
func (m *Matcher) Peek(scope string, keys Keys, mode Mode) Disposition {
	op := m.find(scope, keys, mode)
	if op == nil {
		return Live
	}
	return m.disposition(op)
}

// find returns the best operation for a call that is still free, or nil.
func (m *Matcher) find(scope string, keys Keys, mode Mode) *Operation {
	var queues [MaxHashVersion]*queue
	for v := MinHashVersion; v <= MaxHashVersion && keys != nil && (mode == Scoped || mode == Cache); v++ {
		k := keyVersion{v, keys(v)}
		switch {
		case k.key == "":
		case mode == Scoped:
			queues[v-1] = m.scoped[scopedKey{scope, k}]
		default:
			queues[v-1] = m.anywhere[k]
		}
	}
	return first(queues[:])
}

// Preview returns the counts so far and what no call has asked for.
func (m *Matcher) Preview() Preview {
	p := Preview{
		Hits: m.hits, Misses: m.misses, Skipped: m.skipped, Reruns: m.reruns,
		Orphaned:           []int64{},
		InvalidResolutions: m.fold.InvalidResolutions(),
	}
	for _, op := range m.ops {
		if op.consumed || op.Recorded() != nil {
			continue
		}
		if s := m.fold.Suspension(op.Start.Seq); s != nil && s.State != Open {
			continue
		}
		if _, covered := m.fold.Covered(op.Start); !covered {
			p.Orphaned = append(p.Orphaned, op.Start.Seq)
		}
	}
	slices.Sort(p.Orphaned)
	return p
}
