package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// capture keeps the text of the one answer that its context waits for. The SDK
// decodes answers into types of its own, which round numbers, drop members that
// they do not know and refuse blocks that they have not heard of; schemas and
// results are taken from here instead.
type capture struct {
	mu     sync.Mutex
	id     jsonrpc.ID
	result json.RawMessage
	refuse *serverError
	lost   bool // the server does not know the session, so it did nothing
}

type captureKey struct{}

// errTaken stands, towards the SDK, in the place of an answer that was taken:
// so the SDK does not decode it too.
var errTaken = errors.New("the answer was taken")

// withCapture returns a context for one request.
func withCapture(ctx context.Context) (context.Context, *capture) {
	c := &capture{}
	return context.WithValue(ctx, captureKey{}, c), c
}

func captureFrom(ctx context.Context) *capture {
	c, _ := ctx.Value(captureKey{}).(*capture)
	return c
}

// expect says which request's answer is meant.
func (c *capture) expect(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
}

// take keeps what resp says if it is the answer, and reports whether that is a
// result.
func (c *capture) take(resp *jsonrpc.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.id.IsValid() || c.id != resp.ID || c.result != nil || c.refuse != nil {
		return false
	}
	if e, ok := resp.Error.(*jsonrpc.Error); ok {
		c.refuse = &serverError{code: e.Code, message: e.Message}
		return false
	}
	c.result = resp.Result
	return len(resp.Result) > 0
}

// forget notes that the server does not know the session.
func (c *capture) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
}

// forgotten reports whether forget was called.
func (c *capture) forgotten() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// get returns the text of the result, or nil, or the server's refusal.
func (c *capture) get() (json.RawMessage, *serverError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result, c.refuse
}
