package replay

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// opFold names this work in errors.
const opFold = "fold journal"

// Reason says why a closing entry changed nothing.
type Reason string

// The reasons. The first two are those of the reference.
const (
	AlreadyResolved Reason = "already_resolved"
	TargetAbandoned Reason = "target_abandoned"
	Invalid         Reason = "invalid"
)

// Outcome is what one resolution or abandon did.
type Outcome struct {
	Seq, Target int64
	// Applied is true for the entry that closed its target.
	Applied bool
	// Reason says why it was not applied.
	Reason Reason
	// SupersededBy is the sequence number of the entry that closed the target
	// first; -1 where there is none.
	SupersededBy int64
	// Detail explains Invalid.
	Detail string
}

// InvalidResolution is an entry that names a target it cannot close, or whose
// value fails the schema pinned by its target, which stays open.
type InvalidResolution struct {
	Seq    int64  `json:"seq"`
	Detail string `json:"detail"`
}

// ValidateFunc checks a resolution value against the canonical JSON schema
// that the suspended entry pins.
type ValidateFunc func(schema, value json.RawMessage) error

// Fold is the state of all suspensions after a list of entries. It is built
// from the whole journal by [NewFold] and follows the live segment by
// [Fold.Add].
type Fold struct {
	validate ValidateFunc
	last     int64
	known    map[int64]*journal.Entry

	suspensions map[int64]*Suspension
	order       []*Suspension
	invalid     []InvalidResolution

	coveredSeqs   map[int64]int64  // abandoned operation -> abandon
	coveredScopes map[string]int64 // what it owns -> abandon

	runStatus   string                      // of the last run_settle
	invalidated map[int64]bool              // operations voided by a decision
	lastCall    map[int64]int64             // agent -> its last provider-call row
	intents     map[wireCall]bool           // requests whose end is not recorded
	ordinals    map[int64]int64             // agent -> the greatest ordinal of its requests
	fallbacks   map[int64]string            // failed agent -> the model that its call went on with
	spawns      map[string][]*journal.Entry // decisions about spawns, by scope
}

// NewFold folds the entries of a journal, which must be in order. validate
// checks values against pinned schemas; nil means that no such value can be
// accepted. The entries are kept and must not be changed. The error has code
// [errs.JournalOrder]: the sequence does not increase, a reference does not
// point to an earlier entry, or a payload is damaged.
func NewFold(entries []*journal.Entry, validate ValidateFunc) (*Fold, error) {
	f := &Fold{
		validate:      validate,
		last:          -1,
		known:         make(map[int64]*journal.Entry, len(entries)),
		suspensions:   map[int64]*Suspension{},
		coveredSeqs:   map[int64]int64{},
		coveredScopes: map[string]int64{},
		invalidated:   map[int64]bool{},
		lastCall:      map[int64]int64{},
		intents:       map[wireCall]bool{},
		ordinals:      map[int64]int64{},
		fallbacks:     map[int64]string{},
		spawns:        map[string][]*journal.Entry{},
	}
	for i := range entries {
		if _, err := f.Add(entries[i]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Add folds one more entry, which the caller has appended, and keeps it. The
// outcome is that of a resolution or an abandon and zero for other kinds.
// Errors as for [NewFold]; the fold is unchanged then.
func (f *Fold) Add(e *journal.Entry) (Outcome, error) {
	if e.Seq <= f.last {
		return Outcome{}, orderError(e, fmt.Sprintf("the sequence number must be greater than %d", f.last))
	}
	if e.Ref != nil && refKind(e.Kind) {
		if *e.Ref >= e.Seq {
			return Outcome{}, orderError(e, fmt.Sprintf("ref %d does not point backwards", *e.Ref))
		}
		if f.known[*e.Ref] == nil {
			return Outcome{}, orderError(e, fmt.Sprintf("ref %d names an entry that is not in the journal", *e.Ref))
		}
	}
	var out Outcome
	var err error
	switch e.Kind {
	case journal.KindResolution:
		out, err = f.resolve(e)
	case journal.KindAbandon:
		out, err = f.abandon(e)
	case journal.KindDecision:
		err = f.decide(e)
	case journal.KindExternal, journal.KindApproval:
		f.suspend(e)
	}
	if err != nil {
		return Outcome{}, err
	}
	f.last = e.Seq
	f.known[e.Seq] = e
	return out, nil
}

// refKind reports whether ref on an entry of this kind refers to an earlier
// one. What it means on a kind of the future is unknown.
func refKind(k journal.Kind) bool {
	switch k {
	case journal.KindAgent, journal.KindStep, journal.KindChild, journal.KindResolution, journal.KindAbandon:
		return true
	}
	return false
}

func (f *Fold) suspend(e *journal.Entry) {
	if e.Status != journal.StatusSuspended || e.Ref != nil {
		return
	}
	s := &Suspension{Entry: e, ClosedBy: -1}
	if by, ok := f.coveredScope(e.Scope); ok {
		s.State, s.ClosedBy = Abandoned, by
	}
	f.suspensions[e.Seq] = s
	f.order = append(f.order, s)
}

func (f *Fold) resolve(e *journal.Entry) (Outcome, error) {
	target, members, err := closingPayload(e, e.Resolution, "resolution")
	if err != nil {
		return Outcome{}, err
	}
	s := f.suspensions[target]
	switch {
	case s == nil:
		return f.reject(e, target, fmt.Sprintf("target %d is not a suspended entry", target)), nil
	case s.State != Open:
		return superseded(e, s), nil
	}
	value := members["value"]
	if value == nil {
		value = json.RawMessage("null")
	}
	if err := f.checkPinned(s.Entry, value); err != nil {
		return f.reject(e, target, fmt.Sprintf("value for target %d fails its pinned schema: %v", target, err)), nil
	}
	s.State, s.ClosedBy, s.Value = Resolved, e.Seq, value
	s.By, _ = stringMember(members, "by")
	return Outcome{Seq: e.Seq, Target: target, Applied: true, SupersededBy: -1}, nil
}

// checkPinned validates a value against the schema that an external wait
// recorded when it was suspended.
func (f *Fold) checkPinned(suspended *journal.Entry, value json.RawMessage) error {
	if suspended.Kind != journal.KindExternal {
		return nil
	}
	var payload map[string]json.RawMessage
	if len(suspended.Value) != 0 {
		if err := json.Unmarshal(suspended.Value, &payload); err != nil {
			return fmt.Errorf("the suspended entry is unreadable: %w", err)
		}
	}
	schema := payload["schema"]
	if schema == nil {
		return nil
	}
	if f.validate == nil {
		return errs.New(errs.Config, opFold, "", "no validator was given")
	}
	return f.validate(schema, value)
}

func (f *Fold) abandon(e *journal.Entry) (Outcome, error) {
	target, _, err := closingPayload(e, e.Abandon, "abandon")
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Seq: e.Seq, Target: target, Applied: true, SupersededBy: -1}
	if s := f.suspensions[target]; s != nil {
		if s.State != Open {
			return superseded(e, s), nil
		}
		s.State, s.ClosedBy = Abandoned, e.Seq
		return out, nil
	}
	op := f.known[target]
	if op.Status != journal.StatusRunning || op.Ref != nil || !refKind(op.Kind) {
		return f.reject(e, target, fmt.Sprintf("target %d is neither a running nor a suspended entry", target)), nil
	}
	if by, ok := f.Covered(op); ok {
		return Outcome{Seq: e.Seq, Target: target, Reason: TargetAbandoned, SupersededBy: by}, nil
	}
	f.coveredSeqs[target] = e.Seq
	if owned := ownedScope(op); owned != "" {
		f.coveredScopes[owned] = e.Seq
		for _, s := range f.order {
			if s.State == Open && within(s.Entry.Scope, owned) {
				s.State, s.ClosedBy = Abandoned, e.Seq
			}
		}
	}
	return out, nil
}

func superseded(e *journal.Entry, s *Suspension) Outcome {
	s.Late++
	out := Outcome{Seq: e.Seq, Target: s.Entry.Seq, Reason: AlreadyResolved, SupersededBy: s.ClosedBy}
	if s.State == Abandoned {
		out.Reason = TargetAbandoned
	}
	return out
}

func (f *Fold) reject(e *journal.Entry, target int64, detail string) Outcome {
	f.invalid = append(f.invalid, InvalidResolution{e.Seq, detail})
	return Outcome{Seq: e.Seq, Target: target, Reason: Invalid, SupersededBy: -1, Detail: detail}
}

// closingPayload reads the payload of a resolution or an abandon. It names its
// target twice, in ref and in the payload; where the two disagree nobody can
// say what was meant.
func closingPayload(e *journal.Entry, payload json.RawMessage, name string) (int64, map[string]json.RawMessage, error) {
	if e.Ref == nil {
		return 0, nil, orderError(e, "kind "+string(e.Kind)+" needs a ref")
	}
	members, err := objectMembers(payload, name)
	if err != nil {
		return 0, nil, orderError(e, "its "+name+" payload is missing or no object")
	}
	target, ok := seqMember(members, "target")
	if !ok || target != *e.Ref {
		return 0, nil, orderError(e, fmt.Sprintf("%s.target is %s where ref is %d", name, members["target"], *e.Ref))
	}
	return target, members, nil
}

// seqMember returns a member that is a sequence number.
func seqMember(members map[string]json.RawMessage, name string) (int64, bool) {
	return parseNatural(string(members[name]))
}

func orderError(e *journal.Entry, msg string) error {
	return errs.New(errs.JournalOrder, opFold, fmt.Sprintf("entry %d", e.Seq), msg)
}

// Suspension returns the state of a suspended entry, nil for another.
func (f *Fold) Suspension(seq int64) *Suspension { return f.suspensions[seq] }

// Suspensions yields every suspended entry in journal order.
func (f *Fold) Suspensions() iter.Seq[*Suspension] { return slices.Values(f.order) }

// OpenSuspensions returns those that still wait, in journal order.
func (f *Fold) OpenSuspensions() []*Suspension {
	var open []*Suspension
	for _, s := range f.order {
		if s.State == Open {
			open = append(open, s)
		}
	}
	return open
}

// InvalidResolutions returns a copy of the list of entries that closed nothing
// because they could not, in journal order; never nil.
func (f *Fold) InvalidResolutions() []InvalidResolution {
	return append([]InvalidResolution{}, f.invalid...)
}

// LastRunStatus is the runStatus of the last run_settle decision, "" when the
// run never settled.
func (f *Fold) LastRunStatus() string { return f.runStatus }

// LastSeq is the sequence number of the last entry, -1 for an empty journal.
func (f *Fold) LastSeq() int64 { return f.last }
