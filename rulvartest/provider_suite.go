package rulvartest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rulvar/rulvar-go/llm"
)

// ProviderSuite says how to reach an adapter for a model service and what its
// service answers. The suite is for who writes an adapter: it plays the service
// on a local address, with recorded answers, and misbehaves.
type ProviderSuite struct {
	// Open makes the adapter for a service at url, which takes the key. It
	// sends its requests with client; nil is one of its own.
	Open func(t testing.TB, url, key string, client *http.Client) llm.Provider
	// Model is asked for.
	Model string
	// Exchanges are recorded answers. There must be one with a text, one with
	// calls of tools, and one that ends with each of the finish reasons that
	// the service knows.
	Exchanges []Exchange
	// Failures are bodies with which the service breaks off an answer.
	Failures []Failure
}

// Exchange is a recorded answer of a service.
type Exchange struct {
	Name string
	// Body is the body of the answer as the service sent it, with status 200.
	Body []byte
	// ContentType of it. Default text/event-stream.
	ContentType string
	// Want is what the adapter has to make of it. The ids of calls are not
	// compared, and Private are the blocks that go back to the service: an
	// adapter may keep more for itself.
	Want Answer
	// WireIDs are the service's names of the calls.
	WireIDs []string
}

// Failure is a body that begins an answer and ends with a report of failure.
type Failure struct {
	Name string
	Body []byte
	// Kind and Retryable are how the adapter has to class it.
	Kind      llm.ErrorKind
	Retryable bool
}

// Answer is a whole answer of a model.
type Answer struct {
	Text, Reasoning string
	Calls           []AnswerCall
	Private         []json.RawMessage
	Finish          llm.FinishReason
	Usage           llm.Usage
}

// AnswerCall is a tool call in an [Answer].
type AnswerCall struct{ ID, Tool, Arguments string }

// ReadAnswer reads a provider's stream to its end. The error is the stream's;
// what had come before it is returned too. A stream that goes on after its end,
// or ends with neither a finish nor an error, fails with [ErrBrokenStream].
func ReadAnswer(stream iter.Seq2[llm.StreamEvent, error]) (Answer, error) {
	var a Answer
	var fault error
	ends := 0
	for ev, err := range stream {
		if ends > 0 {
			return a, errors.Join(ErrBrokenStream, errors.New("something comes after the end"))
		}
		switch {
		case err != nil:
			fault, ends = err, ends+1
		case ev.Type == llm.StreamFinish:
			a.Finish, a.Usage, ends = ev.Finish, ev.Usage, ends+1
		case ev.Type == llm.StreamText:
			a.Text += ev.Text
		case ev.Type == llm.StreamReasoning:
			a.Reasoning += ev.Text
		case ev.Type == llm.StreamUsage:
			a.Usage = ev.Usage
		case ev.Type == llm.StreamRaw:
			a.Private = append(a.Private, ev.Block)
		case ev.Type == llm.StreamToolCall:
			a.Calls = append(a.Calls, AnswerCall{ID: ev.ID, Tool: ev.Name, Arguments: ev.Arguments})
		default:
			return a, errors.Join(ErrBrokenStream, errors.New("unknown event "+string(ev.Type)))
		}
	}
	if ends == 0 {
		return a, errors.Join(ErrBrokenStream, errors.New("the stream has no end"))
	}
	return a, fault
}

// ErrBrokenStream is a stream that breaks the contract of [llm.Provider].
var ErrBrokenStream = errors.New("the provider broke its contract")

// suiteKey is the key that the suite's services take. It looks like no real
// one, so that it is hidden for what it is and not for its shape.
const suiteKey = "q7Vw0k2Zr9Xn4Tb6-suite-key"

// providerTest is a provider that an obligation is held against.
type providerTest struct {
	testing.TB
	ctx   context.Context
	suite *ProviderSuite
}

type providerObligation struct {
	name  string
	check func(p *providerTest)
}

// RunProviderSuite holds an adapter to what is asked of an [llm.Provider]:
// one end to each answer, faults told apart, nothing made up from half an
// answer, ids and private blocks kept, the key in nothing that is shown, no
// hanging, and one request each. Each obligation is a subtest.
func RunProviderSuite(t *testing.T, suite *ProviderSuite) {
	t.Helper()
	for _, o := range providerObligations() {
		t.Run(o.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o.check(&providerTest{TB: t, ctx: ctx, suite: suite})
		})
	}
}

func providerObligations() []providerObligation {
	return []providerObligation{
		{"recorded answers are understood", understandsExchanges},
		{"an answer in small pieces is the same", takesPieces},
		{"an answer cut at any byte is whole or may be retried", survivesCuts},
		{"a cut connection may be retried", survivesAborts},
		{"no half call is executed", executesNoHalfCall},
		{"failures in the midst of an answer are classed", classesFailures},
		{"garbage is no answer", refusesGarbage},
		{"statuses are classed", classesStatuses},
		{"a service out of reach may be retried", outOfReach},
		{"a silent service does not hold a cancelled request", letsGo},
		{"a consumer may leave", letsConsumerLeave},
		{"many requests at once", servesMany},
		{"ids come back as the service gave them", mapsIDs},
		{"ids of others are sent alike in call and result", derivesIDs},
		{"private blocks go back as they came", returnsPrivate},
		{"who asks is not sent", hidesAgent},
		{"the key is shown nowhere", hidesKey},
		{"the key goes to no other host", refusesRedirect},
		{"nothing is asked where there is nothing to say", refusesEmpty},
	}
}

// open makes the provider for a service.
func (p *providerTest) open(url string, client *http.Client) llm.Provider {
	p.Helper()
	return p.suite.Open(p.TB, url, suiteKey, client)
}

// hello is a request with nothing in it but a text.
func (p *providerTest) hello() *llm.Request {
	return &llm.Request{
		Model:    p.suite.Model,
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart("Hello.")}}},
		Tools: []llm.ToolDeclaration{{
			Name: "look_up", Description: "Looks something up.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`),
		}},
	}
}

// exchange returns the first exchange that fits.
func (p *providerTest) exchange(what string, fits func(*Exchange) bool) *Exchange {
	p.Helper()
	for i := range p.suite.Exchanges {
		if fits(&p.suite.Exchanges[i]) {
			return &p.suite.Exchanges[i]
		}
	}
	p.Fatalf("the suite has no exchange with %s", what)
	return nil
}

func (p *providerTest) textExchange() *Exchange {
	return p.exchange("a text", func(x *Exchange) bool { return x.Want.Text != "" && x.Want.Finish == llm.FinishStop })
}

func (p *providerTest) callExchange() *Exchange {
	return p.exchange("calls", func(x *Exchange) bool { return len(x.Want.Calls) > 0 && x.Want.Finish == llm.FinishToolCalls })
}

// same ends the test where an answer is not what it should be.
func (p *providerTest) same(what string, want, got Answer) {
	p.Helper()
	if diff := differs(want, got); diff != "" {
		p.Fatalf("%s: %s\n got %s\nwant %s", what, diff, show(got), show(want))
	}
}

// differs says in what an answer is not what it should be, but for ids.
func differs(want, got Answer) string {
	switch {
	case got.Text != want.Text:
		return "another text"
	case got.Reasoning != want.Reasoning:
		return "another reasoning"
	case got.Finish != want.Finish:
		return "another finish reason"
	case got.Usage != want.Usage:
		return "another usage"
	case len(got.Calls) != len(want.Calls):
		return "another number of calls"
	}
	for i, c := range got.Calls {
		if c.Tool != want.Calls[i].Tool || c.Arguments != want.Calls[i].Arguments {
			return "another call"
		}
	}
	blocks := want.Private
	for _, b := range got.Private {
		if len(blocks) > 0 && string(b) == string(blocks[0]) {
			blocks = blocks[1:]
		}
	}
	if len(blocks) > 0 {
		return "a private block is missing"
	}
	return ""
}

// fault ends the test where an error is not one of a provider.
func (p *providerTest) fault(what string, err error) *llm.Error {
	p.Helper()
	pe, ok := errors.AsType[*llm.Error](err)
	if !ok {
		p.Fatalf("%s: the error is %v, want an *llm.Error", what, err)
	}
	if pe.Message == "" || strings.Contains(pe.Error(), suiteKey) {
		p.Fatalf("%s: the error says nothing, or the key: %q", what, pe.Error())
	}
	return pe
}

// mayRetry ends the test where a failure is not worth another try.
func (p *providerTest) mayRetry(what string, err error) {
	p.Helper()
	if pe := p.fault(what, err); !pe.Retryable {
		p.Fatalf("%s: %v may not be retried", what, pe)
	}
}
