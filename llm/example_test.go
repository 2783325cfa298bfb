package llm_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/rulvar/rulvar-go/llm"
)

// parrot is a model that says what it was told last.
type parrot struct{}

func (parrot) ID() string { return "parrot" }

func (parrot) Capabilities(string) llm.Capabilities { return llm.Capabilities{} }

func (parrot) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		if ctx.Err() != nil || len(req.Messages) == 0 {
			yield(llm.StreamEvent{}, &llm.Error{Kind: llm.KindTerminal, Message: "nothing to repeat", Err: ctx.Err()})
			return
		}
		for _, p := range req.Messages[len(req.Messages)-1].Parts {
			if p.Type == llm.PartText && !yield(llm.StreamEvent{Type: llm.StreamText, Text: p.Text}, nil) {
				return
			}
		}
		yield(llm.StreamEvent{Type: llm.StreamFinish, Finish: llm.FinishStop}, nil)
	}
}

func Example() {
	var p llm.Provider = parrot{}
	req := &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart("hello")}}}}
	for ev, err := range p.Stream(context.Background(), req) {
		fmt.Println(ev.Type, ev.Text, err)
	}
	// Output:
	// text-delta hello <nil>
	// finish  <nil>
}
