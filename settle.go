package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// bodyResult is what became of the workflow's body.
type bodyResult struct {
	value     json.RawMessage
	err       error
	suspended bool
}

// settle writes the end of the segment, in this order: the settle decision,
// the seal, the metadata; then it tells.
func (s *segment) settle(r bodyResult) {
	out := s.outcome(r)
	s.mu.Lock()
	if !s.isEnded() {
		close(s.ended)
	}
	if err := s.appendErr; err != nil && !s.dryRun {
		out.status, out.err, out.value = RunError, err, nil
	}
	s.mu.Unlock()
	s.cancel(nil)
	if err := s.recordSettle(&out); err != nil {
		out.status, out.err, out.value = RunError, errs.Wrap(errs.Settlement, "settle", s.runID, "the end of the segment could not be recorded", err), nil
	}
	s.parkTrees()
	if out.status != RunSuspended {
		out.pending = nil
	}
	for _, p := range out.pending {
		s.bus.emit(s.span, "", false, ExternalWaiting{Key: p.Key, EntryRef: p.EntryRef, Prompt: p.Prompt, DeadlineAt: p.DeadlineAt})
	}
	s.bus.emit(s.span, "", false, RunEnded{Status: out.status, Usage: out.usage})
	s.bus.close()
	s.result = out
	s.e.forget(s)
	if s.lock != nil {
		if err := s.lock.Release(); err != nil {
			s.e.log.Warn("rulvar: the lock of a run could not be released", "run", s.runID, "error", err)
		}
	}
	close(s.done)
}

func (s *segment) outcome(r bodyResult) runOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := runOutcome{usage: s.usage, cost: s.budget.report(), preview: s.matcher.Preview()}
	var stopped *cancelled
	switch {
	case r.suspended:
		out.status = RunSuspended
		for _, sus := range s.fold.OpenSuspensions() {
			if s.parked[sus.Entry.Seq] != nil {
				out.pending = append(out.pending, pendingOf(s.runID, s.workflow, sus))
			}
		}
	case s.ctx.Err() != nil:
		out.status, out.err = RunCancelled, context.Cause(s.ctx)
		if !errors.As(out.err, &stopped) {
			out.err = &cancelled{reason: out.err.Error()}
		}
	case r.err != nil && s.budget.isExhausted():
		out.status, out.err = RunExhausted, r.err
	case r.err != nil:
		out.status, out.err = RunError, r.err
	default:
		out.status, out.value = RunOK, r.value
	}
	return out
}

// recordSettle appends the run_settle decision where the segment has added
// something or ends otherwise than the last one, seals the segment and writes
// the metadata.
func (s *segment) recordSettle(out *runOutcome) error {
	seal := func() {
		s.mu.Lock()
		s.sealed = true
		s.mu.Unlock()
	}
	if s.dryRun {
		seal()
		return nil
	}
	s.mu.Lock()
	needed := s.appended > 0 || s.settled != string(out.status)
	broken := s.appendErr != nil
	s.mu.Unlock()
	if needed && !broken {
		value := map[string]any{"decisionType": "run_settle", "runStatus": out.status, "segment": s.number}
		if out.status == RunOK {
			if canonical, err := jcs.Canonical(out.value); err == nil {
				value["outputHash"] = jcs.Sum(canonical)
			}
		}
		if _, err := s.decide(replay.SettleKey, value); err != nil {
			seal()
			return err
		}
	}
	seal()
	s.meta.Status = string(out.status)
	s.meta.UpdatedAt = stamp(time.Now())
	return s.e.store.PutMeta(context.WithoutCancel(s.ctx), s.meta, s.lock)
}
