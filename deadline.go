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

// deadlineOf reads the deadline of a suspended entry; nil where it has none.
func (s *segment) deadlineOf(en *Entry) (*time.Time, error) {
	if en.DeadlineAt == "" {
		return nil, nil
	}
	when, err := time.Parse(time.RFC3339Nano, en.DeadlineAt)
	if err != nil {
		return nil, errs.Wrap(errs.Config, "approval", s.runID, "the deadline of a suspension cannot be read", err)
	}
	return &when, nil
}

// armDeadline starts the timer of a suspended entry and returns a function
// that stops it. A deadline that has passed denies at once: what a late resume
// does must not be a race between a timer and the end of the segment.
func (s *segment) armDeadline(en *Entry, at *time.Time) (disarm func()) {
	if at == nil || s.dryRun {
		return func() {}
	}
	e := s.e
	if !time.Now().Before(*at) {
		e.expire(s.runID, en)
		s.warn(s.poll())
		return func() {}
	}
	d := &deadline{}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return func() {}
	}
	e.timers[d] = struct{}{}
	d.timer = time.AfterFunc(time.Until(*at), func() {
		e.mu.Lock()
		_, armed := e.timers[d]
		delete(e.timers, d)
		if armed { // then the engine is not closed, and Close will wait
			e.goroutines.Add(1)
		}
		e.mu.Unlock()
		if armed {
			defer e.goroutines.Done()
			e.expire(s.runID, en)
		}
	})
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.timers, d)
		d.timer.Stop()
	}
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
