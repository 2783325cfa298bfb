package rulvar

import (
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// defaultEventBuffer is how many events a run keeps for late or slow readers
// where Config.EventBuffer does not say otherwise.
const defaultEventBuffer = 4096

// eventBus delivers a segment's events: first to each listener, in
// registration order, then to the buffer that iterators read. Events are
// delivered one at a time in order of Seq; an event that is emitted while
// another is being delivered, by a listener or another goroutine, waits its
// turn in a queue, so that nothing can deadlock. Who emits waits until the event
// is delivered, but not for long (listenerGrace): a listener that blocks holds
// up the events after it and not the run. Buffer and queue are bounded: when
// they are full the oldest events go, except those that a reader must not miss
// (essential). It is safe for concurrent use.
type eventBus struct {
	runID string
	limit int
	log   *slog.Logger

	mu        sync.Mutex
	seq       int64
	spans     int64
	listeners []*eventListener
	queue     []Event
	held      *Event // is being delivered
	draining  bool
	buffer    []Event
	dropped   int64
	faulty    bool          // a listener has panicked and was reported
	closing   bool          // takes no more events
	closed    bool          // and has delivered all it took
	changed   chan struct{} // closed and replaced at each change
}

type eventListener struct{ fn func(Event) }

// listenerGrace is how long a run waits for a listener.
var listenerGrace = 10 * time.Second

func newEventBus(runID string, segment int, limit int) *eventBus {
	if limit <= 0 {
		limit = defaultEventBuffer
	}
	base := int64(segment) << 32
	return &eventBus{runID: runID, limit: limit, log: slog.New(slog.DiscardHandler), seq: base, spans: base, changed: make(chan struct{})}
}

// span mints a span id.
func (b *eventBus) span() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spans++
	return fmt.Sprintf("s%d", b.spans-1)
}

// emit delivers an event. A listener that panics is isolated; the first panic
// of a segment is told by a log event after the event was fully delivered.
func (b *eventBus) emit(span, parent string, replayed bool, body EventBody) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return
	}
	b.enqueue(span, parent, replayed, body)
	b.drain()
}

func (b *eventBus) enqueue(span, parent string, replayed bool, body EventBody) {
	b.queue = append(b.queue, Event{RunID: b.runID, Seq: b.seq, Time: time.Now(), SpanID: span, ParentSpanID: parent, Replayed: replayed, Body: maskBody(body)})
	b.seq++
	if len(b.queue) > 2*b.limit {
		b.queue = b.compact(b.queue)
	}
}

// drain delivers what is queued, unless somebody already does. b.mu is held on
// entry and exit and released while listeners run.
func (b *eventBus) drain() {
	if b.draining {
		return
	}
	b.draining = true
	if len(b.listeners) == 0 {
		b.deliver()
		return
	}
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.deliver()
	}()
	b.mu.Unlock()
	defer b.mu.Lock()
	grace := time.NewTimer(listenerGrace)
	defer grace.Stop()
	select {
	case <-delivered:
	case <-grace.C:
		b.log.Error("rulvar: a listener of events blocks: the run goes on, and its events wait", "run", b.runID)
	}
}

// deliver empties the queue. An event leaves it once every listener has seen
// it. b.mu is held on entry and exit and released while listeners run.
func (b *eventBus) deliver() {
	defer func() { b.draining = false }()
	for len(b.queue) > 0 && !b.closed {
		ev := b.queue[0]
		b.queue = b.queue[1:]
		b.held = &ev
		listeners := b.listeners
		b.mu.Unlock()
		var panicked any
		for _, l := range listeners {
			if p := callListener(l.fn, ev); p != nil && panicked == nil {
				panicked = p
			}
		}
		b.mu.Lock()
		if b.closed { // without waiting for the listener
			return
		}
		b.held = nil
		b.keep(ev)
		if panicked != nil && !b.faulty {
			b.faulty = true
			b.enqueue(ev.SpanID, ev.ParentSpanID, false, LogEmitted{Level: slog.LevelWarn, Msg: "an event listener panicked", Data: map[string]any{"panic": fmt.Sprint(panicked)}})
		}
		b.signal()
	}
	if b.closing && !b.closed {
		b.closed = true
		b.signal()
	}
}

// keep puts an event where iterators find it.
func (b *eventBus) keep(ev Event) {
	b.buffer = append(b.buffer, ev)
	if len(b.buffer) > 2*b.limit {
		b.buffer = b.compact(b.buffer)
	}
}

func (b *eventBus) signal() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// callListener calls a listener in a goroutine of its own and waits: one that
// ends its goroutine, as a failing test does, must not take along the goroutine
// that settles the run.
func callListener(fn func(Event), ev Event) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		fn(ev)
	}()
	<-done
	return panicked
}

// compact drops the oldest events that may be dropped until limit are left.
// A new slice is made because iterators may hold the old one.
func (b *eventBus) compact(events []Event) []Event {
	surplus := len(events) - b.limit
	kept := make([]Event, 0, len(events))
	for _, ev := range events {
		if surplus > 0 && !essential(ev.Body) {
			surplus--
			b.dropped++
			continue
		}
		kept = append(kept, ev)
	}
	return kept
}

// essential reports whether a reader of the buffer must never miss an event.
func essential(body EventBody) bool {
	switch body.(type) {
	case ApprovalPending, ExternalWaiting, ResolutionApplied, RunEnded, PolicyWarning:
		return true
	}
	return false
}

// on registers a listener and returns its removal.
func (b *eventBus) on(fn func(Event)) (cancel func()) {
	l := &eventListener{fn: fn}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners[:len(b.listeners):len(b.listeners)], l)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		kept := make([]*eventListener, 0, len(b.listeners))
		for _, o := range b.listeners {
			if o != l {
				kept = append(kept, o)
			}
		}
		b.listeners = kept
	}
}

// events iterates over all buffered events and then over new ones, until the
// segment has ended or stop is closed.
func (b *eventBus) events(stop <-chan struct{}) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		next := int64(-1)
		for {
			b.mu.Lock()
			var batch []Event
			for i := len(b.buffer); i > 0; i-- {
				if b.buffer[i-1].Seq <= next {
					batch = b.buffer[i:]
					break
				}
				if i == 1 {
					batch = b.buffer
				}
			}
			changed, closed := b.changed, b.closed
			b.mu.Unlock()
			for _, ev := range batch {
				if !yield(ev) {
					return
				}
				next = ev.Seq
			}
			if len(batch) > 0 {
				continue
			}
			if closed {
				return
			}
			select {
			case <-changed:
			case <-stop:
				return
			}
		}
	}
}

// close ends the iterators once they have read what is buffered. What a
// listener holds up is in the buffer then, and no listener sees it.
func (b *eventBus) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closing = true
	b.drain()
	for !b.closed && b.progress() {
	}
	if b.closed {
		return
	}
	if b.held != nil {
		b.keep(*b.held)
	}
	for _, ev := range b.queue {
		b.keep(ev)
	}
	b.held, b.queue, b.closed = nil, nil, true
	b.signal()
}

// progress waits until somebody has delivered an event, but not for long. b.mu
// is held on entry and exit.
func (b *eventBus) progress() bool {
	changed := b.changed
	b.mu.Unlock()
	defer b.mu.Lock()
	grace := time.NewTimer(listenerGrace)
	defer grace.Stop()
	select {
	case <-changed:
		return true
	case <-grace.C:
		return false
	}
}
