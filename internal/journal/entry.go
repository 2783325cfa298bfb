// Package journal holds the record format of a run and the file store that
// keeps it.
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
	HashVersion int
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

	// Raw is the line as it was loaded, without its newline; nil for an entry
	// that was made here. Unknown members survive in it.
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
