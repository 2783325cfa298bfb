package rulvar

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// EscalationOptions give an agent the tool escalate, with which it says that
// its task is larger or other than it was set, or that it is blocked. The call
// passes the permission chain like any other; rules by risk let it pass.
type EscalationOptions struct {
	// Flavor is what comes of an escalation. "A", the default, ends the agent
	// with status escalated and its report. "B" parks it until somebody decides
	// with [Engine.Resolve] and an [EscalationDecision].
	Flavor string
	// Deadline is when DefaultDecision holds because nobody has decided: both
	// are needed under "B" and refused under "A". At least a millisecond.
	Deadline time.Duration
	// DefaultDecision is a kind of [EscalationDecision].
	DefaultDecision string
	// MinSpendUSD is what an agent must have cost before it may say that its
	// task is larger. Default 0. Models without a price cost nothing.
	MinSpendUSD float64
}

// EscalationDecision answers an escalation that waits: "retry" sends the agent
// back to its task, and the reason with it; "accept", "decompose" and "cancel"
// end it with status escalated and are for its caller to act on.
type EscalationDecision struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason,omitempty"`
}

// Escalation is what an agent has reported.
type Escalation struct {
	// Kind is scope_bigger, scope_different or blocked_with_evidence.
	Kind       string `json:"kind"`
	ScopeDelta string `json:"scopeDelta"`
	// RevisedEstimate is what the agent believes that the task takes, in US
	// dollars and requests.
	RevisedEstimate struct {
		USD   float64 `json:"usd"`
		Turns float64 `json:"turns"`
	} `json:"revisedEstimate"`
	Blockers              []string          `json:"blockers,omitempty"`
	ProposedDecomposition []json.RawMessage `json:"proposedDecomposition,omitempty"`
	// CostToDate is what the agent has taken, in the same units.
	CostToDate struct {
		USD   float64 `json:"usd"`
		Turns float64 `json:"turns"`
	} `json:"costToDate"`
	// Salvage is what the agent leaves to who goes on: its conversation, the
	// array of its artifacts (each an [Artifact]; empty where it has none), and
	// the blob of its worktree's patch, "" where it had no worktree.
	Salvage struct {
		TranscriptRef    string          `json:"transcriptRef"`
		Artifacts        json.RawMessage `json:"artifacts,omitempty"`
		WorktreePatchRef string          `json:"worktreePatchRef,omitempty"`
	} `json:"salvage"`
	// Decision is what somebody has decided, under flavor "B".
	Decision *EscalationDecision `json:"decision,omitempty"`
}

const (
	flavorEnds  = "A"
	flavorWaits = "B"

	decisionRetry  = "retry"
	decisionCancel = "cancel"

	scopeBigger = "scope_bigger"
	// maxBigger is how often an agent may say that its task is larger.
	maxBigger = 2
)

var escalationDecisions = []string{decisionRetry, "decompose", decisionCancel, "accept"}

func (o *EscalationOptions) validate(path string) error {
	if o == nil {
		return nil
	}
	refuse := func(field, msg string) error { return errs.New(errs.Config, "escalation", path+"."+field, msg) }
	if !(o.MinSpendUSD >= 0) {
		return refuse("MinSpendUSD", "an amount is not negative")
	}
	switch o.Flavor {
	case "", flavorEnds:
		if o.Deadline != 0 || o.DefaultDecision != "" {
			return refuse("Deadline, DefaultDecision", `they belong to the flavor "B"`)
		}
	case flavorWaits:
		if why := deadlineProblem(o.Deadline); why != "" || o.Deadline == 0 {
			return refuse("Deadline", firstSet(why, `the flavor "B" needs a deadline`))
		}
		if !slices.Contains(escalationDecisions, o.DefaultDecision) {
			return refuse("DefaultDecision", fmt.Sprintf("%q is no decision: use retry, decompose, cancel or accept", o.DefaultDecision))
		}
	default:
		return refuse("Flavor", fmt.Sprintf(`unknown flavor %q: use "A" or "B"`, o.Flavor))
	}
	return nil
}

var escalateTool = controlTool(toolEscalate, "Say that the task is larger or other than it was set, or that you are blocked, and give evidence. Do what you can first.",
	`{"type":"object","additionalProperties":false,"required":["kind","scopeDelta","revisedEstimate"],"properties":{
		"kind":{"type":"string","enum":["scope_bigger","scope_different","blocked_with_evidence"]},
		"scopeDelta":{"type":"string","description":"What differs from the task as it was set."},
		"revisedEstimate":{"type":"object","additionalProperties":false,"required":["usd","turns"],"properties":{
			"usd":{"type":"number","minimum":0},"turns":{"type":"number","minimum":0}}},
		"blockers":{"type":"array","items":{"type":"string"}},
		"proposedDecomposition":{"type":"array","items":{"type":"object"}}}}`)

func controlEscalate(j *toolJob, input json.RawMessage) (any, error) {
	a := j.a
	report, err := readEscalation(input)
	if err != nil {
		return nil, refuseControl(string(errs.InvalidArguments), "%s", err)
	}
	if report.Kind == scopeBigger {
		if spent := a.costUSD(); spent < a.escalation.MinSpendUSD {
			return nil, refuseControl("escalation-refused", "go on: %.6f USD are spent of the %.6f that come before a task counts as larger", spent, a.escalation.MinSpendUSD)
		}
		if a.biggerBefore(j.call.ID) >= maxBigger {
			return nil, refuseControl("escalation-refused", "that the task is larger has been decided about %d times; do what you can", maxBigger)
		}
	}
	if a.escalation.Flavor == flavorWaits {
		if report.Decision, err = j.askDecision(input); err != nil {
			return nil, err
		}
		if report.Decision.Kind == decisionRetry {
			return report.Decision, nil
		}
	}
	text, err := marshalJSON(report)
	if err != nil {
		return nil, err
	}
	j.last = &agentOutcome{status: AgentEscalated, escalation: text, err: escalatedError(report)}
	return map[string]any{"escalated": true}, nil
}

func escalatedError(r *Escalation) *Error {
	e := agentError(AgentEscalated, "", fmt.Sprintf("the agent has escalated (%s): %s", r.Kind, r.ScopeDelta), false)
	return e
}

// biggerBefore counts the calls before this one in which the agent has said
// that its task is larger, and was sent back.
func (a *agentRun) biggerBefore(callID string) int {
	kinds := make(map[string]bool)
	n := 0
	for _, m := range a.state.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Type == llm.PartToolCall && p.Name == toolEscalate && p.ID != callID:
				var in struct{ Kind string }
				kinds[p.ID] = json.Unmarshal(p.Args, &in) == nil && in.Kind == scopeBigger
			case p.Type == llm.PartToolResult && !p.IsError && kinds[p.ID]:
				n++
			}
		}
	}
	return n
}

// askDecision parks the agent until somebody has decided, or the deadline has.
func (j *toolJob) askDecision(input json.RawMessage) (*EscalationDecision, error) {
	a, s := j.a, j.a.seg
	s.mu.Lock()
	sus := s.matcher.Escalation(replay.AgentScope(a.scope, a.running.Seq), j.call.ID)
	s.mu.Unlock()
	again := sus != nil
	var en *Entry
	if again {
		en = sus.Entry
	} else {
		if err := j.hold(); err != nil {
			return nil, err
		}
		var err error
		if en, err = j.escalationEntry(input); err != nil {
			return nil, err
		}
		if err := s.append(en); err != nil {
			return nil, err
		}
	}
	at, err := s.deadlineOf(en)
	if err != nil {
		return nil, err
	}
	a.emit(again, ApprovalPending{ToolName: j.call.Name, ToolCallID: j.call.ID, EntryRef: en.Seq, Key: approvalKey(en.Seq), Risk: RiskControl, AgentPath: a.path(), DeadlineAt: at})
	disarm := s.armDeadline(en, at)
	a.clock.pause()
	j.parked = true
	sus, err = s.park(a.ctx, en.Seq) // ends the goroutine when the run settles suspended
	j.parked = false
	a.clock.resume()
	disarm()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &EscalationDecision{Kind: decisionCancel} // also of what was abandoned, or is no decision
	if sus.State == replay.Resolved && checkEscalation(sus.Value) == nil {
		err = json.Unmarshal(sus.Value, d)
	}
	return d, err
}

// escalationValue is the value of an entry that waits for a decision: the
// members of the shared format, and this library's.
type escalationValue struct {
	ToolName        string          `json:"toolName"`
	Input           json.RawMessage `json:"input"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	AgentPath       string          `json:"agentPath,omitempty"`
	DefaultDecision string          `json:"defaultDecision,omitempty"`
}

func (j *toolJob) escalationEntry(input json.RawMessage) (*Entry, error) {
	a := j.a
	key, err := replay.ApprovalKey(toolEscalate, input)
	if err != nil {
		return nil, err
	}
	value, err := marshalJSON(escalationValue{ToolName: toolEscalate, Input: input, ToolCallID: j.call.ID, AgentPath: a.path(), DefaultDecision: a.escalation.DefaultDecision})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &Entry{
		Scope: replay.AgentScope(a.scope, a.running.Seq), Key: key, Kind: journal.KindApproval, Status: journal.StatusSuspended,
		SpanID: a.span, StartedAt: stamp(now), Value: value, DeadlineAt: stamp(now.Add(a.escalation.Deadline)),
	}, nil
}

// expiredAnswer is what a suspension is closed with that nobody has answered in
// time. An escalation without a default of its own is cancelled.
func expiredAnswer(sus *replay.Suspension) json.RawMessage {
	if sus.Flavor() != replay.FlavorEscalation {
		return mustMarshal(Reject("denied by timeout: nobody answered before " + sus.Entry.DeadlineAt))
	}
	var v escalationValue
	if json.Unmarshal(sus.Entry.Value, &v) != nil || !slices.Contains(escalationDecisions, v.DefaultDecision) {
		v.DefaultDecision = decisionCancel
	}
	return mustMarshal(EscalationDecision{Kind: v.DefaultDecision, Reason: "nobody decided before " + sus.Entry.DeadlineAt})
}

// salvaged completes a report with what the agent has taken and left.
func (a *agentRun) salvaged(report json.RawMessage, transcriptRef string, artifacts []Artifact) (json.RawMessage, error) {
	r, err := readEscalation(report)
	if err != nil {
		return nil, err
	}
	r.CostToDate.USD, r.CostToDate.Turns = a.costUSD(), float64(a.state.Turns)
	r.Salvage.TranscriptRef = transcriptRef
	if r.Salvage.Artifacts, err = marshalJSON(append([]Artifact{}, artifacts...)); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(artifacts, func(f Artifact) bool { return f.Kind == ArtifactPatch }); i >= 0 {
		r.Salvage.WorktreePatchRef = artifacts[i].Ref
	}
	return marshalJSON(r)
}

// readEscalation reads a report; one of another writer may lack members.
func readEscalation(text json.RawMessage) (*Escalation, error) {
	if _, err := jcs.Parse(text); err != nil {
		return nil, errs.Wrap(errs.JournalOrder, "escalation", "", "the report is not JSON", err)
	}
	r := &Escalation{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, errs.Wrap(errs.JournalOrder, "escalation", "", "the report has a wrong shape", err)
	}
	return r, nil
}
