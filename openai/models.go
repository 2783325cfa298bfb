package openai

import (
	"regexp"
	"slices"

	"github.com/rulvar/rulvar-go/llm"
)

// PricesCheckedAt is the day of the pages that the prices were taken from.
const PricesCheckedAt = "2026-11-18"

// model is what the adapter has to know of a model.
type model struct {
	window, output int
	// efforts are those that it takes; nil for a model that does not reason.
	efforts []string
	// Prices in dollars for a million tokens; zero where they are not known.
	in, out, read, write float64
}

var (
	toHigh  = []string{"low", "medium", "high"}
	toXHigh = []string{"low", "medium", "high", "xhigh"}
	toMax   = []string{"low", "medium", "high", "xhigh", "max"}
)

var models = map[string]model{
	"gpt-6.2-astra": {1_050_000, 128_000, toMax, 8, 40, 0.40, 10},
	"gpt-6.2-sol":   {1_050_000, 128_000, toMax, 2, 10, 0.10, 2.50},
	"gpt-6.1-sol":   {1_050_000, 128_000, toMax, 2, 10, 0.10, 2.50},
	"gpt-6.1-terra": {1_050_000, 128_000, toMax, 1, 5, 0.05, 1.25},
	"gpt-6-astra":   {1_050_000, 128_000, toMax, 10, 50, 1, 12.50},
	"gpt-6-sol":     {1_050_000, 128_000, toMax, 2, 10, 0.20, 2.50},
	"gpt-6-luna":    {1_050_000, 128_000, toMax, 0.10, 0.50, 0.01, 0.125},
	"gpt-5.6-sol":   {1_050_000, 128_000, toMax, 4, 20, 0, 0},
	"gpt-5.6-terra": {1_050_000, 128_000, toMax, 2, 12, 0.20, 0},
	"gpt-5.6-luna":  {1_050_000, 128_000, toMax, 0.20, 1.20, 0.02, 0},
	// Of the older ones only what the adapter needs, without prices.
	"gpt-5.5":      {1_050_000, 128_000, toXHigh, 0, 0, 0, 0},
	"gpt-5.4":      {1_050_000, 128_000, toXHigh, 0, 0, 0, 0},
	"gpt-5.4-mini": {400_000, 128_000, toXHigh, 0, 0, 0, 0},
	"gpt-5.2":      {400_000, 128_000, toXHigh, 0, 0, 0, 0},
	"gpt-5.1":      {400_000, 128_000, toHigh, 0, 0, 0, 0},
	"gpt-5":        {400_000, 128_000, toHigh, 0, 0, 0, 0},
	"gpt-5-mini":   {400_000, 128_000, toHigh, 0, 0, 0, 0},
}

// unknown stands for a model that is not in the table: nothing is presumed of
// it that could make the service refuse the request.
var unknown = model{}

// leastOutput is the smallest bound on an answer that the service takes.
const leastOutput = 16

var snapshot = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}$`)

// lookUp finds a model, also by the name of a dated snapshot of it.
func lookUp(name string) (model, bool) {
	if m, ok := models[name]; ok {
		return m, true
	}
	if at := snapshot.FindStringIndex(name); at != nil {
		if m, ok := models[name[:at[0]]]; ok {
			return m, true
		}
	}
	return unknown, false
}

// effort is the word that a model takes for an effort, or "".
func (m *model) effort(asked string) string {
	switch {
	case slices.Contains(m.efforts, asked):
		return asked
	case asked == "max" && slices.Contains(m.efforts, "xhigh"):
		return "xhigh"
	}
	return ""
}

// Capabilities implements [llm.Provider].
func (p *Provider) Capabilities(name string) llm.Capabilities {
	c := llm.Capabilities{StructuredOutput: llm.StructuredPrompt, ContextWindow: 8192, MaxOutputTokens: 4096}
	if over, ok := p.models[name]; ok {
		c = over
	} else if p.fallback != nil {
		c = *p.fallback
	} else if !p.chat {
		m, _ := lookUp(name)
		c = llm.Capabilities{StructuredOutput: llm.StructuredNative, ContextWindow: m.window, MaxOutputTokens: m.output}
		if m.in > 0 {
			c.Pricing = &llm.Pricing{InputUSD: m.in, OutputUSD: m.out, CacheReadUSD: m.read, CacheWriteUSD: m.write, CheckedAt: PricesCheckedAt}
		}
	}
	c.RetentionKey = p.retention
	return c
}
