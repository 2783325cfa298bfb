package llm

import (
	"context"
	"iter"
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
	// yields is either an event of type [StreamFinish] or an error, best an
	// [*Error]; a stream that ends with neither counts as cut and may
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

// Pricing is what a model costs, in US dollars for a million tokens. Cached
// input is priced apart where a rate is given, at the input rate otherwise.
type Pricing struct {
	InputUSD, OutputUSD         float64
	CacheReadUSD, CacheWriteUSD float64
	// CheckedAt is the day on which somebody looked the prices up.
	CheckedAt string
}
