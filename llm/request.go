package llm

import "encoding/json"

// Request is one question to a model.
type Request struct {
	// Model is the name after the colon of the model reference.
	Model string
	// Messages is the conversation so far. It must not be changed.
	Messages []Message
	// Tools are the tools the model may call.
	Tools []ToolDeclaration
	// ToolChoice limits the choice: "", "auto", "none", "required" or a tool's
	// name after "tool:".
	ToolChoice string
	// Schema is the JSON Schema of the answer where the model is held to one
	// natively.
	Schema json.RawMessage
	// Effort is the reasoning effort asked for, or "".
	Effort string
	// MaxOutputTokens bounds the answer; zero is the provider's default.
	MaxOutputTokens int
	// AgentType and AgentLabel say who asks: the name of the agent's profile and
	// the caller's label, each may be "". They are for telemetry and tests and
	// are never sent.
	AgentType, AgentLabel string
}

// ToolDeclaration is a tool as a model is told of it.
type ToolDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Version     string          `json:"version,omitempty"`
}
