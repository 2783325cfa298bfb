package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// AgentInfo says which agent a call belongs to.
type AgentInfo struct {
	// Type is the profile's name, or "".
	Type string
	// Label is the caller's label, or "".
	Label string
}

// ToolContext is what a handler or a policy closure knows of the call it
// serves. It is a context: it is cancelled when the run is, and when a limit
// of the agent expires. It has no way to start agents: tools are leaves. It is
// valid until the handler returns.
type ToolContext struct {
	context.Context

	runID, spanID, callID string
	agent                 AgentInfo
	cwd                   string
	isolation             Isolation
	tool                  string
	chain                 *PermissionChain // that admitted the call
	input                 json.RawMessage  // that is being executed
	approved              bool             // somebody approved just this input
	hosts                 func(json.RawMessage, func(string) Verdict) Decision
	log                   func(level slog.Level, msg string, data ...any)
}

// RunID returns the run's id; empty in a dry run.
func (c *ToolContext) RunID() string { return c.runID }

// SpanID returns the id of the tool's span in the run's events.
func (c *ToolContext) SpanID() string { return c.spanID }

// CallID returns the id of the call in the agent's history.
func (c *ToolContext) CallID() string { return c.callID }

// Agent returns the calling agent.
func (c *ToolContext) Agent() AgentInfo { return c.agent }

// Cwd returns the directory that the tool works in: the agent's own tree under
// worktree isolation, the host's working directory otherwise.
func (c *ToolContext) Cwd() string { return c.cwd }

// Isolation returns the isolation that the agent was started with.
func (c *ToolContext) Isolation() Isolation { return c.isolation }

// Log emits a log event of the run, and writes warnings and errors to the
// engine's logger too. It writes nothing to the journal. data are key and value
// in turn, as in log/slog.
func (c *ToolContext) Log(level slog.Level, msg string, data ...any) {
	if c.log != nil {
		c.log(level, msg, data...)
	}
}

func (c *ToolContext) logPanic(tool string, p any, stack []byte) {
	c.Log(slog.LevelError, "a handler panicked", "tool", tool, "panic", fmt.Sprint(p), "stack", string(stack))
}
