package otel

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	rulvar "github.com/rulvar/rulvar-go"
)

// The values of security.outcome.
const (
	outcomeAllowed   = "allowed"
	outcomeApproved  = "approved"
	outcomeDenied    = "denied"
	outcomeRejected  = "rejected"
	outcomeTimedOut  = "timed_out"
	outcomePending   = "pending"
	outcomeCancelled = "cancelled"
	outcomeUnjudged  = "unjudged"
)

// otherTool stands in metrics for a name that is no tool's: a model may make up
// any number of them.
const otherTool = "_OTHER"

// toolCall is one call of a segment.
type toolCall struct {
	key, name, id string
	risk          rulvar.Risk
	agent         *node
	begin         time.Time
	span          trace.Span // nil while it is only retold
	asked         bool
	answeredBy    string
}

func callKey(ev rulvar.Event, id string) string { return ev.SpanID + " " + id }

func (r *run) tool(ev rulvar.Event, body rulvar.ToolStarted) {
	r.open(r.note(ev, body))
}

// note remembers a call and returns the agent that makes it.
func (r *run) note(ev rulvar.Event, body rulvar.ToolStarted) *node {
	c := &toolCall{key: callKey(ev, body.ToolCallID), name: body.ToolName, id: body.ToolCallID, risk: body.Risk, agent: r.at(ev), begin: ev.Time}
	if old := r.calls[c.key]; old != nil && old.span != nil {
		r.close(ev.Time, old, outcomeCancelled, "")
	}
	r.calls[c.key] = c
	if !ev.Replayed {
		r.openCall(c)
	}
	return c.agent
}

// openCall makes the span of a call.
func (r *run) openCall(c *toolCall) {
	if c.span != nil {
		return
	}
	r.open(c.agent)
	attrs := []attribute.KeyValue{
		attribute.String("rulvar.run.id", r.id), attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", c.name),
		attribute.String("gen_ai.tool.call.id", c.id), attribute.String("gen_ai.tool.type", "function"),
	}
	if c.risk != "" {
		attrs = append(attrs, attribute.String("rulvar.tool.risk", string(c.risk)))
	}
	_, c.span = r.b.tracer.Start(c.agent.ctx, "execute_tool "+c.name, trace.WithTimestamp(c.begin), trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...))
}

// retold takes what a segment tells again. It makes no span, but a call that was
// parked goes on from here.
func (r *run) retold(ev rulvar.Event) {
	switch body := ev.Body.(type) {
	case rulvar.ToolStarted:
		r.note(ev, body)
	case rulvar.ApprovalPending:
		if c := r.calls[callKey(ev, body.ToolCallID)]; c != nil {
			c.asked = true
			r.asking[body.EntryRef] = c
		}
	}
}

// call is the call that an event is about; one whose start is not known begins
// with it.
func (r *run) call(ev rulvar.Event, name, id string, begin time.Time) *toolCall {
	c := r.calls[callKey(ev, id)]
	if c == nil {
		c = &toolCall{key: callKey(ev, id), name: name, id: id, agent: r.at(ev), begin: begin}
		r.calls[c.key] = c
	}
	r.openCall(c)
	return c
}

func (r *run) pending(ev rulvar.Event, body rulvar.ApprovalPending) {
	c := r.call(ev, body.ToolName, body.ToolCallID, ev.Time)
	c.asked = true
	r.asking[body.EntryRef] = c
	attrs := []attribute.KeyValue{
		attribute.String("rulvar.suspension.key", body.Key), attribute.Int64("rulvar.entry", body.EntryRef), attribute.String("security.reason", body.Reason),
	}
	if body.DeadlineAt != nil {
		attrs = append(attrs, attribute.String("rulvar.deadline", body.DeadlineAt.UTC().Format(time.RFC3339Nano)))
	}
	c.span.AddEvent("approval.pending", trace.WithTimestamp(ev.Time), trace.WithAttributes(attrs...))
}

func (r *run) resolved(ev rulvar.Event, body rulvar.ResolutionApplied) {
	attrs := trace.WithAttributes(attribute.String("rulvar.resolution.by", body.By), attribute.Int64("rulvar.entry", body.TargetRef))
	c := r.asking[body.TargetRef]
	if c == nil {
		r.root.span.AddEvent("resolution.applied", trace.WithTimestamp(ev.Time), attrs)
		return
	}
	c.answeredBy = body.By
	r.openCall(c)
	c.span.AddEvent("approval.resolved", trace.WithTimestamp(ev.Time), attrs)
}

func (r *run) endTool(ev rulvar.Event, body rulvar.ToolEnded) {
	c := r.call(ev, body.ToolName, body.ToolCallID, ev.Time.Add(-time.Duration(body.DurationMs)*time.Millisecond))
	outcome := outcomeOf(c, &body)
	c.span.SetAttributes(verdictAttrs(&body)...)
	if r.b.opts.Content {
		r.content(c.span, "gen_ai.tool.call.arguments", body.Input)
		r.content(c.span, "gen_ai.tool.call.result", body.Result)
	}
	r.close(ev.Time, c, outcome, failureOf(outcome, &body))
	r.b.metrics.endTool(c, ev.Time, &body, outcome)
}

// close ends the span of a call. failure is its error.type, or "".
func (r *run) close(at time.Time, c *toolCall, outcome, failure string) {
	c.span.SetAttributes(attribute.String("security.outcome", outcome))
	if c.answeredBy != "" {
		c.span.SetAttributes(attribute.String("rulvar.resolution.by", c.answeredBy))
	}
	if failure != "" {
		c.span.SetAttributes(attribute.String("error.type", failure))
		c.span.SetStatus(codes.Error, failure)
	}
	c.span.End(trace.WithTimestamp(at))
	delete(r.calls, c.key)
}

// leave ends the span of a call that has no end in this segment.
func (r *run) leave(ev rulvar.Event, c *toolCall) {
	if c.span == nil {
		return // only retold
	}
	outcome := outcomeCancelled
	if c.asked {
		outcome = outcomePending
		c.span.SetAttributes(attribute.String("security.verdict", string(rulvar.VerdictAsk)))
	}
	r.close(ev.Time, c, outcome, "")
}

// outcomeOf is what became of a call, in one word.
func outcomeOf(c *toolCall, body *rulvar.ToolEnded) string {
	switch {
	case body.Outcome == rulvar.ToolDenied && body.ErrorCode != "": // stopped before it ran
		return outcomeCancelled
	case body.Outcome == rulvar.ToolDenied && c.answeredBy == "timeout":
		return outcomeTimedOut
	case body.Outcome == rulvar.ToolDenied && body.Verdict == rulvar.VerdictAsk:
		return outcomeRejected
	case body.Outcome == rulvar.ToolDenied:
		return outcomeDenied
	case body.Verdict == rulvar.VerdictAsk:
		return outcomeApproved
	case body.Verdict == rulvar.VerdictAllow:
		return outcomeAllowed
	}
	return outcomeUnjudged
}

// failureOf is the error.type of a call that was refused or failed.
func failureOf(outcome string, body *rulvar.ToolEnded) string {
	switch {
	case body.Outcome == rulvar.ToolOK:
		return ""
	case body.ErrorCode != "":
		return body.ErrorCode
	case body.Outcome == rulvar.ToolDenied:
		return outcome
	}
	return "tool_error"
}

func verdictAttrs(body *rulvar.ToolEnded) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("rulvar.tool.outcome", string(body.Outcome))}
	for _, a := range []attribute.KeyValue{
		attribute.String("security.verdict", string(body.Verdict)), attribute.String("security.decided_by", string(body.DecidedBy)),
		attribute.String("security.layer", string(body.Layer)), attribute.String("security_rule.name", ruleText(body.Rule)),
		attribute.String("security.reason", body.Reason),
	} {
		if a.Value.AsString() != "" {
			attrs = append(attrs, a)
		}
	}
	if len(body.Advisory) > 0 {
		rules := make([]string, len(body.Advisory))
		for i, rule := range body.Advisory {
			rules[i] = rule.String()
		}
		attrs = append(attrs, attribute.StringSlice("security.advisory", rules))
	}
	return attrs
}

// content puts a tool's input or result on its span, as far as there is room.
func (r *run) content(span trace.Span, key string, text []byte) {
	if len(text) == 0 {
		return
	}
	cut := string(text[:min(len(text), r.b.opts.MaxContent)])
	if len(cut) < len(text) {
		cut = strings.ToValidUTF8(cut, "") + "…"
	}
	span.SetAttributes(attribute.String(key, cut))
}
