package rulvar

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/rulvar/rulvar-go/internal/replay"
)

// Parallel runs the branches at the same time, each with a Ctx of its own, and
// returns their results in order. When a branch fails the others are
// cancelled, and the first error in branch order is returned that is not only
// their cancellation. A branch that waits for an approval does not hold up the
// others; a failure is not hidden by a branch that waits.
func Parallel[T any](c *Ctx, branches ...func(*Ctx) (T, error)) ([]T, error) {
	results := make([]T, len(branches))
	errList := make([]error, len(branches))
	if err := c.begin("Parallel"); err != nil {
		return nil, err
	}
	defer c.end()
	for i := range errList {
		errList[i] = errExited
	}
	err := c.fanOut(len(branches), c.branchScope(), func(i int, bc *Ctx, cancel context.CancelCauseFunc) {
		defer func() {
			if errList[i] != nil { // also where it panics or ends its goroutine
				cancel(errSibling)
			}
		}()
		results[i], errList[i] = branches[i](bc)
	}, func(i int, p any) { errList[i] = &panicError{value: p} })
	if err != nil {
		return nil, err
	}
	return results, firstError(errList)
}

// Settled is the end of one branch of [ParallelSettled].
type Settled[T any] struct {
	Value T
	Err   error
}

// ParallelSettled runs the branches at the same time and returns how each
// ended, in order. A failing branch does not touch the others.
func ParallelSettled[T any](c *Ctx, branches ...func(*Ctx) (T, error)) ([]Settled[T], error) {
	results := make([]Settled[T], len(branches))
	if err := c.begin("ParallelSettled"); err != nil {
		return nil, err
	}
	defer c.end()
	for i := range results {
		results[i].Err = errExited
	}
	err := c.fanOut(len(branches), c.branchScope(), func(i int, bc *Ctx, _ context.CancelCauseFunc) {
		results[i].Value, results[i].Err = branches[i](bc)
	}, func(i int, p any) { results[i].Err = &panicError{value: p} })
	return results, err
}

var (
	errSibling = errors.New("a sibling branch failed")
	errExited  = errors.New("the branch ended its goroutine without returning")
)

// firstError prefers a real failure to the cancellation it caused.
func firstError(list []error) error {
	var cut error
	for _, err := range list {
		switch {
		case err == nil:
		case errors.Is(err, errSibling) || errors.Is(err, context.Canceled):
			if cut == nil {
				cut = err
			}
		default:
			return err
		}
	}
	return cut
}

// fanOut runs n branches in goroutines and waits for them. The caller's place
// among the working goroutines goes to the branches; the last one to end hands
// it back, so that the count never looks quiet in between. fanOut ends the
// goroutine when the segment settles.
func (c *Ctx) fanOut(n int, scopeOf func(int) string, run func(int, *Ctx, context.CancelCauseFunc), panicked func(int, any)) error {
	if n == 0 {
		return nil
	}
	s := c.seg
	ctx, cancel := context.WithCancelCause(c.Context)
	defer cancel(nil)
	all := make(chan struct{})
	s.mu.Lock()
	s.active += n - 1
	s.mu.Unlock()
	var left atomic.Int64
	left.Store(int64(n))
	for i := range n {
		bc := &Ctx{Context: ctx, seg: s, scope: scopeOf(i), span: c.span, depth: c.depth}
		s.e.goroutines.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked(i, p)
				}
				if left.Add(-1) == 0 {
					close(all)
				} else {
					s.leave()
				}
			}()
			run(i, bc, cancel)
		})
	}
	select {
	case <-all:
		return nil
	case <-s.ended:
		return s.checkLive()
	}
}

// branchScope names the branches of the next parallel site.
func (c *Ctx) branchScope() func(int) string {
	site := c.seg.nextSite(c.scope)
	return func(i int) string { return replay.Branch(c.scope, site, int64(i)) }
}

// nextSite counts the parallel sites of a scope in execution order.
func (s *segment) nextSite(scope string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sites[scope]
	s.sites[scope] = n + 1
	return n
}

func randomFloat() float64 { return rand.Float64() }

func randomUUID() string {
	var b [16]byte
	_, _ = crand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
