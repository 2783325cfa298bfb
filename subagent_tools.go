package rulvar

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// The tools of the engine. Their contracts never change with a run: what a
// model has to know of this run is added to the request.
const (
	toolSpawn    = "spawn_agent"
	toolParallel = "parallel_agents"
	toolAwaitAny = "await_any"
	toolAwaitAll = "await_all"
	toolCancel   = "cancel_agent"
	toolFinish   = "finish"
	toolEscalate = "escalate"
)

// controlRefusal is an error result of a control tool.
type controlRefusal struct {
	code   string
	result map[string]any
}

func (e *controlRefusal) Error() string { return fmt.Sprint(e.result["error"]) }

func refuseControl(code, format string, args ...any) error {
	return &controlRefusal{code: code, result: map[string]any{"error": fmt.Sprintf(format, args...), "code": code}}
}

const spawnSchema = `{"type":"object","additionalProperties":false,"required":["agentType","prompt"],"properties":{
	"agentType":{"type":"string","description":"One of the agent types."},
	"prompt":{"type":"string","minLength":1,"description":"The task. The agent sees nothing else."},
	"outputSchemaRef":{"type":"string","description":"Names the schema of the answer."},
	"toolsetRef":{"type":"string","description":"Names tools that replace those of the type."},
	"budgetUsd":{"type":"number","exclusiveMinimum":0,"description":"What the agent may spend at most."},
	"model_hint":{"type":"object","additionalProperties":false,"properties":{"startTier":{"type":["string","integer"]}},"description":"Recorded; the type decides the model."},
	"approach":{"type":"string","maxLength":64,"description":"A short name of the way to do the task."},
	"lineage":{"type":"object","additionalProperties":false,"required":["continues","causeRef"],"properties":{
		"continues":{"type":"integer","minimum":1,"description":"The handle of an ended agent whose task this is."},
		"relation":{"type":"string"},
		"causeRef":{"type":["string","integer"],"description":"Why it is tried again: a handle or a few words."}}},
	"taskClass":{"type":"string"}}}`

const handlesSchema = `{"type":"object","additionalProperties":false,"required":["handles"],"properties":{
	"handles":{"type":"array","minItems":1,"items":{"type":"integer","minimum":1}}}}`

// controlTool makes one of the engine's own tools. Running one twice is what a
// resume does, so each finds out what the journal holds of it.
func controlTool(name, description, schema string) *Tool {
	s, err := parseSchema(json.RawMessage(schema))
	if err != nil {
		panic(err) // a literal of this file
	}
	t, err := newTool(ToolConfig{Name: name, Description: description, Idempotent: true}, s, nil)
	if err != nil {
		panic(err)
	}
	t.cfg.Risk, t.control = RiskControl, true
	return t
}

var spawnTools = []ToolSource{
	controlTool(toolSpawn, "Spawn an agent and go on at once. Returns its handle, for await_any, await_all and cancel_agent.", spawnSchema),
	controlTool(toolParallel, "Spawn several agents that work at the same time. Returns their handles in order, and the tasks that were refused.",
		`{"type":"object","additionalProperties":false,"required":["tasks"],"properties":{"tasks":{"type":"array","minItems":1,"maxItems":64,"items":`+spawnSchema+`}}}`),
	controlTool(toolAwaitAny, "Wait until one of the agents has ended, and return what it did.", handlesSchema),
	controlTool(toolAwaitAll, "Wait until all of the agents have ended, and return what each did.", handlesSchema),
	controlTool(toolCancel, "Cancel an agent that is no longer needed.", `{"type":"object","additionalProperties":false,"required":["handle"],"properties":{
		"handle":{"type":"integer","minimum":1},"reason":{"type":"string"}}}`),
	controlTool(toolFinish, "End the work with its result. Agents that have not ended are cancelled.", `{"type":"object","additionalProperties":false,"required":["result"],"properties":{
		"result":{},"summary":{"type":"string"}}}`),
}

// controlTools are the engine's own tools that an agent has.
func controlTools(opts *AgentOptions, escalation *EscalationOptions) []ToolSource {
	var out []ToolSource
	if opts.spawn != nil {
		out = append(out, spawnTools...)
		if opts.spawn.reads {
			out = append(out, readTools...)
		}
	}
	if escalation != nil {
		out = append(out, escalateTool)
	}
	return out
}

// executeControl runs a control tool. It is counted when it is done: a resume,
// which has to do with it again, counts it then.
func (j *toolJob) executeControl(input json.RawMessage) (executedCall, error) {
	a := j.a
	out, err := j.guardControl(input)
	if err != nil && !errors.As(err, new(*controlRefusal)) {
		if a.ctx.Err() != nil {
			a.emit(false, j.ended(ToolError, "cancelled", nil))
		}
		return executedCall{}, err
	}
	if !a.ends(j.call) {
		a.state.ToolCallsUsed++
	}
	if refusal, ok := errors.AsType[*controlRefusal](err); ok {
		return j.fail(refusal.code, refusal.result), nil
	}
	result, err := encodeResult(out)
	if err != nil {
		return executedCall{}, err
	}
	a.emit(false, j.ended(ToolOK, "", result))
	return executedCall{ID: j.call.ID, Name: j.call.Name, Result: result}, nil
}

func (j *toolJob) guardControl(input json.RawMessage) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errs.New(errs.Plain, j.call.Name, j.a.seg.runID, fmt.Sprintf("the engine's own tool panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	return j.control(input)
}

// control does what one of the engine's own tools does. The result goes to the
// model, as does a [controlRefusal]; another error is the run's.
func (j *toolJob) control(input json.RawMessage) (any, error) {
	switch j.call.Name {
	case toolSpawn:
		return controlSpawn(j, input)
	case toolParallel:
		return controlParallel(j, input)
	case toolAwaitAny:
		return controlAwaitAny(j, input)
	case toolAwaitAll:
		return controlAwaitAll(j, input)
	case toolCancel:
		return controlCancel(j, input)
	case toolChildResult:
		return controlChildResult(j, input)
	case toolChildArtifact:
		return controlChildArtifact(j, input)
	case toolFinish:
		return controlFinish(j, input)
	case toolEscalate:
		return controlEscalate(j, input)
	}
	return nil, refuseControl("unknown-tool", "the engine has no tool %q", j.call.Name)
}

// hold makes the turn so far durable, so that a resume goes on with this call
// under its id.
func (j *toolJob) hold() error { return j.a.save(j.turn) }

func controlSpawn(j *toolJob, input json.RawMessage) (any, error) {
	var spec spawnSpec
	if err := json.Unmarshal(input, &spec); err != nil {
		return nil, refuseControl(string(errs.InvalidArguments), "%s", err)
	}
	made, err := j.a.orch.admit(j, []spawnSpec{spec}, AdmitFailFast)
	if err != nil {
		return nil, err
	}
	if r := made[0]; !r.admitted() {
		return nil, &controlRefusal{code: "spawn-refused", result: map[string]any{"error": "the spawn was refused: " + r.Reason, "refused": r.refusal()}}
	}
	return map[string]any{"handle": made[0].handle}, nil
}

func controlParallel(j *toolJob, input json.RawMessage) (any, error) {
	var in struct{ Tasks []spawnSpec }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, refuseControl(string(errs.InvalidArguments), "%s", err)
	}
	made, err := j.a.orch.admit(j, in.Tasks, j.a.orch.sp.admission)
	if err != nil {
		return nil, err
	}
	handles, refused := []int64{}, []map[string]any{}
	for _, r := range made {
		if r.admitted() {
			handles = append(handles, r.handle)
		} else {
			refused = append(refused, r.refusal())
		}
	}
	out := map[string]any{"handles": handles}
	if len(refused) > 0 {
		out["refused"] = refused[0]
	}
	if len(refused) > 1 {
		out["refusals"] = refused
	}
	return out, nil
}

func controlFinish(j *toolJob, input json.RawMessage) (any, error) {
	o := j.a.orch
	var in struct{ Result json.RawMessage }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, refuseControl(string(errs.InvalidArguments), "%s", err)
	}
	value, issues := o.takeResult(in.Result)
	if issues != nil {
		return nil, &controlRefusal{code: string(errs.InvalidArguments), result: map[string]any{"error": "the result does not fit: finish again with another", "issues": issues}}
	}
	if len(o.unsettled()) > 0 { // they are cancelled, which is an effect
		if err := j.hold(); err != nil {
			return nil, err
		}
	}
	j.last = &agentOutcome{status: AgentOK, output: value}
	return map[string]any{"finished": true}, nil
}

// takeResult holds the result of finish to what the agent has to return.
func (o *orchestrator) takeResult(result json.RawMessage) (json.RawMessage, []string) {
	if o.schema == nil {
		var text *string
		if err := json.Unmarshal(result, &text); err != nil || text == nil {
			return nil, []string{"result: it is not a text"}
		}
		return result, nil
	}
	tree, err := jcs.Parse(result)
	if err != nil {
		return nil, []string{issueText(err)}
	}
	effective, issues := o.schema.fit(tree)
	if issues != nil {
		return nil, issues
	}
	out, err := jcs.AppendTree(nil, effective)
	if err != nil {
		return nil, []string{issueText(err)}
	}
	return out, nil
}
