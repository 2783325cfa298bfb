package rulvar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// spawnSpec is what a model asks for: the arguments of spawn_agent.
type spawnSpec struct {
	AgentType       string          `json:"agentType"`
	Prompt          string          `json:"prompt"`
	OutputSchemaRef string          `json:"outputSchemaRef,omitempty"`
	ToolsetRef      string          `json:"toolsetRef,omitempty"`
	BudgetUSD       float64         `json:"budgetUsd,omitempty"`
	ModelHint       json.RawMessage `json:"model_hint,omitempty"`
	Approach        string          `json:"approach,omitempty"`
	Lineage         *spawnLineage   `json:"lineage,omitempty"`
	TaskClass       string          `json:"taskClass,omitempty"`
}

type spawnLineage struct {
	Continues int64           `json:"continues"`
	Relation  string          `json:"relation,omitempty"`
	CauseRef  json.RawMessage `json:"causeRef"`
}

// spawnRecord is a decision about a spawn, as the journal holds it:
//
//	{"decisionType":"spawn-admission","toolCallId":"…","index":0,"spec":{…},
//	 "verdict":"admitted","logicalTaskId":"7","budgetUsd":0.2,"reserveUsd":0.2}
//	{…,"verdict":"refused","code":"quota","reason":"…"}
//
// Its seq is the handle of the child. It is written before the child is there,
// and read back, never decided again, where the call is repeated.
type spawnRecord struct {
	DecisionType  string          `json:"decisionType"`
	ToolCallID    string          `json:"toolCallId"`
	Index         int             `json:"index"`
	Spec          json.RawMessage `json:"spec"`
	Verdict       string          `json:"verdict"`
	Code          string          `json:"code,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	LogicalTaskID string          `json:"logicalTaskId,omitempty"` // "" is the handle
	BudgetUSD     float64         `json:"budgetUsd,omitempty"`
	ReserveUSD    float64         `json:"reserveUsd,omitempty"`

	handle int64
	spec   spawnSpec
	taken  bool // by a call of this conversation
}

const (
	spawnAdmitted = "admitted"
	spawnRefused  = "refused"
)

func (r *spawnRecord) admitted() bool { return r.Verdict == spawnAdmitted }

func (r *spawnRecord) refusal() map[string]any {
	return map[string]any{"index": r.Index, "code": r.Code, "reason": r.Reason}
}

// task is the logical task that a child works at.
func (r *spawnRecord) task() string { return firstSet(r.LogicalTaskID, fmt.Sprint(r.handle)) }

// maxLineage is how many agents may try one logical task.
const maxLineage = 8

// admit decides about the spawns of one call, writes what it has decided, and
// starts the children. What an earlier process has decided about the call is
// read back.
func (o *orchestrator) admit(j *toolJob, specs []spawnSpec, policy ParallelAdmission) ([]*spawnRecord, error) {
	made := o.decided(j.call.ID, specs)
	if len(made) < len(specs) && !stops(made, policy) {
		if err := j.hold(); err != nil {
			return nil, err
		}
		fresh, err := o.decide(j.call.ID, specs, len(made), policy)
		if err != nil {
			return nil, err
		}
		made = append(made, fresh...)
	}
	for _, r := range made {
		r.taken = true
		if ch := o.children[r.handle]; ch != nil {
			o.start(ch)
		}
	}
	return made, nil
}

// stops reports whether nothing behind the records is decided about any more.
func stops(made []*spawnRecord, policy ParallelAdmission) bool {
	return policy == AdmitFailFast && slices.ContainsFunc(made, func(r *spawnRecord) bool { return !r.admitted() })
}

// decided returns the leading decisions about a call that the journal holds:
// those that name it, or after a conversation that began again those about
// equal specs that no call of this one has.
func (o *orchestrator) decided(callID string, specs []spawnSpec) []*spawnRecord {
	var made []*spawnRecord
	for i := range specs {
		text, err := jcs.Marshal(specs[i])
		if err != nil {
			return made
		}
		var found *spawnRecord
		for _, r := range o.records {
			if r.taken || !bytes.Equal(r.Spec, text) {
				continue
			}
			if r.ToolCallID == callID && r.Index == i {
				found = r
				break
			}
			if found == nil && !o.known[r.ToolCallID] && r.admitted() {
				found = r
			}
		}
		if found == nil {
			return made
		}
		found.taken = true
		found.Index = i
		made = append(made, found)
	}
	return made
}

// decide judges the specs from index on and appends what came of it as one
// batch, before anything else is done.
func (o *orchestrator) decide(callID string, specs []spawnSpec, from int, policy ParallelAdmission) ([]*spawnRecord, error) {
	var made []*spawnRecord
	var children []*spawned
	for i := from; i < len(specs) && !stops(made, policy); i++ {
		r, ch := o.judge(specs[i], children)
		r.ToolCallID, r.Index = callID, i
		made = append(made, r)
		if ch != nil {
			children = append(children, ch)
		}
	}
	if policy == AdmitAllOrNone && len(children) < len(made) {
		for _, r := range made {
			if r.admitted() {
				r.Verdict, r.Code, r.Reason = spawnRefused, "batch_atomic", "another task of the batch was refused, and all are spawned or none"
			}
		}
		for _, ch := range children {
			ch.release()
		}
		children = nil
	}
	if err := o.record(made); err != nil {
		for _, ch := range children {
			ch.release()
		}
		return nil, err
	}
	for _, ch := range children {
		o.adopt(ch)
	}
	return made, nil
}

// record appends decisions.
func (o *orchestrator) record(made []*spawnRecord) error {
	var entries []*Entry
	now := stamp(time.Now())
	for _, r := range made {
		r.DecisionType = replay.DecisionSpawn
		value, err := marshalJSON(r)
		if err != nil {
			return err
		}
		entries = append(entries, &Entry{
			Scope: o.scope(), Key: fmt.Sprintf("spawn-admission:%s:%d", r.ToolCallID, r.Index), Kind: journal.KindDecision,
			Status: journal.StatusOK, SpanID: o.a.span, StartedAt: now, EndedAt: now, Value: value,
		})
	}
	if len(entries) == 0 {
		return nil
	}
	if err := o.a.seg.append(entries...); err != nil {
		return err
	}
	for i, r := range made {
		r.handle = entries[i].Seq
		o.records = append(o.records, r)
	}
	return nil
}

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
