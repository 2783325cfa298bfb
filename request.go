package rulvar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// modelReply is one answer of a model.
type modelReply struct {
	text   string
	raw    []Part // private blocks, kept at the head of the message
	calls  []pendingCall
	forced *pendingCall // the call of emitTool that is the answer
	finish FinishReason
	usage  Usage
}

// keepForced drops the calls of a model that has no tools, since every call in
// a history needs a result, except the one that carries its answer.
func (r *modelReply) keepForced(typed bool) {
	calls := r.calls
	r.calls = nil
	for _, c := range calls {
		if typed && c.Name == emitTool && r.forced == nil {
			r.calls = []pendingCall{c}
			r.forced = &r.calls[0]
		}
	}
}

func (r *modelReply) message() Message {
	parts := append([]Part{}, r.raw...)
	if r.text != "" {
		parts = append(parts, TextPart(r.text))
	}
	for _, c := range r.calls {
		parts = append(parts, Part{Type: PartToolCall, ID: c.ID, Name: c.Name, Args: c.Args})
	}
	return Message{Role: RoleAssistant, Parts: parts}
}

// request sends the conversation and reads the answer, again after a failure
// that may pass.
func (a *agentRun) request() (modelReply, error) {
	if open, err := checkMessages(a.state.Messages); err != nil || len(open) > 0 {
		return modelReply{}, &ProviderError{Kind: KindTerminal, Message: fmt.Sprintf("the conversation is broken: %v, %d calls without a result", err, len(open))}
	}
	policy := RetryPolicy{}
	if a.seg.e.cfg.Retry != nil {
		policy = *a.seg.e.cfg.Retry
	}
	policy = policy.withDefaults()
	var spent Usage
	for attempt := 1; ; attempt++ {
		req, err := a.buildRequest()
		if err != nil {
			return modelReply{usage: spent}, err
		}
		reply, err := a.receive(req)
		spent = spent.Add(reply.usage)
		reply.usage = spent
		if err == nil || a.ctx.Err() != nil {
			return reply, err
		}
		pe := asProviderError(err)
		again := pe.Retryable && attempt < policy.Attempts
		next := !again && a.mayFallBack(pe)
		a.emit(false, AgentFailed{AgentType: a.info.Type, Label: a.info.Label, Kind: pe.Kind, Message: pe.Message, WillRetry: again || next})
		switch {
		case next:
			a.account(spent)
			spent = Usage{}
			a.choice++
			attempt = 0
			a.log("another model serves the agent", "model", a.served().ref)
		case !again:
			return reply, err
		case !a.pause(policy, attempt, pe.RetryAfter):
			return reply, context.Cause(a.ctx)
		}
	}
}

// mayFallBack reports whether the next model shall be asked.
func (a *agentRun) mayFallBack(pe *ProviderError) bool {
	switch pe.Kind {
	case KindTransport, KindOverloaded, KindRateLimit:
		return pe.Retryable && a.choice+1 < len(a.choices)
	}
	return false
}

func (a *agentRun) buildRequest() (*Request, error) {
	req := &Request{
		Model: a.served().model, Messages: a.project(), Tools: a.declared, Effort: a.effort,
		MaxOutputTokens: a.limits.MaxOutputTokensPerTurn, Agent: a.info,
	}
	var err error
	if req.MaxOutputTokens, err = a.seg.budget.clamp(a.served().ref, a.requestBytes(req), req.MaxOutputTokens); err != nil {
		return nil, err
	}
	if a.schema == nil {
		return req, nil
	}
	switch a.tier() {
	case StructuredNative:
		req.Schema = a.schema.declared
		return req, nil
	case StructuredForcedTool:
		req.Tools = []ToolDeclaration{{Name: emitTool, Description: "Give the answer.", Parameters: a.schema.declared}}
		req.ToolChoice = "tool:" + emitTool
		return req, nil
	}
	// The instruction is added to the request alone; the history stays clean.
	last := len(req.Messages) - 1
	for ; last >= 0 && req.Messages[last].Role != RoleUser; last-- {
	}
	if last >= 0 {
		m := req.Messages[last]
		m.Parts = append(append([]Part{}, m.Parts...), TextPart("Answer with nothing but JSON that fits this JSON Schema:\n"+string(a.schema.declared)))
		req.Messages[last] = m
	}
	return req, nil
}

// requestBytes is about how much a request sends, for an estimate of its cost.
func (a *agentRun) requestBytes(req *Request) int {
	n := 0
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Args) + len(p.Result) + len(p.Block) + len(p.Data)
		}
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if a.schema != nil {
		n += len(a.schema.declared)
	}
	return n
}

func (m *modelChoice) retention() string { return firstSet(m.caps.RetentionKey, m.provider.ID()) }

// project is the conversation as this model may see it: without the private
// blocks of other providers.
func (a *agentRun) project() []Message {
	own := a.served().retention()
	out := make([]Message, 0, len(a.state.Messages))
	for _, m := range a.state.Messages {
		kept := m.Parts
		for i, p := range m.Parts {
			if p.Type == PartRaw && p.Provider != own {
				kept = append([]Part{}, m.Parts[:i]...)
				for _, q := range m.Parts[i:] {
					if q.Type != PartRaw || q.Provider == own {
						kept = append(kept, q)
					}
				}
				break
			}
		}
		if len(kept) > 0 {
			out = append(out, Message{Role: m.Role, Parts: kept})
		}
	}
	return out
}

// receive reads one answer to its end. A stream that ends without saying so is
// cut, and worth another try.
func (a *agentRun) receive(req *Request) (reply modelReply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &ProviderError{Kind: KindTerminal, Message: fmt.Sprintf("the provider panicked: %v", p)}
		}
	}()
	for _, s := range []slots{a.seg.slots, a.seg.e.slots[a.served().provider.ID()]} {
		free, err := s.acquire(a.ctx)
		if err != nil {
			return reply, err
		}
		defer free()
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	idle := time.AfterFunc(a.limits.StreamIdleTimeout, func() { cancel(errStreamIdle) })
	defer idle.Stop()
	ended := false
	var text strings.Builder
	for ev, streamErr := range a.served().provider.Stream(ctx, req) {
		idle.Reset(a.limits.StreamIdleTimeout)
		if streamErr != nil {
			err, ended = streamErr, true
			break
		}
		switch ev.Type {
		case StreamText:
			text.WriteString(ev.Text)
			a.delta(ev.Text, false)
		case StreamReasoning:
			a.delta(ev.Text, true)
		case StreamToolCall:
			reply.calls = append(reply.calls, pendingCall{ID: ev.ID, Name: ev.Name, Args: historyArgs([]byte(ev.Arguments))})
		case StreamRaw:
			reply.raw = append(reply.raw, Part{Type: PartRaw, Provider: a.served().retention(), Block: ev.Block})
		case StreamUsage:
			reply.usage = ev.Usage
		case StreamFinish:
			reply.finish, reply.usage, ended = ev.Finish, ev.Usage, true
		default:
			err, ended = &ProviderError{Kind: KindTerminal, Message: fmt.Sprintf("the provider sent an unknown event %q", ev.Type)}, true
		}
		if ended || ctx.Err() != nil { // a provider may not heed its context
			break
		}
	}
	if !reply.usage.valid() && err == nil && ended {
		err = &ProviderError{Kind: KindTransport, Message: "the provider broke its contract: negative usage"}
	}
	if !reply.usage.valid() { // never counted, whatever else has failed
		reply.usage = Usage{}
	}
	reply.text = strings.ToValidUTF8(text.String(), "\uFFFD")
	switch {
	case a.ctx.Err() != nil && (!ended || err != nil):
		return reply, context.Cause(a.ctx)
	case context.Cause(ctx) == errStreamIdle && (!ended || err != nil):
		return reply, &ProviderError{Kind: KindTransport, Message: fmt.Sprintf("the model sent nothing for %s", a.limits.StreamIdleTimeout), Retryable: true}
	case err != nil:
		return reply, err
	case !ended:
		return reply, &ProviderError{Kind: KindTransport, Message: "the answer was cut before its end", Retryable: true}
	}
	return reply, a.checkReply(&reply)
}

func (a *agentRun) delta(text string, reasoning bool) {
	if a.stream {
		a.emit(false, AgentDelta{Delta: text, Reasoning: reasoning})
	}
}

// checkReply holds a finished answer to the provider's side of the contract.
func (a *agentRun) checkReply(r *modelReply) error {
	fault := func(format string, args ...any) error {
		return &ProviderError{Kind: KindTransport, Message: "the provider broke its contract: " + fmt.Sprintf(format, args...)}
	}
	switch r.finish {
	case FinishStop, FinishToolCalls, FinishMaxTokens, FinishContextWindow, FinishRefusal:
	default:
		return fault("unknown finish reason %q", r.finish)
	}
	for _, p := range r.raw {
		if _, err := jcs.Parse(p.Block); err != nil || tooDeep(p.Block) {
			return fault("a private block is not JSON that a checkpoint could hold")
		}
	}
	seen := make(map[string]bool)
	for _, m := range a.state.Messages {
		for _, p := range m.Parts {
			if p.Type == PartToolCall {
				seen[p.ID] = true
			}
		}
	}
	for _, c := range r.calls {
		if c.ID == "" || seen[c.ID] {
			return fault("the call id %q is empty or was used before", c.ID)
		}
		if !utf8.ValidString(c.ID) || !utf8.ValidString(c.Name) {
			return fault("the call %q of %q is not UTF-8", c.ID, c.Name) // a record would hold another name
		}
		seen[c.ID] = true
	}
	return nil
}

// pause waits before the next attempt; half of the pause is random. What the
// provider asks for replaces it.
func (a *agentRun) pause(p RetryPolicy, attempt int, asked time.Duration) bool {
	d := p.Initial
	for i := 1; i < attempt && d < p.Max; i++ {
		d *= 2
	}
	d = min(d, p.Max)
	d = d/2 + rand.N(d/2+1)
	if asked > 0 {
		d = asked
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-a.ctx.Done():
		return false
	}
}
