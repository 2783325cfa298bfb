package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// A segment is the life of a run in one process, from Run or Resume until it
// settles. It holds the run's lock, appends its records and decides when
// nothing can go on any more:
//
//	active  how many goroutines of the workflow are working
//	parked  who waits for which open suspension
//
// When active is zero and somebody is parked the run is quiescent: the segment
// looks once more for answers and settles suspended. Every parked goroutine
// then ends with runtime.Goexit, as do later calls of the workflow's
// primitives: nothing of a settled segment may act again.
type segment struct {
	e        *Engine
	runID    string
	workflow string
	number   int // of the segment, from 1
	lock     *RunLock
	meta     *RunMeta
	bus      *eventBus
	span     string // of the run
	dryRun   bool
	budget   *budget
	slots    slots
	result   runOutcome // once done is closed

	versionWarning bool

	trees map[string]*agentTree // of live agents, by id; under mu

	ctx    context.Context
	cancel context.CancelCauseFunc

	matcher  *replay.Matcher
	ordinals *replay.Ordinals

	kick  chan struct{} // look for foreign records now
	quiet chan struct{} // active has become zero
	ended chan struct{} // closed when the segment takes no more; see suspended
	done  chan struct{} // closed when it has settled

	appendMu sync.Mutex // one append at a time

	mu        sync.Mutex
	fold      *replay.Fold
	settled   string // run status of the last settle before this segment
	active    int
	parked    map[int64]*parkedCall // by the seq of the suspended entry
	joined    map[*joinedCall]struct{}
	suspended bool // the segment has ended because nothing could go on
	sealed    bool
	appended  int
	appendErr error
	usage     llm.Usage
	sites     map[string]int64 // counters of parallel sites by scope
	awaited   map[awaitedKey]bool
}

// parkedCall is a goroutine that waits for a suspension to close, or for its
// context.
type parkedCall struct {
	wake chan struct{}
	ctx  context.Context
}

// cancelled is the cause of a run's cancellation.
type cancelled struct{ reason string }

func (c *cancelled) Error() string {
	if c.reason == "" {
		return "the run was cancelled"
	}
	return "the run was cancelled: " + c.reason
}

// append writes entries as the next records of the run. It fails once the
// segment is sealed, and for good after the first failure: a journal with a
// hole in it must not grow.
func (s *segment) append(entries ...*Entry) error {
	if s.dryRun {
		return errs.New(errs.JournalMiss, "dry run", s.runID, fmt.Sprintf("the run comes to work that the journal does not hold: %s in scope %q", entries[0].Kind, entries[0].Scope))
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	s.mu.Lock()
	switch {
	case s.appendErr != nil:
		defer s.mu.Unlock()
		return s.appendErr
	case s.sealed:
		s.mu.Unlock()
		return errs.New(errs.JournalSealed, "append", s.runID, "the segment has settled")
	}
	s.mu.Unlock()
	minted := make(map[*int64]int64, len(entries))
	for _, en := range entries {
		en.HashVersion = journal.HashVersion
		en.Ordinal = s.ordinal(en)
		if started, ok := minted[en.Ref]; ok {
			en.Ordinal = started // its running entry is of this batch
		}
		minted[&en.Seq] = en.Ordinal
	}
	err := s.e.store.AppendAll(context.WithoutCancel(s.ctx), s.runID, entries, s.lock)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.appendErr = errs.Wrap(errs.JournalIntegrity, "append", s.runID, "a record could not be made durable", err)
		return s.appendErr
	}
	s.appended += len(entries)
	for _, en := range entries {
		if en.Seq != s.fold.LastSeq()+1 {
			// Somebody else has appended in between: read both in order.
			return s.catchUp()
		}
		if _, err := s.fold.Add(en); err != nil {
			return err
		}
	}
	return nil
}

// ordinal counts repeats of a key in a scope. Entries that refer to another
// one keep that one's ordinal.
func (s *segment) ordinal(en *Entry) int64 {
	if en.Ref != nil {
		return en.Ordinal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ordinals.Next(en.Scope, journal.HashVersion, en.Key)
}

// terminal makes the second entry of a two-phase operation.
func terminal(running *Entry, status journal.Status) *Entry {
	return &Entry{
		Ref: &running.Seq, Scope: running.Scope, Key: running.Key, Ordinal: running.Ordinal, Kind: running.Kind,
		Status: status, SpanID: running.SpanID, StartedAt: running.StartedAt, EndedAt: stamp(time.Now()),
	}
}

// decide appends a decision: a fact that is recorded before its effect.
func (s *segment) decide(key string, value any) (*Entry, error) {
	v, err := marshalJSON(value)
	if err != nil {
		return nil, err
	}
	now := stamp(time.Now())
	en := &Entry{Key: key, Kind: journal.KindDecision, Status: journal.StatusOK, SpanID: s.span, StartedAt: now, EndedAt: now, Value: v}
	return en, s.append(en)
}

// checkLive ends the calling goroutine where the segment has settled suspended,
// and refuses where it has settled otherwise: then a goroutine of the host has
// kept a Ctx for too long.
func (s *segment) checkLive() error {
	if !s.isEnded() {
		return nil
	}
	s.mu.Lock()
	suspended := s.suspended
	s.mu.Unlock()
	if suspended {
		runtime.Goexit()
	}
	return errs.New(errs.JournalSealed, "workflow", s.runID, "the segment has settled: a Ctx must not be used after the workflow has returned")
}

// leave counts a goroutine of the workflow out.
func (s *segment) leave() {
	s.mu.Lock()
	s.active--
	s.signalQuiet()
	s.mu.Unlock()
}

func (s *segment) signalQuiet() {
	if s.active == 0 && len(s.parked) > 0 {
		select {
		case s.quiet <- struct{}{}:
		default:
		}
	}
}

// park waits until the suspension of entry is closed and returns it. It ends
// the goroutine when the segment settles first, and returns the context's
// cause when ctx is done first.
func (s *segment) park(ctx context.Context, entry int64) (*replay.Suspension, error) {
	s.mu.Lock()
	sus := s.fold.Suspension(entry)
	if sus == nil {
		s.mu.Unlock()
		return nil, errs.New(errs.JournalIntegrity, "park", s.runID, fmt.Sprintf("entry %d is not suspended", entry))
	}
	if sus.State != replay.Open {
		defer s.mu.Unlock()
		return sus, nil
	}
	p := &parkedCall{wake: make(chan struct{}), ctx: ctx}
	s.parked[entry] = p
	s.wakeJoined()
	s.active--
	s.signalQuiet()
	s.mu.Unlock()
	select {
	case <-p.wake: // the waker has counted us active
		return sus, nil
	case <-s.ended:
		runtime.Goexit()
	case <-ctx.Done():
	}
	s.mu.Lock()
	if s.isEnded() {
		s.mu.Unlock()
		runtime.Goexit()
	}
	defer s.mu.Unlock()
	if _, waiting := s.parked[entry]; waiting {
		delete(s.parked, entry)
		s.active++
	}
	return nil, context.Cause(ctx)
}

func (s *segment) isEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// poll reads what other processes have appended.
func (s *segment) poll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catchUp()
}

// catchUp folds every record after the last one known and wakes who waited for
// it. s.mu is held; the lock is released while the store reads.
func (s *segment) catchUp() error {
	after := s.fold.LastSeq()
	s.mu.Unlock()
	_, entries, err := s.e.store.Load(context.WithoutCancel(s.ctx), s.runID, after)
	s.mu.Lock()
	if err != nil {
		return err
	}
	for _, en := range entries {
		if en.Seq <= s.fold.LastSeq() {
			continue // another goroutine was faster
		}
		out, err := s.fold.Add(en)
		if err != nil {
			return err
		}
		if out.Applied && en.Kind == journal.KindResolution {
			by := s.fold.Suspension(out.Target).By
			s.told(func() {
				s.bus.emit(s.span, "", false, ResolutionApplied{TargetRef: out.Target, EntryRef: en.Seq, By: by})
			})
		}
	}
	for seq, p := range s.parked {
		if s.fold.Suspension(seq).State != replay.Open && !s.isEnded() {
			delete(s.parked, seq)
			s.active++
			close(p.wake)
		}
	}
	return nil
}

// told runs fn without the lock: listeners may call back.
func (s *segment) told(fn func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	fn()
}

// supervise waits until the body ends or nothing can go on, and settles.
func (s *segment) supervise(body <-chan bodyResult) {
	ticker := time.NewTicker(s.e.cfg.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case r := <-body:
			s.settle(r)
			return
		case <-s.quiet:
			s.warn(s.poll())
			if s.trySuspend() {
				s.settle(bodyResult{suspended: true})
				return
			}
		case <-s.kick:
			s.warn(s.poll())
		case <-ticker.C:
			s.mu.Lock()
			waiting := len(s.parked) > 0
			s.mu.Unlock()
			if waiting {
				s.warn(s.poll())
			}
		}
	}
}

func (s *segment) warn(err error) {
	if err != nil {
		s.e.log.Warn("rulvar: a run could not look for answers", "run", s.runID, "error", err)
	}
}

// trySuspend ends the segment if it is still quiescent.
func (s *segment) trySuspend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != 0 || len(s.parked) == 0 || s.ctx.Err() != nil {
		return false
	}
	for _, p := range s.parked {
		if p.ctx.Err() != nil {
			return false // a sibling has failed, and it is about to go on
		}
	}
	for j := range s.joined {
		if j.ctx.Err() != nil {
			return false
		}
	}
	s.suspended = true
	close(s.ended)
	return true
}

// logf emits a log event of the run.
func (s *segment) logEvent(span, parent string, level slog.Level, msg string, data ...any) {
	s.bus.emit(span, parent, false, LogEmitted{Level: level, Msg: msg, Data: pairs(data)})
}

// pairs makes a map of key and value in turn, as log/slog reads them.
func pairs(data []any) map[string]any {
	if len(data) == 0 {
		return nil
	}
	m := make(map[string]any, len(data)/2)
	for i := 0; i < len(data); i += 2 {
		key := fmt.Sprint(data[i])
		if i+1 < len(data) {
			m[key] = logValue(data[i+1])
		} else {
			m["!BADKEY"] = logValue(data[i])
		}
	}
	return m
}

// logValue keeps what JSON can carry and makes text of the rest.
func logValue(v any) any {
	switch v := v.(type) {
	case nil, bool, string, int, int64, float64, json.RawMessage:
		return v
	case error:
		return v.Error()
	case time.Duration:
		return v.String()
	}
	if b, err := json.Marshal(v); err == nil {
		return json.RawMessage(b)
	}
	return fmt.Sprint(v)
}
