package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
)

// fixtureVars are the variables of a body. Branches and stages get a copy.
type fixtureVars map[string]json.RawMessage

// workflow makes the scenario's workflow, which interprets its ops.
func (x *fixtureRun) workflow(w fixtureWorkflow) *rulvar.Workflow[json.RawMessage, json.RawMessage] {
	return rulvar.DefineWorkflow(w.Name, func(c *rulvar.Ctx, args json.RawMessage) (json.RawMessage, error) {
		vars := fixtureVars{}
		if args != nil {
			vars["args"] = args
		}
		return x.body(c, w.Body, vars)
	})
}

// body runs ops in order. Its value is the array of their results.
func (x *fixtureRun) body(c *rulvar.Ctx, ops []fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	results := []json.RawMessage{}
	for i := range ops {
		o := &ops[i]
		r, err := x.op(c, o, vars)
		if err != nil {
			if !o.Catch {
				return nil, err
			}
			if r, err = json.Marshal(caughtFacts(err)); err != nil {
				return nil, err
			}
		}
		if r == nil {
			r = json.RawMessage("null")
		}
		if o.As != "" {
			vars[o.As] = r
		}
		results = append(results, r)
	}
	return json.Marshal(results)
}

func (x *fixtureRun) op(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	switch o.Op {
	case "agent":
		return x.agentOp(c, o, vars)
	case "step":
		return x.stepOp(c, o, vars)
	case "awaitExternal":
		return x.awaitOp(c, o, vars)
	case "parallel":
		return x.parallelOp(c, o, vars)
	case "pipeline":
		return x.pipelineOp(c, o, vars)
	case "phase":
		var r json.RawMessage
		err := c.Phase(o.Name, func(c *rulvar.Ctx) (err error) {
			r, err = x.body(c, o.Body, vars)
			return err
		})
		return r, err
	case "workflow":
		return x.childOp(c, o, vars)
	case "now":
		now, err := c.Now()
		return mustText(now.UnixMilli()), err
	case "random":
		return x.randomOp(c, o, vars)
	case "uuid":
		id, err := c.UUID()
		return mustText(id), err
	}
	return nil, fmt.Errorf("unknown op %q", o.Op)
}

func (x *fixtureRun) agentOp(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	prompt, err := text(o.Prompt, vars)
	if err != nil {
		return nil, err
	}
	opts, err := x.agentOptions(o, vars)
	if err != nil {
		return nil, err
	}
	var out fixtureAgentResult
	if o.Schema != nil {
		out, err = askAgent(c, prompt, opts, func(v json.RawMessage) (json.RawMessage, error) { return v, nil })
	} else {
		out, err = askAgent(c, prompt, opts, func(v string) (json.RawMessage, error) { return json.Marshal(v) })
	}
	if err != nil {
		return nil, err
	}
	if string(o.Result) == `"full"` {
		x.agentEnded(prompt, &out)
		return json.Marshal(out.full())
	}
	lenient := o.OnError == "null" || o.OnError == "" && x.f.Workflow.ErrorPolicy == "lenient"
	switch {
	case out.err == nil:
		return out.Output, nil
	case lenient:
		x.drop()
		return nil, nil
	}
	return nil, out.err
}

func (x *fixtureRun) agentOptions(o *fixtureOp, vars fixtureVars) (*rulvar.AgentOptions, error) {
	opts := &rulvar.AgentOptions{
		AgentType: o.AgentType, Label: o.Label, Model: o.Model, Effort: o.Effort, Schema: o.Schema,
		Limits: o.Limits.options(), MemoizeOutcome: o.MemoizeOutcome, Replay: rulvar.ReplayMode(o.Replay), Approach: o.Approach,
	}
	if f := o.Fallback; f != nil {
		opts.SecondAttempt = &rulvar.SecondAttempt{Model: f.Model, On: f.On}
	}
	var err error
	if o.Key != nil {
		if opts.Key, err = text(o.Key, vars); err != nil {
			return nil, err
		}
	}
	if o.Tools != nil {
		if opts.Tools, err = x.toolSources(o.Tools); err != nil {
			return nil, err
		}
	}
	if o.Isolation != nil {
		opts.Isolation = new(rulvar.Isolation)
		err = json.Unmarshal(o.Isolation, opts.Isolation)
	}
	return opts, err
}

// fixtureAgentResult is an agent's result with its output as text.
type fixtureAgentResult struct {
	rulvar.AgentResult[json.RawMessage]
	err *rulvar.Error
}

func askAgent[T any](c *rulvar.Ctx, prompt string, opts *rulvar.AgentOptions, write func(T) (json.RawMessage, error)) (fixtureAgentResult, error) {
	r, err := rulvar.AgentFull[T](c, prompt, opts)
	if err != nil {
		return fixtureAgentResult{}, err
	}
	out := fixtureAgentResult{err: r.Err}
	out.Status, out.ServedBy, out.Usage, out.Artifacts = r.Status, r.ServedBy, r.Usage, r.Artifacts
	if r.Status == rulvar.AgentOK {
		out.Output, err = write(r.Output)
	}
	return out, err
}

// full is the projection of a whole result that the scenarios return.
func (r *fixtureAgentResult) full() map[string]any {
	out := map[string]any{"status": r.Status, "output": r.Output}
	if r.err != nil && r.Status == rulvar.AgentErrored {
		out["error"] = map[string]any{"kind": r.err.Data["kind"], "retryable": r.err.Retryable}
	}
	if r.Artifacts != nil {
		out["artifacts"] = artifactFacts(r.Artifacts)
	}
	return out
}

func (x *fixtureRun) stepOp(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	opts := &rulvar.StepOptions{}
	var err error
	if o.Key != nil {
		if opts.Key, err = text(o.Key, vars); err != nil {
			return nil, err
		}
	}
	for _, d := range o.Deps {
		v, err := fill(d, vars)
		if err != nil {
			return nil, err
		}
		opts.Deps = append(opts.Deps, v)
	}
	return rulvar.Step(c, o.Label, func(ctx context.Context) (json.RawMessage, error) {
		override, err := x.stepCalled(ctx, o.Label)
		switch {
		case err != nil:
			return nil, err
		case override != nil && override.Error != nil:
			return nil, errors.New(*override.Error)
		case override != nil:
			return override.Result, nil
		case o.Error != "":
			return nil, errors.New(o.Error)
		}
		return fill(o.Result, vars)
	}, opts)
}

func (x *fixtureRun) awaitOp(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	key, err := text(o.Key, vars)
	if err != nil {
		return nil, err
	}
	prompt := ""
	if o.Prompt != nil {
		if prompt, err = text(o.Prompt, vars); err != nil {
			return nil, err
		}
	}
	return rulvar.AwaitExternal[json.RawMessage](c, key, prompt, o.Schema)
}

func (x *fixtureRun) randomOp(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	var keys []string
	if o.Key != nil {
		key, err := text(o.Key, vars)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	n, err := c.Random(keys...)
	return mustText(n), err
}
