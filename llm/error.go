package llm

import "time"

// ErrorKind is the class of a failure of a provider or an agent.
type ErrorKind string

// The error kinds. Transport, rate-limit and overloaded are worth a retry.
const (
	KindTransport      ErrorKind = "transport"
	KindRateLimit      ErrorKind = "rate-limit"
	KindOverloaded     ErrorKind = "overloaded"
	KindSchemaMismatch ErrorKind = "schema-mismatch"
	KindTool           ErrorKind = "tool"
	KindBudget         ErrorKind = "budget"
	KindTerminal       ErrorKind = "terminal"
)

// Error is a failure that a provider reports.
type Error struct {
	Kind      ErrorKind
	Message   string
	Retryable bool
	// RetryAfter is how long the provider asks to wait; zero is for the engine
	// to choose.
	RetryAfter time.Duration
	Err        error
}

// Error returns the kind and the message.
func (e *Error) Error() string { return string(e.Kind) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
