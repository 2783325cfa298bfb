// Package otel turns the events of runs into OpenTelemetry spans and metrics, in
// the names of the GenAI semantic conventions where those have one.
//
//	bridge, err := otel.New(nil) // the global providers
//	…
//	run, err := rulvar.Run(ctx, engine, flow, args, &rulvar.RunOptions{OnEvent: bridge.Listener(ctx)})
//
// # Spans
//
//	invoke_workflow ship              a segment of a run, child of the span in ctx
//	  phase check                     from its start to its last event
//	    invoke_agent reviewer         with what it used
//	      execute_tool search_issues  from tool:start to tool:end
//
// Each segment of a run is a trace of its own, or part of the caller's: the spans
// of all of them have the attribute rulvar.run.id. What a resume only retells has
// no span, since the segment that did it had one: not an agent that is replayed,
// not a phase in which nothing is done anew. A call that waited for an approval
// has a span in the segment that parked it (outcome pending) and another in the
// one that ended it.
//
// # Verdicts
//
// Every call that a model makes has a span, whether it ran or not, with what the
// chain said in attributes: security.verdict, security.decided_by,
// security.layer, security_rule.name (the rule as it was written),
// security.reason, security.advisory, and in security.outcome, in one word, what
// became of it:
//
//	allowed    it ran, without anybody being asked
//	approved   somebody was asked and it ran
//	denied     policy refused it
//	rejected   somebody was asked and refused, or the grant did not hold
//	timed_out  nobody answered in time
//	pending    it waits at the end of the segment
//	cancelled  the agent was stopped before it ran
//	unjudged   it never reached the chain: no such tool, or arguments that do not fit
//
// Calls that were refused or failed have the span status Error and error.type.
// Requests for approvals and their answers are span events.
//
// # Metrics
//
//	gen_ai.client.token.usage      tokens of an agent, by gen_ai.token.type
//	gen_ai.invoke_agent.duration   seconds
//	gen_ai.execute_tool.duration   seconds; waiting for an approval is in it
//	gen_ai.workflow.duration       seconds of a segment
//	rulvar.tool.calls              calls, by tool, outcome, verdict and layer
//
// Inputs and results of tools are in neither, unless [Options.Content] and
// [rulvar.Config.EventContent] ask for them.
package otel
