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
