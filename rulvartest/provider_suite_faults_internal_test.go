package rulvartest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/llm"
)

// toy is an adapter for a service that speaks the library's own words, one
// event a line. It is right but for what its fault replaces.
type toy struct {
	url, key string
	client   *http.Client
	fault    string

	mu  sync.Mutex
	ids map[string]string
}

func newToy(fault, url, key string, client *http.Client) *toy {
	c := &http.Client{}
	if client != nil {
		*c = *client
	} else {
		c.Transport = &http.Transport{DisableKeepAlives: true}
	}
	if fault != "follows redirects" {
		c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if req.URL.Host != via[0].URL.Host {
				return errors.New("another host")
			}
			if len(via) > 3 {
				return errors.New("no end")
			}
			return nil
		}
	}
	return &toy{url: url, key: key, client: c, fault: fault, ids: make(map[string]string)}
}

func (p *toy) ID() string                           { return "toy" }
func (p *toy) Capabilities(string) llm.Capabilities { return llm.Capabilities{} }
func (p *toy) Format(s fmt.State, _ rune)           { _, _ = io.WriteString(s, "toy "+p.shown()) }
func (p *toy) MarshalJSON() ([]byte, error)         { return json.Marshal(p.shown()) }
func (p *toy) is(fault string) bool                 { return p.fault == fault }
func fail(kind llm.ErrorKind, format string, args ...any) *llm.Error {
	return &llm.Error{Kind: kind, Message: fmt.Sprintf(format, args...), Retryable: kind != llm.KindTerminal}
}

func (p *toy) shown() string {
	if p.is("shows the key") {
		return p.key
	}
	return "?"
}

func (p *toy) hide(text string) string {
	if p.is("repeats the key") {
		return text
	}
	return strings.ReplaceAll(text, p.key, "?")
}

// body is the request: each message with the ids of the service.
func (p *toy) body(req *llm.Request) ([]byte, error) {
	type part map[string]any
	var out []part
	for _, m := range req.Messages {
		for _, x := range m.Parts {
			switch x.Type {
			case llm.PartText:
				if strings.TrimSpace(x.Text) != "" || p.is("sends nothing") {
					out = append(out, part{"text": x.Text})
				}
			case llm.PartToolCall:
				out = append(out, part{"id": p.wire(x.ID, "call"), "name": x.Name})
			case llm.PartToolResult:
				out = append(out, part{"call_id": p.wire(x.ID, "result"), "result": x.Result})
			case llm.PartRaw:
				if x.Provider == "toy" && !p.is("drops blocks") || p.is("sends all blocks") {
					out = append(out, part{"block": x.Block})
				}
			default:
				return nil, fail(llm.KindTerminal, "unknown part")
			}
		}
	}
	if len(out) == 0 && !p.is("sends nothing") {
		return nil, fail(llm.KindTerminal, "nothing to say")
	}
	whole := map[string]any{"model": req.Model, "parts": out}
	if p.is("tells who asks") {
		whole["agent"] = req.AgentType
	}
	if p.is("puts the key into the body") {
		whole["key"] = p.key
	}
	return json.Marshal(whole)
}

func (p *toy) wire(id, where string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wire, ok := p.ids[id]; ok && !p.is("sends its own ids") {
		return wire
	}
	derived := fmt.Sprintf("c_%x", id)
	derived = derived[:min(len(derived), 60)]
	if p.is("sends other ids with results") {
		derived += where[:1]
	}
	return derived
}

func (p *toy) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		if p.is("holds on") {
			ctx = context.WithoutCancel(ctx)
		}
		body, err := p.body(req)
		if err != nil {
			yield(llm.StreamEvent{}, err)
			return
		}
		tries := 1
		if p.is("retries by itself") {
			tries = 2
		}
		var res *http.Response
		for range tries {
			hr, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
			if err != nil {
				yield(llm.StreamEvent{}, fail(llm.KindTerminal, "%s", p.hide(err.Error())))
				return
			}
			hr.Header.Set("X-Api-Key", p.key)
			if res, err = p.client.Do(hr); err != nil {
				yield(llm.StreamEvent{}, p.unreached(err))
				return
			}
			if res.StatusCode < 500 {
				break
			}
		}
		if !p.is("keeps connections") {
			defer func() { _ = res.Body.Close() }()
		}
		if res.StatusCode != http.StatusOK {
			yield(llm.StreamEvent{}, p.refused(res))
			return
		}
		p.read(ctx, res, yield)
	}
}

func (p *toy) unreached(err error) error {
	if p.is("gives up") {
		return fail(llm.KindTerminal, "unreached")
	}
	return fail(llm.KindTransport, "%s", p.hide(err.Error()))
}

func (p *toy) refused(res *http.Response) error {
	b, _ := io.ReadAll(res.Body)
	var f struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(b, &f)
	kind := llm.KindTerminal
	switch s := res.StatusCode; {
	case s == 429:
		kind = llm.KindRateLimit
	case s == 503 || s == 529:
		kind = llm.KindOverloaded
	case s >= 500 || s == 408:
		kind = llm.KindTransport
	}
	if p.is("knows no classes") {
		kind = llm.KindTransport
	}
	e := fail(kind, "status %d: %s", res.StatusCode, p.hide(f.Error.Message))
	if after, err := strconv.ParseUint(strings.TrimSpace(res.Header.Get("Retry-After")), 10, 64); e.Retryable && !p.is("does not wait") {
		if errors.Is(err, strconv.ErrRange) {
			e.RetryAfter = (1<<31 - 1) * time.Millisecond
		} else if err == nil {
			e.RetryAfter = time.Duration(after) * time.Second
		}
	}
	return e
}

type toyEvent struct {
	cassetteEvent
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (p *toy) read(ctx context.Context, res *http.Response, yield func(llm.StreamEvent, error) bool) {
	r := bufio.NewReader(res.Body)
	if p.is("reads once") {
		first := make([]byte, 64)
		n, _ := res.Body.Read(first)
		r = bufio.NewReader(bytes.NewReader(first[:n]))
	}
	var kept []llm.StreamEvent
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			switch {
			case p.is("takes any end") || p.is("takes a broken connection") && !errors.Is(err, io.EOF):
				for _, ev := range kept {
					yield(ev, nil)
				}
				yield(llm.StreamEvent{Type: llm.StreamFinish, Finish: llm.FinishStop}, nil)
			case !p.is("ends without a word"):
				yield(llm.StreamEvent{}, fail(llm.KindTransport, "cut"))
			}
			return
		}
		var ev toyEvent
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &ev); err != nil {
			if strings.TrimSpace(line) == "" {
				continue
			}
			yield(llm.StreamEvent{}, fail(llm.KindTransport, "garbled: %s", p.hide(line)))
			return
		}
		if ev.Error != nil {
			kind := llm.KindOverloaded
			if p.is("takes all failures for final") {
				kind = llm.KindTerminal
			}
			yield(llm.StreamEvent{}, fail(kind, "%s", p.hide(ev.Error.Message)))
			return
		}
		got := ev.event()
		switch got.Type {
		case llm.StreamToolCall:
			got.ID = p.mint(got.ID)
			kept = append(kept, got)
			if p.is("hands calls over at once") {
				kept = nil
				yield(got, nil)
			}
		case llm.StreamFinish:
			for _, k := range kept {
				yield(k, nil)
			}
			if p.is("counts nothing") {
				got.Usage = llm.Usage{}
			}
			if yield(got, nil) && p.is("ends twice") {
				yield(got, nil)
			}
			return
		case llm.StreamText, llm.StreamRaw:
			if !yield(got, nil) {
				return
			}
		default:
			yield(llm.StreamEvent{}, fail(llm.KindTransport, "unknown event"))
			return
		}
	}
}

func (p *toy) mint(wire string) string {
	id := ulid.Make().String()
	if p.is("gives ids twice") {
		id = fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G5%03X", len(wire))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[id] = wire
	return id
}

// toySuite is the suite of the toy's service.
func toySuite(fault string) *ProviderSuite {
	line := func(s string) string { return "data: " + s + "\n\n" }
	end := func(reason string) string {
		return line(`{"type":"finish","finish":"` + reason + `","usage":{"inputTokens":5,"outputTokens":2}}`)
	}
	u := llm.Usage{InputTokens: 5, OutputTokens: 2}
	call := line(`{"type":"tool-call-end","id":"w-1","name":"look_up","arguments":"{}"}`)
	return &ProviderSuite{
		Model: "m",
		Open: func(_ testing.TB, url, key string, client *http.Client) llm.Provider {
			return newToy(fault, url, key, client)
		},
		Exchanges: []Exchange{
			{Name: "text", Body: []byte(line(`{"type":"text-delta","text":"Hello"}`) + line(`{"type":"text-delta","text":"."}`) + end("stop")), Want: Answer{Text: "Hello.", Finish: llm.FinishStop, Usage: u}},
			{Name: "call", WireIDs: []string{"w-1"}, Body: []byte(line(`{"type":"provider-raw","block":{"b":1}}`) + call + end("tool-calls")),
				Want: Answer{Calls: []AnswerCall{{Tool: "look_up", Arguments: "{}"}}, Private: []json.RawMessage{json.RawMessage(`{"b":1}`)}, Finish: llm.FinishToolCalls, Usage: u}},
			{Name: "bound", Body: []byte(end("max-tokens")), Want: Answer{Finish: llm.FinishMaxTokens, Usage: u}},
			{Name: "refusal", Body: []byte(end("refusal")), Want: Answer{Finish: llm.FinishRefusal, Usage: u}},
		},
		Failures: []Failure{{Name: "busy", Body: []byte(line(`{"error":{"message":"busy"}}`)), Kind: llm.KindOverloaded, Retryable: true}},
	}
}

// try holds the toy with a fault to an obligation and returns what it fails by.
func (o providerObligation) try(t *testing.T, fault string, wait time.Duration) string {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	p := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				p.note(fmt.Sprintf("the suite panicked: %v", r))
			}
		}()
		o.check(&providerTest{TB: p, ctx: ctx, suite: toySuite(fault)})
	}()
	<-done
	return p.failed
}

// Each obligation must notice the faults that break it, and an adapter without
// a fault must pass.
func TestProviderSuiteNoticesFaults(t *testing.T) {
	noticed := map[string][]string{
		"recorded answers are understood":                      {"counts nothing", "ends twice"},
		"an answer in small pieces is the same":                {"reads once"},
		"an answer cut at any byte is whole or may be retried": {"takes any end", "hands calls over at once", "ends without a word"},
		"a cut connection may be retried":                      {"takes a broken connection"},
		"no half call is executed":                             {"takes a broken connection"},
		"failures in the midst of an answer are classed":       {"takes all failures for final"},
		"garbage is no answer":                                 {"takes any end"},
		"statuses are classed":                                 {"knows no classes", "does not wait", "retries by itself"},
		"a service out of reach may be retried":                {"gives up"},
		"a silent service does not hold a cancelled request":   {"holds on"},
		"a consumer may leave":                                 {"keeps connections"},
		"many requests at once":                                {"gives ids twice"},
		"ids come back as the service gave them":               {"sends its own ids"},
		"ids of others are sent alike in call and result":      {"sends other ids with results"},
		"private blocks go back as they came":                  {"drops blocks", "sends all blocks"},
		"who asks is not sent":                                 {"tells who asks"},
		"the key is shown nowhere":                             {"shows the key", "repeats the key", "puts the key into the body"},
		"the key goes to no other host":                        {"follows redirects"},
		"nothing is asked where there is nothing to say":       {"sends nothing"},
	}
	left := maps.Clone(noticed)
	for _, o := range providerObligations() {
		t.Run(o.name, func(t *testing.T) {
			require.Empty(t, o.try(t, "", time.Minute), "an adapter without a fault")
			for _, fault := range noticed[o.name] {
				wait := time.Minute
				if fault == "holds on" || fault == "keeps connections" {
					wait = time.Second
				}
				why := o.try(t, fault, wait)
				require.NotEmpty(t, why, "%q is not noticed", fault)
				require.NotContains(t, why, "panicked", fault)
				delete(left, o.name)
			}
		})
	}
	require.Empty(t, slices.Sorted(maps.Keys(left)), "obligations that notice no fault")
}
