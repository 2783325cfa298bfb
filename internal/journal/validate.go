package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// kinds are the kinds of the format, with those of the reference that this
// library does not write itself but must hand on.
var kinds = []Kind{
	KindAgent, KindDecision, KindStep, KindApproval, KindResolution, KindExternal, KindChild, KindRand, KindAbandon,
}

var statuses = []Status{
	StatusOK, StatusRunning, StatusSuspended, StatusError, StatusLimit, StatusCancelled, StatusEscalated,
}

// legal holds the statuses that each kind may be written with.
var legal = []struct {
	kind     Kind
	statuses []Status
}{
	{KindStep, []Status{StatusRunning, StatusOK, StatusError}},
	{KindAgent, []Status{StatusRunning, StatusOK, StatusError, StatusLimit, StatusCancelled, StatusEscalated}},
	{KindChild, []Status{StatusRunning, StatusOK, StatusError, StatusLimit, StatusCancelled}},
	{KindDecision, []Status{StatusOK}},
	{KindApproval, []Status{StatusSuspended}},
	{KindResolution, []Status{StatusOK}},
	{KindExternal, []Status{StatusSuspended}},
	{KindRand, []Status{StatusOK}},
	{KindAbandon, []Status{StatusOK}},
}

// statusesOf returns the statuses of a kind; none where it may not be written.
func statusesOf(k Kind) []Status {
	for i := range legal {
		if legal[i].kind == k {
			return legal[i].statuses
		}
	}
	return nil
}

// twoPhase reports whether entries of the kind come in pairs: running, then a
// terminal that refers to it.
func (k Kind) twoPhase() bool { return k == KindAgent || k == KindStep || k == KindChild }

// Validate checks the rules that an entry must keep to be written, apart from
// its sequence number, which is not known yet. A breach is a config error that
// names the member. What is written here is what the reference accepts.
func (e *Entry) Validate() error {
	for _, check := range []func(*Entry) (string, string){
		checkKind, checkRef, checkPayload, checkDeadline,
	} {
		if path, msg := check(e); msg != "" {
			return errs.New(errs.Config, "write entry", string(e.Kind)+"."+path, msg)
		}
	}
	return nil
}

func checkKind(e *Entry) (path, msg string) {
	allowed := statusesOf(e.Kind)
	switch {
	case allowed == nil:
		return "kind", fmt.Sprintf("kind %q is not one that may be written", e.Kind)
	case !slices.Contains(allowed, e.Status):
		return "status", fmt.Sprintf("status %q is not legal for this kind", e.Status)
	case e.HashVersion != 0 && e.HashVersion != 1 && e.HashVersion != HashVersion:
		return "hashVersion", fmt.Sprintf("hashVersion %d is not one that may be written", e.HashVersion)
	case e.Ordinal < 0:
		return "ordinal", "the ordinal is negative"
	case (e.Escalation != nil) != (e.Status == StatusEscalated):
		return "escalation", "an escalation belongs to status escalated, and to no other"
	case (e.Resolution != nil) != (e.Kind == KindResolution):
		return "resolution", "a resolution belongs to kind resolution, and to no other"
	case (e.Abandon != nil) != (e.Kind == KindAbandon):
		return "abandon", "an abandon belongs to kind abandon, and to no other"
	}
	return "", ""
}

func checkRef(e *Entry) (path, msg string) {
	closes := e.Kind == KindResolution || e.Kind == KindAbandon
	terminal := e.Kind.twoPhase() && e.Status != StatusRunning
	switch {
	case e.Ref == nil && closes:
		return "ref", "the entry it closes is missing"
	case e.Ref == nil && terminal:
		return "ref", "a terminal must refer to its running entry"
	case e.Ref != nil && !closes && !terminal:
		return "ref", "only a terminal, a resolution and an abandon refer to another entry"
	case e.Ref != nil && *e.Ref < 0:
		return "ref", "the sequence number is negative"
	}
	return "", ""
}

func checkPayload(e *Entry) (path, msg string) {
	switch e.Kind {
	case KindResolution:
		var r Resolution
		if !decode(e.Resolution, &r) || r.Target != *e.Ref || r.By == "" || r.Value == nil {
			return "resolution", "expected target (equal to ref), by and value"
		}
	case KindAbandon:
		var a Abandon
		if !decode(e.Abandon, &a) || a.Target != *e.Ref || a.AuthorizedBy == "" {
			return "abandon", "expected target (equal to ref), authorizedBy and reason"
		}
	case KindDecision:
		if e.decisionType() == "" {
			return "value", "a decision must carry a decisionType"
		}
	case KindRand:
		return checkRand(e.Value)
	}
	if e.Error != nil {
		var w WireError
		if !decode(e.Error, &w) || w.Code == "" {
			return "error", "expected code, message and retryable"
		}
	}
	return "", ""
}

// checkRand checks {subtype, value, key?}.
func checkRand(v json.RawMessage) (path, msg string) {
	var r struct {
		Subtype string          `json:"subtype"`
		Value   json.RawMessage `json:"value"`
		Key     *string         `json:"key"`
	}
	if !decode(v, &r) || len(r.Value) == 0 {
		return "value", "expected subtype, value and at most a key"
	}
	var want any = new(float64)
	switch r.Subtype {
	case "uuid":
		want = new(string)
	case "now", "random":
	default:
		return "value.subtype", fmt.Sprintf("subtype %q is not now, random or uuid", r.Subtype)
	}
	if string(r.Value) == "null" || !decode(r.Value, want) {
		return "value.value", "the value does not have its subtype's type"
	}
	return "", ""
}

func checkDeadline(e *Entry) (path, msg string) {
	switch {
	case e.DeadlineAt == "":
	case e.Kind != KindApproval:
		return "deadlineAt", "only an approval has a deadline"
	default:
		if _, err := time.Parse(time.RFC3339, e.DeadlineAt); err != nil {
			return "deadlineAt", "the deadline is not an RFC 3339 time"
		}
	}
	return "", ""
}

// decisionType returns value.decisionType, or "" where there is none. It reads
// the member of exactly that name, because who may append an entry hangs on it.
func (e *Entry) decisionType() string {
	var typ string
	s := scanner{b: e.Value}
	s.space()
	ok := s.members(func(name string) (ok bool) {
		if name != "decisionType" {
			return s.value(1)
		}
		typ, ok = s.text()
		return ok
	})
	if !ok {
		return ""
	}
	return typ
}

func decode(raw json.RawMessage, into any) bool {
	return len(raw) > 0 && json.Unmarshal(raw, into) == nil
}
