package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

const roleLoop = "loop"

// maxSchemaRetries is how often a model is asked again for an answer that fits
// its schema.
const maxSchemaRetries = 2

// agentRun is one agent at work. It belongs to the goroutine of the Ctx that
// called it.
type agentRun struct {
	seg              *segment
	ctx              context.Context
	scope            string
	span, parentSpan string
	prompt           string
	info             AgentInfo
	stream           bool
	schema           *compiledSchema
	modelRef, effort string        // as asked for
	choices          []modelChoice // that model and its fallbacks
	choice           int           // that serves now
	limits           UsageLimits
	clock            agentClock
	isolation        Isolation
	tools            []*Tool
	byName           map[string]*Tool
	declared         []ToolDeclaration
	chain            *PermissionChain

	running *Entry
	state   checkpoint
	resumed bool           // state comes from a checkpoint
	saved   bool           // a checkpoint exists
	retries map[string]int // ModelRetry answers in a row, by tool
}

// modelChoice is a model that may serve an agent.
type modelChoice struct {
	ref      string
	provider Provider
	model    string
	caps     Capabilities
}

func (a *agentRun) served() *modelChoice { return &a.choices[a.choice] }

func (a *agentRun) emit(replayed bool, body EventBody) {
	a.seg.bus.emit(a.span, a.parentSpan, replayed, body)
}

func (a *agentRun) log(msg string, data ...any) {
	a.seg.logEvent(a.span, a.parentSpan, slog.LevelWarn, msg, data...)
}

// run is the agent's loop, from its first request or its checkpoint to its
// terminal entry.
func (a *agentRun) run() (agentOutcome, error) {
	stop := a.startClock()
	defer stop()
	a.emit(false, AgentStarted{AgentType: a.info.Type, Label: a.info.Label, Model: a.modelRef, Role: roleLoop})
	a.warnUnmatched()
	if !a.resumed {
		a.state.Messages = []Message{{Role: RoleUser, Parts: []Part{TextPart(a.prompt)}}}
	}
	if p := a.state.Pending; p != nil {
		if out, done, err := a.finishTurn(p); done || err != nil {
			return out, err
		}
	}
	for {
		if out, done, err := a.turn(); done || err != nil {
			return out, err
		}
	}
}

// turn asks the model once and does what it says.
func (a *agentRun) turn() (agentOutcome, bool, error) {
	if a.ctx.Err() != nil {
		return a.end(a.stopped())
	}
	if a.state.Turns >= a.limits.MaxTurns {
		return a.end(a.limited(fmt.Sprintf("the agent has made %d requests, its limit", a.state.Turns)))
	}
	a.state.Turns++
	reply, err := a.request()
	a.account(reply.usage)
	if err != nil {
		if a.ctx.Err() != nil {
			return a.end(a.stopped())
		}
		if errs.CodeOf(err) == errs.BudgetExhausted {
			return a.unpaid(err)
		}
		return a.end(a.failed(err))
	}
	if len(a.tools) == 0 {
		reply.keepForced(a.schema != nil)
	}
	a.state.Messages = append(a.state.Messages, reply.message())
	switch reply.finish {
	case FinishRefusal:
		return a.end(a.failed(&ProviderError{Kind: KindTerminal, Message: "the model refused"}))
	case FinishContextWindow:
		return a.end(a.failed(&ProviderError{Kind: KindTerminal, Message: "the conversation is larger than the model's context window"}))
	}
	if len(reply.calls) > 0 && reply.forced == nil {
		p := &pendingTurn{Awaiting: reply.calls[0], Remaining: reply.calls[1:]}
		return a.finishTurn(p)
	}
	return a.answer(reply)
}

// answer takes a reply without tool calls as the agent's answer, or asks again
// where it does not fit the schema.
func (a *agentRun) answer(reply modelReply) (agentOutcome, bool, error) {
	text := reply.text
	if reply.finish == FinishMaxTokens && strings.TrimSpace(text) == "" && reply.forced == nil {
		return a.end(a.limited("the answer was cut before it began: raise the output limit"))
	}
	if a.schema == nil {
		out, err := marshalJSON(text)
		if err != nil {
			return agentOutcome{}, false, err
		}
		return a.end(agentOutcome{status: AgentOK, output: out})
	}
	if reply.forced != nil {
		text = string(reply.forced.Args)
	}
	value, issues := a.schema.parseAnswer(text)
	if issues == nil {
		a.answerForced(reply, "accepted", false)
		return a.end(agentOutcome{status: AgentOK, output: value})
	}
	if a.state.SchemaAttempts >= maxSchemaRetries {
		a.answerForced(reply, "refused", true)
		return a.end(agentOutcome{status: AgentErrored, err: agentError(AgentErrored, KindSchemaMismatch, "the answer does not fit the schema: "+strings.Join(issues, "; "), false)})
	}
	a.state.SchemaAttempts++
	again := "The answer does not fit the required JSON Schema. Answer again with only the JSON.\n- " + strings.Join(issues[:min(len(issues), 16)], "\n- ")
	if !a.answerForced(reply, again, true) {
		a.state.Messages = append(a.state.Messages, Message{Role: RoleUser, Parts: []Part{TextPart(again)}})
	}
	return agentOutcome{}, false, a.save(nil)
}

// emitTool is the tool that a model is made to call with its answer where it
// can be held to a schema in no other way. It is never dispatched.
const emitTool = "emit_result"

// answerForced gives the call of [emitTool] its result, so that the history
// stays whole. It reports whether there was such a call.
func (a *agentRun) answerForced(reply modelReply, text string, failed bool) bool {
	if reply.forced == nil {
		return false
	}
	result := map[string]string{"result": text}
	if failed {
		result = map[string]string{"error": text}
	}
	a.state.Messages = append(a.state.Messages, Message{Role: RoleTool, Parts: []Part{
		{Type: PartToolResult, ID: reply.forced.ID, Name: emitTool, Result: mustMarshal(result), IsError: failed},
	}})
	return true
}

// tier is how this request is held to the schema.
func (a *agentRun) tier() StructuredOutputTier {
	switch tier := a.served().caps.StructuredOutput; {
	case tier == StructuredNative && a.schema.closed():
		return StructuredNative
	case (tier == StructuredNative || tier == StructuredForcedTool) && len(a.tools) == 0:
		return StructuredForcedTool
	}
	return StructuredPrompt
}

// end writes the end of the agent.
func (a *agentRun) end(out agentOutcome) (agentOutcome, bool, error) {
	out, err := a.finish(out)
	if err == nil && out.status == AgentCancelled {
		err = context.Cause(a.ctx)
	}
	return out, true, err
}

// unpaid ends an agent that the budget stops: it is recorded as cancelled, so
// that a run with a higher ceiling can begin it again.
func (a *agentRun) unpaid(err error) (agentOutcome, bool, error) {
	a.state.Turns--
	out, finishErr := a.finish(agentOutcome{status: AgentCancelled, err: agentError(AgentCancelled, KindBudget, err.Error(), false)})
	return out, true, errors.Join(finishErr, err)
}

// stopped is the outcome of an agent whose context is done: it was cancelled,
// or its time is over.
func (a *agentRun) stopped() agentOutcome {
	if context.Cause(a.ctx) == errAgentTimeout {
		return a.limited(fmt.Sprintf("the agent has worked for %s, its limit", a.limits.Timeout))
	}
	return agentOutcome{status: AgentCancelled, err: agentError(AgentCancelled, "", "the agent was cancelled", false)}
}

func (a *agentRun) limited(msg string) agentOutcome {
	return agentOutcome{status: AgentLimit, err: agentError(AgentLimit, "", msg, false)}
}

func (a *agentRun) failed(err error) agentOutcome {
	pe := asProviderError(err)
	return agentOutcome{status: AgentErrored, err: agentError(AgentErrored, pe.Kind, pe.Message, pe.Retryable)}
}

func asProviderError(err error) *ProviderError {
	if pe, ok := errors.AsType[*ProviderError](err); ok {
		return pe
	}
	return &ProviderError{Kind: KindTransport, Message: err.Error(), Retryable: true, Err: err}
}

func (a *agentRun) account(u Usage) {
	a.seg.budget.book(a.served().ref, u)
	a.state.Usage = a.state.Usage.Add(u)
	for i := range a.state.UsageByModel {
		if m := &a.state.UsageByModel[i]; m.ServedBy == a.served().ref && m.Role == roleLoop {
			m.Usage = m.Usage.Add(u)
			return
		}
	}
	a.state.UsageByModel = append(a.state.UsageByModel, modelUsage{ServedBy: a.served().ref, Usage: u, Role: roleLoop})
}

// save writes the checkpoint. It is durable when save returns.
func (a *agentRun) save(p *pendingTurn) error {
	a.state.Pending = p
	a.state.ElapsedMs = a.clock.elapsed().Milliseconds()
	blob, err := encodeCheckpoint(&a.state)
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "checkpoint", a.seg.runID, "the state cannot be written", err)
	}
	if err := a.seg.e.store.Put(context.WithoutCancel(a.ctx), checkpointRef(a.seg.runID, a.running.Seq), blob); err != nil {
		return errs.Wrap(errs.JournalIntegrity, "checkpoint", a.seg.runID, "the checkpoint could not be made durable", err)
	}
	a.saved = true
	return nil
}

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
		if ended {
			break
		}
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
	if !r.usage.valid() {
		r.usage = Usage{}
		return fault("negative usage")
	}
	for _, p := range r.raw {
		if !json.Valid(p.Block) {
			return fault("a private block is not JSON")
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
		seen[c.ID] = true
	}
	return nil
}

var (
	errAgentTimeout = errors.New("the agent's time is over")
	errStreamIdle   = errors.New("the model sent nothing")
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

func (c *agentClock) pause() {
	c.used, c.began = c.elapsed(), time.Time{}
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *agentClock) resume() {
	c.began = time.Now()
	if c.timer != nil {
		c.timer.Reset(c.limit - c.used)
	}
}
