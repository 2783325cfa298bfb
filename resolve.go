package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// Resolve answers an open suspension of a run: an [ApprovalDecision] for a tool
// call, the value for an external wait. It may be called from any process; it
// needs the store and nothing else. The answer is durable when Resolve returns.
// A live segment of the run goes on at once, or within a poll interval where it
// lives in another process; otherwise the run goes on when it is resumed.
//
// An unknown key and a value that does not fit are an [ErrInvalidResolution]
// and write nothing. Where two answers race the first record wins, and the
// outcome says so.
func (e *Engine) Resolve(ctx context.Context, runID, key string, value any) (ResolutionOutcome, error) {
	fail := func(msg string, err error) (ResolutionOutcome, error) {
		return ResolutionOutcome{}, errs.Wrap(errs.InvalidResolution, "Resolve", runID+" "+key, msg, err)
	}
	text, err := jcs.Marshal(value)
	if err != nil {
		return fail("the value is not JSON", err)
	}
	if tooDeep(text) {
		return fail(tooDeepText, nil)
	}
	meta, fold, err := e.loadFold(ctx, "Resolve", runID)
	if err != nil {
		return ResolutionOutcome{}, err
	}
	target := findSuspension(fold, key)
	if target == nil {
		return fail("the run has no suspension with this key; Engine.PendingOf lists them", nil)
	}
	if err := acceptResolution(target, text); err != nil {
		return fail("", err)
	}
	if pastDeadline(target.Entry, time.Now()) {
		// Nobody was there to record that the time is over; the answer that
		// comes now is too late all the same.
		genesis := ""
		if meta != nil {
			genesis = meta.Genesis
		}
		e.expire(runID, genesis, target.Entry)
	}
	if target.Late >= maxLateAnswers {
		out := ResolutionOutcome{EntryRef: -1, SupersededBy: target.ClosedBy, Reason: string(replay.AlreadyResolved)}
		if target.State == replay.Abandoned {
			out.Reason = string(replay.TargetAbandoned)
		}
		return out, nil
	}
	return e.resolve(ctx, runID, target.Entry, "external", text)
}

// maxLateAnswers is how many answers that came too late are recorded for one
// suspension. The journal must not grow with whoever asks again and again.
const maxLateAnswers = 100

// pastDeadline reports whether a suspension's deadline is over.
func pastDeadline(en *Entry, now time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, en.DeadlineAt)
	return err == nil && now.After(at)
}

// loadFold reads a run whose suspensions are looked at or closed; one that is
// not whole is refused.
func (e *Engine) loadFold(ctx context.Context, op, runID string) (*RunMeta, *replay.Fold, error) {
	meta, entries, err := e.store.Load(ctx, runID, -1)
	if err != nil {
		return nil, nil, err
	}
	if err := refuseUnfinished(op, runID, meta); err != nil {
		return nil, nil, err
	}
	fold, err := replay.NewFold(entries, checkPinned)
	return meta, fold, err
}

// acceptResolution is the check before anything is written.
func acceptResolution(sus *replay.Suspension, value json.RawMessage) error {
	switch sus.Flavor() {
	case replay.FlavorApproval:
		return replay.CheckApproval(value)
	case replay.FlavorEscalation:
		return checkEscalation(value)
	}
	var v externalValue
	if err := json.Unmarshal(sus.Entry.Value, &v); err != nil || v.Schema == nil {
		return err
	}
	return checkPinned(v.Schema, value)
}

// checkEscalation checks the answer to an escalation of the reference.
func checkEscalation(value json.RawMessage) error {
	var v struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	switch v.Kind {
	case "retry", "decompose", "cancel", "accept":
		return nil
	}
	return fmt.Errorf("an escalation is answered with kind retry, decompose, cancel or accept, not %q", v.Kind)
}

// resolve appends a resolution and reports whether it was the first.
func (e *Engine) resolve(ctx context.Context, runID string, target *Entry, by string, value json.RawMessage) (ResolutionOutcome, error) {
	payload, err := marshalJSON(journal.Resolution{Target: target.Seq, By: by, Value: value})
	if err != nil {
		return ResolutionOutcome{}, err
	}
	seq := target.Seq
	en := &Entry{
		HashVersion: journal.HashVersion, Ref: &seq, Scope: target.Scope, Kind: journal.KindResolution,
		Status: journal.StatusOK, SpanID: target.SpanID, StartedAt: stamp(time.Now()), Resolution: payload,
	}
	if err := e.store.AppendAll(ctx, runID, []*Entry{en}, nil); err != nil {
		return ResolutionOutcome{}, err
	}
	defer e.nudge(runID)
	_, fold, err := e.loadFold(ctx, "Resolve", runID)
	if err != nil {
		return ResolutionOutcome{}, err
	}
	out := ResolutionOutcome{EntryRef: en.Seq}
	switch now := fold.Suspension(seq); {
	case now == nil:
		return out, errs.New(errs.JournalIntegrity, "Resolve", runID, fmt.Sprintf("entry %d is gone", seq))
	case now.State == replay.Abandoned:
		out.SupersededBy, out.Reason = now.ClosedBy, string(replay.TargetAbandoned)
	case now.ClosedBy == en.Seq:
		out.Applied = true
	default:
		out.SupersededBy, out.Reason = now.ClosedBy, string(replay.AlreadyResolved)
	}
	return out, nil
}

// RevokeApproval withdraws an approval: an open one is denied, a recorded allow
// that was not used yet becomes void. principal and reason are recorded and
// must not be empty. It returns what it did: "denied-pending",
// "revoked-allow", "already-revoked" or "already-closed".
func (e *Engine) RevokeApproval(ctx context.Context, runID, key, principal, reason string) (string, error) {
	fail := func(msg string) (string, error) {
		return "", errs.New(errs.InvalidResolution, "RevokeApproval", runID+" "+key, msg)
	}
	if principal == "" || reason == "" {
		return fail("a revocation names who and why")
	}
	for {
		_, fold, err := e.loadFold(ctx, "RevokeApproval", runID)
		if err != nil {
			return "", err
		}
		sus := findSuspension(fold, key)
		if sus == nil || sus.Flavor() != replay.FlavorApproval {
			return fail("the run has no approval with this key")
		}
		switch {
		case sus.State == replay.Open:
			value, err := marshalJSON(Reject(fmt.Sprintf("revoked by %s: %s", principal, reason)))
			if err != nil {
				return "", err
			}
			if out, err := e.resolve(ctx, runID, sus.Entry, "operator", value); err != nil || out.Applied {
				return "denied-pending", err
			}
			continue // somebody was faster: look again
		case sus.Revoked != nil:
			return "already-revoked", nil
		case sus.Consumed != nil || sus.Decision().Decision != replay.DecisionAllow:
			return "already-closed", nil
		}
		if err := e.appendRevocation(ctx, runID, sus.Entry, principal, reason); err != nil {
			return "", err
		}
		return e.revoked(ctx, runID, sus.Entry.Seq)
	}
}

// revoked says what a revocation has done that was appended: a call that was
// marked as using the approval before it has run, or runs.
func (e *Engine) revoked(ctx context.Context, runID string, entry int64) (string, error) {
	_, fold, err := e.loadFold(ctx, "RevokeApproval", runID)
	if err != nil {
		return "", err
	}
	sus := fold.Suspension(entry)
	if sus != nil && sus.Revoked != nil && sus.Consumed != nil && sus.Consumed.Seq < sus.Revoked.Seq {
		return "already-closed", nil
	}
	return "revoked-allow", nil
}

func (e *Engine) appendRevocation(ctx context.Context, runID string, target *Entry, principal, reason string) error {
	key, value, err := replay.RevokedEntry(target.Seq, principal, reason)
	if err != nil {
		return err
	}
	now := stamp(time.Now())
	en := &Entry{
		HashVersion: journal.HashVersion, Key: key, Kind: journal.KindDecision,
		Status: journal.StatusOK, SpanID: target.SpanID, StartedAt: now, EndedAt: now, Value: value,
	}
	if err := e.store.AppendAll(ctx, runID, []*Entry{en}, nil); err != nil {
		return err
	}
	e.nudge(runID)
	return nil
}

// findSuspension finds the suspension that key names: the oldest open one, or
// the last closed one where none is open.
func findSuspension(fold *replay.Fold, key string) *replay.Suspension {
	var found *replay.Suspension
	for sus := range fold.Suspensions() {
		if key == "" || sus.Key() != key {
			continue
		}
		if sus.State == replay.Open {
			return sus
		}
		found = sus
	}
	return found
}

// nudge makes a live segment of this engine look for answers now.
func (e *Engine) nudge(runID string) {
	e.mu.Lock()
	s := e.live[runID]
	e.mu.Unlock()
	if s != nil {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}
