package otel

import (
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	rulvar "github.com/rulvar/rulvar-go"
)

// metrics are the instruments of a bridge.
type metrics struct {
	tokens                       metric.Int64Histogram
	agents, executions, segments metric.Float64Histogram
	calls                        metric.Int64Counter
}

// The boundaries that the conventions name.
var (
	tokenBounds    = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	durationBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
)

func (m *metrics) make(meter metric.Meter) error {
	var errList [5]error
	m.tokens, errList[0] = meter.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that an agent used."), metric.WithExplicitBucketBoundaries(tokenBounds...))
	for i, h := range []struct {
		to         *metric.Float64Histogram
		name, text string
	}{
		{&m.agents, "gen_ai.invoke_agent.duration", "How long an agent worked."},
		{&m.executions, "gen_ai.execute_tool.duration", "How long a tool call took, waiting for an approval included."},
		{&m.segments, "gen_ai.workflow.duration", "How long a segment of a run took."},
	} {
		*h.to, errList[i+1] = meter.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.text), metric.WithExplicitBucketBoundaries(durationBounds...))
	}
	m.calls, errList[4] = meter.Int64Counter("rulvar.tool.calls", metric.WithUnit("{call}"), metric.WithDescription("Tool calls and what became of them."))
	return errors.Join(errList[:]...)
}

// failed adds an error.type where there is one.
func failed(attrs []attribute.KeyValue, failure string) metric.MeasurementOption {
	if failure != "" {
		attrs = append(attrs, attribute.String("error.type", failure))
	}
	return metric.WithAttributes(attrs...)
}

func (m *metrics) endAgent(n *node, at time.Time, body rulvar.AgentEnded, failure string) {
	attrs := agentAttrs(n.agent)
	m.agents.Record(n.ctx, at.Sub(n.begin).Seconds(), failed(attrs, failure))
	for _, t := range []struct {
		kind string
		n    int64
	}{{"input", body.Usage.InputTokens}, {"output", body.Usage.OutputTokens}} {
		m.tokens.Record(n.ctx, t.n, metric.WithAttributes(append(agentAttrs(n.agent), attribute.String("gen_ai.token.type", t.kind))...))
	}
}

func (m *metrics) endTool(c *toolCall, at time.Time, body *rulvar.ToolEnded, outcome string) {
	name := c.name
	if body.ErrorCode == "unknown-tool" {
		name = otherTool
	}
	tool := attribute.String("gen_ai.tool.name", name)
	m.executions.Record(c.agent.ctx, at.Sub(c.begin).Seconds(), failed([]attribute.KeyValue{attribute.String("gen_ai.operation.name", "execute_tool"), tool}, failureOf(outcome, body)))
	m.calls.Add(c.agent.ctx, 1, metric.WithAttributes(tool, attribute.String("rulvar.tool.outcome", string(body.Outcome)),
		attribute.String("security.outcome", outcome), attribute.String("security.verdict", string(body.Verdict)),
		attribute.String("security.decided_by", string(body.DecidedBy)), attribute.String("security.layer", string(body.Layer))))
}

func (m *metrics) endRun(r *run, at time.Time, body rulvar.RunEnded) {
	failure := ""
	if body.Status == rulvar.RunError || body.Status == rulvar.RunExhausted {
		failure = string(body.Status)
	}
	m.segments.Record(r.root.ctx, at.Sub(r.began).Seconds(), failed([]attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "invoke_workflow"), attribute.String("gen_ai.workflow.name", r.workflow), attribute.String("rulvar.run.status", string(body.Status)),
	}, failure))
}
