package otel

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

func (r *run) agent(ev rulvar.Event, body rulvar.AgentStarted) {
	n := &node{parent: r.above(ev.ParentSpanID), name: strings.TrimSpace("invoke_agent " + body.AgentType), begin: ev.Time, last: ev.Time, agent: &body}
	n.attrs = agentAttrs(&body)
	if body.Label != "" {
		n.attrs = append(n.attrs, attribute.String("rulvar.agent.label", body.Label))
	}
	r.nodes[ev.SpanID] = n
	r.open(n)
}

// agentAttrs are what spans and metrics of an agent have in common.
func agentAttrs(body *rulvar.AgentStarted) []attribute.KeyValue {
	provider, model, found := strings.Cut(body.Model, ":")
	if !found {
		provider, model = "", body.Model
	}
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.provider.name", provider), attribute.String("gen_ai.request.model", model),
	}
	if body.AgentType != "" {
		attrs = append(attrs, attribute.String("gen_ai.agent.name", body.AgentType))
	}
	return attrs
}

func (r *run) endAgent(ev rulvar.Event, body rulvar.AgentEnded) {
	n := r.nodes[ev.SpanID]
	if n == nil || n.agent == nil || n.finished {
		return
	}
	n.span.SetAttributes(attribute.String("rulvar.agent.status", string(body.Status)), attribute.Int64("rulvar.entry", body.EntryRef))
	n.span.SetAttributes(usageAttrs(body.Usage)...)
	failure := ""
	if body.Status == rulvar.AgentErrored || body.Status == rulvar.AgentLimit {
		failure = string(body.Status)
		n.span.SetAttributes(attribute.String("error.type", failure))
		n.span.SetStatus(codes.Error, failure)
	}
	n.end(ev.Time)
	r.b.metrics.endAgent(n, ev.Time, body, failure)
}

func usageAttrs(u llm.Usage) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int64("gen_ai.usage.input_tokens", int64(u.InputTokens)),
		attribute.Int64("gen_ai.usage.output_tokens", int64(u.OutputTokens)),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", int64(u.CacheReadTokens)),
		attribute.Int64("gen_ai.usage.cache_creation.input_tokens", int64(u.CacheWriteTokens)),
	}
}
