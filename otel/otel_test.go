package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/otel"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// probe is an engine whose telemetry ends in memory.
type probe struct {
	t        *testing.T
	engine   *rulvar.Engine
	bridge   *otel.Bridge
	exporter *tracetest.InMemoryExporter
	reader   *metric.ManualReader
	tracer   *trace.TracerProvider
}

func newProbe(t *testing.T, cfg rulvar.Config, opts otel.Options, turns ...rulvartest.Turn) *probe {
	t.Helper()
	p := &probe{t: t, exporter: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	p.tracer = trace.NewTracerProvider(trace.WithSyncer(p.exporter))
	opts.TracerProvider, opts.MeterProvider = p.tracer, metric.NewMeterProvider(metric.WithReader(p.reader))
	cfg.Providers = []llm.Provider{rulvartest.NewProvider("local", rulvartest.Script{Turns: turns})}
	cfg.Model, cfg.Logger = "local:small", slog.New(slog.DiscardHandler)
	if cfg.Store == nil {
		cfg.Store = rulvar.NewMemoryStore()
	}
	var err error
	p.engine, err = rulvar.NewEngine(cfg)
	require.NoError(t, err)
	p.bridge, err = otel.New(&opts)
	require.NoError(t, err)
	return p
}

// flow is a workflow of one phase with one agent.
func flow(tools ...rulvar.ToolSource) *rulvar.Workflow[struct{}, string] {
	return rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, _ struct{}) (out string, err error) {
		err = c.Phase("check", func(c *rulvar.Ctx) error {
			out, err = rulvar.Agent[string](c, "Ship it.", &rulvar.AgentOptions{AgentType: "", Label: "one", Tools: tools})
			return err
		})
		return out, err
	})
}

func tool(t *testing.T, cfg rulvar.ToolConfig, fail error) *rulvar.Tool {
	t.Helper()
	tool, err := rulvar.NewTool(cfg, func(_ *rulvar.ToolContext, in struct {
		Text string `json:"text,omitempty"`
	}) (string, error) {
		return "result of " + in.Text, fail
	})
	require.NoError(t, err)
	return tool
}

func calls(tools ...string) rulvartest.Turn {
	var turn rulvartest.Turn
	for _, name := range tools {
		turn.Calls = append(turn.Calls, rulvartest.Call{Tool: name, Args: map[string]string{"text": "secret words"}})
	}
	return turn
}

func (p *probe) run(w *rulvar.Workflow[struct{}, string], id string) (rulvar.Outcome[string], error) {
	p.t.Helper()
	ctx := context.Background()
	h, err := rulvar.Run(ctx, p.engine, w, struct{}{}, &rulvar.RunOptions{RunID: id, OnEvent: p.bridge.Listener(ctx)})
	require.NoError(p.t, err)
	return h.Result(ctx)
}

func (p *probe) resume(w *rulvar.Workflow[struct{}, string], id string) (rulvar.Outcome[string], error) {
	p.t.Helper()
	ctx := context.Background()
	h, err := rulvar.Resume(ctx, p.engine, w, id, &rulvar.ResumeOptions[struct{}]{OnEvent: p.bridge.Listener(ctx)})
	require.NoError(p.t, err)
	return h.Result(ctx)
}

// take returns the spans so far and forgets them.
func (p *probe) take() tracetest.SpanStubs {
	defer p.exporter.Reset()
	return p.exporter.GetSpans()
}

func find(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, "no span %q among %v", name, spanNames(spans))
	return spans[i]
}

func spanNames(spans tracetest.SpanStubs) []string {
	names := make([]string, len(spans))
	for i, s := range spans {
		names[i] = s.Name
	}
	slices.Sort(names)
	return names
}

func attr(s tracetest.SpanStub, key string) string {
	for _, kv := range s.Attributes {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

func eventNames(s tracetest.SpanStub) []string {
	var names []string
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

// metrics returns the data points of an instrument as "attribute=value …: count".
func (p *probe) metric(name string) map[string]int64 {
	p.t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(p.t, p.reader.Collect(context.Background(), &rm))
	out := map[string]int64{}
	key := func(set attribute.Set) string {
		var parts []string
		for _, kv := range set.ToSlice() {
			if v := kv.Value.String(); v != "" {
				parts = append(parts, v)
			}
		}
		return strings.Join(parts, " ")
	}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, pt := range d.DataPoints {
					out[key(pt.Attributes)] = pt.Value
				}
			case metricdata.Histogram[int64]:
				for _, pt := range d.DataPoints {
					out[key(pt.Attributes)] = pt.Sum
				}
			case metricdata.Histogram[float64]:
				for _, pt := range d.DataPoints {
					out[key(pt.Attributes)] = int64(pt.Count)
				}
			}
		}
	}
	return out
}

func TestSpanTree(t *testing.T) {
	say := tool(t, rulvar.ToolConfig{Name: "say", Risk: rulvar.RiskRead}, nil)
	turn := calls("say")
	turn.Usage = &llm.Usage{InputTokens: 100, OutputTokens: 7}
	p := newProbe(t, rulvar.Config{}, otel.Options{}, turn, rulvartest.Turn{Text: "done", Usage: &llm.Usage{InputTokens: 200, OutputTokens: 3}})
	ctx, request := p.tracer.Tracer("host").Start(context.Background(), "POST /ship")
	h, err := rulvar.Run(ctx, p.engine, flow(say), struct{}{}, &rulvar.RunOptions{RunID: "r1", OnEvent: p.bridge.Listener(ctx)})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	request.End()
	spans := p.take()
	require.Equal(t, []string{"POST /ship", "execute_tool say", "invoke_agent", "invoke_workflow ship", "phase check"}, spanNames(spans))
	above := "POST /ship"
	for _, name := range []string{"invoke_workflow ship", "phase check", "invoke_agent", "execute_tool say"} {
		s := find(t, spans, name)
		require.Equal(t, find(t, spans, above).SpanContext.SpanID(), s.Parent.SpanID(), name)
		require.Equal(t, "r1", attr(s, "rulvar.run.id"))
		require.False(t, s.EndTime.Before(s.StartTime))
		require.Equal(t, codes.Unset, s.Status.Code)
		above = name
	}
	agent := find(t, spans, "invoke_agent")
	require.Equal(t, "invoke_agent", attr(agent, "gen_ai.operation.name"))
	require.Equal(t, "local", attr(agent, "gen_ai.provider.name"))
	require.Equal(t, "small", attr(agent, "gen_ai.request.model"))
	require.Equal(t, "300", attr(agent, "gen_ai.usage.input_tokens"))
	require.Equal(t, "10", attr(agent, "gen_ai.usage.output_tokens"))
	require.Equal(t, "ok", attr(agent, "rulvar.agent.status"))
	call := find(t, spans, "execute_tool say")
	for key, want := range map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "say", "gen_ai.tool.type": "function", "rulvar.tool.risk": "read",
		"security.verdict": "allow", "security.decided_by": "default", "security.outcome": "allowed", "rulvar.tool.outcome": "ok", "error.type": "",
		"gen_ai.tool.call.arguments": "", "gen_ai.tool.call.result": "",
	} {
		require.Equal(t, want, attr(call, key), key)
	}
	require.NotEmpty(t, attr(call, "gen_ai.tool.call.id"))

	require.Equal(t, map[string]int64{"invoke_agent local small input": 300, "invoke_agent local small output": 10}, p.metric("gen_ai.client.token.usage"))
	require.Equal(t, map[string]int64{"invoke_agent local small": 1}, p.metric("gen_ai.invoke_agent.duration"))
	require.Equal(t, map[string]int64{"execute_tool say": 1}, p.metric("gen_ai.execute_tool.duration"))
	require.Equal(t, map[string]int64{"invoke_workflow ship ok": 1}, p.metric("gen_ai.workflow.duration"))
	require.Equal(t, map[string]int64{"say ok default allowed allow": 1}, p.metric("rulvar.tool.calls"))
}

// Report K: a call that was refused, asked about or never judged is as visible
// as one that ran, and its span is no success.
func TestEveryVerdictIsVisible(t *testing.T) {
	say := tool(t, rulvar.ToolConfig{Name: "say"}, nil)
	rm := tool(t, rulvar.ToolConfig{Name: "rm", Risk: rulvar.RiskDestructive}, nil)
	broken := tool(t, rulvar.ToolConfig{Name: "broken"}, errors.New("no"))
	bad := calls("nothing", "rm", "broken", "say")
	bad.Calls = append(bad.Calls, rulvartest.Call{Tool: "say", Args: map[string]int{"text": 1}})
	p := newProbe(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{
		Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive), rulvar.DomainRule("say", "*.example.com")},
	}}, otel.Options{}, bad, rulvartest.Turn{Text: "done"})
	_, err := p.run(flow(say, rm, broken), "r1")
	require.NoError(t, err)
	spans := p.take()

	denied := find(t, spans, "execute_tool rm")
	require.Equal(t, codes.Error, denied.Status.Code)
	for key, want := range map[string]string{
		"security.verdict": "deny", "security.decided_by": "deny-rule", "security.layer": "engine", "security_rule.name": `{"risk":"destructive"}`,
		"security.reason": "engine.deny[0] matches", "security.outcome": "denied", "rulvar.tool.outcome": "denied", "error.type": "denied",
	} {
		require.Equal(t, want, attr(denied, key), key)
	}
	unknown := find(t, spans, "execute_tool nothing")
	require.Equal(t, "unjudged", attr(unknown, "security.outcome"))
	require.Equal(t, "unknown-tool", attr(unknown, "error.type"))
	failed := find(t, spans, "execute_tool broken")
	require.Equal(t, "allowed", attr(failed, "security.outcome"))
	require.Equal(t, "tool_error", attr(failed, "error.type"))
	require.Equal(t, codes.Error, failed.Status.Code)
	require.Equal(t, `["{\"tool\":\"say\",\"domains\":[\"*.example.com\"]}"]`, attr(find(t, spans, "execute_tool say"), "security.advisory"))
	require.Equal(t, map[string]int64{
		"_OTHER error unjudged": 1, "rm denied deny-rule engine denied deny": 1, "broken error default allowed allow": 1,
		"say ok default allowed allow": 1, "say error unjudged": 1,
	}, p.metric("rulvar.tool.calls"))
}

// A call that waits is in the segment that parked it and in the one that ended
// it; what is replayed between them makes no span.
func TestApprovals(t *testing.T) {
	for _, row := range []struct {
		name              string
		answer            rulvar.ApprovalDecision
		outcome, failure  string
		rejected, timeout bool
	}{
		{"approved", rulvar.Approve("fine"), "approved", "", false, false},
		{"rejected", rulvar.Reject("no"), "rejected", "rejected", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			say := tool(t, rulvar.ToolConfig{Name: "say", NeedsApproval: true}, nil)
			first := tool(t, rulvar.ToolConfig{Name: "first"}, nil)
			p := newProbe(t, rulvar.Config{}, otel.Options{}, calls("first"), calls("say"), rulvartest.Turn{Text: "done"})
			w := flow(say, first)
			out, err := p.run(w, "r1")
			require.NoError(t, err)
			require.Equal(t, rulvar.RunSuspended, out.Status)
			spans := p.take()
			require.Equal(t, []string{"execute_tool first", "execute_tool say", "invoke_agent", "invoke_workflow ship", "phase check"}, spanNames(spans))
			parked := find(t, spans, "execute_tool say")
			require.Equal(t, "pending", attr(parked, "security.outcome"))
			require.Equal(t, "ask", attr(parked, "security.verdict"))
			require.Equal(t, []string{"approval.pending"}, eventNames(parked))
			require.Equal(t, "suspended", attr(find(t, spans, "invoke_workflow ship"), "rulvar.run.status"))
			require.Equal(t, "suspended", attr(find(t, spans, "invoke_agent"), "rulvar.agent.status"))

			_, err = p.resume(w, "r1")
			require.NoError(t, err)
			require.Equal(t, []string{"invoke_agent", "invoke_workflow ship", "phase check"}, spanNames(p.take()), "the call is only told again")

			_, err = p.engine.Resolve(context.Background(), "r1", out.Pending[0].Key, row.answer)
			require.NoError(t, err)
			_, err = p.resume(w, "r1")
			require.NoError(t, err)
			spans = p.take()
			require.Equal(t, []string{"execute_tool say", "invoke_agent", "invoke_workflow ship", "phase check"}, spanNames(spans))
			call := find(t, spans, "execute_tool say")
			require.Equal(t, row.outcome, attr(call, "security.outcome"))
			require.Equal(t, row.failure, attr(call, "error.type"))
			require.Equal(t, "true", attr(find(t, spans, "invoke_workflow ship"), "rulvar.run.resumed"))

			_, err = p.resume(w, "r1")
			require.NoError(t, err)
			require.Equal(t, []string{"invoke_workflow ship"}, spanNames(p.take()), "a replay makes no spans")
			require.Len(t, p.metric("rulvar.tool.calls"), 2)
		})
	}
}

func TestTimedOutApproval(t *testing.T) {
	say := tool(t, rulvar.ToolConfig{Name: "say", NeedsApproval: true}, nil)
	other := tool(t, rulvar.ToolConfig{Name: "hold"}, nil)
	p := newProbe(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{ApprovalDeadline: 50 * time.Millisecond}}, otel.Options{}, calls("say"), rulvartest.Turn{Text: "done"})
	hold := make(chan struct{})
	w := rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		// The other branch keeps the run from settling until the deadline is over.
		out, err := rulvar.Parallel(c, func(c *rulvar.Ctx) (string, error) {
			defer close(hold)
			return rulvar.Agent[string](c, "Ship it.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{say, other}})
		}, func(c *rulvar.Ctx) (string, error) {
			return rulvar.Step(c, "hold", func(context.Context) (string, error) { <-hold; return "", nil }, nil)
		})
		if err != nil {
			return "", err
		}
		return out[0], nil
	})
	out, err := p.run(w, "r1")
	require.NoError(t, err)
	require.Equal(t, rulvar.RunOK, out.Status)
	call := find(t, p.take(), "execute_tool say")
	require.Equal(t, "timed_out", attr(call, "security.outcome"))
	require.Equal(t, "timed_out", attr(call, "error.type"))
	require.Equal(t, "timeout", attr(call, "rulvar.resolution.by"))
	require.Equal(t, codes.Error, call.Status.Code)
	require.Equal(t, []string{"approval.pending", "approval.resolved"}, eventNames(call))
}

// Inputs and results are there where both the engine and the bridge say so.
func TestContent(t *testing.T) {
	say := tool(t, rulvar.ToolConfig{Name: "say"}, nil)
	for _, row := range []struct {
		engine, bridge bool
		limit          int
		args, result   string
	}{
		{false, true, 0, "", ""},
		{true, false, 0, "", ""},
		{true, true, 0, `{"text":"secret words"}`, `"result of secret words"`},
		{true, true, 10, `{"text":"s…`, `"result of…`},
	} {
		p := newProbe(t, rulvar.Config{EventContent: row.engine}, otel.Options{Content: row.bridge, MaxContent: row.limit}, calls("say"), rulvartest.Turn{Text: "done"})
		_, err := p.run(flow(say), "r1")
		require.NoError(t, err)
		spans := p.take()
		call := find(t, spans, "execute_tool say")
		require.Equal(t, row.args, attr(call, "gen_ai.tool.call.arguments"))
		require.Equal(t, row.result, attr(call, "gen_ai.tool.call.result"))
		if row.args == "" {
			for _, s := range spans {
				for _, kv := range s.Attributes {
					require.NotContains(t, kv.Value.String(), "secret")
				}
			}
		}
	}
}

func TestFailures(t *testing.T) {
	p := newProbe(t, rulvar.Config{}, otel.Options{}, rulvartest.Turn{Text: "done"})
	w := rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		c.Log(slog.LevelWarn, "careful")
		child := rulvar.DefineWorkflow("inner", func(c *rulvar.Ctx, _ int) (int, error) { return 0, errors.New("inner failed") })
		_, err := rulvar.CallWorkflow(c, child, 1, "")
		return "", err
	})
	_, err := p.run(w, "r1")
	require.Error(t, err)
	spans := p.take()
	for _, name := range []string{"invoke_workflow ship", "invoke_workflow inner"} {
		s := find(t, spans, name)
		require.Equal(t, codes.Error, s.Status.Code)
		require.Equal(t, "error", attr(s, "error.type"))
	}
	require.Contains(t, eventNames(find(t, spans, "invoke_workflow ship")), "log")
	require.Equal(t, map[string]int64{"error invoke_workflow ship error": 1}, p.metric("gen_ai.workflow.duration"))
}

// One listener serves runs that go on at once.
func TestRunsAtOnce(t *testing.T) {
	say := tool(t, rulvar.ToolConfig{Name: "say"}, nil)
	p := newProbe(t, rulvar.Config{}, otel.Options{}, rulvartest.Turn{Text: "done"})
	listen := p.bridge.Listener(context.Background())
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			h, err := rulvar.Run(context.Background(), p.engine, flow(say), struct{}{}, &rulvar.RunOptions{RunID: id, OnEvent: listen})
			if err == nil {
				_, err = h.Result(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	spans := p.take()
	traces := map[string]string{}
	for _, s := range spans {
		id, trace := attr(s, "rulvar.run.id"), s.SpanContext.TraceID().String()
		if traces[trace] == "" {
			traces[trace] = id
		}
		require.Equal(t, traces[trace], id)
	}
	require.Len(t, traces, 4)
	require.Len(t, spans, 12)
}

// Events that come out of order, twice or alone break nothing.
func TestEventsOutOfOrder(t *testing.T) {
	p := newProbe(t, rulvar.Config{}, otel.Options{})
	bodies := []rulvar.EventBody{
		rulvar.ToolEnded{ToolName: "x", ToolCallID: "1", Outcome: rulvar.ToolOK}, rulvar.AgentEnded{}, rulvar.ChildEnded{Scope: "s"}, rulvar.ApprovalPending{ToolCallID: "1", EntryRef: 3},
		rulvar.ResolutionApplied{TargetRef: 3}, rulvar.ResolutionApplied{TargetRef: 9}, rulvar.ToolStarted{ToolName: "x", ToolCallID: "1"}, rulvar.ToolStarted{ToolName: "x", ToolCallID: "1"},
		rulvar.AgentFailed{}, rulvar.AgentDelta{}, rulvar.PolicyWarning{}, rulvar.ExternalWaiting{}, rulvar.BudgetUpdated{}, rulvar.PhaseStarted{Phase: "p"}, rulvar.AgentStarted{}, rulvar.RunStarted{},
		rulvar.LogEmitted{Level: slog.LevelError}, rulvar.RunEnded{}, rulvar.RunEnded{},
	}
	for _, replayed := range []bool{false, true} {
		for shift := range bodies {
			listen := p.bridge.Listener(context.Background())
			for i := range bodies {
				listen(rulvar.Event{RunID: "r", SpanID: string(rune('a' + i%3)), ParentSpanID: "b", Seq: int64(i), Time: time.Now(), Replayed: replayed, Body: bodies[(i+shift)%len(bodies)]})
			}
			listen(rulvar.Event{RunID: "r", Time: time.Now(), Body: rulvar.RunEnded{}})
		}
	}
}

func TestOptions(t *testing.T) {
	_, err := otel.New(nil)
	require.NoError(t, err)
	_, err = otel.New(&otel.Options{MaxContent: -1})
	require.ErrorIs(t, err, rulvar.ErrConfig)
}
