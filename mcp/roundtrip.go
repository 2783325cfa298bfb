package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// HeaderFunc returns headers for one request.
type HeaderFunc func(ctx context.Context) (http.Header, error)

// reserved are the headers that the protocol sets itself.
var reserved = []string{
	"Accept", "Content-Length", "Content-Type", "Host", "Last-Event-Id", "Transfer-Encoding",
	"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id",
}

func reservedHeader(h http.Header) (string, bool) {
	for name := range h {
		canonical := http.CanonicalHeaderKey(name)
		if strings.HasPrefix(canonical, "Mcp-Param-") {
			return name, true
		}
		for _, r := range reserved {
			if canonical == r {
				return name, true
			}
		}
	}
	return "", false
}

// roundTripper sends the requests of one session.
type roundTripper struct {
	base     http.RoundTripper
	link     *httpLink
	endpoint *url.URL
	static   http.Header
	dynamic  HeaderFunc
	// wait is how long the answer to a request that opens a stream of
	// notifications may take to begin. The SDK waits for it without a bound.
	wait  time.Duration
	guard *guard
}

// RoundTrip implements http.RoundTripper.
func (rt *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameOrigin(req.URL, rt.endpoint) {
		return nil, errForeignRedirect
	}
	ctx, cancel := context.WithCancel(req.Context())
	unlink := context.AfterFunc(rt.link.ctx, cancel)
	done := func() { unlink(); cancel() }
	out := req.Clone(ctx)
	if err := rt.setHeaders(ctx, out.Header); err != nil {
		done()
		return nil, err
	}
	capture := captureFrom(ctx)
	if capture != nil && !expectAnswer(capture, req) {
		capture = nil
	}
	rt.guard.earn()
	resp, err := rt.send(out, cancel)
	if err != nil {
		done()
		return nil, err
	}
	if capture != nil && resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != "" {
		capture.forget()
	}
	resp.Body = rt.body(resp, capture, done)
	return resp, nil
}

// send sends the request. One that opens a stream of notifications is answered
// for a server that does not begin to answer.
func (rt *roundTripper) send(req *http.Request, cancel context.CancelFunc) (*http.Response, error) {
	stream := req.Method == http.MethodGet && req.Header.Get("Last-Event-Id") == ""
	if !stream && req.Header.Get("Mcp-Method") != "subscriptions/listen" {
		return rt.base.RoundTrip(req)
	}
	timer := time.AfterFunc(rt.wait, cancel)
	resp, err := rt.base.RoundTrip(req)
	if timer.Stop() || req.Context().Err() == nil {
		return resp, err
	}
	if err == nil {
		resp.Body.Close()
	}
	if !stream {
		return nil, errNotAnswered
	}
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Body: http.NoBody, Request: req,
	}, nil
}

// setHeaders adds the host's headers.
func (rt *roundTripper) setHeaders(ctx context.Context, h http.Header) (err error) {
	for name, values := range rt.static {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if rt.dynamic == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the host's header function failed unexpectedly")
		}
	}()
	more, err := rt.dynamic(ctx)
	if err != nil {
		return fmt.Errorf("the host's header function failed: %w", err)
	}
	if name, bad := reservedHeader(more); bad {
		return fmt.Errorf("the host's header function sets %q, which belongs to the protocol", name)
	}
	for name, values := range more {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return nil
}

// expectAnswer tells the capture which answer is meant. The request that
// resumes a stream has no body and is for the same answer.
func expectAnswer(c *capture, req *http.Request) bool {
	if req.Method == http.MethodGet {
		return true
	}
	if req.Method != http.MethodPost || req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return false
	}
	msg, err := decodeMessage(text)
	call, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok || !call.IsCall() || (call.Method != methodCall && call.Method != methodList) {
		return false
	}
	c.expect(call.ID)
	return true
}

// body wraps the body of an answer with its bounds.
func (rt *roundTripper) body(resp *http.Response, c *capture, done func()) io.ReadCloser {
	b := &body{ReadCloser: resp.Body, rt: rt, capture: c, done: done}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		b.events = &eventScanner{limit: rt.link.limit, each: b.event}
	}
	return b
}

// body is the body of an answer: bounded, and read along.
type body struct {
	io.ReadCloser
	rt      *roundTripper
	capture *capture
	events  *eventScanner // nil where the body is one message
	text    bytes.Buffer
	size    int
	once    sync.Once
	done    func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if fault := b.take(p[:n], err == io.EOF); fault != nil {
		b.rt.link.cut(fault)
		return 0, fault
	}
	return n, err
}

func (b *body) take(p []byte, last bool) error {
	if b.events != nil {
		return b.events.write(p)
	}
	b.size += len(p)
	if b.size > b.rt.link.limit {
		return &tooLongError{b.rt.link.limit}
	}
	if b.capture == nil {
		return nil
	}
	b.text.Write(p)
	if last {
		b.keep(b.text.Bytes())
	}
	return nil
}

// event is called for each event of a stream.
func (b *body) event(data []byte) error {
	if err := b.rt.guard.stray(); err != nil {
		return err
	}
	if b.capture != nil {
		b.keep(data)
	}
	return nil
}

func (b *body) keep(text []byte) {
	msg, err := decodeMessage(validText(text))
	if resp, ok := msg.(*jsonrpc.Response); err == nil && ok {
		b.capture.take(resp)
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.done)
	return err
}
