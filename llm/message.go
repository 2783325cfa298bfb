package llm

import "encoding/json"

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
