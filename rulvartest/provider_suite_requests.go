package rulvartest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rulvar/rulvar-go/llm"
)

// retention is the key of the model's private blocks.
func (p *providerTest) retention(provider llm.Provider) string {
	if key := provider.Capabilities(p.suite.Model).RetentionKey; key != "" {
		return key
	}
	return provider.ID()
}

// goOn is the request that follows an answer: the answer in the conversation,
// with results of its calls, after a stay in a checkpoint.
func (p *providerTest) goOn(a Answer, retention string) *llm.Request {
	p.Helper()
	req := p.hello()
	said := llm.Message{Role: llm.RoleAssistant}
	for _, b := range a.Private {
		said.Parts = append(said.Parts, llm.Part{Type: llm.PartRaw, Provider: retention, Block: b})
	}
	if a.Text != "" {
		said.Parts = append(said.Parts, llm.TextPart(a.Text))
	}
	results := llm.Message{Role: llm.RoleTool}
	for _, c := range a.Calls {
		said.Parts = append(said.Parts, llm.Part{Type: llm.PartToolCall, ID: c.ID, Name: c.Tool, Args: json.RawMessage(c.Arguments)})
		results.Parts = append(results.Parts, llm.Part{Type: llm.PartToolResult, ID: c.ID, Name: c.Tool, Result: json.RawMessage(`{"found":1}`)})
	}
	if len(said.Parts) > 0 {
		req.Messages = append(req.Messages, said)
	}
	if len(results.Parts) > 0 {
		req.Messages = append(req.Messages, results)
	}
	// As the engine writes its checkpoints: without escaping.
	var stored bytes.Buffer
	enc := json.NewEncoder(&stored)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(req.Messages); err != nil {
		p.Fatalf("%v", err)
	}
	req.Messages = nil
	if err := json.Unmarshal(stored.Bytes(), &req.Messages); err != nil {
		p.Fatalf("%v", err)
	}
	return req
}

// sent is the body of the request that a provider makes of req.
func (p *providerTest) sent(s *service, provider llm.Provider, req *llm.Request) string {
	p.Helper()
	if _, err := ReadAnswer(provider.Stream(p.ctx, req)); err != nil {
		p.Fatalf("%v", err)
	}
	all := s.requests()
	return all[len(all)-1].body
}

func mapsIDs(p *providerTest) {
	x := p.callExchange()
	if len(x.WireIDs) != len(x.Want.Calls) {
		p.Fatalf("the exchange %s has %d calls and %d wire ids", x.Name, len(x.Want.Calls), len(x.WireIDs))
	}
	s := p.serve(x.reply(), p.textExchange().reply())
	provider := p.open(s.URL, nil)
	a, err := ReadAnswer(provider.Stream(p.ctx, p.hello()))
	if err != nil {
		p.Fatalf("%v", err)
	}
	body := p.sent(s, provider, p.goOn(a, p.retention(provider)))
	for i, id := range x.WireIDs {
		if n := strings.Count(body, `"`+id+`"`); n < 2 {
			p.Fatalf("the service's id %s stands %d times in the request that follows, want in call and result:\n%s", id, n, body)
		}
		if strings.Contains(body, a.Calls[i].ID) {
			p.Fatalf("the library's own id is sent:\n%s", body)
		}
	}
}

func derivesIDs(p *providerTest) {
	s := p.serve(p.textExchange().reply())
	for _, id := range []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "an id / with ümlauts", strings.Repeat("x", 200)} {
		a := Answer{Calls: []AnswerCall{{ID: id, Tool: "look_up", Arguments: `{"query":"x"}`}}}
		body := p.sent(s, p.open(s.URL, nil), p.goOn(a, "another"))
		ids := idsIn(p, body)
		if len(ids) != 1 {
			p.Fatalf("the id %q becomes %v in call and result:\n%s", id, ids, body)
		}
		for wire := range ids {
			if len(wire) > 64 || strings.Trim(wire, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
				p.Fatalf("the id %q becomes %q, which services refuse", id, wire)
			}
		}
	}
}

// idsIn finds the ids of calls and results in a request: the members that hold
// one in some service's form.
func idsIn(p *providerTest, body string) map[string]bool {
	p.Helper()
	var tree any
	if err := json.Unmarshal([]byte(body), &tree); err != nil {
		p.Fatalf("the request is no JSON: %v", err)
	}
	ids := make(map[string]bool)
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for k, e := range v {
				if s, ok := e.(string); ok && (k == "id" || k == "call_id" || k == "tool_use_id" || k == "tool_call_id") {
					ids[s] = true
				}
				walk(e)
			}
		}
	}
	walk(tree)
	return ids
}

func returnsPrivate(p *providerTest) {
	for i := range p.suite.Exchanges {
		x := &p.suite.Exchanges[i]
		if len(x.Want.Private) == 0 {
			continue
		}
		s := p.serve(x.reply(), p.textExchange().reply())
		provider := p.open(s.URL, nil)
		a, err := ReadAnswer(provider.Stream(p.ctx, p.hello()))
		if err != nil {
			p.Fatalf("%v", err)
		}
		own := p.sent(s, provider, p.goOn(a, p.retention(provider)))
		other := p.sent(s, provider, p.goOn(a, "another#account"))
		for _, b := range x.Want.Private {
			if !strings.Contains(own, string(b)) {
				p.Fatalf("%s: the block %s is not in the request that follows, byte for byte:\n%s", x.Name, b, own)
			}
			if strings.Contains(other, string(b)) {
				p.Fatalf("%s: the block of another account is sent", x.Name)
			}
		}
	}
}

func hidesAgent(p *providerTest) {
	s := p.serve(p.textExchange().reply())
	req := p.hello()
	req.AgentType, req.AgentLabel = "type-that-nobody-sends", "label-that-nobody-sends"
	body := p.sent(s, p.open(s.URL, nil), req)
	all := s.requests()
	if shown := body + show(all[0].header) + all[0].url; strings.Contains(shown, "that-nobody-sends") {
		p.Fatalf("who asks is sent: %s", shown)
	}
}

func refusesEmpty(p *providerTest) {
	s := p.serve(p.textExchange().reply())
	provider := p.open(s.URL, nil)
	for name, messages := range map[string][]llm.Message{
		"no messages":     nil,
		"no parts":        {{Role: llm.RoleUser}},
		"a blank text":    {{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart(" \n")}}},
		"an unknown part": {{Role: llm.RoleUser, Parts: []llm.Part{{Type: "hologram"}}}},
	} {
		req := p.hello()
		req.Messages = messages
		_, err := ReadAnswer(provider.Stream(p.ctx, req))
		if pe := p.fault(name, err); pe.Kind != llm.KindTerminal || pe.Retryable {
			p.Fatalf("%s: %v, retryable %v", name, pe, pe.Retryable)
		}
	}
	if n := len(s.requests()); n != 0 {
		p.Fatalf("%d requests were sent", n)
	}
}
