package modelwire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/llm"
)

// Answer is what a service says of a failure.
type Answer struct {
	// Status is the HTTP status; 200 for a failure inside a stream.
	Status int
	// Header of the answer, or nil.
	Header http.Header
	// Word is the service's own name for the failure, or "".
	Word string
	// Message is for people.
	Message string
}

// kinds are the words whose meaning does not depend on the status.
var kinds = map[string]llm.ErrorKind{
	"rate_limit_error":           llm.KindRateLimit,
	"rate_limit_exceeded":        llm.KindRateLimit,
	"overloaded_error":           llm.KindOverloaded,
	"server_overloaded":          llm.KindOverloaded,
	"engine_overloaded":          llm.KindOverloaded,
	"slow_down":                  llm.KindOverloaded,
	"api_error":                  llm.KindTransport,
	"timeout_error":              llm.KindTransport,
	"server_error":               llm.KindTransport,
	"internal_error":             llm.KindTransport,
	"insufficient_quota":         llm.KindTerminal, // no wait mends it, though the status is 429
	"billing_error":              llm.KindTerminal,
	"invalid_request_error":      llm.KindTerminal,
	"authentication_error":       llm.KindTerminal,
	"permission_error":           llm.KindTerminal,
	"not_found_error":            llm.KindTerminal,
	"request_too_large":          llm.KindTerminal,
	"context_length_exceeded":    llm.KindTerminal,
	"billing_hard_limit_reached": llm.KindTerminal,
}

// Fault classifies a failure that the service reports.
func (s Secrets) Fault(a Answer) *llm.Error {
	kind, known := kinds[a.Word]
	if !known && strings.HasSuffix(a.Word, "_timeout") {
		kind, known = llm.KindTransport, true
	}
	if !known {
		kind = kindOfStatus(a.Status)
	}
	msg := "the service reports a failure"
	if a.Status != http.StatusOK {
		msg = fmt.Sprintf("the service answered with status %d", a.Status)
	}
	for _, part := range []string{a.Word, strings.TrimSpace(a.Message)} {
		if part != "" {
			msg += ": " + part
		}
	}
	e := &llm.Error{Kind: kind, Message: s(msg), Retryable: kind != llm.KindTerminal}
	if a.Header != nil {
		e.RetryAfter = retryAfter(a.Header, time.Now())
		if a.Header.Get("X-Should-Retry") == "false" {
			e.Retryable = false
		}
	}
	if !e.Retryable {
		e.RetryAfter = 0
	}
	return e
}

func kindOfStatus(status int) llm.ErrorKind {
	switch {
	case status == http.StatusTooManyRequests:
		return llm.KindRateLimit
	case status == http.StatusServiceUnavailable || status == 529:
		return llm.KindOverloaded
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return llm.KindTransport
	}
	return llm.KindTerminal
}

// maxRetryAfter is the longest pause that a service can ask for.
const maxRetryAfter = math.MaxInt32 * time.Millisecond

// retryAfter reads how long the service asks to wait: milliseconds, seconds or
// a date. What is none of these is no answer.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, ok := digits(h.Get("Retry-After-Ms")); ok {
		return min(time.Duration(ms)*time.Millisecond, maxRetryAfter)
	}
	value := h.Get("Retry-After")
	if s, ok := digits(value); ok {
		return min(time.Duration(s)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// digits reads a whole number. One that is larger than any pause becomes the
// longest pause, in either unit.
func digits(s string) (int64, bool) {
	s = strings.Trim(s, " \t")
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > math.MaxInt32 {
		n = math.MaxInt32
	}
	return n, true
}

// Transport is a failure to reach the service or to read its answer. Under a
// context that is done it is the context's cause.
func (s Secrets) Transport(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &llm.Error{Kind: llm.KindTransport, Message: s(doing + ": " + err.Error()), Retryable: true}
	if errors.Is(err, ErrRedirect) || errors.Is(err, ErrTooLarge) {
		e.Kind, e.Retryable = llm.KindTerminal, false
	}
	return e
}

// Garbled is an answer that breaks the service's own protocol. Another try may
// well get a better one.
func (s Secrets) Garbled(format string, args ...any) *llm.Error {
	return &llm.Error{Kind: llm.KindTransport, Message: s("the answer is garbled: " + fmt.Sprintf(format, args...)), Retryable: true}
}

// Cut is an answer that stops before its end.
func Cut() *llm.Error {
	return &llm.Error{Kind: llm.KindTransport, Message: "the answer was cut before its end", Retryable: true}
}

// Unsendable is a request that the adapter cannot put into the service's form.
func Unsendable(format string, args ...any) *llm.Error {
	return &llm.Error{Kind: llm.KindTerminal, Message: "the request cannot be sent: " + fmt.Sprintf(format, args...)}
}
