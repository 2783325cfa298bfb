package llm

import "encoding/json"

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
