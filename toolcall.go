package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// finishTurn answers the calls of a turn that are not answered yet, one after
// the other in the model's order, and writes the checkpoint at the turn's
// boundary. p.Executed holds the answers so far.
func (a *agentRun) finishTurn(p *pendingTurn) (agentOutcome, bool, error) {
	resumed := a.resumed && a.state.Pending == p
	calls := append([]pendingCall{p.Awaiting}, p.Remaining...)
	var stop *agentOutcome
	for i, call := range calls {
		if stop == nil {
			stop = a.mayExecute(call)
		}
		if stop != nil {
			p.Executed = append(p.Executed, skipped(call, stop))
			continue
		}
		turn := &pendingTurn{Executed: p.Executed, Awaiting: call, Remaining: calls[i+1:]}
		job := &toolJob{a: a, call: call, turn: turn, awaited: resumed && i == 0, dispatched: p.Dispatched == call.ID && resumed && i == 0}
		if job.dispatched {
			turn.Dispatched = call.ID // until the call has a result, the next process must know it too
		}
		done, err := job.run()
		if err != nil {
			if a.ctx.Err() == nil {
				return agentOutcome{}, false, err
			}
			out := a.stopped()
			stop, done = &out, skipped(call, &out)
		}
		p.Executed = append(p.Executed, done)
		if stop == nil {
			stop = job.last
		}
	}
	results := llm.Message{Role: llm.RoleTool, Parts: []llm.Part{}}
	for _, x := range p.Executed {
		results.Parts = append(results.Parts, llm.Part{Type: llm.PartToolResult, ID: x.ID, Name: x.Name, Result: x.Result, IsError: x.IsError})
	}
	a.state.Messages = append(a.state.Messages, results)
	a.state.Pending = nil
	if stop != nil {
		return a.end(*stop)
	}
	a.compact()
	return agentOutcome{}, false, a.save(nil)
}

// mayExecute says why no further call of the turn may be executed, or nil. The
// calls that end an agent are under no limit.
func (a *agentRun) mayExecute(call pendingCall) *agentOutcome {
	if a.ctx.Err() != nil {
		out := a.stopped()
		return &out
	}
	if m := a.limits.MaxToolCalls; m != nil && a.state.ToolCallsUsed >= *m && !a.ends(call) {
		out := a.limited(fmt.Sprintf("the agent has made %d tool calls, its limit", a.state.ToolCallsUsed))
		return &out
	}
	return nil
}

// skipped answers a call that was never judged: every call id gets a result.
func skipped(call pendingCall, stop *agentOutcome) executedCall {
	why := "the agent has ended"
	if stop.err != nil {
		why = stop.err.Msg
	}
	return executedCall{ID: call.ID, Name: call.Name, IsError: true, Result: mustMarshal(map[string]any{"error": "not executed: " + why, "skipped": true})}
}

// mustMarshal is for values made of strings, numbers and JSON.
func mustMarshal(v any) json.RawMessage {
	b, err := marshalJSON(v)
	if err != nil {
		return json.RawMessage(`{"error":"the result could not be written"}`)
	}
	return b
}

// toolJob is one tool call from its start to its result.
type toolJob struct {
	a    *agentRun
	call pendingCall
	turn *pendingTurn // for a checkpoint in the middle of the turn
	// awaited says that the checkpoint names this call as the parked one, and
	// dispatched that its execution may have begun.
	awaited, dispatched bool

	tool    *Tool
	verdict Evaluation
	began   time.Time
	judged  bool
	parked  bool          // waits for an approval
	told    bool          // its end
	last    *agentOutcome // set by a call that ends the agent
}

// run judges the call, executes it where it may run, and returns its result.
// An error is a failure of the run, not of the call.
func (j *toolJob) run() (executedCall, error) {
	a := j.a
	j.began = time.Now()
	j.tool = a.byName[j.call.Name]
	start := ToolStarted{ToolName: j.call.Name, ToolCallID: j.call.ID}
	if j.tool != nil {
		start.Risk = j.tool.cfg.Risk
	}
	a.emit(j.awaited, start)
	defer j.close()
	if j.tool == nil {
		a.state.ToolCallsUsed++
		return j.fail("unknown-tool", map[string]any{"error": fmt.Sprintf("there is no tool %q; there are: %s", j.call.Name, listNames(a.byName))}), nil
	}
	in, issues := j.tool.intake(j.call.Args)
	if issues != nil {
		a.state.ToolCallsUsed++
		return j.fail(string(errs.InvalidArguments), map[string]any{"error": "the arguments do not fit the tool's schema", "issues": issues}), nil
	}
	if in.repaired {
		a.log("arguments were not JSON and have been mended", "tool", j.call.Name, "call", j.call.ID)
	}
	tc, cancel := j.context()
	defer cancel()
	j.verdict = a.chain.Evaluate(tc, j.tool, Call{
		ID: j.call.ID, Tool: j.tool.cfg.Name, Risk: j.tool.cfg.Risk, NeedsApproval: j.tool.cfg.NeedsApproval, Input: in.effective, given: in.given,
	})
	j.judged = true
	return j.gate(tc)
}

// close tells the end of a call that has none: its tool has ended the
// goroutine, or a record could not be written. A call that is still parked when
// the run settles ends in a later segment.
func (j *toolJob) close() {
	if !j.told && !j.parked {
		j.a.emit(false, j.ended(ToolError, "interrupted", nil))
	}
}

// context makes the ToolContext of the call.
func (j *toolJob) context() (*ToolContext, context.CancelFunc) {
	a := j.a
	ctx, cancel := context.WithCancel(a.ctx)
	tc := &ToolContext{
		Context: ctx, runID: a.seg.runID, spanID: a.seg.bus.span(), callID: j.call.ID, agent: a.info,
		cwd: a.cwd(), isolation: a.isolation, tool: j.call.Name, chain: a.chain, hosts: j.tool.cfg.Hosts,
	}
	tc.log = func(level slog.Level, msg string, data ...any) {
		a.seg.logEvent(tc.spanID, a.span, level, msg, data...)
		if level < slog.LevelWarn {
			return
		}
		a.seg.e.log.Log(ctx, level, "rulvar: "+msg, append([]any{"run", a.seg.runID, "tool", j.call.Name}, data...)...)
	}
	return tc, cancel
}

// execute runs the call with exactly the input that was judged.
func (j *toolJob) execute(tc *ToolContext, input json.RawMessage) (executedCall, error) {
	a := j.a
	if j.tool.control {
		return j.executeControl(input)
	}
	tc.input, tc.approved = input, j.verdict.Verdict == VerdictAsk
	if !j.idempotent() && a.seg.e.cfg.OnInterrupted != InterruptedRerun {
		// The call is not counted yet: a resume, which has to do with it again,
		// counts it then.
		j.turn.Dispatched = j.call.ID
		if err := a.save(j.turn); err != nil {
			return executedCall{}, err
		}
	}
	a.state.ToolCallsUsed++
	out, err := j.dispatch(tc, input)
	if err != nil {
		return j.failed(err), nil
	}
	delete(a.state.ModelRetries, j.call.Name)
	result, err := encodeResult(out)
	if err != nil {
		return j.fail(string(errs.NonSerializableRes), map[string]any{"error": fmt.Sprintf("the result of tool %q cannot be written as JSON: %v", j.call.Name, err)}), nil
	}
	a.emit(false, j.ended(ToolOK, "", result))
	return executedCall{ID: j.call.ID, Name: j.call.Name, Result: result}, nil
}

func (j *toolJob) dispatch(tc *ToolContext, input json.RawMessage) (any, error) {
	if j.tool.cfg.Executor == ExecutorInProcess {
		return j.tool.run(tc, input)
	}
	x := j.a.seg.e.cfg.Executors[j.tool.cfg.Executor]
	key, err := replay.ExecCall{
		Genesis: j.a.seg.meta.Genesis, RunID: j.a.seg.runID, AgentSeq: j.a.running.Seq,
		Ordinal: int64(j.a.state.ToolCallsUsed), Tool: j.call.Name, Args: input,
	}.Key(max(j.a.seg.meta.ExecKeyDerivation, 1)) // a run that names none has the first, for life
	if err != nil {
		return nil, err
	}
	return callExecutor(x, tc, ExecutorCall{
		Tool: j.call.Name, Input: input, Spec: j.tool.cfg.ExecutorSpec, IdempotencyKey: key, Idempotent: j.idempotent(),
	})
}

func callExecutor(x ToolExecutor, tc *ToolContext, call ExecutorCall) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			tc.logPanic(call.Tool, p, nil)
			out, err = nil, &toolPanicError{tool: call.Tool}
		}
	}()
	return x.Execute(tc, call)
}

// encodeResult writes what a handler returned. Text that is no JSON a provider
// would accept is refused here, where the model can be told.
func encodeResult(out any) (json.RawMessage, error) {
	text, err := marshalJSON(out)
	if err != nil {
		return nil, err
	}
	if _, err := jcs.Parse(text); err != nil {
		return nil, err
	}
	if tooDeep(text) {
		return nil, errors.New(tooDeepText)
	}
	return text, nil
}

// failed turns a handler's error into the result that the model sees.
func (j *toolJob) failed(err error) executedCall {
	if retry, ok := asModelRetry(err); ok {
		return j.retry(retry)
	}
	if bad, ok := errors.AsType[*argumentError](err); ok {
		return j.fail(string(errs.InvalidArguments), map[string]any{"error": bad.Error(), "issues": bad.issues})
	}
	code := ""
	if c := errs.CodeOf(err); c != "" {
		code = string(c)
	}
	return j.fail(code, map[string]any{"error": err.Error()})
}

func (j *toolJob) retry(r *ModelRetryError) executedCall {
	state := &j.a.state
	if state.ModelRetries == nil {
		state.ModelRetries = make(map[string]int)
	}
	state.ModelRetries[j.call.Name]++
	n := state.ModelRetries[j.call.Name]
	result := map[string]any{"error": r.Message}
	if r.Data != nil {
		data, err := encodeResult(r.Data)
		if err != nil {
			data = mustMarshal(fmt.Sprint(r.Data))
		}
		result["data"] = data
	}
	if n > maxModelRetries {
		result["retriesExhausted"] = true
	}
	return j.fail("model-retry", result)
}

// fail answers the call with an error result.
func (j *toolJob) fail(code string, result map[string]any) executedCall {
	text := mustMarshal(result)
	j.a.emit(false, j.ended(ToolError, code, text))
	return executedCall{ID: j.call.ID, Name: j.call.Name, Result: text, IsError: true}
}

// deny answers the call with a refusal. It never counts as a call.
func (j *toolJob) deny(text string) executedCall {
	result := mustMarshal(map[string]any{"error": text})
	j.a.emit(false, j.ended(ToolDenied, "", result))
	return executedCall{ID: j.call.ID, Name: j.call.Name, Result: result, IsError: true}
}

// ended is the tool:end event of the call, with what the chain said. result is
// what the model gets, if anything.
func (j *toolJob) ended(outcome ToolOutcome, code string, result json.RawMessage) ToolEnded {
	j.told = true
	e := ToolEnded{
		ToolName: j.call.Name, ToolCallID: j.call.ID, Outcome: outcome,
		DurationMs: time.Since(j.began).Milliseconds(), ErrorCode: code,
	}
	if j.judged {
		v := &j.verdict
		e.Verdict, e.DecidedBy, e.Layer, e.Rule, e.Advisory, e.Reason = v.Verdict, v.DecidedBy, v.Layer, v.Rule, v.Advisory, v.Reason
	}
	if j.a.seg.e.cfg.EventContent {
		e.Result = result
		if j.judged {
			e.Input = j.verdict.Input
		}
	}
	return e
}
