package openai

import (
	"encoding/json"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// event is what of the service's events the adapter needs.
type event struct {
	Type        string          `json:"type"`
	OutputIndex int             `json:"output_index"`
	Delta       string          `json:"delta"`
	Item        json.RawMessage `json:"item"`
	Response    *struct {
		Usage      *usage `json:"usage"`
		Incomplete *struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error  *failure `json:"error"`
		Output []struct {
			Type string `json:"type"`
		} `json:"output"`
	} `json:"response"`
	Error *failure `json:"error"`
	// Code and Message belong to an event of type error.
	Code json.RawMessage `json:"code"`

	Message string `json:"message"`
}

type usage struct {
	Input        int64 `json:"input_tokens"`
	InputDetails struct {
		Cached     int64 `json:"cached_tokens"`
		CacheWrite int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// item is an output item that is done.
type item struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
	Encrypted string `json:"encrypted_content"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`

	raw json.RawMessage
}

// answer reads one answer of the Responses API.
type answer struct {
	*output
	texts   map[int]int // bytes of text, by output index
	items   []item
	indexes []int
	refused bool
}

// take handles one event and reports whether it was the last.
func (a *answer) take(data []byte) (done bool, err error) {
	if string(data) == "[DONE]\n" {
		return false, nil // some gateways add the end of the other dialect
	}
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		return false, a.p.secrets.Garbled("an event cannot be read: %v", err)
	}
	switch ev.Type {
	case "response.output_text.delta":
		a.say(ev.OutputIndex, ev.Delta)
	case "response.refusal.delta":
		a.refused = true
		a.say(ev.OutputIndex, ev.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.text(llm.StreamReasoning, ev.Delta)
	case "response.output_item.done":
		return false, a.keep(&ev)
	case "response.completed":
		return true, a.end(&ev, "")
	case "response.incomplete":
		reason := "unknown"
		if ev.Response != nil && ev.Response.Incomplete != nil {
			reason = ev.Response.Incomplete.Reason
		}
		return true, a.end(&ev, reason)
	case "response.failed", "error":
		return false, a.failed(&ev)
	}
	return false, nil
}

func (a *answer) atEOF() error { return modelwire.Cut() }

func (a *answer) say(index int, text string) {
	if a.texts == nil {
		a.texts = make(map[int]int)
	}
	a.texts[index] += len(text)
	a.text(llm.StreamText, text)
}

// keep stores an item until the answer is whole.
func (a *answer) keep(ev *event) error {
	var it item
	if err := json.Unmarshal(ev.Item, &it); err != nil {
		return a.p.secrets.Garbled("an item cannot be read: %v", err)
	}
	var err error
	if it.raw, err = modelwire.Compact(ev.Item); err != nil {
		return a.p.secrets.Garbled("an item cannot be read: %v", err)
	}
	for _, c := range it.Content {
		if it.Type != "message" {
			break
		}
		a.refused = a.refused || c.Type == "refusal"
	}
	if it.Type == "message" && a.texts[ev.OutputIndex] == 0 { // it came in one piece
		for _, c := range it.Content {
			a.say(ev.OutputIndex, c.Text+c.Refusal)
		}
	}
	a.items, a.indexes = append(a.items, it), append(a.indexes, ev.OutputIndex)
	return nil
}

func (a *answer) failed(ev *event) error {
	f := ev.Error
	if ev.Response != nil {
		if err := a.tally(ev.Response.Usage); err != nil {
			return err
		}
		if ev.Response.Error != nil {
			f = ev.Response.Error
		}
	}
	if f == nil {
		f = &failure{Code: ev.Code, Message: ev.Message}
	}
	return f.fault(a.p)
}

func (a *answer) tally(u *usage) error {
	if u == nil {
		return nil
	}
	return a.count(llm.Usage{
		InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.InputDetails.Cached,
		CacheWriteTokens: u.InputDetails.CacheWrite, ReasoningTokens: u.OutputDetails.Reasoning,
	})
}

// end hands over what was kept, and the end. cause says why the answer is not
// complete; empty for one that is.
func (a *answer) end(ev *event, cause string) error {
	if ev.Response == nil {
		return a.p.secrets.Garbled("it ends without saying how")
	}
	if err := a.tally(ev.Response.Usage); err != nil {
		return err
	}
	if err := a.whole(ev); err != nil {
		return err
	}
	reason := a.reason(cause)
	ord := modelwire.Order{}
	calls := 0
	for i := range a.items {
		it := &a.items[i]
		switch it.Type {
		case "message":
			if n := a.texts[a.indexes[i]]; n > 0 {
				ord.Parts = append(ord.Parts, modelwire.Spot{Kind: modelwire.SpotText, Bytes: n})
			}
		case "function_call":
			if a.abandoned(reason, i) {
				continue
			}
			calls++
			ord.Parts = append(ord.Parts, modelwire.Spot{Kind: modelwire.SpotCall, ID: it.CallID})
			a.call(it.CallID, it.Name, it.Arguments)
		case "reasoning":
			if it.Encrypted != "" { // without it the service, which stores nothing, cannot read it
				ord.Parts = append(ord.Parts, modelwire.Spot{Kind: modelwire.SpotRaw})
				a.emit(llm.StreamEvent{Type: llm.StreamRaw, Block: it.raw})
			}
		}
	}
	if ord.Private() && !ord.Plain() {
		a.emit(llm.StreamEvent{Type: llm.StreamRaw, Block: ord.Block()})
	}
	if calls > 0 && reason == llm.FinishStop {
		reason = llm.FinishToolCalls
	}
	a.finish(reason)
	return nil
}

// whole reports whether every call that the service counts at the end has
// arrived.
func (a *answer) whole(ev *event) error {
	if ev.Response.Output == nil {
		return nil
	}
	missing := 0
	for _, o := range ev.Response.Output {
		if o.Type == "function_call" {
			missing++
		}
	}
	for i := range a.items {
		if a.items[i].Type == "function_call" {
			missing--
		}
	}
	if missing > 0 {
		return a.p.secrets.Garbled("%d calls have not arrived", missing)
	}
	return nil
}

func (a *answer) reason(cause string) llm.FinishReason {
	switch {
	case a.refused || cause == "content_filter":
		return llm.FinishRefusal
	case cause == "":
		return llm.FinishStop
	case cause == "max_output_tokens":
		return llm.FinishMaxTokens
	}
	return llm.FinishContextWindow
}

// abandoned reports whether a call is not to be made: the model refused, or
// ran out of room in the middle of its arguments.
func (a *answer) abandoned(reason llm.FinishReason, i int) bool {
	it := &a.items[i]
	switch reason {
	case llm.FinishRefusal:
		return true
	case llm.FinishMaxTokens, llm.FinishContextWindow:
		return it.Status == "incomplete" || !modelwire.WholeArguments(it.Arguments)
	}
	return false
}
