package rulvartest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// reply is what the suite's service does with a request.
type reply struct {
	status int // default 200
	header http.Header
	body   []byte
	piece  int  // bytes of the body at a time; 0 is all
	abort  bool // the connection breaks behind the body
	hang   bool // nothing comes behind the body
	mute   bool // not even a header comes
}

func (x *Exchange) reply() reply {
	ct := x.ContentType
	if ct == "" {
		ct = "text/event-stream"
	}
	return reply{header: http.Header{"Content-Type": {ct}}, body: x.Body}
}

func events(body string) reply {
	return reply{header: http.Header{"Content-Type": {"text/event-stream"}}, body: []byte(body)}
}

// received is a request that the suite's service has got.
type received struct {
	url    string
	header http.Header
	body   string
}

// service plays a model service.
type service struct {
	*httptest.Server
	answer func(n int) reply

	mu   sync.Mutex
	got  []received
	left chan struct{} // a client has gone away
}

// serve starts a service that gives the replies in turn, the last one again and
// again.
func (p *providerTest) serve(replies ...reply) *service {
	p.Helper()
	s := &service{left: make(chan struct{}, 100)}
	s.answer = func(n int) reply { return replies[min(n, len(replies)-1)] }
	s.Server = httptest.NewServer(http.HandlerFunc(s.handle))
	p.Cleanup(func() {
		s.CloseClientConnections() // an adapter may hold one for ever
		s.Close()
	})
	return s
}

func (s *service) handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	n := len(s.got)
	s.got = append(s.got, received{url: r.URL.String(), header: r.Header.Clone(), body: string(body)})
	s.mu.Unlock()
	rep := s.answer(n)
	gone := func() {
		<-r.Context().Done()
		s.left <- struct{}{}
	}
	if rep.mute {
		gone()
		return
	}
	for k, v := range rep.header {
		w.Header()[k] = v
	}
	if rep.status == 0 {
		rep.status = http.StatusOK
	}
	w.WriteHeader(rep.status)
	size := rep.piece
	if size == 0 {
		size = max(len(rep.body), 1)
	}
	for rest := rep.body; len(rest) > 0; rest = rest[min(size, len(rest)):] {
		if _, err := w.Write(rest[:min(size, len(rest))]); err != nil {
			s.left <- struct{}{}
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
	switch {
	case rep.abort:
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case rep.hang:
		_ = http.NewResponseController(w).Flush()
		gone()
	}
}

func (s *service) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

// canned is a transport that answers without a network: thousands of cut
// answers take a moment with it.
type canned struct {
	reply reply
	err   error // behind the body; nil is its end
}

func (c *canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	body := io.Reader(bytes.NewReader(c.reply.body))
	if c.err != nil {
		body = io.MultiReader(body, failing{c.err})
	}
	status := c.reply.status
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.reply.header.Clone(), Body: io.NopCloser(body), ContentLength: -1, Request: req,
	}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
