package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// stream is one direction, or both, of a connection to a server.
type stream interface {
	io.Closer
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

type readStream interface {
	io.Reader
	stream
}

type writeStream interface {
	io.Writer
	stream
}

const (
	methodDiscover  = "server/discover"
	methodList      = "tools/list"
	methodCall      = "tools/call"
	noteCancelled   = "notifications/cancelled"
	noteToolsChange = "notifications/tools/list_changed"
	noteListening   = "notifications/subscriptions/acknowledged"
)

// longAgo is a deadline that makes a blocked read or write return.
var longAgo = time.Unix(1, 0)

// lineConn is a connection of lines of JSON. Beside what the SDK's own does, it
// bounds a line, the rate of messages and the time of a write; it skips what is
// no message, as servers print; it keeps the text of answers; and it says no in
// the name of a server that does not know the newest greeting and is silent.
type lineConn struct {
	in    *lineReader
	r     readStream
	w     writeStream
	guard *guard
	// probe is how long a server may be silent on the newest greeting.
	probe   time.Duration
	queue   []jsonrpc.Message // of a batch, read by Read alone
	writing chan struct{}     // holds a token while somebody writes
	gone    chan struct{}     // closed with the connection

	mu      sync.Mutex
	pending map[jsonrpc.ID]*capture // requests that wait for an answer
	greeted jsonrpc.ID              // the newest greeting, while it is open
	asked   int                     // questions of the server without an answer
	closed  bool
	failure error // why the connection broke by itself
}

func newLineConn(r readStream, w writeStream, limit int, probe time.Duration) *lineConn {
	return &lineConn{
		in: newLineReader(r, limit), r: r, w: w, guard: newGuard(), probe: probe,
		writing: make(chan struct{}, 1), gone: make(chan struct{}), pending: make(map[jsonrpc.ID]*capture),
	}
}

// SessionID implements the SDK's Connection.
func (c *lineConn) SessionID() string { return "" }

// Read implements the SDK's Connection: it returns the next message that
// matters.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(c.queue) == 0 {
			line, err := c.in.next()
			if err != nil {
				if msg := c.refuseGreeting(err); msg != nil {
					return msg, nil
				}
				return nil, c.fail(err)
			}
			c.queue, err = decodeLine(line)
			if err == nil && len(c.queue) == 0 {
				err = c.guard.stray()
			}
			if err != nil {
				return nil, c.fail(err)
			}
			if len(c.queue) == 0 {
				continue
			}
		}
		msg := c.queue[0]
		c.queue = c.queue[1:]
		msg, err := c.admit(msg)
		if err != nil {
			return nil, c.fail(err)
		}
		if msg != nil {
			return msg, nil
		}
	}
}

// admit returns what the SDK gets of a message, or nothing.
func (c *lineConn) admit(msg jsonrpc.Message) (jsonrpc.Message, error) {
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		return c.answer(msg)
	case *jsonrpc.Request:
		if err := c.guard.stray(); err != nil {
			return nil, err
		}
		if !msg.IsCall() {
			switch msg.Method {
			case noteToolsChange, noteListening, noteCancelled:
				return msg, nil
			}
			return nil, nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asked++; c.asked > maxAsked {
			return nil, errAsks
		}
		return msg, nil
	}
	return nil, nil
}

func (c *lineConn) answer(resp *jsonrpc.Response) (jsonrpc.Message, error) {
	c.mu.Lock()
	capture, ok := c.pending[resp.ID]
	delete(c.pending, resp.ID)
	if ok && c.greeted == resp.ID {
		c.greeted = jsonrpc.ID{}
		if !c.closed {
			_ = c.r.SetReadDeadline(time.Time{})
		}
	}
	c.mu.Unlock()
	if !ok {
		return nil, c.guard.stray()
	}
	if capture != nil && capture.take(resp) {
		return &jsonrpc.Response{ID: resp.ID, Error: errTaken}, nil
	}
	return resp, nil
}

// refuseGreeting answers the newest greeting for a server that is silent, so
// that the SDK goes on with the older one.
func (c *lineConn) refuseGreeting(err error) jsonrpc.Message {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.greeted.IsValid() {
		return nil
	}
	resp := &jsonrpc.Response{ID: c.greeted, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}}
	delete(c.pending, c.greeted)
	c.greeted = jsonrpc.ID{}
	_ = c.r.SetReadDeadline(time.Time{})
	return resp
}

// Write implements the SDK's Connection. It returns when ctx ends, also where
// the server does not read.
func (c *lineConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("the message cannot be written: %w", err)
	}
	c.note(ctx, msg)
	err = c.send(ctx, append(data, '\n'))
	if req, ok := msg.(*jsonrpc.Request); ok && err != nil && req.IsCall() {
		c.mu.Lock()
		delete(c.pending, req.ID)
		c.mu.Unlock()
	}
	return err
}

// note keeps account of who waits for what.
func (c *lineConn) note(ctx context.Context, msg jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		c.asked--
	case *jsonrpc.Request:
		if msg.IsCall() {
			capture := captureFrom(ctx)
			if capture != nil {
				capture.expect(msg.ID)
			}
			c.pending[msg.ID] = capture
			if msg.Method == methodDiscover && !c.closed && c.r.SetReadDeadline(time.Now().Add(c.probe)) == nil {
				c.greeted = msg.ID
			}
		} else if msg.Method == noteCancelled {
			var p struct {
				RequestID any `json:"requestId"`
			}
			if json.Unmarshal(msg.Params, &p) == nil {
				if id, err := jsonrpc.MakeID(p.RequestID); err == nil {
					delete(c.pending, id)
				}
			}
		}
	}
}

func (c *lineConn) send(ctx context.Context, data []byte) error {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.gone:
		return c.why()
	}
	defer func() { <-c.writing }()
	if err := ctx.Err(); err != nil {
		return err
	}
	stopped := func() {}
	if ctx.Done() != nil {
		expired := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(expired)
			_ = c.w.SetWriteDeadline(longAgo)
		})
		stopped = func() {
			if !stop() {
				<-expired
				_ = c.w.SetWriteDeadline(time.Time{})
			}
		}
	}
	n, err := c.w.Write(data)
	stopped()
	switch {
	case err == nil:
		return nil
	case n == 0 && ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("the server does not read its input") // half a message is written
	}
	return c.fail(err)
}

// fail breaks the connection and returns why it broke first.
func (c *lineConn) fail(err error) error {
	c.mu.Lock()
	if !c.closed && c.failure == nil {
		c.failure = err
	}
	c.mu.Unlock()
	c.Close()
	return c.why()
}

// why says why the connection is not there.
func (c *lineConn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure == nil:
		return io.EOF
	case errors.Is(c.failure, io.EOF), errors.Is(c.failure, os.ErrClosed), errors.Is(c.failure, io.ErrClosedPipe):
		return fmt.Errorf("the server has gone: %w", io.EOF)
	}
	return c.failure
}

// broke says why the connection broke by itself, or nil.
func (c *lineConn) broke() error {
	c.mu.Lock()
	failed := c.failure != nil
	c.mu.Unlock()
	if !failed {
		return nil
	}
	return c.why()
}

// Close implements the SDK's Connection. It does not wait for the server.
func (c *lineConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	close(c.gone)
	_ = c.w.Close()
	if c.r.SetReadDeadline(longAgo) != nil {
		_ = c.r.Close()
	}
	return nil
}
