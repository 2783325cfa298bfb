package rulvar

import (
	"context"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// deadline denies an approval that nobody answered in time. Its timer outlives
// the segment, so that a parked run is denied in time as long as the process
// lives; a resume in another process arms it again from the entry.
type deadline struct{ timer *time.Timer }

// armDeadline starts the timer of a suspended entry that carries a deadline,
// and returns the deadline and a function that stops the timer.
func (s *segment) armDeadline(en *Entry) (at *time.Time, disarm func(), err error) {
	if en.DeadlineAt == "" {
		return nil, func() {}, nil
	}
	when, err := time.Parse(time.RFC3339Nano, en.DeadlineAt)
	if err != nil {
		return nil, nil, errs.Wrap(errs.Config, "approval", s.runID, "the deadline of a suspension cannot be read", err)
	}
	at = &when
	if s.dryRun {
		return at, func() {}, nil
	}
	e := s.e
	d := &deadline{}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return at, func() {}, nil
	}
	e.timers[d] = struct{}{}
	d.timer = time.AfterFunc(time.Until(when), func() {
		e.mu.Lock()
		_, armed := e.timers[d]
		delete(e.timers, d)
		e.mu.Unlock()
		if armed {
			e.expire(s.runID, en)
		}
	})
	return at, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.timers, d)
		d.timer.Stop()
	}, nil
}

// expire appends the deny of a deadline, unless the suspension is closed. Where
// an answer comes at the same moment the first record wins.
func (e *Engine) expire(runID string, en *Entry) {
	ctx := context.Background()
	fold, err := e.loadFold(ctx, runID)
	if err == nil {
		if sus := fold.Suspension(en.Seq); sus == nil || sus.ClosedBy >= 0 {
			return
		}
		_, err = e.resolve(ctx, runID, en, "timeout", mustMarshal(Reject("denied by timeout: nobody answered before "+en.DeadlineAt)))
	}
	if err != nil {
		e.log.Error("rulvar: the deadline of an approval could not be recorded; the approval stays open", "run", runID, "entry", en.Seq, "error", err)
	}
}
