package rulvar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"github.com/rulvar/rulvar-go/llm"
)

// fixtureModel is the scripted model of a segment. Unlike rulvartest's it
// keeps a position: for every request the first entry that matches and still
// has turns answers with its next turn, so that a script may hold only the
// turns that remain.
type fixtureModel struct {
	adapter fixtureAdapter
	script  []fixtureScript
	// onCall is told of the n-th request, from 1, before it is answered. An
	// error is the answer.
	onCall func(ctx context.Context, n int, req *llm.Request) error

	mu       sync.Mutex
	position []int
	requests []map[string]any
}

func newFixtureModel(adapter fixtureAdapter, script []fixtureScript) *fixtureModel {
	return &fixtureModel{adapter: adapter, script: script, position: make([]int, len(script))}
}

func (m *fixtureModel) ID() string { return m.adapter.ID }

func (m *fixtureModel) Capabilities(string) llm.Capabilities {
	c := m.adapter.Caps
	caps := llm.Capabilities{
		StructuredOutput: llm.StructuredOutputTier(c.StructuredOutput), ContextWindow: c.ContextWindow,
		MaxOutputTokens: c.MaxOutputTokens, RetentionKey: m.adapter.Provider,
	}
	if p := c.Pricing; p != nil {
		caps.Pricing = &llm.Pricing{InputUSD: p.InputUsdPerMTok, OutputUSD: p.OutputUsdPerMTok, CacheReadUSD: p.CacheReadUsdPerMTok, CacheWriteUSD: p.CacheWriteUsdPerMTok}
	}
	return caps
}

func (m *fixtureModel) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		n, turn := m.next(req)
		err := m.onCall(ctx, n, req)
		if err == nil && turn == nil {
			err = &llm.Error{Kind: llm.KindTerminal, Message: "script exhausted"}
		}
		if err == nil && turn.Hang {
			<-ctx.Done()
			err = ctx.Err()
		}
		if err == nil && turn.Error != nil {
			e := turn.Error
			err = &llm.Error{Kind: llm.ErrorKind(e.Data.Kind), Message: e.Message, Retryable: e.Retryable}
		}
		if err != nil {
			yield(llm.StreamEvent{}, err)
			return
		}
		for _, ev := range turn.events(m.adapter.DefaultUsage) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// next records a request and takes the turn that answers it; nil where there
// is none.
func (m *fixtureModel) next(req *llm.Request) (n int, turn *fixtureTurn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, requestFacts(req))
	for i := range m.script {
		s := &m.script[i]
		if !matchesFixture(s.Match, req) || m.position[i] >= len(s.Turns) {
			continue
		}
		m.position[i]++
		return len(m.requests), &s.Turns[m.position[i]-1]
	}
	return len(m.requests), nil
}

// unused counts the turns that nobody asked for.
func (m *fixtureModel) unused() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for i := range m.script {
		n += len(m.script[i].Turns) - m.position[i]
	}
	return n
}

func matchesFixture(match map[string]string, req *llm.Request) bool {
	have := map[string]string{"prompt": firstUserText(req.Messages), "agentType": req.AgentType, "label": req.AgentLabel}
	for name, want := range match {
		if got, known := have[name]; !known || got != want {
			return false
		}
	}
	return true
}

func firstUserText(messages []llm.Message) string {
	for _, m := range messages {
		if m.Role == llm.RoleUser && len(m.Parts) > 0 {
			return m.Parts[0].Text
		}
	}
	return ""
}

func (t *fixtureTurn) events(defaults map[string]int64) []llm.StreamEvent {
	var out []llm.StreamEvent
	for _, block := range t.RetainedParts {
		out = append(out, llm.StreamEvent{Type: llm.StreamRaw, Block: block})
	}
	text := string(t.JSON)
	if t.Text != nil {
		text = *t.Text
	}
	if text != "" {
		out = append(out, llm.StreamEvent{Type: llm.StreamText, Text: text})
	}
	for _, c := range t.ToolCalls {
		out = append(out, llm.StreamEvent{Type: llm.StreamToolCall, ID: c.ID, Name: c.Name, Arguments: sentArguments(c.Args)})
	}
	end := llm.StreamEvent{Type: llm.StreamFinish, Finish: llm.FinishStop, Usage: fixtureUsage(defaults, t.Usage)}
	if len(t.ToolCalls) > 0 {
		end.Finish = llm.FinishToolCalls
	}
	var finish struct{ Reason llm.FinishReason }
	if json.Unmarshal(t.Finish, &finish.Reason) == nil || json.Unmarshal(t.Finish, &finish) == nil {
		end.Finish = finish.Reason
	}
	return append(out, end)
}

// sentArguments is the argument text that the model sent. The scripts show
// text that was no JSON in the wrapper that the history records it in.
func sentArguments(args json.RawMessage) string {
	var wrapper map[string]string
	if json.Unmarshal(args, &wrapper) == nil && len(wrapper) == 1 {
		if text, ok := wrapper["__unparsed"]; ok {
			return text
		}
	}
	return string(args)
}

func fixtureUsage(layers ...map[string]int64) llm.Usage {
	var u llm.Usage
	for _, l := range layers {
		for name, n := range l {
			switch name {
			case "inputTokens":
				u.InputTokens = n
			case "outputTokens":
				u.OutputTokens = n
			case "cacheReadTokens":
				u.CacheReadTokens = n
			case "cacheWriteTokens":
				u.CacheWriteTokens = n
			case "reasoningTokens":
				u.ReasoningTokens = n
			}
		}
	}
	return u
}

// requestFacts is what of a request must agree with the recorded ones.
func requestFacts(req *llm.Request) map[string]any {
	tools, roles := []string{}, []string{}
	for _, t := range req.Tools {
		tools = append(tools, t.Name)
	}
	for _, m := range req.Messages {
		roles = append(roles, string(m.Role))
	}
	facts := map[string]any{
		"model": req.Model, "prompt": firstUserText(req.Messages), "roles": roles, "tools": tools,
		"lastMessage": req.Messages[len(req.Messages)-1],
	}
	for name, value := range map[string]string{"agentType": req.AgentType, "label": req.AgentLabel, "toolChoice": req.ToolChoice} {
		if value != "" {
			facts[name] = value
		}
	}
	if req.Schema != nil {
		facts["schema"] = req.Schema
	}
	return facts
}

// errStopped is what a segment that was stopped gets from everything it calls.
var errStopped = fmt.Errorf("the process has died")
