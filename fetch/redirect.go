package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	rulvar "github.com/rulvar/rulvar-go"
)

// errTimeout is the cause with which [Options.Timeout] ends a call.
var errTimeout = errors.New("the time of the call is over")

// judging is the part of a [rulvar.ToolContext] that a call needs.
type judging interface {
	context.Context
	JudgeHost(host string) (rulvar.Verdict, rulvar.Rule)
	Approved() bool
	Log(level slog.Level, msg string, data ...any)
}

// call is one call on its way from URL to URL.
type call struct {
	c      *client
	by     judging
	method string
	header http.Header // what the model has set

	first   string // the origin that was asked for
	seen    map[string]bool
	result  *Result
	address netip.Addr
}

// fetch runs one call.
func (c *client) fetch(by judging, in Input) (*Result, error) {
	header, err := c.requestHeader(in.Headers)
	if err != nil {
		return nil, err
	}
	k := &call{c: c, by: by, method: in.Method, header: header, seen: map[string]bool{}, result: &Result{URL: in.URL}}
	if k.method == "" {
		k.method = http.MethodGet
	}
	ctx, cancel := context.WithTimeoutCause(by, c.opts.Timeout, errTimeout)
	defer cancel()
	err = k.follow(ctx, in.URL)
	switch {
	case by.Err() != nil:
		return nil, context.Cause(by)
	case err != nil && context.Cause(ctx) == errTimeout && !isRefusal(err):
		return nil, failed(codeTimeout, fmt.Sprintf("there was no answer within %v", c.opts.Timeout), nil)
	case err != nil:
		return nil, err
	}
	return k.result, nil
}

// requestHeader checks the headers that the model has set.
func (c *client) requestHeader(set map[string]string) (http.Header, error) {
	h := http.Header{}
	for name, value := range set {
		switch {
		case !c.headers[strings.ToLower(name)]:
			return nil, refused(codeHeader, "the header %q may not be set", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, refused(codeHeader, "the value of the header %q is no value of a header", name)
		case h.Get(name) != "":
			return nil, refused(codeHeader, "the header %q is set twice", name)
		}
		h.Set(name, value)
	}
	return h, nil
}

// follow fetches a URL and where it redirects to. Every URL is decided about as
// if it were the first, and more strictly: what needs an approval is refused
// unless it is of the origin that was asked for and approved.
func (k *call) follow(ctx context.Context, raw string) error {
	for n := 0; ; n++ {
		t, err := k.decide(raw, n)
		if err != nil {
			return err
		}
		key := t.url.String()
		if k.seen[key] {
			return k.refuse(n, t, codeRedirectLoop, "the redirects come back to a URL")
		}
		k.seen[key] = true
		if n == 0 {
			k.first = t.origin()
		}
		h, err := k.c.roundTrip(ctx, t, k.method, k.headersFor(t))
		if err != nil {
			k.log(slog.LevelWarn, n, t, codeOf(err))
			return err
		}
		k.address = h.address
		k.log(slog.LevelInfo, n, t, codeAllowed)
		next, err := k.location(h.response, t, n)
		if err != nil || next == "" {
			if err == nil {
				k.c.take(ctx, k.result, h.response, k.method)
				k.result.FinalURL = key
			}
			h.close()
			return err
		}
		h.close()
		k.result.Redirects = append(k.result.Redirects, Redirect{Status: h.response.StatusCode, URL: next})
		raw = next
	}
}

// decide decides about a URL, with what the chain's rules say now.
func (k *call) decide(raw string, n int) (*target, error) {
	k.address = netip.Addr{}
	d := k.c.policy.decide(raw, func(h string) rulvar.Verdict {
		v, _ := k.by.JudgeHost(h)
		return v
	})
	t := &d.target
	switch d.verdict {
	case rulvar.VerdictPass:
		return t, nil
	case rulvar.VerdictAsk:
		switch {
		case k.by.Approved() && (n == 0 || t.origin() == k.first):
			return t, nil
		case n == 0:
			return nil, k.refuse(n, t, codeNeedsApproval, "nobody has approved a request to this host")
		}
		return nil, k.refuse(n, t, codeRedirectApproval, "a redirect leads to a host that needs an approval")
	}
	return nil, k.refuse(n, t, d.code, explain(d.code))
}

// location is the URL that a response redirects to, or "" where it does not.
func (k *call) location(res *http.Response, t *target, n int) (string, error) {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return "", nil
	}
	loc := res.Header.Get("Location")
	if loc == "" {
		return "", nil
	}
	if n >= k.c.opts.MaxRedirects {
		return "", k.refuse(n+1, t, codeRedirectLimit, "there are more redirects than are followed")
	}
	next, code := resolveLocation(t, loc)
	if code != "" {
		return "", k.refuse(n+1, t, code, explain(code))
	}
	return next, nil
}

// resolveLocation is the URL that a Location means on a page. Its text is
// checked before anything is made of it, because joining could hide what is
// wrong with it.
func resolveLocation(from *target, loc string) (next, code string) {
	if len(loc) > maxURL {
		return "", codeURLTooLong
	}
	if badText(loc) {
		return "", codeURLCharset
	}
	ref, err := url.Parse(loc)
	if err != nil {
		return "", codeURLParse
	}
	u := from.url.ResolveReference(ref)
	if from.scheme == "https" && !strings.EqualFold(u.Scheme, "https") {
		return "", codeScheme
	}
	return u.String(), ""
}

// headersFor are the headers of a request: what the model has set goes to the
// origin that it asked for and to no other.
func (k *call) headersFor(t *target) http.Header {
	h := http.Header{}
	if t.origin() == k.first {
		h = k.header.Clone()
	}
	h.Set("User-Agent", k.c.opts.UserAgent)
	return h
}

// refuse logs a refusal and makes its error.
func (k *call) refuse(n int, t *target, code, why string) error {
	k.log(slog.LevelWarn, n, t, code)
	if where := t.shown(); where != "" {
		return refused(code, "%s: %s", where, why)
	}
	return refused(code, "%s", why)
}

// log writes the decision about one hop.
func (k *call) log(level slog.Level, n int, t *target, code string) {
	address := ""
	if k.address.IsValid() {
		address = k.address.String()
	}
	k.by.Log(level, "fetch", "decision", code, "hop", n, "host", t.host.name, "port", t.port, "address", address, "url", t.shown())
}

// shown is the target's URL for a log: what may hold secrets is masked.
func (t *target) shown() string {
	if t.url == nil {
		return ""
	}
	u := *t.url
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.String()
}
