package rulvar

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/llm"
)

// streamGrace is how long a request that was cancelled may take to end before
// the agent goes on without it.
var streamGrace = 5 * time.Second

// stream is a request to a provider under way. Providers are asked in a
// goroutine of their own: one that does not heed its context must not hold the
// agent.
type stream struct {
	events chan streamed
	left   chan struct{} // closed when the provider has returned
	fault  error         // a panic of the provider, once it has returned
}

// streamed is what a provider has yielded.
type streamed struct {
	event llm.StreamEvent
	err   error
}

func (m *modelChoice) open(ctx context.Context, req *llm.Request) *stream {
	s := &stream{events: make(chan streamed), left: make(chan struct{})}
	go func() {
		defer close(s.left)
		defer close(s.events)
		defer func() {
			if p := recover(); p != nil {
				s.fault = &llm.Error{Kind: llm.KindTerminal, Message: fmt.Sprintf("the provider panicked: %v", p)}
			}
		}()
		for ev, err := range m.provider.Stream(ctx, req) {
			select {
			case s.events <- streamed{ev, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || ev.Type == llm.StreamFinish {
				return
			}
		}
	}()
	return s
}

// receive reads one answer to its end. A stream that ends without saying so is
// cut, and worth another try.
func (a *agentRun) receive(l *modelLine, req *llm.Request) (reply modelReply, err error) {
	for _, s := range []slots{a.seg.slots, a.seg.e.slots[l.served().provider.ID()]} {
		free, err := s.acquire(a.ctx)
		if err != nil {
			return reply, err
		}
		defer free()
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	idle := time.AfterFunc(a.limits.StreamIdleTimeout, func() { cancel(errStreamIdle) })
	defer idle.Stop()
	s := l.served().open(ctx, req)
	ended, err := a.read(ctx, l, &reply, s.events, idle)
	cause := context.Cause(ctx)
	cancel(nil)
	if fault := a.leave(l, s); fault != nil && err == nil {
		ended, err = true, fault
	}
	if !validUsage(reply.last) && err == nil && ended {
		err = &llm.Error{Kind: llm.KindTransport, Message: "the provider broke its contract: negative usage"}
	}
	if !validUsage(reply.last) { // never counted, whatever else has failed
		reply.last = llm.Usage{}
	}
	switch {
	case a.ctx.Err() != nil && (!ended || err != nil):
		return reply, context.Cause(a.ctx)
	case cause == errStreamIdle && (!ended || err != nil):
		return reply, &llm.Error{Kind: llm.KindTransport, Message: fmt.Sprintf("the model sent nothing for %s", a.limits.StreamIdleTimeout), Retryable: true}
	case err != nil:
		return reply, err
	case !ended:
		return reply, &llm.Error{Kind: llm.KindTransport, Message: "the answer was cut before its end", Retryable: true}
	}
	return reply, a.checkReply(req.Messages, &reply)
}

// read takes the events of a stream into reply until it has ended, with a
// finish or an error, or is cut.
func (a *agentRun) read(ctx context.Context, l *modelLine, reply *modelReply, events <-chan streamed, idle *time.Timer) (ended bool, err error) {
	var text strings.Builder
	defer func() { reply.text = strings.ToValidUTF8(text.String(), "\uFFFD") }()
	for {
		var s streamed
		var more bool
		select {
		case s, more = <-events:
		case <-ctx.Done():
		}
		if !more {
			return false, nil
		}
		idle.Reset(a.limits.StreamIdleTimeout)
		if s.err != nil {
			return true, s.err
		}
		switch ev := s.event; ev.Type {
		case llm.StreamText:
			text.WriteString(ev.Text)
			a.delta(ev.Text, false)
		case llm.StreamReasoning:
			a.delta(ev.Text, true)
		case llm.StreamToolCall:
			reply.calls = append(reply.calls, pendingCall{ID: ev.ID, Name: ev.Name, Args: historyArgs([]byte(ev.Arguments))})
		case llm.StreamRaw:
			reply.raw = append(reply.raw, llm.Part{Type: llm.PartRaw, Provider: l.served().retention(), Block: ev.Block})
		case llm.StreamUsage:
			reply.last = ev.Usage
		case llm.StreamFinish:
			reply.finish, reply.last = ev.Finish, ev.Usage
			return true, nil
		default:
			return true, &llm.Error{Kind: llm.KindTerminal, Message: fmt.Sprintf("the provider sent an unknown event %q", ev.Type)}
		}
	}
}

// leave waits until a provider has returned, so that its requests do not pile
// up, but not for long: one that never returns is left behind. It returns the
// provider's panic.
func (a *agentRun) leave(l *modelLine, s *stream) error {
	grace := time.NewTimer(streamGrace)
	defer grace.Stop()
	select {
	case <-s.left:
		return s.fault
	case <-grace.C:
		a.seg.e.log.Error("rulvar: a provider does not heed its context: its request is left behind and its goroutine leaks", "run", a.seg.runID, "model", l.served().ref)
		return nil
	}
}

func (a *agentRun) delta(text string, reasoning bool) {
	if a.stream {
		a.emit(false, AgentDelta{Delta: text, Reasoning: reasoning})
	}
}

// capabilitiesOf asks a provider about a model. One that panics is refused.
func capabilitiesOf(p llm.Provider, model string) (caps llm.Capabilities, err error) {
	defer func() {
		if v := recover(); v != nil {
			caps, err = llm.Capabilities{}, errs.New(errs.Config, "Capabilities", p.ID()+":"+model, fmt.Sprintf("the provider panicked: %v", v))
		}
	}()
	return p.Capabilities(model), nil
}
