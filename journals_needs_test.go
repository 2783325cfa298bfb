package rulvar_test

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"
)

// fixtureLacks is the table of what the scenarios use and the library has not:
// the use as fixture.uses names it, a trailing * for all that begin so, and the
// feature. A scenario with such a use is skipped. The table shrinks as features
// arrive.
var fixtureLacks = []struct{ use, feature string }{
	{"agent.limits.*", "further limits"},
	{"argsSchema", "an argument schema of a workflow"},
	{"options.bodyHash", "the reference's hash of a workflow's source"},
}

// fixtureKnown is what the interpreter of this test understands.
var fixtureKnown = strings.Fields(`
	agent.op agent.as agent.catch agent.prompt agent.agentType agent.label agent.model agent.effort agent.key
	agent.tools agent.schema agent.isolation agent.limits agent.onError agent.memoizeOutcome agent.result
	agent.replay agent.retry agent.fallback agent.approach agent.limits.maxTurns agent.limits.maxToolCalls
	agent.limits.maxOutputTokensPerTurn agent.limits.timeoutMs agent.limits.streamIdleTimeoutMs
	step.op step.as step.catch step.label step.key step.deps step.result step.error
	awaitExternal.op awaitExternal.as awaitExternal.catch awaitExternal.key awaitExternal.prompt awaitExternal.schema
	parallel.op parallel.as parallel.catch parallel.branches parallel.settle
	pipeline.op pipeline.as pipeline.catch pipeline.items pipeline.stages pipeline.onItemError
	phase.op phase.as phase.catch phase.name phase.body
	workflow.op workflow.as workflow.catch workflow.name workflow.args workflow.key
	now.op now.as random.op random.as random.key uuid.op uuid.as
	engine.routing engine.permissions engine.profiles engine.limits engine.retry engine.budgetDefaults engine.billingReceipts options.budgetUsd options.run options.configFingerprint
	options.dryRun options.invalidate options.args options.name options.tags options.acknowledgeOpenWireIntents
	after.resolveOnHandle after.offline after.sleep after.mutate`)

// needs names the feature that a segment lacks, or "". live says that the
// segment is performed to make a history: then also what matters only to work
// that a replay does not repeat.
func (f *fixture) needs(seg *fixtureSegment, live bool) string {
	for _, use := range f.uses(seg, live) {
		if slices.Contains(fixtureKnown, use) {
			continue
		}
		for _, l := range fixtureLacks {
			if prefix, all := strings.CutSuffix(l.use, "*"); use == l.use || all && strings.HasPrefix(use, prefix) {
				return l.feature
			}
		}
		return "something this test does not know: " + use
	}
	return ""
}

// uses lists what the ops, options and settings of a segment make use of.
func (f *fixture) uses(seg *fixtureSegment, live bool) []string {
	v := f.in(seg)
	u := &usesOf{seen: make(map[string]bool), asks: len(seg.Script) > 0, live: live}
	u.workflow(v.Workflow)
	u.engine(v)
	for name := range f.RunOptions {
		u.add("options." + name)
	}
	for name := range seg.Options {
		u.add("options." + name)
	}
	for _, a := range seg.After {
		u.add("after." + a.Op)
	}
	list := make([]string, 0, len(u.seen))
	for use := range u.seen {
		list = append(list, use)
	}
	sort.Strings(list)
	return list
}

type usesOf struct {
	seen         map[string]bool
	asks, live   bool // the segment asks a model; it makes a history
	schema, tool bool // an agent has one
}

func (u *usesOf) add(use string) { u.seen[use] = true }

func (u *usesOf) workflow(w fixtureWorkflow) {
	if w.Kind != "" {
		u.add("workflow.kind")
	}
	if w.Args != nil {
		u.add("argsSchema")
	}
	u.ops(w.Body)
	for _, c := range w.Children {
		u.ops(c.Body)
	}
}

func (u *usesOf) ops(ops []fixtureOp) {
	for i := range ops {
		o := &ops[i]
		for name := range o.members {
			u.add(o.Op + "." + name)
		}
		u.schema = u.schema || o.Schema != nil
		u.tool = u.tool || len(o.Tools) > 0
		var limits map[string]json.RawMessage
		if json.Unmarshal(o.members["limits"], &limits) == nil {
			for name := range limits {
				u.add("agent.limits." + name)
			}
		}
		u.ops(o.Body)
		for _, b := range append(o.Branches, o.Stages...) {
			u.ops(b)
		}
	}
}

func (u *usesOf) engine(v *fixture) {
	for name := range v.Engine {
		u.add("engine." + name)
	}
}
