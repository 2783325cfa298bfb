package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strconv"
	"syscall"
	"time"
)

// The codes of what is refused or fails after a URL was decided about.
const (
	codeDNSBlocked       = "dns-blocked"
	codeDNSEmpty         = "dns-empty"
	codeDNSFailed        = "dns-failed"
	codeConnect          = "connect-failed"
	codeRequest          = "request-failed"
	codeInterim          = "interim-response"
	codeTimeout          = "timeout"
	codeHeader           = "header"
	codeNeedsApproval    = "needs-approval"
	codeRedirectApproval = "redirect-needs-approval"
	codeRedirectLoop     = "redirect-loop"
	codeRedirectLimit    = "redirect-limit"
)

// maxAddresses is how many of a name's addresses are tried.
const maxAddresses = 8

// resolve looks the host up, once, and returns the addresses that a connection
// may go to. Where one of them may not be connected to, the name is refused
// altogether: it would do it again, another time with that address first.
func (c *client) resolve(ctx context.Context, h host) ([]netip.Addr, error) {
	if h.addr.IsValid() {
		if !c.policy.mayConnect(h.addr) {
			return nil, refused(codeIPBlocked, "%s is an address that may not be connected to", h.addr)
		}
		return []netip.Addr{h.addr}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	// The dot at the end keeps search domains out.
	found, err := c.opts.Resolver.LookupNetIP(ctx, "ip", h.name+".")
	if err != nil {
		if notFound, ok := errors.AsType[*net.DNSError](err); ok && notFound.IsNotFound {
			return nil, refused(codeDNSEmpty, "the name %s has no address", h.name)
		}
		return nil, failed(codeDNSFailed, fmt.Sprintf("the name %s cannot be looked up", h.name), err)
	}
	if len(found) == 0 {
		return nil, refused(codeDNSEmpty, "the name %s has no address", h.name)
	}
	addrs := make([]netip.Addr, len(found))
	for i, a := range found {
		if !c.policy.mayConnect(a) {
			return nil, refused(codeDNSBlocked, "the name %s leads to %s, which may not be connected to", h.name, a)
		}
		addrs[i] = a.Unmap()
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// connect opens a connection to the first of the addresses that answers. No name
// is looked up any more. Each address gets its share of the time that is left.
func (c *client) connect(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	var first error
	for i, a := range addrs {
		deadline, _ := ctx.Deadline()
		share, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addrs)-i))
		conn, err := c.dial(share, netip.AddrPortFrom(a, port))
		cancel()
		if err == nil {
			return conn, a, nil
		}
		if isRefusal(err) || ctx.Err() != nil {
			return nil, a, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, netip.Addr{}, first
}

// dialPinned connects to an address and to no other. The address is looked at
// once more when the socket is about to be connected: whatever handed it down
// to here, a connection that the policy does not let through is not made.
func (c *client) dialPinned(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil || !c.policy.mayConnect(a.Addr()) {
			return refused(codeDNSBlocked, "%s may not be connected to", address)
		}
		return nil
	}}
	return d.DialContext(ctx, "tcp", to.String())
}

// hop is one request and where it went.
type hop struct {
	response *http.Response
	address  netip.Addr
	close    func()
}

// roundTrip sends one request to a target over a connection of its own, which
// nothing else uses before or after: what was decided about one host can not
// serve another. There is no proxy, no cookie and no HTTP/2.
func (c *client) roundTrip(ctx context.Context, t *target, method string, header http.Header) (*hop, error) {
	addrs, err := c.resolve(ctx, t.host)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(t.port, 10, 16)
	if err != nil {
		return nil, failed(codePort, "the port cannot be read", err)
	}
	h := &hop{}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			conn, h.address, err = c.connect(ctx, addrs, uint16(port))
			return conn, err
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.opts.RootCAs},
		TLSHandshakeTimeout:    c.opts.ConnectTimeout,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: int64(c.opts.MaxHeader),
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			return refused(codeInterim, "the server sent the interim response %d", code)
		},
	})
	req := (&http.Request{Method: method, URL: t.url, Host: t.url.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	h.response, err = transport.RoundTrip(req)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, requestError(err)
	}
	h.close = func() {
		h.response.Body.Close()
		transport.CloseIdleConnections()
	}
	if h.response.StatusCode < 200 {
		h.close()
		return nil, refused(codeInterim, "the server answered %d", h.response.StatusCode)
	}
	return h, nil
}

// requestError is the error of a request that had no response.
func requestError(err error) error {
	if isRefusal(err) {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return failed(codeConnect, "no connection could be made", err)
	}
	return failed(codeRequest, "the request failed", err)
}
