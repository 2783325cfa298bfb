package modelwire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// ErrRedirect refuses an answer that sends the request, and the key with it,
// to another host.
var ErrRedirect = errors.New("the service redirects to another host, which would get the key")

// ErrTooLarge refuses an answer that is larger than any that a model gives.
var ErrTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

const (
	maxAnswer    = 64 << 20
	maxRedirects = 5
)

// Client is the user's HTTP client, or a new one, that never sends a request
// on to another host. The user's is not changed.
func Client(user *http.Client) *http.Client {
	c := &http.Client{}
	if user != nil {
		*c = *user
	}
	theirs := c.CheckRedirect
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
			return ErrRedirect
		}
		if theirs != nil {
			return theirs(req, via)
		}
		if len(via) > maxRedirects {
			return errors.New("the service redirects without an end")
		}
		return nil
	}
	return c
}

// CheckURL holds a base URL to what can be requested safely.
func CheckURL(op, base string) error {
	refuse := func(msg string) error { return errs.New(errs.Config, op, "BaseURL", msg) }
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return refuse("it cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return refuse(fmt.Sprintf("%q is not an absolute http or https URL", u.Redacted()))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return refuse("it must hold no user, query or fragment: errors would show them")
	}
	return nil
}

// Body bounds what is read of an answer.
func Body(rc io.ReadCloser) io.ReadCloser { return &boundedBody{rc: rc, left: maxAnswer} }

type boundedBody struct {
	rc   io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.rc.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *boundedBody) Close() error { return b.rc.Close() }

// IsEventStream reports whether an answer claims to be a stream of events.
// Many compatible services leave the type out or get it wrong, so only what is
// surely something else is refused.
func IsEventStream(h http.Header) bool {
	ct := strings.ToLower(h.Get("Content-Type"))
	return !strings.HasPrefix(ct, "text/html") && !strings.HasPrefix(ct, "application/json")
}
