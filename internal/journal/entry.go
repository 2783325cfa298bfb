package journal

import "encoding/json"

// HashVersion is the version of the content-key derivation that new entries
// are written with.
const HashVersion = 2

// Kind is what an entry records.
type Kind string

// The kinds this library writes. Others may stand in a foreign journal; they
// are kept byte for byte.
const (
	KindAgent      Kind = "agent"
	KindStep       Kind = "step"
	KindChild      Kind = "child"
	KindExternal   Kind = "external"
	KindApproval   Kind = "approval"
	KindRand       Kind = "rand"
	KindDecision   Kind = "decision"
	KindResolution Kind = "resolution"
	KindAbandon    Kind = "abandon"
)

// Status is the state an entry records.
type Status string

// The statuses.
const (
	StatusRunning   Status = "running"
	StatusOK        Status = "ok"
	StatusError     Status = "error"
	StatusLimit     Status = "limit"
	StatusCancelled Status = "cancelled"
	StatusEscalated Status = "escalated"
	StatusSuspended Status = "suspended"
)

// Entry is one line of a run's journal. The envelope is decoded; the payload
// members stay JSON text until somebody asks. A member that is absent is nil
// or zero. An Entry that was loaded shares memory with its line and must not
// be changed.
type Entry struct {
	HashVersion int   // of Key; 0 is written as [HashVersion]
	Seq         int64 // order within the run, from 0; minted by the store
	Ref         *int64
	Scope       string
	Key         string
	Ordinal     int64
	Kind        Kind
	Status      Status

	Value           json.RawMessage
	Error           json.RawMessage // WireError
	Usage           json.RawMessage
	UsageApprox     bool
	ServedBy        string
	UsageByModel    json.RawMessage
	CostAttribution json.RawMessage
	ProviderCalls   json.RawMessage
	UsageSemantics  string
	TranscriptRef   *string
	CheckpointRef   string
	Artifacts       json.RawMessage
	Escalation      json.RawMessage
	Resolution      json.RawMessage // Resolution
	Abandon         json.RawMessage // Abandon
	MemoizeOutcome  bool
	DeadlineAt      string // RFC 3339
	SpanID          string
	StartedAt       string // RFC 3339
	EndedAt         string // RFC 3339

	// At demands a sequence number from Append, which refuses one that is not
	// above the journal's tail. Nil lets the store mint the next one. It is
	// not stored.
	At *int64

	// Raw is the line as it was loaded, without its newline; nil for an entry
	// that was made here. Unknown members survive in it. An entry whose Raw is
	// set is written as that text, with the sequence number that stands there.
	Raw json.RawMessage
}

// WireError is an error as the journal stores it.
type WireError struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// Resolution is the payload of a resolution entry: it closes a suspended one.
type Resolution struct {
	Target int64           `json:"target"`
	By     string          `json:"by"`
	Value  json.RawMessage `json:"value"`
}

// Abandon is the payload of an abandon entry: it takes an unfinished or
// suspended entry out of the run. RetainCheckpoint is true and RetainWorktree
// false where nothing is said.
type Abandon struct {
	Target           int64  `json:"target"`
	AuthorizedBy     string `json:"authorizedBy"`
	Reason           string `json:"reason"`
	NodeID           string `json:"nodeId,omitempty"`
	LogicalTaskID    string `json:"logicalTaskId,omitempty"`
	RetainCheckpoint *bool  `json:"retainCheckpoint,omitempty"`
	RetainWorktree   *bool  `json:"retainWorktree,omitempty"`
}
