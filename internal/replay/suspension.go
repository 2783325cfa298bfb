package replay

import (
	"encoding/json"
	"strconv"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// State says whether a suspended entry still waits.
type State uint8

// The states. The zero value waits.
const (
	Open State = iota
	Resolved
	Abandoned
)

// String returns "open", "resolved" or "abandoned".
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case Resolved:
		return "resolved"
	case Abandoned:
		return "abandoned"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// Suspension is a suspended entry and what later entries made of it. It is
// owned by a [Fold], which updates it; read it under the fold's lock.
type Suspension struct {
	Entry *journal.Entry // kind external or approval, never nil
	State State
	// ClosedBy is the sequence number of the entry that closed it, -1 while
	// open.
	ClosedBy int64
	// Late is how many records have tried to close it after that one.
	Late int
	// By and Value are those of the winning resolution, empty otherwise.
	By    string
	Value json.RawMessage
	// Revoked, when it is not nil, takes back an allow, whenever that came.
	Revoked *Revocation
	// Consumed, when it is not nil, names the one call that may use an allow.
	Consumed *Consumption
}

// Decision returns what the suspension says about its call: the normalised
// resolution, and a deny while it is open, when it was abandoned and after a
// revocation. The expiry is left to the caller, who knows the time.
func (s *Suspension) Decision() ApprovalDecision {
	switch {
	case s.Revoked != nil:
		d := ApprovalDecision{Decision: DecisionDeny, Reason: "revoked by " + s.Revoked.Principal}
		if s.Revoked.Reason != "" {
			d.Reason += ": " + s.Revoked.Reason
		}
		return d
	case s.State != Resolved:
		return ApprovalDecision{Decision: DecisionDeny}
	}
	return NormalizeApproval(s.Value)
}

// Key is the name by which a resolver addresses the suspension: the key of an
// external wait, "approval:<seq>" for an approval. Several open waits of
// different scopes may share the key of an external wait.
func (s *Suspension) Key() string {
	if s.Entry.Kind == journal.KindApproval {
		return "approval:" + strconv.FormatInt(s.Entry.Seq, 10)
	}
	members, err := objectMembers(s.Entry.Value, "value")
	if err != nil {
		return ""
	}
	key, _ := stringMember(members, "key")
	return key
}

// Flavor says what kind of resolution a suspension takes.
type Flavor uint8

// The flavors.
const (
	FlavorExternal   Flavor = iota // any JSON, or what the pinned schema allows
	FlavorApproval                 // see [CheckApproval]
	FlavorEscalation               // a decision about an escalation, of the reference
)

// Flavor classifies the suspension from its entry alone.
func (s *Suspension) Flavor() Flavor {
	if s.Entry.Kind != journal.KindApproval {
		return FlavorExternal
	}
	members, err := objectMembers(s.Entry.Value, "value")
	if err != nil {
		return FlavorApproval
	}
	flavor, _ := stringMember(members, "flavor")
	tool, _ := stringMember(members, "toolName")
	if flavor != "approval" && s.Entry.DeadlineAt != "" && tool == "escalate" {
		return FlavorEscalation
	}
	return FlavorApproval
}
