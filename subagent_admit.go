package rulvar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

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
//	{…,"index":0,"batch":3,…}   of a batch that is admitted as a whole or not
//
// Its seq is the handle of the child. It is written before the child is there,
// and read back, never decided again, where the call is repeated.
type spawnRecord struct {
	DecisionType  string          `json:"decisionType"`
	ToolCallID    string          `json:"toolCallId"`
	Index         int             `json:"index"`
	Batch         int             `json:"batch,omitempty"` // its size; 0 where tasks stand for themselves
	Spec          json.RawMessage `json:"spec"`
	Verdict       string          `json:"verdict"`
	Code          string          `json:"code,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	LogicalTaskID string          `json:"logicalTaskId,omitempty"` // "" is the handle
	BudgetUSD     float64         `json:"budgetUsd,omitempty"`
	ReserveUSD    float64         `json:"reserveUsd,omitempty"`

	handle int64
	spec   spawnSpec
	taken  bool     // by a call of this conversation
	child  *spawned // that a record which was read admits
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

// admit decides about the spawns of one call, writes what it has decided, and
// starts the children. What an earlier process has decided about the call is
// read back.
func (o *orchestrator) admit(j *toolJob, specs []spawnSpec, policy ParallelAdmission) ([]*spawnRecord, error) {
	made := o.decided(j.call.ID, specs, policy)
	if len(made) > 0 && made[0].Batch == 0 && policy == AdmitAllOrNone {
		policy = AdmitTryAll // its beginning was admitted for itself
	}
	if len(made) < len(specs) && !stops(made, policy) {
		if err := j.hold(); err != nil {
			return nil, err
		}
		var err error
		if policy == AdmitAllOrNone || len(made) > 0 && made[0].Batch > 0 {
			made, err = o.decideBatch(j.call.ID, specs, made)
		} else {
			made, err = o.decide(j.call.ID, specs, made, policy)
		}
		if err != nil {
			return nil, err
		}
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
// equal specs that no call of this one has. Of a batch that is all or none it
// is the call's own, or another's as a whole.
func (o *orchestrator) decided(callID string, specs []spawnSpec, policy ParallelAdmission) []*spawnRecord {
	own := func(r *spawnRecord, i int) bool { return r.ToolCallID == callID && r.Index == i }
	foreign := func(r *spawnRecord, _ int) bool { return !o.known[r.ToolCallID] && o.children[r.handle] != nil }
	made := o.leading(specs, own)
	switch {
	case len(made) > 0 && made[0].Batch > 0:
		if len(made) < len(specs) && o.children[made[0].handle] != nil {
			return nil // of a whole batch of other tasks
		}
	case len(made) == 0 && policy == AdmitAllOrNone:
		if made = o.leading(specs, foreign); len(made) < len(specs) {
			return nil
		}
	default:
		made = o.leading(specs, own, foreign)
	}
	for i, r := range made {
		r.taken, r.Index = true, i
	}
	return made
}

// leading finds a record for each of the leading specs: one that the first
// match takes, else one that the next does.
func (o *orchestrator) leading(specs []spawnSpec, matches ...func(r *spawnRecord, i int) bool) (made []*spawnRecord) {
	for i := range specs {
		text, err := jcs.Marshal(specs[i])
		if err != nil {
			return made
		}
		var found *spawnRecord
		for _, match := range matches {
			at := slices.IndexFunc(o.records, func(r *spawnRecord) bool {
				return !r.taken && match(r, i) && bytes.Equal(r.Spec, text) && !slices.Contains(made, r)
			})
			if at >= 0 {
				found = o.records[at]
				break
			}
		}
		if found == nil {
			return made
		}
		made = append(made, found)
	}
	return made
}

// decide judges the specs behind those that made tells of and appends what came
// of it as one batch, before anything else is done. It returns all records.
func (o *orchestrator) decide(callID string, specs []spawnSpec, made []*spawnRecord, policy ParallelAdmission) ([]*spawnRecord, error) {
	from := len(made)
	var children []*spawned
	for i := from; i < len(specs) && !stops(made, policy); i++ {
		r, ch := o.judge(specs[i], children)
		r.ToolCallID, r.Index = callID, i
		made = append(made, r)
		if ch != nil {
			children = append(children, ch)
		}
	}
	if err := o.record(made[from:]); err != nil {
		for _, ch := range children {
			ch.discard()
		}
		return nil, err
	}
	for _, ch := range children {
		o.adopt(ch)
	}
	return made, nil
}

// record appends decisions, behind other entries.
func (o *orchestrator) record(made []*spawnRecord, entries ...*Entry) error {
	before := len(entries)
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
		r.handle = entries[before+i].Seq
		o.records = append(o.records, r)
	}
	return nil
}
