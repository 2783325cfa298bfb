package executor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/process"
)

// The defaults of the options of both executors.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultMaxOutput = 1 << 20
	// DefaultWaitDelay is waited for whoever holds the output open.
	DefaultWaitDelay = 500 * time.Millisecond
)

// dispatcher is what the executors have in common: a call from its spec to its
// result.
//
//	program -> directory -> earlier attempts -> intent -> environment, start
//	        -> outcome -> directory removed -> result or error
type dispatcher struct {
	op      string // in errors
	kind    rulvar.ExecutorKind
	prefix  string // of the directories
	program *Program

	timeout, killDelay, waitDelay time.Duration
	maxOutput                     int
	workdir                       string
	credentials                   Credentials
	ledger                        Ledger
	keepResults                   bool

	// launch says how the attempt's program is started. Its errors are those
	// of the call. ended, where it is not nil, is called with what became of
	// the program; an error of it means that the program was not started after
	// all.
	launch func(a *attempt) (spec *process.Spec, ended func(*process.Result) error, err error)
	// again is called before a call is tried again whose earlier attempts may
	// still run.
	again func(a *attempt, open []Attempt)
}

// check holds the options to their bounds and fills in the defaults.
func (d *dispatcher) check(op string) error {
	if !process.Supported {
		return configError(op, "", "programs need a Unix system: there are no process groups and no signals here to end one with")
	}
	switch {
	case d.timeout < 0 || d.killDelay < 0 || d.waitDelay < 0:
		return configError(op, "", "a time is negative; zero means the default")
	case d.maxOutput < 0:
		return configError(op, "Options.MaxOutput", "a bound is not negative; zero means the default")
	}
	if d.timeout == 0 {
		d.timeout = DefaultTimeout
	}
	if d.waitDelay == 0 {
		d.waitDelay = DefaultWaitDelay
	}
	if d.maxOutput == 0 {
		d.maxOutput = DefaultMaxOutput
	}
	if d.workdir == "" {
		d.workdir = os.TempDir()
	}
	if info, err := os.Stat(d.workdir); err != nil || !info.IsDir() {
		return configError(op, "Options.WorkDir", fmt.Sprintf("%q is no directory", d.workdir))
	}
	if d.program != nil {
		if msg := d.program.wrong(); msg != "" {
			return configError(op, "Options.Program", msg)
		}
	}
	return nil
}

// attempt is one try of one call.
type attempt struct {
	d       *dispatcher
	tc      *rulvar.ToolContext
	call    rulvar.ExecutorCall
	program Program
	id      string
	dir     string // its own
	work    string // where the program starts: dir, or the agent's tree
	secrets []string
	intent  *Intent
}

// execute is the whole of a call.
func (d *dispatcher) execute(tc *rulvar.ToolContext, call rulvar.ExecutorCall) (_ json.RawMessage, err error) {
	a := &attempt{d: d, tc: tc, call: call, id: newUUID()}
	var msg string
	if a.program, msg = programOf(call.Spec, d.program); msg != "" {
		return nil, a.fail(rulvar.ErrConfig, msg, nil, nil)
	}
	tree, msg := treeOf(tc, a.program)
	if msg != "" {
		return nil, a.fail(rulvar.ErrConfig, msg, nil, nil)
	}
	if tc.Err() != nil {
		return nil, a.fail(ErrAborted, "it was not started, because the run was cancelled or reached a limit", nil, context.Cause(tc))
	}
	if a.dir, err = os.MkdirTemp(d.workdir, d.prefix+safeName(call.Tool)+"-"); err != nil {
		return nil, a.fail(ErrSpawn, "no directory could be made for it", nil, err)
	}
	if a.work = a.dir; a.program.InTree {
		a.work = tree
	}
	defer func() {
		if err := process.RemoveAll(a.dir); err != nil {
			tc.Log(slog.LevelWarn, "the directory of a program is left behind", "dir", a.dir, "error", err.Error())
		}
	}()
	if d.ledger == nil {
		result, _, err := a.run()
		return result, err
	}
	if recorded, err := a.begin(); err != nil || recorded != nil {
		return recorded, err
	}
	result, res, err := a.run()
	if failed := a.record(result, res, err); failed != nil {
		return nil, failed
	}
	return result, err
}

// begin looks at earlier attempts of the call and makes the intent of this one
// durable. It returns the recorded result of a call that was executed before.
func (a *attempt) begin() (json.RawMessage, error) {
	if a.call.IdempotencyKey == "" {
		return nil, a.fail(rulvar.ErrConfig, "the call has no idempotency key, which a ledger needs", nil, nil)
	}
	args := a.call.Input
	if len(args) == 0 {
		args = json.RawMessage("null")
	}
	canonical, err := jcs.Canonical(args)
	if err != nil {
		return nil, a.fail(rulvar.ErrConfig, "the input is no JSON", nil, err)
	}
	earlier, err := a.d.ledger.Attempts(a.tc, a.call.IdempotencyKey)
	if err != nil {
		return nil, a.fail(ErrLedger, "it was not started, because the ledger cannot be read", nil, err)
	}
	if recorded, err := a.judge(earlier); err != nil || recorded != nil {
		return recorded, err
	}
	a.intent = &Intent{
		AttemptID: a.id, IdempotencyKey: a.call.IdempotencyKey, RunID: a.tc.RunID(), SpanID: a.tc.SpanID(), Tool: a.call.Tool,
		ArgsHash: jcs.Sum(canonical), Executor: a.d.kind, Workdir: a.dir, StartedAt: time.Now().UnixMilli(),
	}
	if err := a.d.ledger.Intent(a.tc, a.intent); err != nil {
		return nil, a.fail(ErrLedger, "it was not started, because its intent could not be recorded", nil, err)
	}
	return nil, nil
}

// judge says whether a call may be tried once more after earlier attempts.
func (a *attempt) judge(earlier []Attempt) (json.RawMessage, error) {
	var open []Attempt
	for _, e := range earlier {
		if e.Outcome == nil {
			open = append(open, e)
		}
	}
	if a.call.Idempotent {
		if len(open) > 0 && a.d.again != nil {
			a.d.again(a, open)
		}
		return nil, nil
	}
	if len(open) > 0 {
		e := a.fail(ErrLedger, fmt.Sprintf("an earlier attempt at this call (%s) has no outcome: its effect may have happened. It was not started again; find out, and settle the attempt with executor.Reconcile", open[0].Intent.AttemptID), nil, nil)
		e.Data = map[string]any{"open": open}
		return nil, e
	}
	for i := len(earlier) - 1; i >= 0; i-- {
		out := earlier[i].Outcome
		switch {
		case out.NoEffect:
			continue
		case out.Outcome == OutcomeOK && a.d.keepResults && len(out.Result) > 0:
			if err := jcs.Check(out.Result); err != nil {
				return nil, a.fail(ErrLedger, "the recorded result of this call is no JSON", nil, err)
			}
			return out.Result, nil
		}
		e := a.fail(ErrLedger, fmt.Sprintf("this call was executed before, with the outcome %q, and is not executed twice", out.Outcome), nil, nil)
		e.Data = map[string]any{"attempt": earlier[i]}
		return nil, e
	}
	return nil, nil
}

// run starts the program and makes a result of what it does. res is nil where
// it was not started.
func (a *attempt) run() (json.RawMessage, *process.Result, error) {
	spec, ended, err := a.d.launch(a)
	if err != nil {
		return nil, nil, err
	}
	spec.Stdin = a.request()
	spec.MaxStdout, spec.MaxStderr, spec.KillDelay, spec.WaitDelay = a.d.maxOutput, a.d.maxOutput, a.d.killDelay, a.d.waitDelay
	ctx, cancel := context.WithTimeoutCause(a.tc, a.d.timeout, errTimeout)
	defer cancel()
	res, err := process.Run(ctx, spec)
	if err == nil && ended != nil {
		if err := ended(res); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, a.ended(ctx, nil)
	case err != nil:
		return nil, nil, a.fail(ErrSpawn, "it could not be started", nil, err)
	case res.Overflow:
		return nil, res, a.fail(ErrOutputCap, fmt.Sprintf("it had written %d bytes, which is the bound, and was ended", a.d.maxOutput), res, nil)
	case res.Stopped:
		return nil, res, a.ended(ctx, res)
	case res.Signal != "":
		return nil, res, a.fail(ErrExit, "it was ended by "+res.Signal, res, nil)
	case res.ExitCode < 0:
		return nil, res, a.fail(ErrExit, "nobody knows how it ended: another part of the host has taken its exit status", res, nil)
	case res.ExitCode != 0:
		return nil, res, a.fail(ErrExit, fmt.Sprintf("it ended with the status %d", res.ExitCode), res, nil)
	}
	if res.Left {
		a.tc.Log(slog.LevelWarn, "a program has left others behind, which were killed", "tool", a.call.Tool)
	}
	out, err := a.result(res.Stdout, res)
	return out, res, err
}

// result reads what a program has written.
func (a *attempt) result(stdout []byte, res *process.Result) (json.RawMessage, error) {
	out := bytes.TrimSpace(stdout)
	if len(out) == 0 {
		return json.RawMessage("null"), nil
	}
	if err := jcs.Check(out); err != nil {
		return nil, a.fail(ErrProtocol, "what it wrote is not one JSON value", res, err)
	}
	return json.RawMessage(out), nil
}

// errTimeout tells the executor's own bound from the end of the run.
var errTimeout = errors.New("the program's time-out")

// ended is the error of a program that was ended with its context.
func (a *attempt) ended(ctx context.Context, res *process.Result) error {
	if cause := context.Cause(ctx); cause != errTimeout {
		return a.fail(ErrAborted, "it was ended because the run was cancelled or reached a limit", res, cause)
	}
	return a.fail(ErrTimeout, fmt.Sprintf("it had not ended after %v and was ended", a.d.timeout), res, nil)
}

// request is what the program reads.
func (a *attempt) request() []byte {
	args := a.call.Input
	if len(args) == 0 {
		args = json.RawMessage("null")
	}
	b := append(make([]byte, 0, len(args)+128), `{"tool":`...)
	b = jcs.AppendString(b, a.call.Tool)
	b = append(append(b, `,"args":`...), args...)
	b = append(b, `,"idempotencyKey":`...)
	return append(jcs.AppendString(b, a.call.IdempotencyKey), '}')
}

// record makes the outcome durable, also when the run has ended meanwhile. What
// it returns takes the place of the call's own error.
func (a *attempt) record(result json.RawMessage, res *process.Result, failed error) error {
	out := &Outcome{Intent: *a.intent, Outcome: OutcomeOK}
	switch {
	case errors.Is(failed, ErrTimeout) && res != nil:
		out.Outcome = OutcomeTimeout
	case failed != nil:
		out.Outcome = OutcomeError
	case a.d.keepResults:
		out.Result = result
	}
	if res == nil {
		out.NoEffect = true
	} else {
		out.DurationMs, out.Signal = res.Duration.Milliseconds(), res.Signal
		if res.ExitCode >= 0 {
			out.ExitCode = &res.ExitCode
		}
	}
	err := a.d.ledger.Outcome(context.WithoutCancel(a.tc), out)
	if err == nil {
		return nil
	}
	e := a.fail(ErrLedger, "it has run, but its outcome could not be recorded", res, err)
	if failed != nil {
		e.Err = errors.Join(failed, err)
	}
	return e
}

// safeName is a part of a directory's name. A tool's name is safe; somebody
// who calls an executor directly may have another.
func safeName(tool string) string {
	b := []byte(first(tool, 64))
	for i, c := range b {
		if !(c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			b[i] = '_'
		}
	}
	return string(b)
}

// newUUID returns a random UUID, of version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
