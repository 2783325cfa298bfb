package mcp

import (
	"errors"
	"sync"
	"time"
)

const (
	// floodBurst and floodRate are how many messages that nobody asked for a
	// server may send at once, and in a second.
	floodBurst = 5_000
	floodRate  = 100
	// maxAsked is how many questions of a server may be open at once.
	maxAsked = 256
)

var (
	errFlood = errors.New("the server floods: it sends too many messages that nobody asked for")
	errAsks  = errors.New("the server floods: it asks too many questions at once")
)

// guard bounds the rate of a server's messages. A notification costs nothing to
// send and something to read.
type guard struct {
	mu     sync.Mutex
	tokens float64
	last   time.Time
}

func newGuard() *guard { return &guard{tokens: floodBurst, last: time.Now()} }

// stray counts one message that was not asked for.
func (g *guard) stray() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.tokens = min(floodBurst, g.tokens+max(0, now.Sub(g.last).Seconds())*floodRate)
	g.last = now
	if g.tokens < 1 {
		return errFlood
	}
	g.tokens--
	return nil
}

// earn makes room for the answers to one request.
func (g *guard) earn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens = min(floodBurst, g.tokens+4)
}
