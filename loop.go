package rulvar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/llm"
)

// agentRun is one agent at work. It belongs to the goroutine of the Ctx that
// called it.
type agentRun struct {
	seg              *segment
	ctx              context.Context
	scope            string
	span, parentSpan string
	prompt           string
	info             AgentInfo
	stream           bool
	schema           *compiledSchema
	modelRef, effort string     // as asked for
	loop             modelLine  // that model and its fallbacks
	extract          *modelLine // nil where the loop answers with the schema
	finalize         *modelLine // nil where the loop's last word is the answer
	summarize        *modelLine
	limits           UsageLimits
	clock            agentClock
	isolation        Isolation
	tree             *agentTree // nil without worktree isolation
	tools            []*Tool
	byName           map[string]*Tool
	declared         []llm.ToolDeclaration
	chain            *PermissionChain
	basePath         string             // of who has called the agent, for an approver
	escalation       *EscalationOptions // nil where it cannot escalate
	child            *spawned           // what it is to the agent that spawned it
	orch             *orchestrator      // nil where it spawns none

	running *Entry
	state   checkpoint
	resumed bool // state comes from a checkpoint
	saved   bool // a checkpoint exists

	lastUsage    llm.Usage // of the loop's last answer
	noCompaction bool      // a summary has failed
}

func (a *agentRun) emit(replayed bool, body EventBody) {
	a.seg.bus.emit(a.span, a.parentSpan, replayed, body)
}

func (a *agentRun) log(msg string, data ...any) {
	a.seg.logEvent(a.span, a.parentSpan, slog.LevelWarn, msg, data...)
}

// run is the agent's loop, from its first request or its checkpoint to its
// terminal entry.
func (a *agentRun) run() (agentOutcome, error) {
	stop := a.startClock()
	defer stop()
	a.emit(false, AgentStarted{AgentType: a.info.Type, Label: a.info.Label, Model: a.modelRef, Role: a.loop.role})
	a.warnUnmatched()
	if !a.resumed {
		a.state.Messages = a.firstMessages()
	}
	if a.child != nil {
		a.child.begin()
	}
	if a.orch != nil {
		defer a.orch.leave()
		if err := a.orch.restore(); err != nil {
			return agentOutcome{}, err
		}
	}
	if p := a.state.Pending; p != nil {
		if out, done, err := a.finishTurn(p); done || err != nil {
			return out, err
		}
	}
	for {
		if out, done, err := a.turn(); done || err != nil {
			return out, err
		}
	}
}

func (a *agentRun) firstMessages() []llm.Message {
	return []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart(a.prompt)}}}
}

// turn asks the model once and does what it says.
func (a *agentRun) turn() (agentOutcome, bool, error) {
	if a.ctx.Err() != nil {
		return a.end(a.stopped())
	}
	if a.state.Turns >= a.limits.MaxTurns {
		return a.end(a.limited(fmt.Sprintf("the agent has made %d requests, its limit", a.state.Turns)))
	}
	if a.child != nil && a.child.overspent(a.costUSD()) {
		return a.end(a.limited("the agent has spent what it was given"))
	}
	q := &question{line: &a.loop, messages: a.state.Messages}
	if a.extract == nil {
		q.schema = a.schema
	}
	reply, stop := a.ask(q)
	if stop != nil {
		return a.endWith(stop)
	}
	a.lastUsage = reply.last
	a.state.Messages = append(a.state.Messages, reply.message())
	if stop := a.refused(&reply); stop != nil {
		return a.endWith(stop)
	}
	if len(reply.calls) > 0 && reply.forced == nil {
		p := &pendingTurn{Awaiting: reply.calls[0], Remaining: reply.calls[1:]}
		return a.finishTurn(p)
	}
	if a.orch != nil {
		return a.orch.unfinished(&reply)
	}
	return a.answer(reply)
}

// ending says that the agent cannot go on: how it ends, and the error that its
// caller gets where that is not for the outcome to say.
type ending struct {
	out agentOutcome
	err error
}

// ask asks a model once, in any role, and accounts for it.
func (a *agentRun) ask(q *question) (modelReply, *ending) {
	a.state.Turns++
	reply, err := a.request(q)
	a.account(q.line, reply.usage)
	lost, isLost := errors.AsType[unrecorded](err)
	switch {
	case err == nil:
	case isLost:
		return reply, &ending{agentOutcome{status: AgentCancelled, err: agentError(AgentCancelled, "", err.Error(), false)}, lost.error}
	case a.ctx.Err() != nil:
		return reply, &ending{out: a.stopped()}
	case errs.CodeOf(err) == errs.BudgetExhausted:
		// It is recorded as cancelled, so that a run with a higher ceiling can
		// begin it again.
		a.state.Turns--
		return reply, &ending{agentOutcome{status: AgentCancelled, err: agentError(AgentCancelled, llm.KindBudget, err.Error(), false)}, err}
	default:
		return reply, &ending{out: a.failed(err)}
	}
	if q.quiet || len(a.tools) == 0 {
		reply.keepForced(q.schema != nil)
	}
	return reply, nil
}

// refused ends an agent whose model does not answer.
func (a *agentRun) refused(r *modelReply) *ending {
	switch r.finish {
	case llm.FinishRefusal:
		return &ending{out: a.failed(&llm.Error{Kind: llm.KindTerminal, Message: "the model refused"})}
	case llm.FinishContextWindow:
		return &ending{out: a.failed(&llm.Error{Kind: llm.KindTerminal, Message: "the conversation is larger than the model's context window"})}
	}
	return nil
}

// end writes the end of the agent.
func (a *agentRun) end(out agentOutcome) (agentOutcome, bool, error) {
	out, err := a.finish(out)
	if err == nil && out.status == AgentCancelled {
		err = context.Cause(a.ctx)
	}
	return out, true, err
}

func (a *agentRun) endWith(e *ending) (agentOutcome, bool, error) {
	if e.err == nil {
		return a.end(e.out)
	}
	out, err := a.finish(e.out)
	return out, true, errors.Join(err, e.err)
}

// stopped is the outcome of an agent whose context is done: it was cancelled,
// or its time is over.
func (a *agentRun) stopped() agentOutcome {
	if context.Cause(a.ctx) == errAgentTimeout {
		return a.limited(fmt.Sprintf("the agent has worked for %s, its limit", a.limits.Timeout))
	}
	return agentOutcome{status: AgentCancelled, err: agentError(AgentCancelled, "", "the agent was cancelled", false)}
}

func (a *agentRun) limited(msg string) agentOutcome {
	return agentOutcome{status: AgentLimit, err: agentError(AgentLimit, "", msg, false)}
}

func (a *agentRun) failed(err error) agentOutcome {
	pe := asModelError(err)
	return agentOutcome{status: AgentErrored, err: agentError(AgentErrored, pe.Kind, pe.Message, pe.Retryable)}
}

func asModelError(err error) *llm.Error {
	if pe, ok := errors.AsType[*llm.Error](err); ok {
		return pe
	}
	return &llm.Error{Kind: llm.KindTransport, Message: err.Error(), Retryable: true, Err: err}
}

// account books what the model that serves a role has used.
func (a *agentRun) account(l *modelLine, u llm.Usage) {
	ref := l.served().ref
	if err := a.seg.budget.book(ref, u); err != nil {
		a.log("what a request has cost is not known", "model", ref, "error", err)
	}
	a.state.Usage = a.state.Usage.Add(u)
	defer a.tellBudget()
	for i := range a.state.UsageByModel {
		if m := &a.state.UsageByModel[i]; m.ServedBy == ref && m.Role == l.role {
			m.Usage = m.Usage.Add(u)
			return
		}
	}
	a.state.UsageByModel = append(a.state.UsageByModel, modelUsage{ServedBy: ref, Usage: u, Role: l.role})
}

// save writes the checkpoint. It is durable when save returns.
func (a *agentRun) save(p *pendingTurn) error {
	a.state.Pending = p
	if p == nil {
		a.state.Tree = nil // of a call that was parked
	}
	a.state.ElapsedMs = a.clock.elapsed().Milliseconds()
	blob, err := encodeCheckpoint(&a.state)
	if err != nil {
		return errs.Wrap(errs.JournalIntegrity, "checkpoint", a.seg.runID, "the state cannot be written", err)
	}
	if err := a.seg.e.store.Put(context.WithoutCancel(a.ctx), checkpointRef(a.seg.runID, a.running.Seq), blob); err != nil {
		return errs.Wrap(errs.JournalIntegrity, "checkpoint", a.seg.runID, "the checkpoint could not be made durable", err)
	}
	a.saved = true
	return nil
}

var (
	errAgentTimeout = errors.New("the agent's time is over")
	errStreamIdle   = errors.New("the model sent nothing")
)
