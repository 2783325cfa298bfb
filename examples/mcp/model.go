package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/rulvar/rulvar-go/llm"
)

// localModel stands in for a language model: it calls the tools of its list,
// one a turn, with arguments made up from their schemas, and then says what
// they answered. It keeps no state.
type localModel struct{ order []string }

func (m *localModel) ID() string { return "local" }

func (m *localModel) Capabilities(string) llm.Capabilities { return llm.Capabilities{} }

func (m *localModel) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		turn := 0
		var said strings.Builder
		for _, msg := range req.Messages {
			if msg.Role == llm.RoleAssistant {
				turn++
			}
			for _, p := range msg.Parts {
				if p.Type == llm.PartToolResult {
					fmt.Fprintf(&said, "  %-22s %s\n", p.Name, short(string(p.Result)))
				}
			}
		}
		event, finish := llm.StreamEvent{Type: llm.StreamText, Text: said.String()}, llm.FinishStop
		if turn < len(m.order) {
			name := m.order[turn]
			event = llm.StreamEvent{Type: llm.StreamToolCall, ID: ulid.Make().String(), Name: name, Arguments: arguments(req, name)}
			finish = llm.FinishToolCalls
		}
		if yield(event, nil) {
			yield(llm.StreamEvent{Type: llm.StreamFinish, Finish: finish, Usage: llm.Usage{InputTokens: 1, OutputTokens: 1}}, nil)
		}
	}
}

func short(text string) string {
	if r := []rune(text); len(r) > 150 {
		return string(r[:150]) + " …"
	}
	return text
}

// schema is as much of a JSON Schema as the model understands.
type schema struct {
	Type       string             `json:"type"`
	Enum       []any              `json:"enum"`
	Required   []string           `json:"required"`
	Properties map[string]*schema `json:"properties"`
}

func arguments(req *llm.Request, name string) string {
	for _, t := range req.Tools {
		var s schema
		if t.Name != name || json.Unmarshal(t.Parameters, &s) != nil {
			continue
		}
		text, err := json.Marshal(s.example())
		if err == nil {
			return string(text)
		}
	}
	return "{}"
}

// example makes a value that may fit.
func (s *schema) example() any {
	switch {
	case s == nil:
		return nil
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case "string":
		return "hello"
	case "number", "integer":
		return 2
	case "boolean":
		return true
	case "array":
		return []any{}
	}
	v := map[string]any{}
	for _, name := range s.Required {
		v[name] = s.Properties[name].example()
	}
	return v
}
