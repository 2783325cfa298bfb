package mcp

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// FailureKind says why a call has no result. It is also the error code of the
// call's end event.
type FailureKind string

// The kinds of failure.
const (
	// FailureTool: the server says that the tool failed. The text is its own.
	FailureTool FailureKind = "mcp-tool"
	// FailureServer: the server refused the request with an error of the
	// protocol.
	FailureServer FailureKind = "mcp-server"
	// FailureTimeout: the server did not answer in time. The call may have had
	// its effect.
	FailureTimeout FailureKind = "mcp-timeout"
	// FailureCancelled: the run was cancelled, or a limit of the agent expired.
	FailureCancelled FailureKind = "mcp-cancelled"
	// FailureConnection: the server could not be reached, or went away. If it
	// went during the call, the call may have had its effect.
	FailureConnection FailureKind = "mcp-connection"
	// FailureTooLarge: the result is larger than Options.MaxResultBytes.
	FailureTooLarge FailureKind = "mcp-too-large"
	// FailureResult: the answer is not what the protocol or the tool's output
	// schema demands, or asks for input that nobody gives.
	FailureResult FailureKind = "mcp-result"
	// FailureDrift: the tools have changed, and Options.Drift refuses that.
	FailureDrift FailureKind = "mcp-drift"
)

// CallError is why a call has no result. Its text is what the model sees.
type CallError struct {
	// Tool is the server's name of the tool.
	Tool string
	// Kind is why.
	Kind FailureKind
	// Err says more.
	Err error
}

// Error returns the text.
func (e *CallError) Error() string {
	if e.Kind == FailureTool {
		return e.Err.Error()
	}
	return fmt.Sprintf("MCP tool %q: %v", e.Tool, e.Err)
}

// Unwrap returns the cause, and the kind as a code of the library.
func (e *CallError) Unwrap() []error {
	return []error{&errs.Error{Code: errs.Code(e.Kind), Op: "mcp call", Path: e.Tool}, e.Err}
}

var (
	errClosed      = errors.New("the source is closed")
	errEnded       = errors.New("the connection was closed")
	errForgotten   = errors.New("the server does not know the session any more")
	errNotAnswered = errors.New("the server does not answer")
)

// serverError is a refusal of a request by the server.
type serverError struct {
	code    int64
	message string
}

func (e *serverError) Error() string {
	return fmt.Sprintf("the server refuses the request: %s (code %d)", foreignText(e.message), e.code)
}

// driftError says that the tools are not the pinned ones.
type driftError struct{ err error }

func (e *driftError) Error() string { return e.err.Error() }

func (e *driftError) Unwrap() error { return e.err }

// timeoutError is the cause of a context whose time is over.
type timeoutError struct {
	phase string
	after string
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("%s took longer than %s", e.phase, e.after)
}

// fault makes the error of a source as a whole.
func (s *Source) fault(msg string, err error) error {
	return errs.Wrap(errs.Config, "mcp", s.id, msg, err)
}

// maxErrorText bounds what a server may say in an error, in bytes.
const maxErrorText = 16 << 10

// foreignText makes text of a server fit for an error.
func foreignText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxErrorText {
		return text
	}
	cut := maxErrorText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s … (%d bytes in all)", text[:cut], len(text))
}
