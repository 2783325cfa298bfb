package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// Pending is a suspension that waits for an answer: a tool call to approve, or
// a value from outside. Give the answer with [Engine.Resolve] and its Key.
type Pending struct {
	RunID    string `json:"runId"`
	Workflow string `json:"workflow,omitempty"`
	// Key names the suspension within the run: "approval:<entry>" for a tool
	// call, the workflow's own key otherwise.
	Key      string `json:"key"`
	EntryRef int64  `json:"entryRef"`
	Scope    string `json:"scope"`
	// Prompt is what to ask.
	Prompt string    `json:"prompt,omitempty"`
	Since  time.Time `json:"since"`
	// DeadlineAt is when an unanswered approval is denied; nil for never.
	DeadlineAt *time.Time `json:"deadlineAt,omitempty"`
	// Call is the tool call to approve; nil for a value from outside.
	Call *PendingCall `json:"call,omitempty"`
}

// PendingCall is a tool call that waits for an approval, as the journal holds
// it. Input is exactly what will run.
type PendingCall struct {
	Tool       string          `json:"tool"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Input      json.RawMessage `json:"input"`
	Risk       Risk            `json:"risk,omitempty"`
	DecidedBy  DecidedBy       `json:"decidedBy,omitempty"`
	Rule       json.RawMessage `json:"rule,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	AgentPath  string          `json:"agentPath,omitempty"`
}

// ApprovalDecision answers an approval. Make it with [Approve], [ApproveEdited]
// or [Reject]; the zero value is refused.
type ApprovalDecision struct {
	Decision string `json:"decision"`
	// Reason of a rejection is what the model sees.
	Reason string `json:"reason,omitempty"`
	// ExpiresAt voids an approval that was not used in time.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Input replaces the call's input. It is validated, and judged by the deny
	// rules, when the run goes on.
	Input json.RawMessage `json:"input,omitempty"`
}

// Approve lets the call run once, with the input that was shown.
func Approve(reason string) ApprovalDecision {
	return ApprovalDecision{Decision: "allow", Reason: reason}
}

// ApproveEdited lets the call run once with another input.
func ApproveEdited(input json.RawMessage, reason string) ApprovalDecision {
	return ApprovalDecision{Decision: "allow-edited", Input: input, Reason: reason}
}

// Reject denies the call; the model sees the reason.
func Reject(reason string) ApprovalDecision {
	return ApprovalDecision{Decision: "deny", Reason: reason}
}

// ResolutionOutcome says what became of an answer.
type ResolutionOutcome struct {
	// Applied says that this answer closed the suspension.
	Applied bool
	// EntryRef is the record of the answer. It is -1 for an answer that was not
	// recorded: one that came too late, after a hundred others that did.
	EntryRef int64
	// SupersededBy is the record that had closed it before, and Reason why
	// this answer came too late; only where Applied is false.
	SupersededBy int64
	Reason       string
}

// approvalValue is the value of a suspended approval entry. The first four
// members are the shared format, the rest are this library's.
type approvalValue struct {
	ToolName string          `json:"toolName"`
	Input    json.RawMessage `json:"input"`
	Flavor   string          `json:"flavor,omitempty"`
	Risk     Risk            `json:"risk,omitempty"`

	ToolCallID     string          `json:"toolCallId,omitempty"`
	InputHash      string          `json:"inputHash,omitempty"`
	EffectiveInput json.RawMessage `json:"effectiveInput,omitempty"`
	DecidedBy      DecidedBy       `json:"decidedBy,omitempty"`
	Rule           json.RawMessage `json:"rule,omitempty"`
	Reason         string          `json:"reason,omitempty"`
	AgentPath      string          `json:"agentPath,omitempty"`
}

func (v *approvalValue) runs() json.RawMessage {
	if v.EffectiveInput != nil {
		return v.EffectiveInput
	}
	return v.Input
}

// externalValue is the value of a suspended external entry.
type externalValue struct {
	Key    string          `json:"key"`
	Prompt string          `json:"prompt,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

func approvalKey(entry int64) string { return fmt.Sprintf("approval:%d", entry) }

// pendingOf describes an open suspension.
func pendingOf(runID, workflow string, sus *replay.Suspension) Pending {
	en := sus.Entry
	p := Pending{RunID: runID, Workflow: workflow, Key: sus.Key(), EntryRef: en.Seq, Scope: en.Scope}
	p.Since, _ = time.Parse(time.RFC3339Nano, en.StartedAt)
	if at, err := time.Parse(time.RFC3339Nano, en.DeadlineAt); err == nil {
		p.DeadlineAt = &at
	}
	if en.Kind == journal.KindExternal {
		var v externalValue
		_ = json.Unmarshal(en.Value, &v) // a foreign shape has no prompt
		p.Prompt = v.Prompt
		return p
	}
	var v approvalValue
	_ = json.Unmarshal(en.Value, &v)
	p.Prompt = fmt.Sprintf("approve tool %q", v.ToolName)
	if sus.Flavor() == replay.FlavorEscalation {
		p.Prompt = "decide an escalation: retry, decompose, cancel or accept"
	}
	p.Call = &PendingCall{
		Tool: v.ToolName, ToolCallID: v.ToolCallID, Input: v.runs(), Risk: v.Risk,
		DecidedBy: v.DecidedBy, Rule: v.Rule, Reason: v.Reason, AgentPath: v.AgentPath,
	}
	return p
}

// checkPinned validates a value against the schema that a wait has pinned.
func checkPinned(schema, value json.RawMessage) error {
	s, err := parseSchema(schema)
	if err != nil {
		return err
	}
	tree, err := jcs.Parse(value)
	if err != nil {
		return err
	}
	for _, i := range s.validator.Validate(tree) {
		return fmt.Errorf("%s: %s", i.Location, i.Message)
	}
	return nil
}

// Pending lists the open suspensions of the runs of the store that are running
// or suspended, oldest first: an answer to another run would change nothing. It
// needs neither tools nor models. Runs that cannot be read make an error beside
// the others.
func (e *Engine) Pending(ctx context.Context) ([]Pending, error) {
	var all []Pending
	metas, err := e.store.ListRuns(ctx, func(m *RunMeta) bool {
		return m.Status == string(RunRunning) || m.Status == string(RunSuspended) || m.Status == ""
	})
	for _, m := range metas {
		some, loadErr := e.PendingOf(ctx, m.RunID)
		err = errors.Join(err, loadErr)
		all = append(all, some...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Since.Before(all[j].Since) })
	return all, err
}

// PendingOf lists the open suspensions of one run, in journal order.
func (e *Engine) PendingOf(ctx context.Context, runID string) ([]Pending, error) {
	meta, fold, err := e.loadFold(ctx, "PendingOf", runID)
	if err != nil {
		return nil, err
	}
	workflow := ""
	if meta != nil {
		workflow = meta.WorkflowName
	}
	var open []Pending
	for _, sus := range fold.OpenSuspensions() {
		open = append(open, pendingOf(runID, workflow, sus))
	}
	return open, nil
}
