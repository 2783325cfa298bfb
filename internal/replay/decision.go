package replay

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// The value of a resolution that closes a tool approval:
//
//	{"decision":"allow",        "reason"?, "expiresAt"?}
//	{"decision":"deny",         "reason"?}
//	{"decision":"allow-edited", "input", "reason"?, "expiresAt"?}
//
// The third form is read as a deny by the reference, which does not know it.

// Decisions of an [ApprovalDecision].
const (
	DecisionAllow = "allow"
	DecisionDeny  = "deny"
)

// decisionAllowEdited is the word in the journal for an allow with an input
// of the approver's; normalised it is an allow whose Input is set.
const decisionAllowEdited = "allow-edited"

// ApprovalDecision is a normalised approval. The zero value allows nothing.
type ApprovalDecision struct {
	// Decision is [DecisionAllow] or [DecisionDeny].
	Decision string
	// Reason is the approver's text, "" when there is none.
	Reason string
	// HasExpiry says that the allow ends at ExpiresAt.
	HasExpiry bool
	// ExpiresAt is the expiry as written. A text that is not RFC 3339 with a
	// zone, or a value that is no text (ExpiresAt "" then), counts as expired.
	ExpiresAt string
	// Input, when it is not nil, is what the approver wants to run in place of
	// the input of the call. It is JSON nobody has validated or judged.
	Input json.RawMessage
}

// Allows reports whether the call may run at the time now.
func (d ApprovalDecision) Allows(now time.Time) bool {
	return d.Decision == DecisionAllow && !Expired(d, now)
}

// NormalizeApproval reads a resolution value as an approval. It never fails:
// what is not an explicit allow is a deny, however it is spelt. An expiry that
// cannot be read makes the allow expired, never unlimited.
func NormalizeApproval(value json.RawMessage) ApprovalDecision {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return ApprovalDecision{Decision: DecisionDeny}
	}
	d := ApprovalDecision{Decision: DecisionDeny}
	d.Reason, _ = stringMember(members, "reason")
	if _, ok := members["expiresAt"]; ok {
		d.HasExpiry = true
		d.ExpiresAt, _ = stringMember(members, "expiresAt")
	}
	switch word, _ := stringMember(members, "decision"); word {
	case DecisionAllow:
		d.Decision = DecisionAllow
	case decisionAllowEdited:
		if input := members["input"]; input != nil {
			d.Decision, d.Input = DecisionAllow, input
		}
	}
	return d
}

// CheckApproval says whether a resolver surface may append value as the
// resolution of a tool approval: an object whose decision is exactly allow,
// deny or allow-edited (which needs an input), and whose expiresAt, if there
// is one, is an RFC 3339 time with a zone. The error has code
// [errs.InvalidResolution]; nothing may be appended then.
func CheckApproval(value json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil || members == nil {
		return invalidApproval("", `want an object {"decision":"allow"} or {"decision":"deny"}`)
	}
	word, ok := stringMember(members, "decision")
	switch {
	case ok && (word == DecisionAllow || word == DecisionDeny):
	case ok && word == decisionAllowEdited:
		if members["input"] == nil {
			return invalidApproval("input", "an allow-edited needs the input that shall run")
		}
	case members["decision"] == nil:
		return invalidApproval("decision", `is missing; want "allow", "deny" or "allow-edited"`)
	default:
		return invalidApproval("decision", string(members["decision"])+` is not exactly "allow", "deny" or "allow-edited"`)
	}
	if _, ok := members["expiresAt"]; ok {
		at, isText := stringMember(members, "expiresAt")
		if !isText {
			return invalidApproval("expiresAt", "want an RFC 3339 text such as 2030-01-02T15:04:05Z")
		}
		if _, err := parseInstant(at); err != nil {
			return invalidApproval("expiresAt", strconv.Quote(at)+" is not an RFC 3339 time with a zone, such as 2030-01-02T15:04:05Z")
		}
	}
	return nil
}

// Expired reports whether an allow has ended at the time now; one without an
// expiry never does. The instant of the expiry itself still counts.
func Expired(d ApprovalDecision, now time.Time) bool {
	if !d.HasExpiry {
		return false
	}
	at, err := parseInstant(d.ExpiresAt)
	return err != nil || at.Before(now)
}

// parseInstant reads an RFC 3339 time with a zone. Package time alone would
// also take a one-digit hour, a comma before the fraction and an offset of a
// whole day.
func parseInstant(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, err
	}
	// Parsed, it holds at least a date, an hour and a zone.
	strict := s[10] == 'T' && s[13] == ':' && !strings.Contains(s, ",")
	if offset, ok := strings.CutSuffix(s, "Z"); !ok {
		strict = strict && offset[len(offset)-5:len(offset)-3] < "24"
	}
	if !strict {
		return time.Time{}, errors.New("not the form of RFC 3339")
	}
	return t, nil
}

func invalidApproval(path, msg string) error {
	return errs.New(errs.InvalidResolution, "resolve approval", path, msg)
}
