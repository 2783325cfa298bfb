package anthropic

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// event is what of the service's events the adapter needs.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message *struct {
		Usage *usage `json:"usage"`
	} `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        struct {
		Type        string  `json:"type"`
		Text        string  `json:"text"`
		PartialJSON string  `json:"partial_json"`
		Thinking    string  `json:"thinking"`
		Signature   string  `json:"signature"`
		StopReason  *string `json:"stop_reason"`
	} `json:"delta"`
	Usage *usage `json:"usage"`
	Error *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// usage counts are so far, not since the last event. A later event may leave
// some out.
type usage struct {
	Input      *int64 `json:"input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	Output     *int64 `json:"output_tokens"`
	Details    *struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// answer reads one answer.
type answer struct {
	p     *Provider
	ctx   context.Context
	model *model
	yield func(llm.StreamEvent, error) bool

	started bool
	blocks  []*block
	stop    string
	counts  struct{ input, cacheRead, cacheWrite, output, thinking int64 }
	gone    bool // the consumer wants no more
}

// read hands on what the answer brings, and ends with exactly one finish or
// error, unless the consumer leaves.
func (a *answer) read(res *http.Response) {
	if !modelwire.IsEventStream(res.Header) {
		a.fail(a.p.secrets.Garbled("the service answered with %s instead of events", res.Header.Get("Content-Type")))
		return
	}
	decoder := ssestream.NewDecoder(res)
	for decoder.Next() {
		if a.ctx.Err() != nil {
			break
		}
		done, err := a.take(decoder.Event().Data)
		if err != nil {
			a.fail(err)
		}
		if done || err != nil || a.gone {
			return
		}
	}
	switch {
	case a.ctx.Err() != nil:
		a.fail(context.Cause(a.ctx))
	case decoder.Err() != nil:
		a.fail(a.p.secrets.Transport(a.ctx, "the answer broke off", decoder.Err()))
	default:
		a.fail(modelwire.Cut())
	}
}

func (a *answer) emit(ev llm.StreamEvent) {
	if !a.gone && !a.yield(ev, nil) {
		a.gone = true
	}
}

func (a *answer) fail(err error) {
	if !a.gone {
		a.gone = true
		a.yield(llm.StreamEvent{}, err)
	}
}

// take handles one event and reports whether it was the last.
func (a *answer) take(data []byte) (done bool, err error) {
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		return false, a.p.secrets.Garbled("an event cannot be read: %v", err)
	}
	if !a.started && ev.Type != "message_start" && ev.Type != "error" && ev.Type != "ping" {
		return false, a.p.secrets.Garbled("it begins with %q", ev.Type)
	}
	switch ev.Type {
	case "message_start":
		if a.started {
			return false, a.p.secrets.Garbled("it begins twice")
		}
		a.started = true
		if ev.Message != nil {
			return false, a.count(ev.Message.Usage)
		}
	case "content_block_start":
		return false, a.open(&ev)
	case "content_block_delta":
		return false, a.delta(&ev)
	case "content_block_stop":
		b := a.at(ev.Index)
		if b == nil {
			return false, a.p.secrets.Garbled("block %d ends and was not open", ev.Index)
		}
		b.closed = true
	case "message_delta":
		if ev.Delta.StopReason != nil {
			a.stop = *ev.Delta.StopReason
		}
		return false, a.count(ev.Usage)
	case "message_stop":
		return true, a.finish()
	case "ping":
		// A sign of life: the engine waits on.
		a.emit(llm.StreamEvent{Type: llm.StreamUsage, Usage: a.usage()})
	case "error":
		f := modelwire.Answer{Status: http.StatusOK}
		if ev.Error != nil {
			f.Word, f.Message = ev.Error.Type, ev.Error.Message
		}
		return false, a.p.secrets.Fault(f)
	}
	return false, nil
}

// at is the open block with an index.
func (a *answer) at(index int) *block {
	if index < 0 || index >= len(a.blocks) || a.blocks[index].closed {
		return nil
	}
	return a.blocks[index]
}

func (a *answer) open(ev *event) error {
	if ev.Index != len(a.blocks) {
		return a.p.secrets.Garbled("block %d is not the next", ev.Index)
	}
	b, err := newBlock(ev.ContentBlock)
	if err != nil {
		return a.p.secrets.Garbled("a block cannot be read: %v", err)
	}
	a.blocks = append(a.blocks, b)
	switch {
	case b.Type == "text" && b.Text != "":
		b.bytes += len(b.Text)
		a.emit(llm.StreamEvent{Type: llm.StreamText, Text: b.Text})
	case b.Type == "thinking" && b.Thinking != "":
		b.thinking.WriteString(b.Thinking)
		a.emit(llm.StreamEvent{Type: llm.StreamReasoning, Text: b.Thinking})
	}
	return nil
}

func (a *answer) delta(ev *event) error {
	b := a.at(ev.Index)
	if b == nil {
		return a.p.secrets.Garbled("block %d goes on and was not open", ev.Index)
	}
	switch d := &ev.Delta; d.Type {
	case "text_delta":
		if b.Type == "text" && d.Text != "" {
			b.bytes += len(d.Text)
			a.emit(llm.StreamEvent{Type: llm.StreamText, Text: d.Text})
		}
	case "thinking_delta":
		b.thinking.WriteString(d.Thinking)
		if d.Thinking != "" {
			a.emit(llm.StreamEvent{Type: llm.StreamReasoning, Text: d.Thinking})
		}
	case "signature_delta":
		b.signature.WriteString(d.Signature)
	case "input_json_delta":
		b.args.WriteString(d.PartialJSON)
	}
	return nil
}

// count takes over what an event says of the usage.
func (a *answer) count(u *usage) error {
	if u == nil {
		return nil
	}
	set := func(to *int64, from *int64) {
		if from != nil {
			*to = *from
		}
	}
	set(&a.counts.input, u.Input)
	set(&a.counts.cacheRead, u.CacheRead)
	set(&a.counts.cacheWrite, u.CacheWrite)
	set(&a.counts.output, u.Output)
	if u.Details != nil {
		set(&a.counts.thinking, u.Details.Thinking)
	}
	sane := a.sane()
	a.emit(llm.StreamEvent{Type: llm.StreamUsage, Usage: a.usage()})
	if !sane {
		return modelwire.BadUsage()
	}
	return nil
}

// sane reports whether the counts are such that they can be added up.
func (a *answer) sane() bool {
	c := &a.counts
	for _, n := range []int64{c.input, c.cacheRead, c.cacheWrite, c.output, c.thinking} {
		if n < 0 || n > 1<<51 {
			return false
		}
	}
	return true
}

// usage is the account so far. The service counts what it has cached apart from
// the rest of the input.
func (a *answer) usage() llm.Usage {
	bound := func(n int64) int64 { return min(max(n, 0), 1<<51) }
	c := &a.counts
	u, _ := modelwire.Account(llm.Usage{
		InputTokens:     bound(c.input) + bound(c.cacheRead) + bound(c.cacheWrite),
		OutputTokens:    bound(c.output),
		CacheReadTokens: bound(c.cacheRead), CacheWriteTokens: bound(c.cacheWrite),
		ReasoningTokens: bound(c.thinking),
	})
	return u
}
