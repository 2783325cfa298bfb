package rulvartest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/llm"
)

// waitFor waits until something is so.
func (p *providerTest) waitFor(what string, so func() bool) {
	p.Helper()
	for !so() {
		select {
		case <-p.ctx.Done():
			p.Fatalf("%s: it does not happen", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// failureBody is how both families of services report a failure.
func failureBody(message string) []byte {
	b, err := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": "some_error", "message": message}})
	if err != nil {
		return nil
	}
	return b
}

func classesStatuses(p *providerTest) {
	rows := []struct {
		status int
		header http.Header
		kind   llm.ErrorKind
		retry  bool
		after  time.Duration
	}{
		{status: 429, kind: llm.KindRateLimit, retry: true, header: http.Header{"Retry-After": {"7"}}, after: 7 * time.Second},
		{status: 429, kind: llm.KindRateLimit, retry: true, header: http.Header{"Retry-After": {" 7\t"}}, after: 7 * time.Second},
		{status: 429, kind: llm.KindRateLimit, retry: true, header: http.Header{"Retry-After": {"-3"}}},
		{status: 429, kind: llm.KindRateLimit, retry: true, header: http.Header{"Retry-After": {"soon"}}},
		{status: 429, kind: llm.KindRateLimit, retry: true, header: http.Header{"Retry-After": {"99999999999999999999"}}, after: (1<<31 - 1) * time.Millisecond},
		{status: 429, kind: llm.KindRateLimit, retry: true},
		{status: 529, kind: llm.KindOverloaded, retry: true},
		{status: 503, kind: llm.KindOverloaded, retry: true, header: http.Header{"Retry-After": {"2"}}, after: 2 * time.Second},
		{status: 500, kind: llm.KindTransport, retry: true},
		{status: 502, kind: llm.KindTransport, retry: true},
		{status: 504, kind: llm.KindTransport, retry: true},
		{status: 408, kind: llm.KindTransport, retry: true},
		{status: 400, kind: llm.KindTerminal},
		{status: 401, kind: llm.KindTerminal, header: http.Header{"Retry-After": {"2"}}},
		{status: 403, kind: llm.KindTerminal},
		{status: 404, kind: llm.KindTerminal},
		{status: 413, kind: llm.KindTerminal},
		{status: 422, kind: llm.KindTerminal},
	}
	bodies := map[string][]byte{
		"JSON": failureBody("it went wrong"), "a page": []byte("<html><body>Bad gateway</body></html>"), "nothing": nil, "half": []byte(`{"error":{"mess`),
	}
	for _, row := range rows {
		for kind, body := range bodies {
			what := fmt.Sprintf("status %d with %s", row.status, kind)
			h := row.header.Clone()
			if h == nil {
				h = http.Header{}
			}
			h.Set("Content-Type", "application/json")
			s := p.serve(reply{status: row.status, header: h, body: body})
			_, err := ReadAnswer(p.open(s.URL, nil).Stream(p.ctx, p.hello()))
			pe := p.fault(what, err)
			if pe.Kind != row.kind || pe.Retryable != row.retry || pe.RetryAfter != row.after {
				p.Fatalf("%s: %v, retryable %v after %s; want %s, %v, %s", what, pe, pe.Retryable, pe.RetryAfter, row.kind, row.retry, row.after)
			}
			if n := len(s.requests()); n != 1 {
				p.Fatalf("%s: %d requests were sent; retrying is the engine's", what, n)
			}
			if kind == "JSON" && !strings.Contains(pe.Message, "it went wrong") {
				p.Fatalf("%s: the message is lost: %v", what, pe)
			}
		}
	}
}

func outOfReach(p *providerTest) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatalf("%v", err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	_, err = ReadAnswer(p.open(url, nil).Stream(p.ctx, p.hello()))
	if pe := p.fault("a closed port", err); pe.Kind != llm.KindTransport || !pe.Retryable {
		p.Fatalf("a closed port: %v, retryable %v", pe, pe.Retryable)
	}
}

func refusesRedirect(p *providerTest) {
	other := p.serve(p.textExchange().reply())
	for _, status := range []int{301, 302, 307, 308} {
		s := p.serve(reply{status: status, header: http.Header{"Location": {other.URL + "/elsewhere"}}})
		if a, err := ReadAnswer(p.open(s.URL, nil).Stream(p.ctx, p.hello())); err == nil {
			p.Fatalf("status %d: an answer: %s", status, show(a))
		}
	}
	if n := len(other.requests()); n != 0 {
		p.Fatalf("another host has got %d requests", n)
	}
}

// hidesKey has the service repeat the key wherever it can.
func hidesKey(p *providerTest) {
	echo := "Incorrect key " + suiteKey + ", header Authorization: Bearer " + suiteKey
	x := p.textExchange()
	half := string(x.Body[:len(x.Body)/2])
	replies := map[string]reply{
		"a failure":             {status: 401, body: failureBody(echo)},
		"a page":                {status: 500, body: []byte(echo)},
		"a text":                {status: 403, body: []byte(`"` + echo + `"`)},
		"a failure of a stream": events(half[:strings.LastIndex(half, "\n\n")+2] + "event: error\ndata: " + string(failureBody(echo)) + "\n\n"),
		"an unreadable event":   events("data: " + echo + "\n\n"),
		"a content type":        {header: http.Header{"Content-Type": {"text/html; " + suiteKey}}},
		"a redirect":            {status: 307, header: http.Header{"Location": {"/" + suiteKey}}},
		"a redirect elsewhere":  {status: 307, header: http.Header{"Location": {"http://" + suiteKey + ".invalid/"}}},
	}
	for name, r := range replies {
		s := p.serve(r)
		provider := p.open(s.URL, nil)
		_, err := ReadAnswer(provider.Stream(p.ctx, p.hello()))
		p.fault(name, err)
		for _, shown := range []string{
			err.Error(), fmt.Sprintf("%v %+v %#v", err, err, err), jsonOf(err),
			fmt.Sprintf("%v %+v %#v", provider, provider, provider), jsonOf(provider),
		} {
			if strings.Contains(strings.ToLower(shown), strings.ToLower(suiteKey)) {
				p.Fatalf("%s: the key is shown: %s", name, shown)
			}
		}
		for _, req := range s.requests() {
			if strings.Contains(req.body, suiteKey) || strings.Contains(req.url, suiteKey) && !strings.HasPrefix(name, "a redirect") {
				p.Fatalf("%s: the key is not only in a header", name)
			}
			if !strings.Contains(fmt.Sprint(req.header), suiteKey) {
				p.Fatalf("%s: the key is in no header", name)
			}
		}
	}
}

// jsonOf is what a log that writes JSON would hold.
func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
