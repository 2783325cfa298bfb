package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Provider speaks to one model service. Implementations are safe for
// concurrent use; see rulvartest for a scripted one and a conformance suite.
type Provider interface {
	// ID is the name before the colon in a model reference "id:model".
	ID() string
	// Capabilities describes a model; an unknown model gets the provider's
	// most careful answer.
	Capabilities(model string) Capabilities
	// Stream sends one request and yields what comes back. The last thing it
	// yields is either an event of type [StreamFinish] or an error, best a
	// [*ProviderError]; a stream that ends with neither counts as cut and may
	// be retried. It stops soon after ctx is done; a stream that does not return
	// is left behind five seconds later, and its goroutine leaks.
	Stream(ctx context.Context, req *Request) iter.Seq2[StreamEvent, error]
}

// Capabilities is what a provider says of a model.
type Capabilities struct {
	// StructuredOutput is how the model can be held to a schema.
	StructuredOutput StructuredOutputTier
	// ContextWindow and MaxOutputTokens are in tokens; zero is unknown.
	ContextWindow, MaxOutputTokens int
	// RetentionKey says which private blocks may be sent back: those whose
	// Provider equals it. Empty means the provider's ID.
	RetentionKey string
	// Pricing is what the model costs; nil where that is not known.
	Pricing *Pricing
}

// StructuredOutputTier is a way to hold a model to a schema.
type StructuredOutputTier string

// The tiers, best first. The zero value is treated as prompt.
const (
	StructuredNative     StructuredOutputTier = "native"
	StructuredForcedTool StructuredOutputTier = "forced-tool"
	StructuredPrompt     StructuredOutputTier = "prompt"
)

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
	// Agent says who asks. It is for telemetry and tests and never sent.
	Agent AgentInfo
}

// ToolDeclaration is a tool as a model is told of it.
type ToolDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Version     string          `json:"version,omitempty"`
}

// Role says who speaks a message.
type Role string

// The roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one turn of a conversation. All results of a turn's tool calls
// stand in one message of [RoleTool], in call order.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// PartType says what a [Part] holds.
type PartType string

// The part types and the fields they use.
const (
	PartText       PartType = "text"         // Text
	PartImage      PartType = "image"        // MediaType, Data (base64 text or bytes wrapper)
	PartToolCall   PartType = "tool-call"    // ID, Name, Args
	PartToolResult PartType = "tool-result"  // ID, Name, Result, IsError
	PartRaw        PartType = "provider-raw" // Provider, Block
)

// Part is a piece of a message.
type Part struct {
	Type      PartType
	Text      string
	MediaType string
	Data      json.RawMessage
	// ID is the call id, unique in the agent's history.
	ID   string
	Name string
	// Args is the argument JSON of a call: as the model sent it, or
	// {"__unparsed": text} where that was not acceptable JSON.
	Args    json.RawMessage
	Result  json.RawMessage
	IsError bool
	// Provider is the retention key of a private block.
	Provider string
	Block    json.RawMessage
}

// TextPart makes a text part.
func TextPart(text string) Part { return Part{Type: PartText, Text: text} }

// StreamEventType says what a [StreamEvent] brings.
type StreamEventType string

// The stream event types and the fields they use.
const (
	StreamText      StreamEventType = "text-delta"      // Text
	StreamReasoning StreamEventType = "reasoning-delta" // Text
	StreamToolCall  StreamEventType = "tool-call-end"   // ID, Name, Arguments
	StreamUsage     StreamEventType = "usage"           // Usage, so far
	StreamRaw       StreamEventType = "provider-raw"    // Block: kept at the head of the assistant message
	StreamFinish    StreamEventType = "finish"          // Finish, Usage
)

// StreamEvent is one thing that a model's answer brings.
type StreamEvent struct {
	Type StreamEventType
	Text string
	// ID is the call's id, minted by the adapter as a ULID and mapped by it to
	// whatever the wire uses. It must be new in the conversation.
	ID string
	// Name is the tool that the model calls.
	Name string
	// Arguments is the argument text exactly as the model sent it.
	Arguments string
	Block     json.RawMessage
	Finish    FinishReason
	Usage     Usage
}

// FinishReason says why an answer ended.
type FinishReason string

// The finish reasons. Any other word counts as a provider fault.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool-calls"
	FinishMaxTokens     FinishReason = "max-tokens"
	FinishContextWindow FinishReason = "context-window-exceeded"
	FinishRefusal       FinishReason = "refusal"
)

// Usage counts tokens. InputTokens is the whole prompt, cached parts included.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
	ReasoningTokens  int64 `json:"reasoningTokens,omitempty"`
}

// Add returns the sum of u and v. A count that an integer of JSON cannot hold
// exactly becomes the largest that it can, 2^53-1.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:      addTokens(u.InputTokens, v.InputTokens),
		OutputTokens:     addTokens(u.OutputTokens, v.OutputTokens),
		CacheReadTokens:  addTokens(u.CacheReadTokens, v.CacheReadTokens),
		CacheWriteTokens: addTokens(u.CacheWriteTokens, v.CacheWriteTokens),
		ReasoningTokens:  addTokens(u.ReasoningTokens, v.ReasoningTokens),
	}
}

const maxTokens = 1<<53 - 1

func addTokens(a, b int64) int64 {
	if sum := min(a, maxTokens) + min(b, maxTokens); sum < maxTokens {
		return sum
	}
	return maxTokens
}

// ErrorKind is the class of a failure of a provider or an agent.
type ErrorKind string

// The error kinds. Transport, rate-limit and overloaded are worth a retry.
const (
	KindTransport      ErrorKind = "transport"
	KindRateLimit      ErrorKind = "rate-limit"
	KindOverloaded     ErrorKind = "overloaded"
	KindSchemaMismatch ErrorKind = "schema-mismatch"
	KindTool           ErrorKind = "tool"
	KindBudget         ErrorKind = "budget"
	KindTerminal       ErrorKind = "terminal"
)

// ProviderError is a failure that a provider reports.
type ProviderError struct {
	Kind      ErrorKind
	Message   string
	Retryable bool
	// RetryAfter is how long the provider asks to wait; zero is for the engine
	// to choose.
	RetryAfter time.Duration
	Err        error
}

// Error returns the kind and the message.
func (e *ProviderError) Error() string { return string(e.Kind) + ": " + e.Message }

// Unwrap returns the cause.
func (e *ProviderError) Unwrap() error { return e.Err }

// splitModelRef cuts "provider:model" at its first colon.
func splitModelRef(ref string) (provider, model string, err error) {
	provider, model, ok := strings.Cut(ref, ":")
	if !ok || provider == "" || model == "" {
		return "", "", fmt.Errorf("the model reference %q is not of the form provider:model", ref)
	}
	return provider, model, nil
}
