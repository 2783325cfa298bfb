package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// block is a content block of an answer.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`

	raw                       json.RawMessage // as it began
	thinking, signature, args strings.Builder
	bytes                     int // of its text so far
	closed                    bool
}

func newBlock(raw json.RawMessage) (*block, error) {
	b := &block{}
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, err
	}
	var err error
	b.raw, err = modelwire.Compact(raw)
	return b, err
}

// arguments is the argument text of a call. It comes in pieces, or whole with
// the block's beginning.
func (b *block) arguments() string {
	if b.args.Len() > 0 {
		return b.args.String()
	}
	if len(b.Input) > 0 && string(b.Input) != "null" {
		return string(b.Input)
	}
	return "{}"
}

// private is the block as it goes back to the service; nil where it is no
// private one. Members that the adapter does not know are kept.
func (b *block) private() json.RawMessage {
	switch b.Type {
	case "redacted_thinking":
		return b.raw
	case "thinking":
	default:
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b.raw, &members) != nil {
		return nil
	}
	members["thinking"] = text(b.thinking.String())
	if b.signature.Len() > 0 {
		members["signature"] = text(b.signature.String())
	}
	return encode(members)
}

func text(s string) json.RawMessage { return encode(s) }

// encode writes JSON without escaping what HTML would, as the journal does.
func encode(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// finish hands over what was kept until the answer is whole, and its end.
func (a *answer) finish() error {
	reason, err := a.reason()
	if err != nil {
		return err
	}
	for i, b := range a.blocks {
		if !b.closed {
			return a.p.secrets.Garbled("block %d has no end", i)
		}
	}
	calls := 0
	ord := modelwire.Order{}
	for i, b := range a.blocks {
		switch b.Type {
		case "text":
			if b.bytes > 0 {
				ord.Parts = append(ord.Parts, modelwire.Spot{Kind: modelwire.SpotText, Bytes: b.bytes})
			}
		case "tool_use":
			if a.abandoned(reason, i) {
				continue
			}
			calls++
			ord.Parts = append(ord.Parts, modelwire.Spot{Kind: modelwire.SpotCall, ID: b.ID})
			a.emit(llm.StreamEvent{Type: llm.StreamToolCall, ID: a.p.ids.Mint(b.ID), Name: b.Name, Arguments: b.arguments()})
		default:
			if raw := b.private(); raw != nil {
				ord.Parts = append(ord.Parts, modelwire.Spot{Kind: modelwire.SpotRaw})
				a.emit(llm.StreamEvent{Type: llm.StreamRaw, Block: raw})
			}
		}
	}
	if a.model.bound && ord.Private() {
		a.emit(llm.StreamEvent{Type: llm.StreamRaw, Block: ord.Block()})
	}
	if calls > 0 && reason == llm.FinishStop {
		reason = llm.FinishToolCalls
	}
	a.emit(llm.StreamEvent{Type: llm.StreamFinish, Finish: reason, Usage: a.usage()})
	return nil
}

// abandoned reports whether the call in a block is not to be made: the model
// refused, or ran out of room in the middle of its arguments.
func (a *answer) abandoned(reason llm.FinishReason, i int) bool {
	switch reason {
	case llm.FinishRefusal:
		return true
	case llm.FinishMaxTokens, llm.FinishContextWindow:
		b := a.blocks[i]
		return i == len(a.blocks)-1 && (b.args.Len() == 0 || !modelwire.WholeArguments(b.arguments()))
	}
	return false
}

// reason translates why the answer ended.
func (a *answer) reason() (llm.FinishReason, error) {
	switch a.stop {
	case "end_turn", "stop_sequence":
		return llm.FinishStop, nil
	case "tool_use":
		return llm.FinishToolCalls, nil
	case "max_tokens":
		return llm.FinishMaxTokens, nil
	case "model_context_window_exceeded":
		return llm.FinishContextWindow, nil
	case "refusal":
		return llm.FinishRefusal, nil
	case "":
		return "", a.p.secrets.Garbled("it ends without a reason")
	}
	// pause_turn, which only the service's own tools cause, and words to come.
	e := a.p.secrets.Garbled("it ended for a reason that the adapter does not know, %q", a.stop)
	e.Retryable = false
	return "", e
}

// messageOf takes the message out of the body of a failure.
func messageOf(body string) string {
	var failure struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(body), &failure) != nil || strings.HasPrefix(strings.TrimSpace(body), "<") {
		return ""
	}
	return failure.Error.Message
}
