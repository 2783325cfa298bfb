package otel

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	rulvar "github.com/rulvar/rulvar-go"
)

// run is what is known of one segment.
type run struct {
	b        *Bridge
	parent   context.Context // of the run's span
	id       string
	workflow string
	began    time.Time
	resumed  bool

	root   *node
	nodes  map[string]*node // phases and agents by their span id, children by their scope
	calls  map[string]*toolCall
	asking map[int64]*toolCall // by the entry that asks
}

// node is a span that others stand under. A phase of a resumed run has none
// until something is done in it.
type node struct {
	parent *node
	name   string
	attrs  []attribute.KeyValue
	begin  time.Time
	last   time.Time // its last event, or one below it
	ctx    context.Context
	span   trace.Span // nil while nothing is done in it

	agent    *rulvar.AgentStarted
	finished bool
}

func newRun(b *Bridge, parent context.Context) *run {
	return &run{b: b, parent: parent, nodes: map[string]*node{}, calls: map[string]*toolCall{}, asking: map[int64]*toolCall{}}
}

// take brings one event in.
func (r *run) take(ev rulvar.Event) {
	if r.root == nil {
		r.begin(ev)
	}
	if ev.Replayed {
		r.retold(ev)
		return
	}
	at := r.at(ev)
	for n := at; n != nil; n = n.parent {
		n.last = ev.Time
	}
	switch body := ev.Body.(type) {
	case rulvar.PhaseStarted:
		r.phase(ev, body)
	case rulvar.ChildStarted:
		r.child(ev, body)
	case rulvar.ChildEnded:
		r.endChild(ev, body)
	case rulvar.AgentStarted:
		r.agent(ev, body)
	case rulvar.AgentEnded:
		r.endAgent(ev, body)
	case rulvar.AgentFailed:
		r.event(at, ev, "agent.error", attribute.String("error.type", string(body.Kind)), attribute.String("error.message", body.Message), attribute.Bool("rulvar.will_retry", body.WillRetry))
	case rulvar.ToolStarted:
		r.tool(ev, body)
	case rulvar.ToolEnded:
		r.endTool(ev, body)
	case rulvar.ApprovalPending:
		r.pending(ev, body)
	case rulvar.ResolutionApplied:
		r.resolved(ev, body)
	case rulvar.ExternalWaiting:
		r.event(at, ev, "external.waiting", attribute.String("rulvar.suspension.key", body.Key), attribute.Int64("rulvar.entry", body.EntryRef))
	case rulvar.PolicyWarning:
		r.event(at, ev, "policy.warning", attribute.String("message", body.Message), attribute.String("security_rule.name", ruleText(body.Rule)))
	case rulvar.LogEmitted:
		if body.Level >= slog.LevelWarn {
			r.event(at, ev, "log", attribute.String("log.severity", body.Level.String()), attribute.String("message", body.Msg))
		}
	case rulvar.RunEnded:
		r.end(ev, body)
	}
}

// begin opens the run's span, with whatever event comes first.
func (r *run) begin(ev rulvar.Event) {
	r.id, r.began = ev.RunID, ev.Time
	if start, ok := ev.Body.(rulvar.RunStarted); ok {
		r.workflow, r.resumed = start.Workflow, start.Resumed
	}
	r.root = &node{name: strings.TrimSpace("invoke_workflow " + r.workflow), begin: ev.Time, last: ev.Time, attrs: []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "invoke_workflow"), attribute.String("gen_ai.workflow.name", r.workflow),
		attribute.Bool("rulvar.run.resumed", r.resumed),
	}}
	r.open(r.root)
	if _, ok := ev.Body.(rulvar.RunStarted); ok {
		r.nodes[ev.SpanID] = r.root
	}
}

// open makes a node's span, and those above it.
func (r *run) open(n *node) {
	if n.span != nil {
		return
	}
	ctx := r.parent
	if n.parent != nil {
		r.open(n.parent)
		ctx = n.parent.ctx
	}
	attrs := append([]attribute.KeyValue{attribute.String("rulvar.run.id", r.id)}, n.attrs...)
	n.ctx, n.span = r.b.tracer.Start(ctx, n.name, trace.WithTimestamp(n.begin), trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...))
}

// at is the node that an event is about, or the nearest that is known.
func (r *run) at(ev rulvar.Event) *node {
	for _, id := range []string{ev.SpanID, ev.ParentSpanID} {
		if n := r.nodes[id]; n != nil {
			return n
		}
	}
	return r.root
}

// above is the node that a new one stands under.
func (r *run) above(id string) *node {
	if n := r.nodes[id]; n != nil {
		return n
	}
	return r.root
}

// event puts a span event on a node, or on the nearest above it that has a span.
func (r *run) event(n *node, ev rulvar.Event, name string, attrs ...attribute.KeyValue) {
	for n.span == nil {
		n = n.parent
	}
	n.span.AddEvent(name, trace.WithTimestamp(ev.Time), trace.WithAttributes(attrs...))
}

// phase notes a phase. In a resumed run it may be one in which all is replayed:
// its span is opened when something is done in it.
func (r *run) phase(ev rulvar.Event, body rulvar.PhaseStarted) {
	n := &node{parent: r.above(ev.ParentSpanID), name: "phase " + body.Phase, begin: ev.Time, last: ev.Time, attrs: []attribute.KeyValue{attribute.String("rulvar.phase", body.Phase)}}
	r.nodes[ev.SpanID] = n
	if !r.resumed {
		r.open(n)
	}
}

func (r *run) child(ev rulvar.Event, body rulvar.ChildStarted) {
	n := &node{parent: r.at(ev), name: "invoke_workflow " + body.Workflow, begin: ev.Time, last: ev.Time, attrs: []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "invoke_workflow"), attribute.String("gen_ai.workflow.name", body.Workflow), attribute.String("rulvar.scope", body.Scope),
	}}
	r.nodes["child "+body.Scope] = n
	r.open(n)
}

func (r *run) endChild(ev rulvar.Event, body rulvar.ChildEnded) {
	if n := r.nodes["child "+body.Scope]; n != nil {
		setRunStatus(n.span, body.Status)
		n.end(ev.Time)
	}
}

// end ends a node's span, once.
func (n *node) end(at time.Time) {
	if n.span != nil && !n.finished {
		n.finished = true
		n.span.End(trace.WithTimestamp(at))
	}
}

// setRunStatus puts a status on a run's or child's span.
func setRunStatus(span trace.Span, status rulvar.RunStatus) {
	span.SetAttributes(attribute.String("rulvar.run.status", string(status)))
	if status == rulvar.RunError || status == rulvar.RunExhausted {
		span.SetAttributes(attribute.String("error.type", string(status)))
		span.SetStatus(codes.Error, string(status))
	}
}

// end ends the segment and everything that is still open in it.
func (r *run) end(ev rulvar.Event, body rulvar.RunEnded) {
	for _, c := range r.calls {
		r.leave(ev, c)
	}
	for _, n := range r.nodes {
		if n == r.root || n.span == nil || n.finished {
			continue
		}
		at := ev.Time
		switch {
		case n.agent != nil:
			n.span.SetAttributes(attribute.String("rulvar.agent.status", string(body.Status)))
		case !strings.HasPrefix(n.name, "invoke_workflow") && n.last.After(n.begin):
			at = n.last // nothing tells the end of a phase
		}
		n.end(at)
	}
	setRunStatus(r.root.span, body.Status)
	r.root.span.SetAttributes(usageAttrs(body.Usage)...)
	r.root.end(ev.Time)
	r.b.metrics.endRun(r, ev.Time, body)
}

func ruleText(rule rulvar.Rule) string {
	if rule.IsZero() {
		return ""
	}
	return rule.String()
}
