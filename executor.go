package rulvar

import "encoding/json"

// ToolExecutor runs the calls of tools that do not run in process. It is
// registered in [Config.Executors] for a kind and is safe for concurrent use.
// Package executor has two: programs, and programs in containers.
type ToolExecutor interface {
	// Execute runs one call and returns its result as JSON. It observes the
	// context. An error becomes an error result that the model sees.
	Execute(tc *ToolContext, call ExecutorCall) (json.RawMessage, error)
}

// ExecutorCall is a call as an executor gets it.
type ExecutorCall struct {
	// Tool is the tool's name.
	Tool string
	// Input is the judged input in canonical JSON.
	Input json.RawMessage
	// Spec is the tool's ExecutorSpec.
	Spec json.RawMessage
	// IdempotencyKey is the same for each try of the same call of a run and
	// differs between calls.
	IdempotencyKey string
	// Idempotent says that the call may run twice without harm: the tool
	// declares it, or is of risk read.
	Idempotent bool
}
