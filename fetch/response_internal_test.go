package fetch

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzResponse answers a request with any bytes. Whatever they are, the call
// ends, connects to nothing but what the policy permits, and its result is
// bounded text.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://example.com/x\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: //169.254.169.254/\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=shift_jis\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00",
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 101 X\r\n\r\n", "HTTP/0.9", "", "\x00\xff",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	c, err := newClient(&Options{
		Allow: []string{"example.com"}, AllowHTTP: true, MaxBody: 1 << 10, MaxHeader: 4 << 10, Timeout: 5 * time.Second,
		Resolver: &namesOf{answers: map[string][][]string{"example.com": {{publicAddr}}}},
	})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := *c
		c.opts.Resolver = &namesOf{answers: map[string][][]string{"example.com": {{publicAddr}}}}
		c.dial = func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Addr().String() != publicAddr || to.Port() != 80 {
				t.Errorf("a connection to %s", to)
			}
			near, far := net.Pipe()
			go io.Copy(io.Discard, far)
			go func() {
				far.Write(answer)
				far.Close()
			}()
			return near, nil
		}
		res, err := c.fetch(&quiet{Context: context.Background()}, Input{URL: "http://example.com/"})
		if err != nil {
			require.NotEmpty(t, codeOf(err))
			return
		}
		text, err := json.Marshal(res)
		require.NoError(t, err)
		require.True(t, utf8.Valid(text))
		require.LessOrEqual(t, len(res.Body), 1<<10)
		require.LessOrEqual(t, res.Bytes, 1<<10)
		require.LessOrEqual(t, len(res.Redirects), DefaultMaxRedirects)
	})
}
