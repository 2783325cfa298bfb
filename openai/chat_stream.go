package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// chunk is what of the chat dialect's events the adapter needs.
type chunk struct {
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   looseText `json:"content"`
			Refusal   looseText `json:"refusal"`
			Reasoning looseText `json:"reasoning"`
			// ReasoningContent is the same under another name.
			ReasoningContent looseText   `json:"reasoning_content"`
			ToolCalls        []callDelta `json:"tool_calls"`
		} `json:"delta"`
		Finish looseText `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt        int64 `json:"prompt_tokens"`
		Completion    int64 `json:"completion_tokens"`
		PromptDetails struct {
			Cached     int64 `json:"cached_tokens"`
			CacheWrite int64 `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type callDelta struct {
	Index    *int      `json:"index"`
	ID       looseText `json:"id"`
	Function struct {
		Name      looseText `json:"name"`
		Arguments looseText `json:"arguments"`
	} `json:"function"`
}

// looseText is a text where services differ: it may be null, a list of text
// parts, or a value that should have been written as a text.
type looseText string

func (t *looseText) UnmarshalJSON(data []byte) error {
	var s string
	var parts []struct {
		Text string `json:"text"`
	}
	switch {
	case bytes.Equal(data, []byte("null")):
		*t = ""
	case json.Unmarshal(data, &s) == nil:
		*t = looseText(s)
	case data[0] == '[' && json.Unmarshal(data, &parts) == nil:
		for _, p := range parts {
			s += p.Text
		}
		*t = looseText(s)
	default:
		*t = looseText(data)
	}
	return nil
}

type chatCall struct {
	index    int
	id, name string
	args     strings.Builder
}

// chatAnswer reads one answer of the chat dialect.
type chatAnswer struct {
	*output
	calls   []*chatCall
	stop    string
	refused bool
	counted bool
}

// take handles one event and reports whether it was the last. The answer is
// whole at its closing mark; services that send none are believed where they
// have given a reason and the usage.
func (a *chatAnswer) take(data []byte) (done bool, err error) {
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return true, a.end()
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, a.p.secrets.Garbled("an event cannot be read: %v", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return false, a.failed(c.Error)
	}
	for i := range c.Choices {
		ch := &c.Choices[i]
		if ch.Index != 0 {
			continue
		}
		a.text(llm.StreamReasoning, firstSet(string(ch.Delta.Reasoning), string(ch.Delta.ReasoningContent)))
		a.text(llm.StreamText, string(ch.Delta.Content))
		if ch.Delta.Refusal != "" {
			a.refused = true
			a.text(llm.StreamText, string(ch.Delta.Refusal))
		}
		for j := range ch.Delta.ToolCalls {
			a.piece(&ch.Delta.ToolCalls[j])
		}
		if ch.Finish != "" {
			a.stop = string(ch.Finish)
		}
	}
	if u := c.Usage; u != nil {
		a.counted = true
		return false, a.count(llm.Usage{
			InputTokens: u.Prompt, OutputTokens: u.Completion, CacheReadTokens: u.PromptDetails.Cached,
			CacheWriteTokens: u.PromptDetails.CacheWrite, ReasoningTokens: u.CompletionDetails.Reasoning,
		})
	}
	return false, nil
}

// piece adds to a call. Calls are told apart by their index; some services give
// all of them the same one, or none, and then a new id begins a new call.
func (a *chatAnswer) piece(d *callDelta) {
	c := a.current(d)
	if c == nil {
		c = &chatCall{index: len(a.calls)}
		if d.Index != nil {
			c.index = *d.Index
		}
		a.calls = append(a.calls, c)
	}
	if c.id == "" {
		c.id = string(d.ID)
	}
	if c.name == "" {
		c.name = string(d.Function.Name)
	}
	c.args.WriteString(string(d.Function.Arguments))
}

// current is the call that a piece belongs to; nil where it begins one.
func (a *chatAnswer) current(d *callDelta) *chatCall {
	for _, c := range slices.Backward(a.calls) {
		if d.Index != nil && c.index != *d.Index {
			continue
		}
		if id := string(d.ID); id != "" && c.id != "" && id != c.id {
			return nil
		}
		return c
	}
	return nil
}

// atEOF takes what has come for the whole where nothing can be missing.
func (a *chatAnswer) atEOF() error {
	if a.counted {
		return a.end()
	}
	return modelwire.Cut()
}

func (a *chatAnswer) failed(raw json.RawMessage) error {
	var f failure
	if json.Unmarshal(raw, &f) != nil {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = "without a reason"
		}
		f = failure{Message: text}
	}
	return f.fault(a.p)
}

// end hands over the calls and the end.
func (a *chatAnswer) end() error {
	if a.stop == "" {
		return modelwire.Cut()
	}
	reason := llm.FinishStop
	switch a.stop {
	case "length":
		reason = llm.FinishMaxTokens
	case "content_filter":
		reason = llm.FinishRefusal
	case "tool_calls", "function_call":
		reason = llm.FinishToolCalls
	}
	if a.refused {
		reason = llm.FinishRefusal
	}
	calls := 0
	for i, c := range a.calls {
		args := c.args.String()
		last := i == len(a.calls)-1
		if reason == llm.FinishRefusal || reason == llm.FinishMaxTokens && last && !modelwire.WholeArguments(args) {
			continue
		}
		if c.name == "" {
			return a.p.secrets.Garbled("a call names no tool")
		}
		calls++
		a.call(c.id, c.name, args)
	}
	if calls > 0 && reason == llm.FinishStop {
		reason = llm.FinishToolCalls
	}
	a.finish(reason)
	return nil
}
