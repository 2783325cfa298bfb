package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpLink is a session over HTTP: many requests, one lifetime.
type httpLink struct {
	sdk   *sdk.StreamableClientTransport
	ctx   context.Context // of every request; its end ends them all
	stop  context.CancelFunc
	idle  func() // closes idle connections of a client of our own
	limit int

	mu      sync.Mutex
	conn    sdk.Connection
	cutOff  bool
	failure error
	closing sync.WaitGroup
}

var errForeignRedirect = errors.New("the server redirects to another scheme, host or port, which is refused")

const maxRedirects = 5

func (t *HTTP) open(s *Source) (link, error) {
	endpoint, err := url.Parse(t.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be read")
	}
	l := &httpLink{limit: s.opts.MaxMessageBytes, idle: func() {}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	client := &http.Client{}
	if t.Client != nil {
		*client = *t.Client
	}
	base := client.Transport
	if base == nil {
		base = http.DefaultTransport
		if shared, ok := base.(*http.Transport); ok && t.Client == nil {
			own := shared.Clone()
			base, l.idle = own, own.CloseIdleConnections
		}
	}
	theirs := client.CheckRedirect
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case !sameOrigin(req.URL, endpoint):
			return errForeignRedirect
		case theirs != nil:
			return theirs(req, via)
		case len(via) >= maxRedirects:
			return errors.New("the server redirects too often")
		}
		return nil
	}
	client.Transport = &roundTripper{
		base: base, link: l, endpoint: endpoint, static: t.Headers, dynamic: t.HeaderFunc,
		wait: min(probeTime, s.opts.Timeouts.Connect/3), guard: newGuard(),
	}
	l.sdk = &sdk.StreamableClientTransport{Endpoint: t.URL, HTTPClient: client, MaxEventSize: s.opts.MaxMessageBytes}
	return l, nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// Connect implements the SDK's Transport. It gives the SDK its own connection,
// because the SDK tells that one, and no other, what was agreed on.
func (l *httpLink) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := l.sdk.Connect(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return conn, nil
}

// cut tells the server that the session is over, unless the server is at
// fault, and ends all requests.
func (l *httpLink) cut(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutOff {
		return
	}
	l.cutOff, l.failure = true, err
	conn := l.conn
	if conn == nil || err != nil {
		l.stop()
	}
	if conn != nil {
		l.closing.Go(func() { _ = conn.Close(); l.stop() })
	}
}

func (l *httpLink) finish(grace time.Duration) {
	timer := time.AfterFunc(grace, l.stop)
	defer timer.Stop()
	l.closing.Wait()
	l.stop()
	l.idle()
}

func (l *httpLink) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

func (l *httpLink) hint() string { return "" }
