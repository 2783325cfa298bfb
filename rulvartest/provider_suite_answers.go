package rulvartest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/oklog/ulid/v2"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

// nowhere is an address that no request of the suite reaches.
const nowhere = "http://model.invalid/v1"

func understandsExchanges(p *providerTest) {
	finishes := make(map[llm.FinishReason]bool)
	for i := range p.suite.Exchanges {
		x := &p.suite.Exchanges[i]
		finishes[x.Want.Finish] = true
		s := p.serve(x.reply())
		got, err := ReadAnswer(p.open(s.URL, nil).Stream(p.ctx, p.hello()))
		if err != nil {
			p.Fatalf("%s: %v", x.Name, err)
		}
		p.same(x.Name, x.Want, got)
		seen := make(map[string]bool)
		for _, c := range got.Calls {
			if _, err := ulid.ParseStrict(c.ID); err != nil || seen[c.ID] {
				p.Fatalf("%s: the id %q is no ULID, or stands for two calls", x.Name, c.ID)
			}
			seen[c.ID] = true
		}
		u := got.Usage
		if u.CacheReadTokens+u.CacheWriteTokens > u.InputTokens {
			p.Fatalf("%s: more is cached than there is: %+v", x.Name, u)
		}
		if n := len(s.requests()); n != 1 {
			p.Fatalf("%s: %d requests were sent", x.Name, n)
		}
	}
	for _, f := range []llm.FinishReason{llm.FinishStop, llm.FinishToolCalls, llm.FinishMaxTokens, llm.FinishRefusal} {
		if !finishes[f] {
			p.Fatalf("the suite has no exchange that ends with %s", f)
		}
	}
}

func takesPieces(p *providerTest) {
	for i := range p.suite.Exchanges {
		x := &p.suite.Exchanges[i]
		r := x.reply()
		r.piece = 7
		got, err := ReadAnswer(p.open(p.serve(r).URL, nil).Stream(p.ctx, p.hello()))
		if err != nil {
			p.Fatalf("%s: %v", x.Name, err)
		}
		p.same(x.Name, x.Want, got)
	}
}

func survivesCuts(p *providerTest) {
	for i := range p.suite.Exchanges {
		x := &p.suite.Exchanges[i]
		whole := 0
		for n := range len(x.Body) + 1 {
			for _, how := range []error{nil, io.ErrUnexpectedEOF} {
				if how != nil && n%5 != 0 {
					continue // the other end is tried at every byte
				}
				r := x.reply()
				r.body = x.Body[:n]
				client := &http.Client{Transport: &canned{reply: r, err: how}}
				got, err := ReadAnswer(p.open(nowhere, client).Stream(p.ctx, p.hello()))
				at := fmt.Sprintf("%s, cut behind byte %d with %v", x.Name, n, how)
				if err == nil {
					p.same(at, x.Want, got)
					whole++
					continue
				}
				p.mayRetry(at, err)
				if len(got.Calls) > 0 {
					p.Fatalf("%s: a call was handed over: %s", at, show(got))
				}
			}
		}
		if whole == 0 {
			p.Fatalf("%s: the whole body is no whole answer", x.Name)
		}
	}
}

func survivesAborts(p *providerTest) {
	x := p.callExchange()
	for _, n := range []int{0, 1, len(x.Body) / 3, len(x.Body) / 2, len(x.Body) * 2 / 3} {
		r := x.reply()
		r.body, r.abort = x.Body[:n], true
		_, err := ReadAnswer(p.open(p.serve(r).URL, nil).Stream(p.ctx, p.hello()))
		p.mayRetry(fmt.Sprintf("broken behind byte %d", n), err)
	}
}

// executesNoHalfCall runs an engine against a service whose first answers are
// cut in the midst of a call.
func executesNoHalfCall(p *providerTest) {
	calls, text := p.callExchange(), p.textExchange()
	for _, part := range []int{4, 6, 8, 9} {
		r := calls.reply()
		r.body, r.abort = calls.Body[:len(calls.Body)*part/10], true
		s := p.serve(r, calls.reply(), text.reply())
		var executed atomic.Int32
		var tools []rulvar.ToolSource
		named := make(map[string]bool)
		for _, c := range calls.Want.Calls {
			if named[c.Tool] {
				continue
			}
			named[c.Tool] = true
			tool, err := rulvar.NewTool(rulvar.ToolConfig{Name: c.Tool, Description: "Counts."},
				func(*rulvar.ToolContext, map[string]any) (string, error) { executed.Add(1); return "counted", nil })
			if err != nil {
				p.Fatalf("%v", err)
			}
			tools = append(tools, tool)
		}
		provider := p.open(s.URL, nil)
		e := NewEngine(p.TB, rulvar.Config{
			Providers: []llm.Provider{provider}, Model: provider.ID() + ":" + p.suite.Model,
			Retry: &rulvar.RetryPolicy{Initial: 1, Max: 1},
		})
		flow := rulvar.DefineWorkflow("suite", func(c *rulvar.Ctx, _ struct{}) (string, error) {
			return rulvar.Agent[string](c, "Hello.", &rulvar.AgentOptions{Tools: tools})
		})
		h, err := rulvar.Run(p.ctx, e, flow, struct{}{}, nil)
		if err != nil {
			p.Fatalf("%v", err)
		}
		out, err := h.Result(p.ctx)
		if err != nil || out.Value != text.Want.Text {
			p.Fatalf("the run ended with %+v, %v", out, err)
		}
		if n := int(executed.Load()); n != len(calls.Want.Calls) {
			p.Fatalf("%d calls were executed, %d were made", n, len(calls.Want.Calls))
		}
		if n := len(s.requests()); n != 3 {
			p.Fatalf("%d requests were sent, want 3", n)
		}
	}
}

func classesFailures(p *providerTest) {
	if len(p.suite.Failures) == 0 {
		p.Fatalf("the suite has no failures")
	}
	for _, f := range p.suite.Failures {
		_, err := ReadAnswer(p.open(p.serve(events(string(f.Body))).URL, nil).Stream(p.ctx, p.hello()))
		if pe := p.fault(f.Name, err); pe.Kind != f.Kind || pe.Retryable != f.Retryable {
			p.Fatalf("%s: %v, retryable %v; want %s, %v", f.Name, pe, pe.Retryable, f.Kind, f.Retryable)
		}
	}
}

func refusesGarbage(p *providerTest) {
	x := p.callExchange()
	flipped := slices.Clone(x.Body)
	for i := len(flipped) / 3; i < len(flipped); i += 11 {
		flipped[i] ^= 0x15
	}
	garbage := map[string]reply{
		"nothing":         events(""),
		"lines":           events("\n\n\n\n"),
		"noise":           events("\x00\xff\xfe{]}\r\n\r\n"),
		"no JSON":         events("data: {\"type\":\n\nevent: x\ndata: }{\n\n"),
		"another JSON":    events("data: []\n\ndata: 17\n\ndata: null\n\ndata: \"text\"\n\n"),
		"wrong types":     events("data: {\"type\":{},\"choices\":{},\"index\":\"x\"}\n\n"),
		"one event only":  events("data: {}\n\n"),
		"a mark only":     events("data: [DONE]\n\n"),
		"flipped bits":    events(string(flipped)),
		"a page":          {header: http.Header{"Content-Type": {"text/html"}}, body: []byte("<html>Sign in</html>")},
		"a JSON answer":   {header: http.Header{"Content-Type": {"application/json"}}, body: []byte(`{"ok":true}`)},
		"an endless line": events("data: " + strings.Repeat("x", 1<<20)),
	}
	for name, r := range garbage {
		got, err := ReadAnswer(p.open(p.serve(r).URL, nil).Stream(p.ctx, p.hello()))
		if err == nil {
			p.Fatalf("%s is taken for an answer: %s", name, show(got))
		}
		p.fault(name, err)
		if len(got.Calls) > 0 {
			p.Fatalf("%s: a call was handed over", name)
		}
	}
}

// letsGo cancels requests of a service that has stopped to answer.
func letsGo(p *providerTest) {
	x := p.textExchange()
	half := x.reply()
	half.body, half.hang = x.Body[:len(x.Body)/2], true
	slow := x.reply()
	slow.body, slow.hang = nil, true
	for name, r := range map[string]reply{"mute": {mute: true}, "after the header": slow, "in the midst": half} {
		s := p.serve(r)
		ctx, cancel := context.WithCancelCause(p.ctx)
		done := make(chan error, 1)
		provider := p.open(s.URL, nil)
		go func() {
			a, err := ReadAnswer(provider.Stream(ctx, p.hello()))
			if err == nil {
				err = errors.New("an answer: " + show(a))
			} else if errors.Is(err, ErrBrokenStream) && a.Finish == "" {
				err = nil // it may end without a word
			} else if ctx.Err() != nil && a.Finish == "" {
				err = nil
			}
			done <- err
		}()
		p.waitFor(name, func() bool { return len(s.requests()) == 1 })
		cancel(errors.New("no longer wanted"))
		select {
		case err := <-done:
			if err != nil {
				p.Fatalf("%s: %v", name, err)
			}
		case <-p.ctx.Done():
			p.Fatalf("%s: the stream does not end", name)
		}
		p.leaves(name, s)
	}
}

func letsConsumerLeave(p *providerTest) {
	x := p.textExchange()
	r := x.reply()
	r.hang = true
	s := p.serve(r)
	for range p.open(s.URL, nil).Stream(p.ctx, p.hello()) {
		break
	}
	p.leaves("left at the first event", s)
}

// leaves waits until the service's client has gone away.
func (p *providerTest) leaves(what string, s *service) {
	p.Helper()
	select {
	case <-s.left:
	case <-p.ctx.Done():
		p.Fatalf("%s: the connection stays open", what)
	}
}

func servesMany(p *providerTest) {
	x := p.callExchange()
	provider := p.open(p.serve(x.reply()).URL, nil)
	const n = 16
	answers := make(chan Answer, n)
	faults := make(chan error, n)
	for range n {
		go func() {
			a, err := ReadAnswer(provider.Stream(p.ctx, p.hello()))
			answers <- a
			faults <- err
		}()
	}
	seen := make(map[string]bool)
	for range n {
		if err := <-faults; err != nil {
			p.Fatalf("%v", err)
		}
		a := <-answers
		p.same("at once", x.Want, a)
		for _, c := range a.Calls {
			if seen[c.ID] {
				p.Fatalf("the id %s stands for two calls", c.ID)
			}
			seen[c.ID] = true
		}
	}
}
