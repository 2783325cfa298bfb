package executor

import (
	"strings"
	"unicode/utf8"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/process"
	"github.com/rulvar/rulvar-go/internal/redact"
)

// The codes of the errors of a call, beside [rulvar.ErrConfig] for a tool
// without a program or with a wrong spec.
const (
	// ErrTimeout: the program took longer than it may and was ended.
	ErrTimeout rulvar.Code = "timeout"
	// ErrAborted: it was ended, or not started, because the run was cancelled or
	// reached a limit.
	ErrAborted rulvar.Code = "aborted"
	// ErrOutputCap: it wrote as many bytes as it may or more, and was ended.
	ErrOutputCap rulvar.Code = "output-cap"
	// ErrExit: it ended with a status other than 0, or by a signal.
	ErrExit rulvar.Code = "exit"
	// ErrProtocol: what it wrote is no JSON value.
	ErrProtocol rulvar.Code = "protocol"
	// ErrSpawn: it could not be started.
	ErrSpawn rulvar.Code = "spawn"
	// ErrLedger: the ledger could not be written or read; or it says that this
	// call was executed before, or may have been.
	ErrLedger rulvar.Code = "ledger"
)

// quoted is how many bytes of an output stand in an error's text.
const quoted = 500

// minSecret is the length from which a credential's value is masked wherever it
// stands; shorter ones would mask innocent text.
const minSecret = 4

// fail makes an error of the attempt. res is nil where the program was not
// started.
func (a *attempt) fail(code rulvar.Code, msg string, res *process.Result, cause error) *rulvar.Error {
	if res == nil {
		return &rulvar.Error{Code: code, Op: a.d.op, Path: "tool " + a.call.Tool, Msg: msg, Err: cause}
	}
	e := a.failWith(code, msg, text(res.Stdout), captured(res.Stderr), cause)
	switch {
	case res.Signal != "":
		e.Data["signal"] = res.Signal
	case res.ExitCode >= 0:
		e.Data["exitCode"] = res.ExitCode
	}
	return e
}

// failWith makes an error that shows what the program has written.
func (a *attempt) failWith(code rulvar.Code, msg, stdout, stderr string, cause error) *rulvar.Error {
	stdout, stderr = a.mask(stdout), a.mask(stderr)
	e := &rulvar.Error{Code: code, Op: a.d.op, Path: "tool " + a.call.Tool, Msg: msg, Err: cause, Data: map[string]any{"stdout": stdout, "stderr": stderr}}
	if tail := last(strings.TrimSpace(stderr), quoted); tail != "" {
		e.Msg += "; its standard error ends in: " + tail
	}
	if head := first(strings.TrimSpace(stdout), quoted); head != "" {
		e.Msg += "; its standard output begins with: " + head
	}
	return e
}

// mask takes secrets out of what a program has written.
func (a *attempt) mask(s string) string {
	for _, secret := range a.secrets {
		if len(secret) >= minSecret {
			s = strings.ReplaceAll(s, secret, redact.Masked)
		}
	}
	return redact.Text(s)
}

// text makes bytes text that JSON carries and a model can read.
func text(b []byte) string {
	c := process.NewCapture(2*len(b) + 2)
	_, _ = c.Write(b)
	return captured(c)
}

func captured(c *process.Capture) string {
	s, _, _ := c.Text()
	return s
}

// first returns the first n bytes of s, cut between two runes.
func first(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// last returns the last n bytes of s, cut between two runes.
func last(s string, n int) string {
	if len(s) <= n {
		return s
	}
	from := len(s) - n
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return "…" + s[from:]
}
