package llm

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
