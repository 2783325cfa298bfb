package modelwire

import (
	"encoding/json"
	"slices"

	"github.com/rulvar/rulvar-go/llm"
)

// Some models take their thinking back only where nothing around it has
// changed. A message of the library holds private blocks first, then the text,
// then the calls under ids of its own. So an answer of such a model carries one
// more private block, which says in what order the service had sent what and
// how it named the calls. It is read here and never sent.

// orderType is the type of that block. No block of the service has it.
const orderType = "rulvar_order"

// Order says in what order an answer's parts came.
type Order struct {
	Type  string `json:"type"`
	Parts []Spot `json:"parts"`
}

// The kinds of places.
const (
	SpotRaw  = "raw"
	SpotText = "text"
	SpotCall = "call"
)

// Private reports whether there are private blocks, whose place may matter.
func (o *Order) Private() bool {
	return slices.ContainsFunc(o.Parts, func(s Spot) bool { return s.Kind == SpotRaw })
}

// Plain reports whether the parts came as a message holds them anyway.
func (o *Order) Plain() bool {
	rank := map[string]int{SpotRaw: 0, SpotText: 1, SpotCall: 2}
	return slices.IsSortedFunc(o.Parts, func(a, b Spot) int { return rank[a.Kind] - rank[b.Kind] })
}

// Spot is the place of one part.
type Spot struct {
	// Kind is [SpotRaw], [SpotText] or [SpotCall].
	Kind string `json:"kind"`
	// Bytes is how much of the message's text stands here.
	Bytes int `json:"bytes,omitempty"`
	// ID is the service's name of a call.
	ID string `json:"id,omitempty"`
}

// Block is the private block that keeps the order.
func (o *Order) Block() json.RawMessage {
	o.Type = orderType
	b, err := json.Marshal(o)
	if err != nil {
		return json.RawMessage(`{"type":"` + orderType + `"}`)
	}
	return b
}

func readOrder(block json.RawMessage) *Order {
	var o Order
	if json.Unmarshal(block, &o) != nil || o.Type != orderType {
		return nil
	}
	return &o
}

// Restore puts the parts of an assistant message back into the service's order
// and returns how it named the calls. Where the message is not what the order
// was made for, its parts stay as they are.
func Restore(parts []llm.Part) ([]llm.Part, map[string]string) {
	var o *Order
	var rest []llm.Part
	for _, part := range parts {
		if part.Type == llm.PartRaw {
			if found := readOrder(part.Block); found != nil {
				o = found
				continue
			}
		}
		rest = append(rest, part)
	}
	if o == nil {
		return rest, nil
	}
	if ordered, ids, ok := o.apply(rest); ok {
		return ordered, ids
	}
	return rest, nil
}

func (o *Order) apply(parts []llm.Part) (out []llm.Part, ids map[string]string, ok bool) {
	var raws, calls []llm.Part
	text := ""
	for _, part := range parts {
		switch part.Type {
		case llm.PartRaw:
			raws = append(raws, part)
		case llm.PartToolCall:
			calls = append(calls, part)
		case llm.PartText:
			text += part.Text
		default:
			return nil, nil, false
		}
	}
	ids = make(map[string]string)
	for _, s := range o.Parts {
		switch {
		case s.Kind == SpotRaw && len(raws) > 0:
			out, raws = append(out, raws[0]), raws[1:]
		case s.Kind == SpotCall && len(calls) > 0:
			if s.ID != "" {
				ids[calls[0].ID] = s.ID
			}
			out, calls = append(out, calls[0]), calls[1:]
		case s.Kind == SpotText && 0 < s.Bytes && s.Bytes <= len(text):
			out, text = append(out, llm.TextPart(text[:s.Bytes])), text[s.Bytes:]
		default:
			return nil, nil, false
		}
	}
	whole := len(raws) == 0 && len(calls) == 0 && text == ""
	return slices.Clip(out), ids, whole
}
