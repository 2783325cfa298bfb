package rulvar_test

import (
	"encoding/json"
	"fmt"
	"maps"

	rulvar "github.com/rulvar/rulvar-go"
)

func (x *fixtureRun) parallelOp(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	var branches []func(*rulvar.Ctx) (json.RawMessage, error)
	for _, ops := range o.Branches {
		own := maps.Clone(vars)
		branches = append(branches, func(c *rulvar.Ctx) (json.RawMessage, error) { return x.body(c, ops, own) })
	}
	if !o.Settle {
		r, err := rulvar.Parallel(c, branches...)
		if err != nil {
			return nil, err
		}
		return json.Marshal(r)
	}
	settled, err := rulvar.ParallelSettled(c, branches...)
	if err != nil {
		return nil, err
	}
	out := []map[string]any{}
	for _, s := range settled {
		if s.Err != nil {
			x.drop()
			out = append(out, map[string]any{"status": settledStatus(s.Err)})
			continue
		}
		out = append(out, map[string]any{"status": "ok", "value": s.Value})
	}
	return json.Marshal(out)
}

func (x *fixtureRun) pipelineOp(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	var items []json.RawMessage
	list, err := fill(o.Items, vars)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, err
	}
	var line rulvar.Stage[json.RawMessage, json.RawMessage]
	for _, ops := range o.Stages {
		stage := func(c *rulvar.Ctx, item json.RawMessage) (json.RawMessage, error) { return x.stage(c, ops, vars, item) }
		if line == nil {
			line = stage
		} else {
			line = rulvar.Then(line, stage)
		}
	}
	settled, err := rulvar.Pipeline(c, items, line)
	if err != nil {
		return nil, err
	}
	out := []json.RawMessage{}
	for _, s := range settled {
		switch {
		case s.Err == nil:
			out = append(out, s.Value)
		case o.OnItemError == "throw":
			return nil, s.Err
		default:
			x.drop()
		}
	}
	return json.Marshal(out)
}

// stage runs the ops of a stage over the item; the last one's result goes on.
func (x *fixtureRun) stage(c *rulvar.Ctx, ops []fixtureOp, vars fixtureVars, item json.RawMessage) (json.RawMessage, error) {
	own := maps.Clone(vars)
	own["item"] = item
	r, err := x.body(c, ops, own)
	if err != nil {
		return nil, err
	}
	var results []json.RawMessage
	if err := json.Unmarshal(r, &results); err != nil || len(results) == 0 {
		return nil, err
	}
	return results[len(results)-1], nil
}

func (x *fixtureRun) childOp(c *rulvar.Ctx, o *fixtureOp, vars fixtureVars) (json.RawMessage, error) {
	child, ok := x.f.Workflow.Children[o.Name]
	if !ok {
		return nil, fmt.Errorf("the scenario has no child workflow %q", o.Name)
	}
	child.Name = o.Name
	args, err := fill(o.Args, vars)
	if err != nil {
		return nil, err
	}
	key := ""
	if o.Key != nil {
		if key, err = text(o.Key, vars); err != nil {
			return nil, err
		}
	}
	return rulvar.CallWorkflow(c, x.workflow(child), args, key)
}
