package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/mcp"
)

// serveHTTP runs a handler that tests may replace while it runs.
func serveHTTP(t *testing.T, h http.Handler) (*httptest.Server, *swap) {
	sw := &swap{h: h}
	srv := httptest.NewServer(sw)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv, sw
}

type swap struct {
	mu sync.Mutex
	h  http.Handler
}

func (s *swap) set(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h = h
}

func (s *swap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.h
	s.mu.Unlock()
	h.ServeHTTP(w, r)
}

func streamable(t *testing.T, opts *sdk.StreamableHTTPOptions) http.Handler {
	server := official()
	t.Cleanup(func() {
		for session := range server.Sessions() {
			session.Close()
		}
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts)
}

func TestHTTP(t *testing.T) {
	for _, row := range []struct {
		name string
		opts *sdk.StreamableHTTPOptions
	}{
		{"streams", nil},
		{"JSON", &sdk.StreamableHTTPOptions{JSONResponse: true}},
		{"stateless", &sdk.StreamableHTTPOptions{Stateless: true}},
	} {
		for _, version := range []string{"", "2025-11-25", "2025-03-26"} {
			t.Run(row.name+" "+version, func(t *testing.T) {
				srv, _ := serveHTTP(t, streamable(t, row.opts))
				checkOfficial(t, open(t, &mcp.HTTP{URL: srv.URL}, mcp.Options{ProtocolVersion: version}))
			})
		}
	}
}

// A server that was started again knows no session; the call is made in a new
// one.
func TestHTTPRestart(t *testing.T) {
	srv, sw := serveHTTP(t, streamable(t, nil))
	s := open(t, &mcp.HTTP{URL: srv.URL}, mcp.Options{ProtocolVersion: "2025-11-25"})
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	sw.set(streamable(t, nil))
	for _, tool := range tools {
		if tool.Name() == "texts" {
			got := calls(t, tool, call("texts"))[0]
			require.Equal(t, "one two", got.text())
		}
	}
}

// Headers go with each request, fresh each time, and to one host alone.
func TestHTTPHeaders(t *testing.T) {
	var stolen atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	t.Cleanup(thief.Close)
	var mu sync.Mutex
	seen := map[string]bool{}
	inner := streamable(t, &sdk.StreamableHTTPOptions{JSONResponse: true})
	srv, sw := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Team") != "red" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer t") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mu.Lock()
		seen[r.Header.Get("Authorization")] = true
		mu.Unlock()
		inner.ServeHTTP(w, r)
	}))
	var n atomic.Int64
	s := open(t, &mcp.HTTP{
		URL: srv.URL, Headers: http.Header{"X-Team": {"red"}},
		HeaderFunc: func(context.Context) (http.Header, error) {
			return http.Header{"Authorization": {fmt.Sprintf("Bearer t%d", n.Add(1))}}, nil
		},
	}, mcp.Options{})
	require.Equal(t, "one two", calls(t, s, call("texts"))[0].text())
	require.Greater(t, len(seen), 2)

	sw.set(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	got := calls(t, toolOf(t, s, "texts"), call("texts"))[0]
	require.Equal(t, string(mcp.FailureConnection), got.code)
	require.Contains(t, got.text(), "redirects to another scheme, host or port")
	require.Zero(t, stolen.Load())
}

func toolOf(t *testing.T, s *mcp.Source, name string) *rulvar.Tool {
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	for _, tool := range tools {
		if tool.Name() == name {
			return tool
		}
	}
	t.Fatal("no tool " + name)
	return nil
}

// A header function that fails, panics or oversteps fails the request.
func TestHTTPHeaderFunc(t *testing.T) {
	srv, _ := serveHTTP(t, streamable(t, nil))
	for _, row := range []struct {
		name, want string
		f          mcp.HeaderFunc
	}{
		{"fails", "header function failed: no token", func(context.Context) (http.Header, error) { return nil, fmt.Errorf("no token") }},
		{"panics", "header function failed unexpectedly", func(context.Context) (http.Header, error) { panic("s3cret") }},
		{"oversteps", `sets "Mcp-Session-Id"`, func(context.Context) (http.Header, error) {
			return http.Header{"Mcp-Session-Id": {"1"}}, nil
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, &mcp.HTTP{URL: srv.URL + "/?key=s3cret", HeaderFunc: row.f}, mcp.Options{})
			_, err := s.Tools(testCtx(t))
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}

// answering is a server of the older protocol that answers tools/call and the
// stream of notifications as the test says.
func answering(onCall, onStream http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			onStream(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		text := string(body)
		id := text[strings.Index(text, `"id":`)+5:]
		id = id[:strings.IndexAny(id, ",}")]
		reply := func(result string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
		}
		switch {
		case strings.Contains(text, `"server/discover"`):
			w.WriteHeader(http.StatusNotFound)
		case strings.Contains(text, `"initialize"`):
			reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}`)
		case strings.Contains(text, `"tools/list"`):
			reply(`{"tools":[` + echoTool + `]}`)
		case strings.Contains(text, `"tools/call"`):
			onCall(w, r)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

func noStream(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }

func TestHTTPHostile(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client goes
		<-r.Context().Done()
	}
	stream := func(write func(w io.Writer)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			for r.Context().Err() == nil {
				write(w)
			}
		}
	}
	note := "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"
	for _, row := range []struct {
		name string
		call http.HandlerFunc
		code mcp.FailureKind
		want string
	}{
		{"hangs", hang, mcp.FailureTimeout, "took longer than 1s"},
		{"floods", stream(func(w io.Writer) { io.WriteString(w, strings.Repeat(note, 100)) }), mcp.FailureConnection, "floods"},
		{"sends an event without end", stream(func(w io.Writer) { io.WriteString(w, "data: "+strings.Repeat("x", 1<<20)) }), mcp.FailureConnection, "more than 4194304 bytes"},
		{"sends 20 MiB", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 20<<20)+`"}]}}`)
		}, mcp.FailureConnection, "more than 4194304 bytes"},
		{"sends no JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `<html>`)
		}, mcp.FailureConnection, ""},
		{"is overloaded", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, mcp.FailureConnection, "Service Unavailable"},
		{"ends the stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, note)
		}, mcp.FailureConnection, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv, _ := serveHTTP(t, answering(row.call, noStream))
			timeouts := mcp.Timeouts{}
			if row.code == mcp.FailureTimeout {
				timeouts.Call = time.Second
			}
			s := open(t, &mcp.HTTP{URL: srv.URL + "/?key=s3cret"}, mcp.Options{Timeouts: timeouts, MaxMessageBytes: 4 << 20})
			got := calls(t, s, echo(""))[0]
			require.Equal(t, string(row.code), got.code, got.text())
			require.Contains(t, got.text(), row.want)
			require.NotContains(t, got.text(), "s3cret")
		})
	}
	t.Run("hangs in the stream of notifications", func(t *testing.T) {
		srv, _ := serveHTTP(t, answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, hang))
		s := open(t, &mcp.HTTP{URL: srv.URL}, mcp.Options{Timeouts: mcp.Timeouts{Connect: 6 * time.Second}})
		_, err := s.Tools(testCtx(t))
		require.NoError(t, err, "it is a server without notifications")
	})
	t.Run("never answers", func(t *testing.T) {
		srv, _ := serveHTTP(t, http.HandlerFunc(hang))
		s := open(t, &mcp.HTTP{URL: srv.URL}, mcp.Options{Timeouts: mcp.Timeouts{Connect: 200 * time.Millisecond}})
		_, err := s.Tools(testCtx(t))
		require.ErrorContains(t, err, "connecting took longer than 200ms")
	})
	t.Run("is not there", func(t *testing.T) {
		srv, _ := serveHTTP(t, http.HandlerFunc(hang))
		srv.Close()
		s := open(t, &mcp.HTTP{URL: srv.URL}, mcp.Options{})
		_, err := s.Tools(testCtx(t))
		require.ErrorContains(t, err, "the request failed")
	})
}

// A notification over HTTP reaches the source.
func TestHTTPListChanged(t *testing.T) {
	for _, version := range []string{"", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			server := official()
			srv, _ := serveHTTP(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
			s := open(t, &mcp.HTTP{URL: srv.URL}, mcp.Options{ProtocolVersion: version})
			tools, err := s.Tools(testCtx(t))
			require.NoError(t, err)
			server.RemoveTools("fail")
			require.Eventually(t, func() bool {
				now, err := s.Tools(testCtx(t))
				return err == nil && len(now) == len(tools)-1
			}, waitLong, tick)
		})
	}
}
