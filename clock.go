package rulvar

import (
	"context"
	"time"
)

// agentClock measures how long an agent works, over all segments, without the
// time in which it is parked. It belongs to the agent's goroutine.
type agentClock struct {
	limit time.Duration
	used  time.Duration // before began
	began time.Time     // zero while parked
	timer *time.Timer   // nil without a limit
}

// startClock lets the agent's time run, from where its checkpoint left it, and
// derives the context that ends with it.
func (a *agentRun) startClock() (stop func()) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.ctx = ctx
	a.clock = agentClock{limit: a.limits.Timeout, used: time.Duration(a.state.ElapsedMs) * time.Millisecond, began: time.Now()}
	if c := &a.clock; c.limit > 0 {
		c.timer = time.AfterFunc(c.limit-c.used, func() { cancel(errAgentTimeout) })
	}
	return func() {
		a.clock.pause()
		cancel(nil)
	}
}

func (c *agentClock) elapsed() time.Duration {
	if c.began.IsZero() {
		return c.used
	}
	return c.used + time.Since(c.began)
}

func (c *agentClock) resume() {
	c.began = time.Now()
	if c.timer != nil {
		c.timer.Reset(c.limit - c.used)
	}
}

func (c *agentClock) pause() {
	c.used, c.began = c.elapsed(), time.Time{}
	if c.timer != nil {
		c.timer.Stop()
	}
}
