package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is one connection that has been greeted.
type session struct {
	link  link
	cs    *sdk.ClientSession
	ctx   context.Context // ends with the session; requests do too
	stop  context.CancelCauseFunc
	gone  chan struct{} // closed when the SDK has noticed the end
	pages pageTexts
	once  sync.Once
	shut  chan struct{} // closed when close has done its work
}

// implementation is what servers are told of us.
var implementation = sdk.Implementation{Name: "rulvar", Version: "1.0.0"}

// dial connects to the server and greets it. ctx bounds it, whatever the server
// does.
func dial(ctx context.Context, s *Source) (*session, error) {
	l, err := s.transport.open(s)
	if err != nil {
		return nil, fmt.Errorf("the server could not be started: %w", err)
	}
	sess := &session{link: l, gone: make(chan struct{}), shut: make(chan struct{})}
	sess.ctx, sess.stop = context.WithCancelCause(context.Background())
	client := sdk.NewClient(&implementation, &sdk.ClientOptions{
		Logger:                 slog.New(slog.DiscardHandler),
		Capabilities:           &sdk.ClientCapabilities{},
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.changed(sess) },
	})
	type greeting struct {
		cs  *sdk.ClientSession
		err error
	}
	greeted := make(chan greeting, 1)
	go func() {
		cs, err := client.Connect(ctx, l, &sdk.ClientSessionOptions{ProtocolVersion: s.opts.ProtocolVersion})
		greeted <- greeting{cs, err}
	}()
	var g greeting
	select {
	case g = <-greeted:
	case <-ctx.Done():
		l.cut(context.Cause(ctx))
		g = <-greeted // nothing that it may wait for is left
	}
	if g.err == nil && ctx.Err() == nil {
		sess.cs = g.cs
		go func() {
			defer close(sess.gone)
			_ = g.cs.Wait()
		}()
		return sess, nil
	}
	err = explain(ctx, l, g.err)
	l.cut(nil)
	if g.cs != nil {
		_ = g.cs.Close()
	}
	sess.stop(errEnded)
	l.finish(s.opts.Timeouts.Close)
	if hint := l.hint(); hint != "" {
		err = fmt.Errorf("%w; it said: %s", err, hint)
	}
	return nil, err
}

// explain finds the first cause of a failed request.
func explain(ctx context.Context, l link, err error) error {
	cause := context.Cause(ctx)
	if cause != nil && cause != errEnded {
		return cause
	}
	if why := l.why(); why != nil {
		return why
	}
	if cause != nil {
		return cause
	}
	return plain(err)
}

// plainError is an error with a text that may be shown.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() error { return e.err }

var sessionID = regexp.MustCompile(` ?\(session ID: [^)]*\)`)

// plain takes what may be a secret out of the text of an error of the SDK: the
// URL and the id of a session.
func plain(err error) error {
	if err == nil {
		return errNotAnswered
	}
	text := err.Error()
	if ue, ok := errors.AsType[*url.Error](err); ok {
		text = "the request failed: " + ue.Err.Error()
	} else if errors.Is(err, sdk.ErrSessionMissing) {
		text = errForgotten.Error()
	}
	return &plainError{foreignText(sessionID.ReplaceAllString(text, "")), err}
}

func (sess *session) alive() bool {
	select {
	case <-sess.gone:
		return false
	case <-sess.ctx.Done():
		return false
	default:
		return true
	}
}

// wait returns when the session has ended, and why.
func (sess *session) wait() error {
	<-sess.gone
	if why := sess.link.why(); why != nil {
		return why
	}
	if err := sess.cs.Wait(); err != nil {
		return plain(err)
	}
	return errors.New("the server has gone")
}

// close ends the session and waits until nothing is left of it.
func (sess *session) close(grace time.Duration) {
	sess.once.Do(func() {
		defer close(sess.shut)
		sess.stop(errEnded)
		closed := make(chan struct{})
		go func() { defer close(closed); _ = sess.cs.Close() }()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-closed:
		case <-timer.C:
		}
		sess.link.cut(nil)
		sess.link.finish(grace)
		<-closed
	})
	<-sess.shut
}

// request runs one request of the SDK and returns the text of its result, and
// whether that is the server's own. within bounds it; phase names it in the
// error of a time-out.
func (sess *session) request(ctx context.Context, phase string, within time.Duration, do func(context.Context) (any, error)) (_ json.RawMessage, exact bool, _ error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, &timeoutError{phase, within.String()})
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer context.AfterFunc(sess.ctx, func() { abort(context.Cause(sess.ctx)) })()
	ctx, capture := withCapture(ctx)
	result, err := do(ctx)
	text, refused := capture.get()
	switch {
	case len(text) > 0:
		return text, true, nil
	case refused != nil:
		return nil, false, refused
	case capture.forgotten():
		return nil, false, errForgotten
	case err != nil:
		return nil, false, explain(ctx, sess.link, err)
	}
	// The answer came another way than expected, or from the SDK's cache.
	text, err = json.Marshal(result)
	if err != nil {
		return nil, false, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return text, false, nil
}

// listPage asks for one page of the list.
func (sess *session) listPage(ctx context.Context, cursor string, within time.Duration) (json.RawMessage, error) {
	text, exact, err := sess.request(ctx, "listing", within, func(ctx context.Context) (any, error) {
		return sess.cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	})
	switch {
	case err != nil:
		return nil, err
	case exact:
		sess.pages.put(cursor, text)
	default:
		if kept := sess.pages.get(cursor); kept != nil {
			return kept, nil
		}
	}
	return text, nil
}

// call calls a tool.
func (sess *session) call(ctx context.Context, wire string, args json.RawMessage, within time.Duration) (json.RawMessage, error) {
	text, _, err := sess.request(ctx, "the call", within, func(ctx context.Context) (any, error) {
		return sess.cs.CallTool(ctx, &sdk.CallToolParams{Name: wire, Arguments: args})
	})
	return text, err
}

// pageTexts keeps the texts of pages, because the SDK may answer for a page
// from memory, where it has no text.
type pageTexts struct {
	mu    sync.Mutex
	max   int
	size  int
	texts map[string]json.RawMessage
}

func (p *pageTexts) limit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.max = n
}

func (p *pageTexts) put(cursor string, text json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size += len(text); p.texts == nil || p.size > p.max {
		p.texts, p.size = make(map[string]json.RawMessage), len(text)
	}
	p.texts[cursor] = text
}

func (p *pageTexts) get(cursor string) json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.texts[cursor]
}

func (p *pageTexts) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts, p.size = nil, 0
}
