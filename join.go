package rulvar

import (
	"context"
	"runtime"
)

// joinedCall is a goroutine of the workflow that waits for others of it.
type joinedCall struct {
	ready func() bool // s.mu is held
	wake  chan struct{}
	ctx   context.Context
}

// join waits until ready. Meanwhile the goroutine counts as one that does
// nothing: where all it waits for are parked, so is it. What changes the answer
// of ready calls wakeJoined, in the same hold of s.mu. join ends the goroutine
// when the segment settles, and returns the context's cause when ctx is done
// first.
func (s *segment) join(ctx context.Context, ready func() bool) error {
	s.mu.Lock()
	if ready() {
		s.mu.Unlock()
		return nil
	}
	j := &joinedCall{ready: ready, wake: make(chan struct{}), ctx: ctx}
	if s.joined == nil {
		s.joined = make(map[*joinedCall]struct{})
	}
	s.joined[j] = struct{}{}
	s.active--
	s.signalQuiet()
	s.mu.Unlock()
	select {
	case <-j.wake: // the waker has counted us active
		return nil
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
	if _, waiting := s.joined[j]; waiting {
		delete(s.joined, j)
		s.active++
	}
	return context.Cause(ctx)
}

// wakeJoined wakes who waits for what has come to pass. s.mu is held, and the
// caller still counts as active.
func (s *segment) wakeJoined() {
	for j := range s.joined {
		if j.ready() && !s.isEnded() {
			delete(s.joined, j)
			s.active++
			close(j.wake)
		}
	}
}

// isParked reports whether the agent that owns the scope waits for an answer.
// s.mu is held.
func (s *segment) isParked(scope string) bool {
	for seq := range s.parked {
		if sus := s.fold.Suspension(seq); sus != nil && sus.Entry.Scope == scope {
			return true
		}
	}
	return false
}
