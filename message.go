package rulvar

import (
	"encoding/json"
	"fmt"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// wirePart is a part as the journal stores it: only the members of its type.
type wirePart struct {
	Type      PartType        `json:"type"`
	Text      *string         `json:"text,omitempty"`
	MediaType *string         `json:"mediaType,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	ID        *string         `json:"id,omitempty"`
	Name      *string         `json:"name,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	IsError   bool            `json:"isError,omitempty"`
	Provider  *string         `json:"provider,omitempty"`
	Block     json.RawMessage `json:"block,omitempty"`
}

// MarshalJSON writes the part with the members of its type and no others.
func (p Part) MarshalJSON() ([]byte, error) {
	dst := append([]byte(nil), `{"type":`...)
	dst = jcs.AppendString(dst, string(p.Type))
	text := func(name, s string) {
		dst = append(append(append(dst, `,"`...), name...), `":`...)
		dst = jcs.AppendString(dst, s)
	}
	raw := func(name string, v json.RawMessage) {
		if v == nil {
			v = json.RawMessage("null")
		}
		dst = append(append(append(dst, `,"`...), name...), `":`...)
		dst = append(dst, v...)
	}
	switch p.Type {
	case PartText:
		text("text", p.Text)
	case PartImage:
		text("mediaType", p.MediaType)
		raw("data", p.Data)
	case PartToolCall:
		text("id", p.ID)
		text("name", p.Name)
		raw("args", p.Args)
	case PartToolResult:
		text("id", p.ID)
		text("name", p.Name)
		raw("result", p.Result)
		if p.IsError {
			dst = append(dst, `,"isError":true`...)
		}
	case PartRaw:
		text("provider", p.Provider)
		raw("block", p.Block)
	default:
		return nil, fmt.Errorf("a message part has the unknown type %q", p.Type)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON reads a part and refuses one that lacks a member of its type.
func (p *Part) UnmarshalJSON(data []byte) error {
	var w wirePart
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	missing := func(name string) error { return fmt.Errorf("a %s part lacks %s", w.Type, name) }
	str := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	*p = Part{
		Type: w.Type, Text: str(w.Text), MediaType: str(w.MediaType), Data: w.Data,
		ID: str(w.ID), Name: str(w.Name), Args: w.Args, Result: w.Result, IsError: w.IsError,
		Provider: str(w.Provider), Block: w.Block,
	}
	switch w.Type {
	case PartText:
		if w.Text == nil {
			return missing("text")
		}
	case PartImage:
		if w.MediaType == nil || w.Data == nil {
			return missing("mediaType or data")
		}
	case PartToolCall:
		if w.ID == nil || w.Name == nil {
			return missing("id or name")
		}
		if w.Args == nil {
			p.Args = json.RawMessage("null")
		}
	case PartToolResult:
		if w.ID == nil || w.Name == nil {
			return missing("id or name")
		}
		if w.Result == nil {
			p.Result = json.RawMessage("null")
		}
	case PartRaw:
		if w.Provider == nil {
			return missing("provider")
		}
	default:
		return fmt.Errorf("a message part has the unknown type %q", w.Type)
	}
	return nil
}

func (r Role) known() bool {
	switch r {
	case RoleSystem, RoleUser, RoleAssistant, RoleTool:
		return true
	}
	return false
}

// checkMessages holds a conversation to its one rule: every tool call of an
// assistant message has exactly one result, in call order, in the tool message
// that follows. open names the calls of a last assistant message that have no
// answer yet, which only a checkpoint with pending calls may have.
func checkMessages(messages []Message) (open []Part, err error) {
	var awaited []Part
	seen := make(map[string]bool)
	for i, m := range messages {
		if !m.Role.known() {
			return nil, fmt.Errorf("message %d has the unknown role %q", i, m.Role)
		}
		if m.Role == RoleTool {
			results := make([]Part, 0, len(m.Parts))
			for _, p := range m.Parts {
				if p.Type == PartToolResult {
					results = append(results, p)
				}
			}
			if len(results) != len(awaited) {
				return nil, fmt.Errorf("message %d answers %d tool calls, %d were made", i, len(results), len(awaited))
			}
			for j, r := range results {
				if r.ID != awaited[j].ID {
					return nil, fmt.Errorf("message %d answers call %q where %q is next", i, r.ID, awaited[j].ID)
				}
			}
			awaited = nil
			continue
		}
		if len(awaited) > 0 {
			return nil, fmt.Errorf("message %d follows %d unanswered tool calls", i, len(awaited))
		}
		for _, p := range m.Parts {
			if p.Type != PartToolCall {
				continue
			}
			if m.Role != RoleAssistant {
				return nil, fmt.Errorf("message %d holds a tool call but its role is %q", i, m.Role)
			}
			if p.ID == "" || seen[p.ID] {
				return nil, fmt.Errorf("message %d repeats the call id %q", i, p.ID)
			}
			seen[p.ID] = true
			awaited = append(awaited, p)
		}
	}
	return awaited, nil
}
