// Package errs holds the one error type of the library. The root package
// exports it under the same names; it lives here so that the internal
// packages can return it without importing the root.
package errs

import (
	"errors"
	"strings"
)

// Code says what kind of failure an [Error] is. The words are those of the
// journal format, where an error is stored with its code. A Code is itself an
// error, so errors.Is(err, Config) asks for the kind.
type Code string

// Error returns the code word.
func (c Code) Error() string { return string(c) }

// The codes. Those marked retryable are worth another try without a change.
const (
	Config             Code = "config"
	NonSerializable    Code = "non_serializable_value"
	JournalCompat      Code = "journal_compat"
	InvalidResolution  Code = "invalid_resolution"
	JournalOrder       Code = "journal_order_violation"
	JournalMiss        Code = "journal_miss"
	JournalSealed      Code = "journal_sealed"
	JournalIntegrity   Code = "journal_integrity"
	Settlement         Code = "settlement"
	Superseded         Code = "superseded"
	LeaseHeld          Code = "lease_held" // retryable
	BudgetExhausted    Code = "budget_exhausted"
	AdmissionRejected  Code = "admission_rejected"
	FailRun            Code = "fail_run"
	Agent              Code = "agent"
	InvalidArguments   Code = "invalid-arguments"
	PolicyError        Code = "policy-error"
	ExecutorUnserved   Code = "executor-unregistered"
	NonSerializableRes Code = "non-serializable-result"
	IsolationGone      Code = "isolation_gone"
	Plain              Code = "error"
)

// Error is the error type of every failure that the library itself reports.
type Error struct {
	// Code is the kind; errors.Is(err, code) compares it.
	Code Code
	// Op is what was being done, as a caller would name it: "NewTool",
	// "Resume", "append".
	Op string
	// Path is where: a tool, a layer and rule ("engine.deny[2].risk"), a file
	// with line and offset, a run id. Empty where Op says it all.
	Path string
	// Msg says what is wrong and, where it can, what to do.
	Msg string
	// Retryable says that the same call may succeed later unchanged.
	Retryable bool
	// Data holds facts for programs, such as the holder of a lock.
	Data map[string]any
	// Err is the cause, if there is one.
	Err error
}

// New returns an error of the given kind.
func New(code Code, op, path, msg string) *Error {
	return &Error{Code: code, Op: op, Path: path, Msg: msg, Retryable: code == LeaseHeld}
}

// Wrap is [New] with a cause.
func Wrap(code Code, op, path, msg string, err error) *Error {
	e := New(code, op, path, msg)
	e.Err = err
	return e
}

// Error renders "rulvar: op: path: msg: cause", leaving out what is empty.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("rulvar")
	for _, s := range []string{e.Op, e.Path, e.Msg} {
		if s != "" {
			b.WriteString(": ")
			b.WriteString(s)
		}
	}
	if e.Msg == "" {
		b.WriteString(": ")
		b.WriteString(string(e.Code))
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(strings.TrimPrefix(e.Err.Error(), "rulvar: "))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is e's code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// CodeOf returns the code of the first [Error] in err's chain, or "".
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
