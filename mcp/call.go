package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// caller executes the calls of one imported tool.
type caller struct {
	source *Source
	wire   string
	output *jsonschema.Validator // nil where the tool declares no output
}

// execute is the tool's handler. input was validated and judged.
func (c *caller) execute(tc *rulvar.ToolContext, input json.RawMessage) (json.RawMessage, error) {
	return c.call(tc, input)
}

func (c *caller) call(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	text, err := c.send(ctx, input)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	result, failure := readResult(text, c.output, c.source.opts.MaxResultBytes)
	if failure != nil {
		failure.Tool = c.wire
		return nil, failure
	}
	return result, nil
}

// send sends the call, once. A server that does not know the session has not
// looked at the call, so that case alone is tried again in a new session.
func (c *caller) send(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	s := c.source
	for again := false; ; again = true {
		sess, err := s.trusted(ctx)
		if err != nil {
			return nil, &unreachableError{err}
		}
		text, err := sess.call(ctx, c.wire, input, s.opts.Timeouts.Call)
		if err == nil || again || !errors.Is(err, errForgotten) {
			return text, err
		}
		sess.stop(err)
		sess.link.cut(err)
	}
}

// unreachableError says that a call was not sent at all.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return "nothing was called: " + e.err.Error() }

func (e *unreachableError) Unwrap() error { return e.err }

// failure says why a call has no answer.
func (c *caller) failure(ctx context.Context, err error) error {
	kind := FailureConnection
	switch {
	case isType[*driftError](err):
		kind = FailureDrift
	case ctx.Err() != nil:
		kind, err = FailureCancelled, fmt.Errorf("the call was cancelled: %w", context.Cause(ctx))
	case isType[*unreachableError](err):
	case isType[*timeoutError](err):
		kind, err = FailureTimeout, fmt.Errorf("%w; it may have had its effect", err)
	case isType[*serverError](err):
		kind = FailureServer
	default:
		err = fmt.Errorf("the connection broke during the call, which may have had its effect: %w", err)
	}
	return &CallError{c.wire, kind, err}
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
