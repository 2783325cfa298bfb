package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// maxLineage is how many agents may try one logical task.
const maxLineage = 8

// judge admits or refuses one spawn. batch are the children that the same call
// has been granted.
func (o *orchestrator) judge(spec spawnSpec, batch []*spawned) (*spawnRecord, *spawned) {
	r := &spawnRecord{spec: spec, Verdict: spawnRefused}
	refuse := func(code, format string, args ...any) (*spawnRecord, *spawned) {
		r.Code, r.Reason = code, fmt.Sprintf(format, args...)
		return r, nil
	}
	var err error
	if r.Spec, err = jcs.Marshal(spec); err != nil {
		r.Spec = json.RawMessage(`{}`)
		return refuse("spec", "the task cannot be written as JSON: %s", issueText(err))
	}
	depth := o.c.seg.e.cfg.MaxDepth
	switch {
	case o.c.depth >= depth:
		return refuse("depth", "agents may be spawned %d levels below the run's workflow at most", depth)
	case o.admitted()+len(batch) >= o.sp.max:
		return refuse("quota", "%d agents may be spawned, and as many have been", o.sp.max)
	case !slices.Contains(o.sp.profiles, spec.AgentType):
		return refuse("profile", "there is no agent type %q to spawn", spec.AgentType)
	case spec.ToolsetRef != "" && !slices.Contains(o.sp.toolsets, spec.ToolsetRef):
		return refuse("toolset", "there is no toolset %q to give", spec.ToolsetRef)
	case spec.OutputSchemaRef != "" && o.sp.schemas[spec.OutputSchemaRef] == nil:
		return refuse("schema", "there is no schema %q", spec.OutputSchemaRef)
	}
	if code, why := o.traceLineage(r, batch); code != "" {
		return refuse(code, "%s", why)
	}
	ch := &spawned{spawnRecord: r, orch: o, done: make(chan struct{})}
	ch.ctx, ch.cancel = context.WithCancelCause(o.c.Context)
	if err := ch.resolve(); err != nil {
		ch.cancel(nil)
		return refuse("config", "%s", err)
	}
	if why := ch.a.uselessTools(); why != "" {
		ch.cancel(nil)
		return refuse("tools_denied", "the agent could use none of its tools: %s", why)
	}
	r.BudgetUSD = ch.ceiling()
	ch.release, r.ReserveUSD, err = o.c.seg.budget.reserveFor(ch.a.modelRef, r.BudgetUSD)
	if err != nil {
		ch.cancel(nil)
		return refuse("budget", "%s", err)
	}
	r.Verdict = spawnAdmitted
	return r, ch
}

// admitted counts the children that there have been.
func (o *orchestrator) admitted() int { return len(o.children) }

// traceLineage finds the logical task of a spawn that goes on with another
// child's, and says why it may not.
func (o *orchestrator) traceLineage(r *spawnRecord, batch []*spawned) (code, why string) {
	l := r.spec.Lineage
	if l == nil {
		return "", ""
	}
	before := o.children[l.Continues]
	if before == nil {
		return "lineage_unknown", fmt.Sprintf("no agent with the handle %d was spawned", l.Continues)
	}
	task, tries := before.task(), 0
	count := func(ch *spawned) bool {
		if ch.task() == task {
			tries++
			return !o.isSettled(ch)
		}
		return false
	}
	for _, ch := range o.order {
		if count(ch) {
			return "lineage_busy", fmt.Sprintf("the agent %d is at work at this task", ch.handle)
		}
	}
	for _, ch := range batch {
		if ch.LogicalTaskID == task {
			return "lineage_busy", "another task of the batch goes on with it"
		}
	}
	if tries >= maxLineage {
		return "lineage_exhausted", fmt.Sprintf("%d agents have tried this task", tries)
	}
	r.LogicalTaskID = task
	return "", ""
}

// ceiling is what the child may spend; zero is no bound of its own.
func (ch *spawned) ceiling() float64 {
	own, most := ch.spec.BudgetUSD, ch.orch.sp.childUSD
	if own == 0 || most > 0 && most < own {
		return most
	}
	return own
}

// uselessTools says why the chain denies every call of every tool that the
// agent has; "" where it has none or may use one.
func (a *agentRun) uselessTools() string {
	why := ""
	for _, t := range a.tools {
		if t.control {
			continue
		}
		r := a.chain.deniesAlways(t)
		if r == nil {
			return ""
		}
		if why != "" {
			why += "; "
		}
		why += fmt.Sprintf("%s by %s", t.cfg.Name, r.reason)
	}
	return why
}

// deniesAlways returns the rule that denies the tool whatever its input, nil
// where none does or a hook may allow a call before the rules are read.
func (c *PermissionChain) deniesAlways(t *Tool) *placedRule {
	if !c.compiled() || len(c.all.hooks) > 0 && !c.all.advisory {
		return nil
	}
	for _, r := range c.index.tables(t.cfg.Name).deny[riskSlot(t.cfg.Risk)] {
		if kind := r.rule.spec.kind; kind == ruleTool || kind == ruleRisk {
			return r
		}
	}
	return nil
}

// reserveFor reserves for a child that may spend usd at most (zero is no bound
// of its own), or refuses it. Unlike [budget.admit] a refusal does not exhaust
// the run: who wanted the child goes on without it.
func (b *budget) reserveFor(model string, usd float64) (release func(), reserve float64, err error) {
	p, err := b.price(model)
	if err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ceiling == nil || p == nil {
		return func() {}, 0, nil
	}
	reserve = b.reserve
	if usd > 0 {
		reserve = min(reserve, usd)
	}
	if b.spent+b.committed+reserve > *b.ceiling {
		return nil, 0, errs.New(errs.AdmissionRejected, "budget", "", fmt.Sprintf("%.6f USD of %.6f are spent and %.6f reserved", b.spent, *b.ceiling, b.committed))
	}
	b.committed += reserve
	return func() {
		b.mu.Lock()
		b.committed -= reserve
		b.mu.Unlock()
	}, reserve, nil
}
