package rulvar

import "encoding/json"

// ToolExecutor runs the calls of tools that do not run in process. It is
// registered in [Config.Executors] for a kind and is safe for concurrent use.
// Package executor has two: programs, and programs in containers.
//
// An executor may have a method
//
//	CheckTool(t *rulvar.Tool) error
//
// which says whether it can serve a tool at all, by its [Tool.ExecutorSpec]
// above all. The engine calls it when the tool is registered, and when an agent
// is started with it: an error, and a panic, is an [ErrConfig] then, in place of
// a failure of the first call. It must not block and may be called by several
// goroutines at once.
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
