package openai

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// output is where an answer goes, of either dialect.
type output struct {
	p     *Provider
	ctx   context.Context
	yield func(llm.StreamEvent, error) bool
	usage llm.Usage
	gone  bool // the consumer wants no more
}

// dialect reads the events of one answer.
type dialect interface {
	// take handles one event and reports whether it was the last.
	take(data []byte) (done bool, err error)
	// atEOF is called where the body ends in order, and no event was the last.
	atEOF() error
}

// read hands each event to d until that says that it was the last one. It ends
// with exactly one finish or error, unless the consumer leaves.
func (o *output) read(res *http.Response, d dialect) {
	if !modelwire.IsEventStream(res.Header) {
		o.fail(o.p.secrets.Garbled("the service answered with %s instead of events", res.Header.Get("Content-Type")))
		return
	}
	decoder := ssestream.NewDecoder(res)
	for decoder.Next() {
		if o.ctx.Err() != nil {
			break
		}
		done, err := d.take(decoder.Event().Data)
		if err != nil {
			o.fail(err)
		}
		if done || err != nil || o.gone {
			return
		}
	}
	switch {
	case o.ctx.Err() != nil:
		o.fail(context.Cause(o.ctx))
	case decoder.Err() != nil:
		o.fail(o.p.secrets.Transport(o.ctx, "the answer broke off", decoder.Err()))
	default:
		if err := d.atEOF(); err != nil {
			o.fail(err)
		}
	}
}

func (o *output) emit(ev llm.StreamEvent) {
	if !o.gone && !o.yield(ev, nil) {
		o.gone = true
	}
}

func (o *output) fail(err error) {
	if !o.gone {
		o.gone = true
		o.yield(llm.StreamEvent{}, err)
	}
}

func (o *output) text(kind llm.StreamEventType, text string) {
	if text != "" {
		o.emit(llm.StreamEvent{Type: kind, Text: text})
	}
}

func (o *output) call(wire, name, args string) {
	if args == "" {
		args = "{}"
	}
	o.emit(llm.StreamEvent{Type: llm.StreamToolCall, ID: o.p.ids.Mint(wire), Name: name, Arguments: args})
}

func (o *output) finish(reason llm.FinishReason) {
	o.emit(llm.StreamEvent{Type: llm.StreamFinish, Finish: reason, Usage: o.usage})
}

// count takes over usage. The service's cached tokens are part of its input;
// where it counts more of them than there are, the rest is not cached.
func (o *output) count(u llm.Usage) error {
	if u.CacheReadTokens >= 0 && u.CacheWriteTokens >= 0 && u.InputTokens >= 0 {
		u.CacheReadTokens = min(u.CacheReadTokens, u.InputTokens)
		u.CacheWriteTokens = min(u.CacheWriteTokens, u.InputTokens-u.CacheReadTokens)
	}
	sane, ok := modelwire.Account(u)
	o.usage = sane
	o.emit(llm.StreamEvent{Type: llm.StreamUsage, Usage: sane})
	if !ok {
		return modelwire.BadUsage()
	}
	return nil
}

// failure is what both dialects send in place of an answer.
type failure struct {
	Code    json.RawMessage `json:"code"` // a word, or a status at some gateways
	Type    string          `json:"type"`
	Message string          `json:"message"`
}

func (f *failure) fault(p *Provider) error {
	a := modelwire.Answer{Status: http.StatusOK, Word: f.Type, Message: f.Message}
	var word string
	var status int
	switch {
	case json.Unmarshal(f.Code, &word) == nil && word != "":
		a.Word = word
	case json.Unmarshal(f.Code, &status) == nil && status >= 400 && status < 600:
		a.Status = status
	}
	return p.secrets.Fault(a)
}
