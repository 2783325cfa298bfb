package rulvar

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/rulvar/rulvar-go/llm"
)

// Event is something that happened in a run: an envelope and a body. Events
// are telemetry; nothing in the engine depends on anyone reading them.
type Event struct {
	RunID string
	// Seq grows strictly within a run. Segment k, from 0, starts at k<<32.
	Seq  int64
	Time time.Time
	// SpanID and ParentSpanID place the event in the tree run, phase, agent.
	SpanID, ParentSpanID string
	// Replayed says that the event retells what an earlier segment did.
	Replayed bool
	Body     EventBody
}

// EventBody is one of the event types of this package.
type EventBody interface {
	// EventType is the type's name on the wire, such as "tool:end".
	EventType() string
}

// RunStarted begins a segment of a run.
type RunStarted struct {
	Workflow string `json:"workflow"`
	Resumed  bool   `json:"resumed"`
}

// RunEnded ends a segment.
type RunEnded struct {
	Status RunStatus `json:"status"`
	Usage  llm.Usage `json:"usage"`
}

// PhaseStarted begins a named phase of the workflow.
type PhaseStarted struct {
	Phase string `json:"phase"`
}

// LogEmitted is a log line of a tool, a workflow or the engine.
type LogEmitted struct {
	Level slog.Level     `json:"level"`
	Msg   string         `json:"msg"`
	Data  map[string]any `json:"data,omitempty"`
}

// AgentStarted says that an agent works, or is retold under a replay.
type AgentStarted struct {
	AgentType string `json:"agentType"`
	Label     string `json:"label,omitempty"`
	Model     string `json:"model"`
	Role      string `json:"role"`
}

// AgentEnded says how an agent ended.
type AgentEnded struct {
	AgentType string      `json:"agentType"`
	Label     string      `json:"label,omitempty"`
	Status    AgentStatus `json:"status"`
	Usage     llm.Usage   `json:"usage"`
	EntryRef  int64       `json:"entryRef"`
}

// AgentFailed says that a request of an agent failed.
type AgentFailed struct {
	AgentType string        `json:"agentType"`
	Label     string        `json:"label,omitempty"`
	Kind      llm.ErrorKind `json:"kind"`
	Message   string        `json:"message"`
	WillRetry bool          `json:"willRetry"`
}

// AgentDelta brings text of a model as it arrives. Only with
// AgentOptions.Stream, never under a replay.
type AgentDelta struct {
	Delta     string `json:"delta"`
	Reasoning bool   `json:"reasoning,omitempty"`
}

// BudgetUpdated says what is spent after an answer of a model, which the event's
// span asked.
type BudgetUpdated struct {
	// SpentUSD is what the run has cost so far, over all segments; models
	// without a price cost nothing here.
	SpentUSD float64 `json:"spentUsd"`
	// RemainingUSD is what is left under the run's ceiling; nil without one.
	RemainingUSD *float64 `json:"remainingUsd"`
	// CommittedReserveUSD is set aside for agents at work.
	CommittedReserveUSD float64 `json:"committedReserveUsd"`
	// Usage is what the agent has used so far.
	Usage llm.Usage `json:"usage"`
}

// ToolStarted says that a call is about to be judged.
type ToolStarted struct {
	ToolName   string `json:"toolName"`
	ToolCallID string `json:"toolCallId"`
	Risk       Risk   `json:"risk,omitempty"`
}

// ToolEnded says what became of a call. There is exactly one for each
// [ToolStarted] of a segment, unless the call is still parked at its end.
type ToolEnded struct {
	ToolName   string      `json:"toolName"`
	ToolCallID string      `json:"toolCallId"`
	Outcome    ToolOutcome `json:"outcome"`
	DurationMs int64       `json:"durationMs"`
	// The audit fields: what the chain said. They are empty for a call that
	// never reached the chain.
	Verdict   Verdict   `json:"verdict,omitempty"`
	DecidedBy DecidedBy `json:"decidedBy,omitempty"`
	Layer     Layer     `json:"layer,omitempty"`
	Rule      Rule      `json:"rule,omitzero"`
	Advisory  []Rule    `json:"advisory,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	// ErrorCode says why an outcome is error: "invalid-arguments",
	// "unknown-tool", "model-retry", "non-serializable-result", ….
	ErrorCode string `json:"errorCode,omitempty"`
	// Input is what was judged and Result what the model gets, with secrets
	// masked. Only with [Config.EventContent].
	Input  json.RawMessage `json:"input,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// ToolOutcome is what became of a call.
type ToolOutcome string

// The outcomes of a call.
const (
	ToolOK     ToolOutcome = "ok"
	ToolError  ToolOutcome = "error"
	ToolDenied ToolOutcome = "denied"
)

// ApprovalPending says that a call waits for an approval. It is emitted after
// the suspension is durable, and again, replayed, when a resume finds it open.
type ApprovalPending struct {
	ToolName   string     `json:"toolName"`
	ToolCallID string     `json:"toolCallId"`
	EntryRef   int64      `json:"entryRef"`
	Key        string     `json:"key"`
	Risk       Risk       `json:"risk,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	AgentPath  string     `json:"agentPath,omitempty"`
	DeadlineAt *time.Time `json:"deadlineAt,omitempty"`
}

// ExternalWaiting names a suspension that is open when a segment ends, or when
// one begins.
type ExternalWaiting struct {
	Key        string     `json:"key"`
	EntryRef   int64      `json:"entryRef"`
	Prompt     string     `json:"prompt,omitempty"`
	DeadlineAt *time.Time `json:"deadlineAt,omitempty"`
}

// ResolutionApplied says that a suspension was closed.
type ResolutionApplied struct {
	TargetRef int64  `json:"targetRef"`
	EntryRef  int64  `json:"entryRef"`
	By        string `json:"by"`
}

// PolicyWarning tells the host of a policy that does not do what it seems to:
// a rule that names no tool, a closure that failed.
type PolicyWarning struct {
	Message string `json:"message"`
	Rule    Rule   `json:"rule,omitzero"`
	Tool    string `json:"tool,omitempty"`
}

// EventType implements [EventBody], here and below.
func (RunStarted) EventType() string        { return "run:start" }
func (RunEnded) EventType() string          { return "run:end" }
func (PhaseStarted) EventType() string      { return "phase:start" }
func (LogEmitted) EventType() string        { return "log" }
func (AgentStarted) EventType() string      { return "agent:start" }
func (AgentEnded) EventType() string        { return "agent:end" }
func (AgentFailed) EventType() string       { return "agent:error" }
func (AgentDelta) EventType() string        { return "agent:stream" }
func (BudgetUpdated) EventType() string     { return "budget:update" }
func (ToolStarted) EventType() string       { return "tool:start" }
func (ToolEnded) EventType() string         { return "tool:end" }
func (ApprovalPending) EventType() string   { return "approval:pending" }
func (ExternalWaiting) EventType() string   { return "external:waiting" }
func (ResolutionApplied) EventType() string { return "resolution:applied" }
func (PolicyWarning) EventType() string     { return "policy:warning" }

// MarshalJSON writes one object: the envelope, the type and the body's members.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := marshalJSON(struct {
		RunID        string `json:"runId"`
		Seq          int64  `json:"seq"`
		Time         string `json:"ts"`
		SpanID       string `json:"spanId"`
		ParentSpanID string `json:"parentSpanId,omitempty"`
		Replayed     bool   `json:"replayed,omitempty"`
		Type         string `json:"type"`
	}{e.RunID, e.Seq, stamp(e.Time), e.SpanID, e.ParentSpanID, e.Replayed, e.Body.EventType()})
	if err != nil {
		return nil, err
	}
	body, err := marshalJSON(e.Body)
	if err != nil {
		return nil, err
	}
	if string(body) == "{}" {
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), body[1:]...), nil
}

// stamp writes a time as the journal does: UTC, milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

var _ json.Marshaler = Event{}
