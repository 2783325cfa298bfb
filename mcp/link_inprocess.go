package mcp

import (
	"context"
	"fmt"
	"net"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// inProcessLink is a connection to a server in this process.
type inProcessLink struct {
	conn   *lineConn
	cancel context.CancelFunc
	ended  chan struct{} // closed when the server's side is gone
}

func (t *InProcess) open(s *Source) (link, error) {
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	// The server must listen before the client speaks.
	session, err := t.Server.Connect(ctx, &sdk.IOTransport{Reader: theirs, Writer: theirs, MaxLineLength: s.opts.MaxMessageBytes}, nil)
	if err != nil {
		cancel()
		ours.Close()
		theirs.Close()
		return nil, fmt.Errorf("the server takes no session: %w", err)
	}
	l := &inProcessLink{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		_ = session.Wait()
	}()
	l.conn = newLineConn(ours, ours, s.opts.MaxMessageBytes, s.opts.probe())
	return l, nil
}

// Connect implements the SDK's Transport.
func (l *inProcessLink) Connect(context.Context) (sdk.Connection, error) { return l.conn, nil }

func (l *inProcessLink) cut(err error) {
	if err != nil {
		_ = l.conn.fail(err)
	}
	l.conn.Close()
	l.cancel()
}

// finish waits for the server's handlers. One that does not heed its context is
// given up: it belongs to the host.
func (l *inProcessLink) finish(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
	}
}

func (l *inProcessLink) why() error { return l.conn.broke() }

func (l *inProcessLink) hint() string { return "" }
