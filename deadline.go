package rulvar

import (
	"context"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// deadline denies an approval that nobody answered in time. Its timer outlives
// the segment, so that a parked run is denied in time as long as the process
// lives; a resume in another process arms it again from the entry. An engine
// has one for a suspension, however often its run is resumed.
type deadline struct{ timer *time.Timer }

// suspensionID names a suspension among all runs.
type suspensionID struct {
	runID string
	entry int64
}

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
	e, genesis := s.e, s.meta.Genesis
	if !time.Now().Before(*at) {
		e.expire(s.runID, genesis, en)
		s.warn(s.poll())
		return func() {}
	}
	d, id := &deadline{}, suspensionID{s.runID, en.Seq}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return func() {}
	}
	e.disarm(id, e.timers[id])
	e.timers[id] = d
	d.timer = time.AfterFunc(time.Until(*at), func() {
		e.mu.Lock()
		armed := e.disarm(id, d)
		if armed { // then the engine is not closed, and Close will wait
			e.goroutines.Add(1)
		}
		e.mu.Unlock()
		if armed {
			defer e.goroutines.Done()
			e.expire(s.runID, genesis, en)
		}
	})
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.disarm(id, d)
	}
}

// disarm stops a timer and reports whether it was the one of its suspension.
// e.mu is held.
func (e *Engine) disarm(id suspensionID, d *deadline) bool {
	if d == nil || e.timers[id] != d {
		return false
	}
	d.timer.Stop()
	delete(e.timers, id)
	return true
}

// disarmRun stops the timers of a run that goes.
func (e *Engine) disarmRun(runID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, d := range e.timers {
		if id.runID == runID {
			e.disarm(id, d)
		}
	}
}

// expire appends the deny of a deadline, unless the suspension is closed or the
// run is another one by now, which has the id of one that was deleted. Where an
// answer comes at the same moment the first record wins.
func (e *Engine) expire(runID, genesis string, en *Entry) {
	ctx := context.Background()
	meta, fold, err := e.loadFold(ctx, "deadline", runID)
	if err == nil {
		if meta != nil && meta.Genesis != genesis {
			return
		}
		sus := fold.Suspension(en.Seq)
		if sus == nil || sus.ClosedBy >= 0 || sus.Entry.Key != en.Key || sus.Entry.DeadlineAt != en.DeadlineAt {
			return
		}
		_, err = e.resolve(ctx, runID, en, "timeout", expiredAnswer(sus))
	}
	if err != nil {
		e.log.Error("rulvar: the deadline of an approval could not be recorded; the approval stays open", "run", runID, "entry", en.Seq, "error", err)
	}
}
