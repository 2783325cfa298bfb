package rulvar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/llm"
)

// modelReply is one answer of a model.
type modelReply struct {
	text   string
	raw    []llm.Part // private blocks, kept at the head of the message
	calls  []pendingCall
	forced *pendingCall // the call of emitTool that is the answer
	finish llm.FinishReason
	usage  llm.Usage // of all attempts at the answer
	last   llm.Usage // of this one
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

func (r *modelReply) message() llm.Message {
	parts := append([]llm.Part{}, r.raw...)
	if r.text != "" {
		parts = append(parts, llm.TextPart(r.text))
	}
	for _, c := range r.calls {
		parts = append(parts, llm.Part{Type: llm.PartToolCall, ID: c.ID, Name: c.Name, Args: c.Args})
	}
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}

// question is what an agent asks a model for: a turn of its loop, or one of the
// requests that only some agents make.
type question struct {
	line     *modelLine
	messages []llm.Message
	schema   *compiledSchema // of the answer; nil is text
	quiet    bool            // no tool may be called; the tools are declared all the same
}

// request sends the conversation and reads the answer, again after a failure
// that may pass.
func (a *agentRun) request(q *question) (modelReply, error) {
	if open, err := checkMessages(q.messages); err != nil || len(open) > 0 {
		return modelReply{}, &llm.Error{Kind: llm.KindTerminal, Message: fmt.Sprintf("the conversation is broken: %v, %d calls without a result", err, len(open))}
	}
	policy := RetryPolicy{}
	if a.seg.e.cfg.Retry != nil {
		policy = *a.seg.e.cfg.Retry
	}
	policy = policy.withDefaults()
	var spent llm.Usage
	for attempt := 1; ; attempt++ {
		req, err := a.buildRequest(q)
		if err != nil {
			return modelReply{usage: spent}, err
		}
		reply, err := a.exchange(q.line, attempt, req)
		spent = spent.Add(reply.last)
		reply.usage = spent
		if err == nil || a.ctx.Err() != nil {
			return reply, err
		}
		if _, lost := errors.AsType[unrecorded](err); lost {
			return reply, err
		}
		pe := asModelError(err)
		again := pe.Retryable && attempt < policy.Attempts
		next := !again && q.line.mayFallBack(pe)
		a.emit(false, AgentFailed{AgentType: a.info.Type, Label: a.info.Label, Kind: pe.Kind, Message: pe.Message, WillRetry: again || next})
		switch {
		case next:
			a.account(q.line, spent)
			spent = llm.Usage{}
			*q.line.at++
			attempt = 0
			a.log("another model serves the agent", "model", q.line.served().ref)
		case !again:
			return reply, err
		case !a.pause(policy, attempt, pe.RetryAfter):
			return reply, context.Cause(a.ctx)
		}
	}
}

// mayFallBack reports whether the next model shall be asked.
func (l *modelLine) mayFallBack(pe *llm.Error) bool {
	switch pe.Kind {
	case llm.KindTransport, llm.KindOverloaded, llm.KindRateLimit:
		return pe.Retryable && *l.at+1 < len(l.choices)
	}
	return false
}

func (a *agentRun) buildRequest(q *question) (*llm.Request, error) {
	by := q.line.served()
	req := &llm.Request{
		Model: by.model, Messages: project(q.messages, by.retention()), Tools: a.declared, Effort: q.line.effort,
		MaxOutputTokens: a.limits.MaxOutputTokensPerTurn, AgentType: a.info.Type, AgentLabel: a.info.Label,
	}
	if q.quiet && len(a.declared) > 0 {
		req.ToolChoice = "none"
	}
	var err error
	if req.MaxOutputTokens, err = a.seg.budget.clamp(by.ref, requestBytes(req, q.schema), req.MaxOutputTokens); err != nil {
		return nil, err
	}
	req.MaxOutputTokens = a.clampChild(by.ref, requestBytes(req, q.schema), req.MaxOutputTokens)
	if q.schema == nil {
		return req, nil
	}
	switch a.tier(q) {
	case llm.StructuredNative:
		req.Schema = q.schema.declared
		return req, nil
	case llm.StructuredForcedTool:
		req.Tools = []llm.ToolDeclaration{{Name: emitTool, Description: "Give the answer.", Parameters: q.schema.declared}}
		req.ToolChoice = "tool:" + emitTool
		return req, nil
	}
	// The instruction is added to the request alone; the history stays clean.
	last := len(req.Messages) - 1
	for ; last >= 0 && req.Messages[last].Role != llm.RoleUser; last-- {
	}
	if last >= 0 {
		m := req.Messages[last]
		m.Parts = append(append([]llm.Part{}, m.Parts...), llm.TextPart("Answer with nothing but JSON that fits this JSON Schema:\n"+string(q.schema.declared)))
		req.Messages[last] = m
	}
	return req, nil
}

// requestBytes is about how much a request sends, for an estimate of its cost.
func requestBytes(req *llm.Request, schema *compiledSchema) int {
	n := 0
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Args) + len(p.Result) + len(p.Block) + len(p.Data)
		}
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if schema != nil {
		n += len(schema.declared)
	}
	return n
}

// project is a conversation as a model may see it: without the private blocks
// of others than own.
func project(messages []llm.Message, own string) []llm.Message {
	out := make([]llm.Message, 0, len(messages))
	for _, m := range messages {
		kept := m.Parts
		for i, p := range m.Parts {
			if p.Type == llm.PartRaw && p.Provider != own {
				kept = append([]llm.Part{}, m.Parts[:i]...)
				for _, q := range m.Parts[i:] {
					if q.Type != llm.PartRaw || q.Provider == own {
						kept = append(kept, q)
					}
				}
				break
			}
		}
		if len(kept) > 0 {
			out = append(out, llm.Message{Role: m.Role, Parts: kept})
		}
	}
	return out
}

// checkReply holds a finished answer to the provider's side of the contract.
func (a *agentRun) checkReply(asked []llm.Message, r *modelReply) error {
	fault := func(format string, args ...any) error {
		return &llm.Error{Kind: llm.KindTransport, Message: "the provider broke its contract: " + fmt.Sprintf(format, args...)}
	}
	switch r.finish {
	case llm.FinishStop, llm.FinishToolCalls, llm.FinishMaxTokens, llm.FinishContextWindow, llm.FinishRefusal:
	default:
		return fault("unknown finish reason %q", r.finish)
	}
	for _, p := range r.raw {
		if _, err := jcs.Parse(p.Block); err != nil || tooDeep(p.Block) {
			return fault("a private block is not JSON that a checkpoint could hold")
		}
	}
	seen := make(map[string]bool)
	for _, id := range a.state.CallIDs {
		seen[id] = true
	}
	for _, m := range asked {
		for _, p := range m.Parts {
			if p.Type == llm.PartToolCall {
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
