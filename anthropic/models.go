package anthropic

import (
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/llm"
)

// PricesCheckedAt is the day of the pages that the prices were taken from.
const PricesCheckedAt = "2026-11-10"

// model is what the adapter has to know of a model.
type model struct {
	window, output int
	efforts        []string
	// thinks says when the model thinks: where it is asked to (adaptive), by
	// default, or always.
	thinks thinking
	// bound models take thinking back only at its place in the conversation
	// that they had it in themselves.
	bound bool
	// native models can be held to a schema.
	native bool
	// Prices in dollars for a million tokens. Writing to the cache for five
	// minutes costs 1.25 times the input, for an hour twice.
	in, out, read float64
}

type thinking int

const (
	thinksNever thinking = iota
	thinksOnRequest
	thinksByDefault
	thinksAlways
)

var (
	lowToHigh = []string{"low", "medium", "high"}
	lowToMax  = []string{"low", "medium", "high", "xhigh", "max"}
	withoutX  = []string{"low", "medium", "high", "max"}
)

var models = map[string]model{
	"claude-fable-5-2":  {1_000_000, 128_000, lowToMax, thinksAlways, true, true, 8, 40, 0.20},
	"claude-fable-5-1":  {1_000_000, 128_000, lowToMax, thinksAlways, true, true, 10, 50, 0.25},
	"claude-fable-5":    {1_000_000, 128_000, lowToMax, thinksAlways, false, true, 10, 50, 1},
	"claude-mythos-5-2": {1_000_000, 128_000, lowToMax, thinksAlways, true, true, 8, 40, 0.20},
	"claude-mythos-5-1": {1_000_000, 128_000, lowToMax, thinksAlways, true, true, 10, 50, 0.25},
	"claude-mythos-5":   {1_000_000, 128_000, lowToMax, thinksAlways, false, true, 10, 50, 1},
	"claude-opus-5-5":   {1_000_000, 128_000, lowToMax, thinksAlways, true, true, 4, 20, 0.20},
	"claude-opus-5":     {1_000_000, 128_000, lowToMax, thinksByDefault, false, true, 5, 25, 0.50},
	"claude-opus-4-8":   {1_000_000, 128_000, lowToMax, thinksOnRequest, false, true, 5, 25, 0.50},
	"claude-opus-4-7":   {1_000_000, 128_000, lowToMax, thinksOnRequest, false, true, 5, 25, 0.50},
	"claude-opus-4-6":   {1_000_000, 128_000, withoutX, thinksOnRequest, false, true, 5, 25, 0.50},
	"claude-opus-4-5":   {200_000, 64_000, lowToHigh, thinksNever, false, true, 5, 25, 0.50},
	"claude-sonnet-5-5": {1_000_000, 128_000, lowToMax, thinksByDefault, false, true, 2, 10, 0.10},
	"claude-sonnet-5":   {1_000_000, 128_000, lowToMax, thinksByDefault, false, true, 2, 10, 0.20},
	"claude-sonnet-4-6": {1_000_000, 64_000, withoutX, thinksOnRequest, false, true, 3, 15, 0.30},
	"claude-sonnet-4-5": {200_000, 64_000, nil, thinksNever, false, true, 3, 15, 0.30},
	"claude-haiku-5-5":  {1_000_000, 128_000, lowToMax, thinksByDefault, false, true, 0.10, 0.50, 0.01},
	"claude-haiku-4-5":  {200_000, 64_000, nil, thinksNever, false, true, 1, 5, 0.10},
}

// unknown stands for a model that is not in the table. Nothing is presumed of
// it that could make the service refuse the request.
var unknown = model{output: 32_000, thinks: thinksAlways, bound: true}

// lookUp finds a model, also by the name of a dated snapshot of it.
func lookUp(name string) (m model, known bool) {
	if m, ok := models[name]; ok {
		return m, true
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 && len(name)-i == 9 && strings.Trim(name[i+1:], "0123456789") == "" {
		if m, ok := models[name[:i]]; ok {
			return m, true
		}
	}
	return unknown, false
}

func (m *model) takesEffort(effort string) bool { return slices.Contains(m.efforts, effort) }

// Capabilities implements [llm.Provider].
func (p *Provider) Capabilities(name string) llm.Capabilities {
	m, known := lookUp(name)
	c := llm.Capabilities{
		StructuredOutput: llm.StructuredPrompt, ContextWindow: m.window, MaxOutputTokens: m.output,
		RetentionKey: p.retention(name, &m),
	}
	if m.native {
		c.StructuredOutput = llm.StructuredNative
	}
	if known {
		write := 1.25
		if p.cache == CacheHour {
			write = 2
		}
		c.Pricing = &llm.Pricing{InputUSD: m.in, OutputUSD: m.out, CacheReadUSD: m.read, CacheWriteUSD: write * m.in, CheckedAt: PricesCheckedAt}
	}
	if over, ok := p.models[name]; ok {
		over.RetentionKey = c.RetentionKey
		c = over
	}
	return c
}

// retention is whose private blocks a model may get back: those of the family
// and the account, and where thinking is bound to a model, its own.
func (p *Provider) retention(name string, m *model) string {
	key := family
	if p.account != "" {
		key += "#" + p.account
	}
	if m.bound {
		key += "/" + name
	}
	return key
}
