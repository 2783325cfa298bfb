package rulvartest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/rulvar/rulvar-go/llm"
)

// Provider is a model that says what a script tells it to. It is safe for
// concurrent use. It keeps no position of its own: which turn of a script a
// request gets follows from how many answers the conversation already holds.
// So the same script serves a run, and its resume in another process.
type Provider struct {
	// Caps is what [Provider.Capabilities] answers; the zero value is a model
	// that can do everything. Set it before the first use.
	Caps llm.Capabilities

	id      string
	scripts []Script

	mu       sync.Mutex
	requests []Request
	failures map[[2]int]int // failed attempts by script and turn
}

// Script is what the model says to the agents it matches.
type Script struct {
	// AgentType, Label and Prompt select agents: each that is not empty must
	// equal the request's. Prompt is the text of the first user message.
	AgentType, Label, Prompt string
	Turns                    []Turn
}

// Turn is one answer.
type Turn struct {
	// Text is what the model says, JSON a value it says as JSON.
	Text string
	JSON any
	// Calls are the tools it calls.
	Calls []Call
	// Usage is what the answer costs. Default: 10 tokens in, 5 out.
	Usage *llm.Usage
	// Finish is why the answer ends. Default: tool-calls or stop.
	Finish llm.FinishReason
	// Errs fail the first attempts at this turn, in order.
	Errs []error
	// Delay is waited first; Hang waits for the context and never answers.
	Delay time.Duration
	Hang  bool
	// Cut ends the stream before the answer is finished.
	Cut bool
}

// Call is a tool call of a script.
type Call struct {
	// ID is the call's id. Default: a new ULID.
	ID   string
	Tool string
	// Args is a string, which is sent as it is, or a value that is sent as
	// JSON. Nil sends nothing.
	Args any
}

// Request is a request that the model got.
type Request struct {
	llm.Request
	// Turn is the index of the turn that answered, -1 where none was left.
	Turn int
}

// NewProvider makes a model with the given id. The first script that matches
// an agent answers it.
func NewProvider(id string, scripts ...Script) *Provider {
	return &Provider{id: id, scripts: scripts, failures: make(map[[2]int]int)}
}

// ID implements [llm.Provider].
func (p *Provider) ID() string { return p.id }

// Capabilities implements [llm.Provider].
func (p *Provider) Capabilities(string) llm.Capabilities {
	if p.Caps != (llm.Capabilities{}) {
		return p.Caps
	}
	return llm.Capabilities{StructuredOutput: llm.StructuredNative, ContextWindow: 1_000_000, MaxOutputTokens: 64_000}
}

// Requests returns the requests so far, in order.
func (p *Provider) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		turn, err := p.next(req)
		if err == nil {
			err = wait(ctx, turn)
		}
		if err != nil {
			yield(llm.StreamEvent{}, err)
			return
		}
		events, err := turn.events()
		if err != nil {
			yield(llm.StreamEvent{}, err)
			return
		}
		for _, ev := range events {
			if ctx.Err() != nil || !yield(ev, nil) {
				return
			}
		}
	}
}

// next finds the turn that answers req and records the request.
func (p *Provider) next(req *llm.Request) (*Turn, error) {
	position := 0
	for _, m := range req.Messages {
		if m.Role == llm.RoleAssistant {
			position++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	rec := Request{Request: *req, Turn: -1}
	defer func() { p.requests = append(p.requests, rec) }()
	for i := range p.scripts {
		s := &p.scripts[i]
		if !s.matches(req) {
			continue
		}
		if position >= len(s.Turns) {
			return nil, &llm.Error{Kind: llm.KindTerminal, Message: fmt.Sprintf("script exhausted: the agent asks for turn %d of %d", position+1, len(s.Turns))}
		}
		t := &s.Turns[position]
		at := [2]int{i, position}
		if n := p.failures[at]; n < len(t.Errs) {
			p.failures[at]++
			return nil, t.Errs[n]
		}
		rec.Turn = position
		return t, nil
	}
	return nil, &llm.Error{Kind: llm.KindTerminal, Message: fmt.Sprintf("no script matches the agent type %q, label %q", req.AgentType, req.AgentLabel)}
}

func (s *Script) matches(req *llm.Request) bool {
	return (s.AgentType == "" || s.AgentType == req.AgentType) &&
		(s.Label == "" || s.Label == req.AgentLabel) &&
		(s.Prompt == "" || s.Prompt == firstText(req))
}

func firstText(req *llm.Request) string {
	for _, m := range req.Messages {
		if m.Role == llm.RoleUser && len(m.Parts) > 0 {
			return m.Parts[0].Text
		}
	}
	return ""
}

func wait(ctx context.Context, t *Turn) error {
	if t.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if t.Delay <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(t.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Turn) events() ([]llm.StreamEvent, error) {
	var out []llm.StreamEvent
	text := t.Text
	if t.JSON != nil {
		b, err := json.Marshal(t.JSON)
		if err != nil {
			return nil, &llm.Error{Kind: llm.KindTerminal, Message: "the script's JSON cannot be written", Err: err}
		}
		text = string(b)
	}
	if text != "" {
		out = append(out, llm.StreamEvent{Type: llm.StreamText, Text: text})
	}
	for _, c := range t.Calls {
		ev, err := c.event()
		if err != nil {
			return nil, err
		}
		out = append(out, ev)
	}
	if t.Cut {
		return out, nil
	}
	end := llm.StreamEvent{Type: llm.StreamFinish, Finish: t.Finish, Usage: llm.Usage{InputTokens: 10, OutputTokens: 5}}
	if t.Usage != nil {
		end.Usage = *t.Usage
	}
	switch {
	case end.Finish != "":
	case len(t.Calls) > 0:
		end.Finish = llm.FinishToolCalls
	default:
		end.Finish = llm.FinishStop
	}
	return append(out, end), nil
}

func (c *Call) event() (llm.StreamEvent, error) {
	ev := llm.StreamEvent{Type: llm.StreamToolCall, ID: c.ID, Name: c.Tool}
	if ev.ID == "" {
		ev.ID = ulid.Make().String()
	}
	switch args := c.Args.(type) {
	case nil:
	case string:
		ev.Arguments = args
	case json.RawMessage:
		ev.Arguments = string(args)
	default:
		b, err := json.Marshal(args)
		if err != nil {
			return ev, &llm.Error{Kind: llm.KindTerminal, Message: "the script's arguments cannot be written", Err: err}
		}
		ev.Arguments = string(b)
	}
	return ev, nil
}
