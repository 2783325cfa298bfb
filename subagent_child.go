package rulvar

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// spawned is one child.
type spawned struct {
	*spawnRecord
	orch   *orchestrator
	ctx    context.Context
	cancel context.CancelCauseFunc
	a      *agentRun // nil until it is resolved
	try    *attempt

	release   func()        // what it has reserved; nil where nothing is
	started   bool          // in this segment
	cancelled bool          // for good, by a decision
	done      chan struct{} // closed when its goroutine has ended

	// Under the segment's lock:
	owned   string // the scope it owns, once it works
	settled bool
	out     agentOutcome
	err     error
}

// resolve makes the agent of a child.
func (ch *spawned) resolve() error {
	o := ch.orch
	opts := &AgentOptions{AgentType: ch.spec.AgentType}
	if ch.spec.ToolsetRef != "" {
		opts.Tools = []ToolSource{Toolset(ch.spec.ToolsetRef)}
	}
	var schema *compiledSchema
	if ref := ch.spec.OutputSchemaRef; ref != "" {
		if schema = o.sp.schemas[ref]; schema == nil {
			return errs.New(errs.Config, "Orchestrate", "Schemas", fmt.Sprintf("there is no schema %q", ref))
		}
	}
	c := &Ctx{Context: ch.ctx, seg: o.c.seg, scope: o.scope(), span: o.a.span, depth: o.c.depth + 1, spawner: o.a.chain, path: o.a.path()}
	try, err := c.newAttempt(ch.spec.Prompt, opts, schema)
	if err != nil {
		return err
	}
	ch.try, ch.a = try, try.a
	ch.a.child = ch
	return nil
}

// begin notes what the child owns, so that others see what it waits for.
func (ch *spawned) begin() {
	s := ch.orch.a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	ch.owned = replay.AgentScope(ch.a.scope, ch.a.running.Seq)
}

// overspent reports whether the child has spent what it was given.
func (ch *spawned) overspent(usd float64) bool { return ch.BudgetUSD > 0 && usd >= ch.BudgetUSD }

// costUSD is what the agent has cost so far, where its models are priced.
func (a *agentRun) costUSD() float64 { return a.seg.budget.costOf(a.state.UsageByModel) }

func (b *budget) costOf(parts []modelUsage) (usd float64) {
	for _, u := range parts {
		if p, err := b.price(u.ServedBy); err == nil && p != nil {
			usd += cost(p, u.Usage)
		}
	}
	return usd
}

// clampChild bounds the output of a request by what a child has left.
func (a *agentRun) clampChild(model string, bytes, limit int) int {
	if a.child == nil || a.child.BudgetUSD == 0 {
		return limit
	}
	p, err := a.seg.budget.price(model)
	if err != nil || p == nil || p.OutputUSD == 0 {
		return limit
	}
	left := a.child.BudgetUSD - a.costUSD() - float64((bytes+3)/4)*p.InputUSD/1e6
	tokens := max(1, int(left*1e6/p.OutputUSD))
	if limit == 0 || tokens < limit {
		return tokens
	}
	return limit
}

// start lets a child work in a goroutine of its own, from its beginning or from
// where an earlier process has left it.
func (o *orchestrator) start(ch *spawned) {
	if ch.started {
		return
	}
	ch.started = true
	s := o.a.seg
	off := ch.cancelled
	s.mu.Lock()
	m := s.matcher.Spawned(o.scope(), ch.handle, off)
	s.mu.Unlock()
	if off {
		ch.cancel(errCalledOff)
	}
	if m.Disposition == replay.Replay || m.Disposition == replay.Skip || off && m.Op == nil {
		// It has ended before: whoever asks for it now must see that.
		ch.settle(ch.work(m, off))
		close(ch.done)
		return
	}
	s.mu.Lock()
	s.active++ // the goroutine's
	s.mu.Unlock()
	s.e.goroutines.Go(func() {
		out, err := agentOutcome{}, errExited
		defer func() {
			if p := recover(); p != nil {
				s.e.log.Error("rulvar: a spawned agent panicked", "run", s.runID, "panic", p, "stack", string(debug.Stack()))
				out, err = agentOutcome{}, &panicError{value: p}
			}
			if ch.release != nil {
				ch.release()
			}
			ch.settle(out, err)
			s.leave()
			close(ch.done)
		}()
		out, err = ch.work(m, off)
	})
}

// work does what the journal says of the child; off says that it was called off
// before.
func (ch *spawned) work(m replay.Result, off bool) (agentOutcome, error) {
	switch {
	case m.Disposition == replay.Replay:
		return ch.orch.shadow(ch.spawnRecord).replayed(m.Op)
	case m.Disposition == replay.Skip:
		return agentOutcome{status: AgentSkipped}, nil
	case off && m.Op == nil:
		return agentOutcome{status: AgentCancelled}, nil
	}
	if ch.a == nil {
		if err := ch.resolve(); err != nil {
			return agentOutcome{}, err
		}
	}
	ch.a.info.Label = fmt.Sprintf("#%d", ch.handle)
	if off && m.Disposition == replay.RerunDangling {
		// It was called off, and its process died before it could say so.
		ch.a.running = m.Op.Start
		ch.begin()
		if err := ch.a.boot(); err != nil {
			return agentOutcome{}, err
		}
		return ch.a.finish(ch.a.stopped())
	}
	return ch.try.perform(m)
}

// settle records how a child has ended and wakes who waits for it. A child
// whose goroutine ends with the segment has not settled: it goes on in the
// next one, and nobody is left to wake.
func (ch *spawned) settle(out agentOutcome, err error) {
	if out.status == "" && err != nil {
		out.status = AgentErrored
		if ch.ctx.Err() != nil {
			out.status = AgentCancelled
		}
	}
	s := ch.orch.a.seg
	s.mu.Lock()
	defer s.mu.Unlock()
	ch.settled, ch.out, ch.err = true, out, err
	s.wakeJoined()
}

// shadow is an agent of which only the record is needed.
func (o *orchestrator) shadow(r *spawnRecord) *agentRun {
	s := o.a.seg
	a := &agentRun{seg: s, span: s.bus.span(), parentSpan: o.a.span, info: AgentInfo{Type: r.spec.AgentType, Label: fmt.Sprintf("#%d", r.handle)}}
	a.loop.role = roleLoop
	return a
}
