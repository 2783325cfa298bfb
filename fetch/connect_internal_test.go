package fetch

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

func text(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, s)
}

// redirectTo answers every request with a redirect, but for the path /end.
func redirectTo(location string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			text(w, "arrived")
			return
		}
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	}
}

func TestFetch(t *testing.T) {
	r := newRig(t, tablePolicies["P"], func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("User-Agent") != DefaultUserAgent || r.Header.Get("Cookie") != "" || r.ProtoMajor != 1 {
			t.Errorf("%s %v", r.Proto, r.Header)
		}
		w.Header().Set("Set-Cookie", "a=b")
		text(w, "hello "+r.Host+r.URL.RequestURI())
	})
	res, err := r.fetch("https://EXAMPLE.com./a?b=1#c")
	require.NoError(t, err)
	require.Equal(t, &Result{
		URL: "https://EXAMPLE.com./a?b=1#c", FinalURL: "https://example.com/a?b=1", Status: 200, ContentType: "text/plain; charset=utf-8",
		Bytes: 22, Untrusted: untrusted, Body: "hello example.com/a?b=1",
	}, func() *Result { res.Bytes--; return res }())
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort(publicAddr + ":443")}, r.dialled)
	require.Equal(t, []string{"decision=allowed hop=0 host=example.com port=443 address=93.184.215.14 url=https://example.com/a?…"}, r.by.logged)
	_, err = r.fetch("https://example.com/b")
	require.NoError(t, err)
	require.Len(t, r.dialled, 2, "each request has a connection of its own")
}

// Redirects: r1 to r5, r9 and r12 of the reference notes, and what is near them.
func TestRedirects(t *testing.T) {
	for _, row := range []struct{ name, location, code string }{
		{"to a host that is denied", "https://evil.example.com/end", codeDenied},
		{"from https to http", "http://example.com/end", codeScheme},
		{"to an address", "https://169.254.169.254/end", codeIPBlocked},
		{"to a mapped address", "https://[::ffff:7f00:1]/end", codeIPBlocked},
		{"to a number", "https://2130706433/end", codeIPAmbiguous},
		{"to a host that needs an approval", "https://pay.example.com/end", codeRedirectApproval},
		{"to a host that nothing names", "https://other.org/end", codeNotAllowed},
		{"to itself", "https://example.com/start", codeRedirectLoop},
		{"without a scheme", "//evil.example.com/end", codeDenied},
		{"backslashes", `\\evil.example.com/end`, codeURLCharset},
		{"slash and backslash", `/\evil.example.com/end`, codeURLCharset},
		{"a user name", "https://example.com@evil.example.com/end", codeUserinfo},
		{"a script", "javascript:alert(1)", codeScheme},
		{"a file", "file:///etc/passwd", codeScheme},
		{"another port", "https://example.com:22/end", codePort},
		{"too long", "https://example.com/" + strings.Repeat("x", maxURL), codeURLTooLong},
		{"unreadable", "https://%zz/", codeURLParse},
		{"to a local name", "https://localhost/end", codeSingleLabel},
		{"to another host", "https://a.example.com/end", ""},
		{"relative", "../end", ""},
		{"without a host", "/end", ""},
		{"with a fragment", "/end#x", ""},
		{"nowhere", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, tablePolicies["P"], redirectTo(row.location))
			res, err := r.fetch("https://example.com/start")
			if row.code == "" {
				require.NoError(t, err)
				if row.location != "" {
					require.Equal(t, "arrived", res.Body)
					require.Len(t, res.Redirects, 1)
				}
				return
			}
			require.ErrorIs(t, err, rulvar.Code(row.code))
			require.True(t, isRefusal(err))
			require.Len(t, r.dialled, 1, "the second connection is never made")
			require.Contains(t, r.by.logged[len(r.by.logged)-1], "decision="+row.code+" hop=1")
		})
	}
}

func TestRedirectLimit(t *testing.T) {
	hops := func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.Path) > 6 {
			text(w, "arrived")
			return
		}
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	}
	r := newRig(t, tablePolicies["P"], hops)
	res, err := r.fetch("https://example.com/x")
	require.NoError(t, err)
	require.Len(t, res.Redirects, 5)
	r.dialled = nil
	_, err = r.fetch("https://example.com/")
	require.ErrorIs(t, err, rulvar.Code(codeRedirectLimit))
	require.Len(t, r.dialled, 6)

	none := tablePolicies["P"]
	none.MaxRedirects = -1
	r = newRig(t, none, hops)
	_, err = r.fetch("https://example.com/")
	require.ErrorIs(t, err, rulvar.Code(codeRedirectLimit))
	require.Len(t, r.dialled, 1)
}

// What asks needs an approval of the call; a redirect is covered by it only
// where it stays at the origin that was approved.
func TestApprovedHosts(t *testing.T) {
	for _, row := range []struct {
		name, url, location string
		approved            bool
		code                string
	}{
		{"approved", "https://pay.example.com/end", "", true, ""},
		{"not approved", "https://pay.example.com/end", "", false, codeNeedsApproval},
		{"a redirect at the same origin", "https://pay.example.com/start", "/end", true, ""},
		{"a redirect to another host that asks", "https://pay.example.com/start", "https://partner.org/end", true, codeRedirectApproval},
		{"approved for another host", "https://example.com/start", "https://pay.example.com/end", true, codeRedirectApproval},
		{"an approval covers no deny", "https://evil.example.com/end", "", true, codeDenied},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, tablePolicies["P"], redirectTo(row.location))
			r.by.approved = row.approved
			_, err := r.fetch(row.url)
			if row.code == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, rulvar.Code(row.code))
			}
		})
	}
	t.Run("the chain asks when it is asked again", func(t *testing.T) {
		r := newRig(t, tablePolicies["P"], redirectTo("https://a.example.com/end"))
		r.by.rules = func(h string) rulvar.Verdict {
			if h == "a.example.com:443" {
				return rulvar.VerdictDeny
			}
			return rulvar.VerdictPass
		}
		_, err := r.fetch("https://example.com/start")
		require.ErrorIs(t, err, rulvar.Code(codeDenied))
	})
}

// r6: a name is looked up once, and the connection goes where that answer said.
func TestRebinding(t *testing.T) {
	r := newRig(t, tablePolicies["P"], func(w http.ResponseWriter, _ *http.Request) { text(w, "ok") })
	r.names.answers["example.com"] = [][]string{{publicAddr}, {"127.0.0.1"}}
	_, err := r.fetch("https://example.com/")
	require.NoError(t, err)
	require.Equal(t, []string{"example.com."}, r.names.asked)
	require.Equal(t, publicAddr, r.dialled[0].Addr().String())
	_, err = r.fetch("https://example.com/")
	require.ErrorIs(t, err, rulvar.Code(codeDNSBlocked), "the next call looks up anew")
	require.Len(t, r.dialled, 1)
}

// And each hop of a redirect is looked up and decided about for itself.
func TestRebindingBehindARedirect(t *testing.T) {
	r := newRig(t, tablePolicies["P"], redirectTo("https://example.com/end"))
	r.names.answers["example.com"] = [][]string{{publicAddr}, {"10.0.0.1", publicAddr}}
	_, err := r.fetch("https://example.com/start")
	require.ErrorIs(t, err, rulvar.Code(codeDNSBlocked))
	require.Len(t, r.dialled, 1)
}

// r7: whatever hands an address to the dialer, the socket is not connected.
func TestControlIsTheLastLine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	c := tableClient(t, "P")
	to := netip.MustParseAddrPort(listener.Addr().String())
	conn, _, err := c.connect(context.Background(), []netip.Addr{to.Addr()}, to.Port())
	require.ErrorIs(t, err, rulvar.Code(codeDNSBlocked))
	require.Nil(t, conn)
	require.True(t, isRefusal(requestError(err)))

	opts := Options{Allow: []string{"127.0.0.1"}, AllowIPLiteral: true, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	c, err = newClient(&opts)
	require.NoError(t, err)
	conn, _, err = c.connect(context.Background(), []netip.Addr{to.Addr()}, to.Port())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// r8: no proxy of the environment is used.
func TestProxiesInTheEnvironment(t *testing.T) {
	var hits atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hits.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	r := newRig(t, tablePolicies["P"], func(w http.ResponseWriter, _ *http.Request) { text(w, "direct") })
	res, err := r.fetch("https://example.com/")
	require.NoError(t, err)
	require.Equal(t, "direct", res.Body)
	require.Zero(t, hits.Load())

	// With the real dialer too, where there is nothing between.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, "direct") }))
	defer server.Close()
	c, err := newClient(&Options{
		Allow: []string{server.Listener.Addr().String()}, AllowHTTP: true, AllowIPLiteral: true,
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	require.NoError(t, err)
	res, err = c.fetch(&quiet{Context: context.Background()}, Input{URL: server.URL})
	require.NoError(t, err)
	require.Equal(t, "direct", res.Body)
	require.Zero(t, hits.Load())
}

// r9: what the model has set goes to the origin that it named and to no other.
func TestHeaders(t *testing.T) {
	opts := tablePolicies["P"]
	opts.Headers = []string{"Accept", "X-Token"}
	r := newRig(t, opts, redirectTo("https://a.example.com/end"))
	_, err := r.c.fetch(r.by, Input{URL: "https://example.com/start", Headers: map[string]string{"x-token": "secret", "accept": "text/plain"}})
	require.NoError(t, err)
	require.Equal(t, "secret", r.seen[0].Header.Get("X-Token"))
	require.Empty(t, r.seen[1].Header.Get("X-Token"))
	require.Empty(t, r.seen[1].Header.Get("Accept"))
	require.Empty(t, r.seen[1].Header.Get("Referer"))
	for _, bad := range []map[string]string{
		{"Authorization": "x"}, {"Host": "evil.example.com"}, {"X-Other": "x"}, {"X-Token": "a\r\nHost: b"}, {"Accept": "a", "accept": "b"}, {"": "x"},
	} {
		_, err := r.c.fetch(r.by, Input{URL: "https://example.com/", Headers: bad})
		require.ErrorIs(t, err, rulvar.Code(codeHeader))
	}
	require.Len(t, r.dialled, 2)
}

// r10: a body that grows when it is decompressed ends at the bound.
func TestDecompressionBomb(t *testing.T) {
	opts := tablePolicies["P"]
	opts.MaxBody = 64 << 10
	r := newRig(t, opts, func(w http.ResponseWriter, r *http.Request) {
		require.Contains(t, r.Header.Get("Accept-Encoding"), "gzip")
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		zeros := make([]byte, 1<<16)
		for range 1 << 14 { // 1 GiB
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
		z.Close()
	})
	res, err := r.fetch("https://example.com/")
	require.NoError(t, err)
	require.True(t, res.Truncated)
	require.Equal(t, 64<<10, res.Bytes)
	require.LessOrEqual(t, len(res.Body), 64<<10)
}

// r11: a body that does not end is left when the run is, and its connection is
// closed.
func TestSlowBody(t *testing.T) {
	gone := make(chan struct{})
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	r := newRig(t, tablePolicies["P"], func(w http.ResponseWriter, r *http.Request) {
		text(w, "begun")
		w.(http.Flusher).Flush()
		cancel(stopped)
		<-r.Context().Done()
		close(gone)
	})
	r.by.Context = ctx
	_, err := r.fetch("https://example.com/")
	require.ErrorIs(t, err, stopped)
	<-gone
}

// bodyUntil is a body that ends with a context.
type bodyUntil struct {
	io.Reader
	ctx context.Context
}

func (b *bodyUntil) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.ctx.Done()
		err = b.ctx.Err()
	}
	return n, err
}
func (*bodyUntil) Close() error { return nil }

// And when the time of the call is over what came is kept.
func TestTimeouts(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errTimeout)
	c, res := tableClient(t, "P"), &Result{}
	c.take(ctx, res, &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: &bodyUntil{strings.NewReader("begun"), ctx}}, http.MethodGet)
	require.True(t, res.Truncated)
	require.Equal(t, "begun", res.Body)
	require.Contains(t, res.Notes[0], "timeout")

	opts := tablePolicies["P"]
	opts.Timeout = 100 * time.Millisecond
	r := newRig(t, opts, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := r.fetch("https://example.com/")
	require.ErrorIs(t, err, rulvar.Code(codeTimeout))
	require.False(t, isRefusal(err))
}

func TestInterimResponses(t *testing.T) {
	r := newRig(t, tablePolicies["P"], func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			w.WriteHeader(http.StatusEarlyHints)
			text(w, "late")
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			conn.Close()
		}
	})
	for _, path := range []string{"hints", "upgrade"} {
		_, err := r.fetch("https://example.com/" + path)
		require.ErrorIs(t, err, rulvar.Code(codeInterim), path)
	}
}

func TestResponseHead(t *testing.T) {
	opts := tablePolicies["P"]
	opts.MaxHeader = 4 << 10
	r := newRig(t, opts, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 64<<10))
		text(w, "ok")
	})
	_, err := r.fetch("https://example.com/")
	require.ErrorIs(t, err, rulvar.Code(codeRequest))
}

// A server that cannot prove its name has no answer.
func TestCertificates(t *testing.T) {
	opts := Options{Allow: []string{"other.example.net"}}
	r := newRig(t, opts, func(w http.ResponseWriter, _ *http.Request) { t.Error("a request arrived") })
	r.names.answers["other.example.net"] = [][]string{{publicAddr}}
	_, err := r.fetch("https://other.example.net/")
	require.ErrorIs(t, err, rulvar.Code(codeRequest))
	require.ErrorContains(t, err, "certificate")
}

func TestConnections(t *testing.T) {
	r := newRig(t, tablePolicies["P"], func(w http.ResponseWriter, _ *http.Request) { text(w, "ok") })
	r.names.answers["example.com"] = [][]string{{"2606:2800:220:1::1", publicAddr}}
	dial := r.c.dial
	r.c.dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if to.Addr().Is6() {
			return nil, errors.New("unreachable")
		}
		return dial(ctx, to)
	}
	_, err := r.fetch("https://example.com/")
	require.NoError(t, err, "the second address is tried")
	r.c.dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("unreachable")}
	}
	_, err = r.fetch("https://example.com/")
	require.ErrorIs(t, err, rulvar.Code(codeConnect))
	r.names.err = errors.New("server misbehaving")
	_, err = r.fetch("https://example.com/")
	require.ErrorIs(t, err, rulvar.Code(codeDNSFailed))
}
