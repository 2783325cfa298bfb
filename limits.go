package rulvar

import (
	"fmt"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// UsageLimits bounds an agent. A field that is not set is taken from the next
// layer: call over profile over engine. An agent that reaches a limit ends
// with status limit and keeps what it has done.
type UsageLimits struct {
	// MaxTurns is how many requests an agent may make. Default 32.
	MaxTurns int
	// MaxToolCalls is how many tool calls may be executed; nil is no limit, 0
	// is none. Denied calls do not count; unknown and invalid ones do.
	MaxToolCalls *int
	// MaxOutputTokensPerTurn bounds each answer; zero is the provider's.
	MaxOutputTokensPerTurn int
	// Timeout bounds how long the agent may work, over all segments: requests
	// and tools are cancelled when it expires. Time in which the agent waits
	// for an approval does not count. Zero is no limit.
	Timeout time.Duration
	// StreamIdleTimeout is how long a model may send nothing before its answer
	// counts as cut. Default two minutes.
	StreamIdleTimeout time.Duration
	// CompactAt is the share of the model's context window, above 0 and at most
	// 1, from which on a conversation is replaced by a summary of it once the
	// calls of a turn are answered. Default 0.8. A model that does not say how
	// large its window is gets no summaries.
	CompactAt float64
}

const (
	defaultMaxTurns          = 32
	defaultStreamIdleTimeout = 2 * time.Minute
	defaultCompactAt         = 0.8
)

func (l *UsageLimits) validate(path string) error {
	if l == nil {
		return nil
	}
	refuse := func(field string, v int) error {
		return errs.New(errs.Config, "limits", path+"."+field, fmt.Sprintf("%d is not a limit", v))
	}
	if l.MaxTurns < 0 {
		return refuse("MaxTurns", l.MaxTurns)
	}
	if l.MaxToolCalls != nil && *l.MaxToolCalls < 0 {
		return refuse("MaxToolCalls", *l.MaxToolCalls)
	}
	if l.MaxOutputTokensPerTurn < 0 {
		return refuse("MaxOutputTokensPerTurn", l.MaxOutputTokensPerTurn)
	}
	if l.Timeout < 0 || l.StreamIdleTimeout < 0 {
		return errs.New(errs.Config, "limits", path, "a time must not be negative")
	}
	if !(l.CompactAt >= 0 && l.CompactAt <= 1) {
		return errs.New(errs.Config, "limits", path+".CompactAt", "a share of the context window is between 0 and 1")
	}
	return nil
}

// mergeLimits returns the effective limits; earlier layers win field by field.
func mergeLimits(layers ...*UsageLimits) UsageLimits {
	var out UsageLimits
	for _, l := range layers {
		if l == nil {
			continue
		}
		if out.MaxTurns == 0 {
			out.MaxTurns = l.MaxTurns
		}
		if out.MaxToolCalls == nil {
			out.MaxToolCalls = l.MaxToolCalls
		}
		if out.MaxOutputTokensPerTurn == 0 {
			out.MaxOutputTokensPerTurn = l.MaxOutputTokensPerTurn
		}
		if out.Timeout == 0 {
			out.Timeout = l.Timeout
		}
		if out.StreamIdleTimeout == 0 {
			out.StreamIdleTimeout = l.StreamIdleTimeout
		}
		if out.CompactAt == 0 {
			out.CompactAt = l.CompactAt
		}
	}
	if out.CompactAt == 0 {
		out.CompactAt = defaultCompactAt
	}
	if out.StreamIdleTimeout == 0 {
		out.StreamIdleTimeout = defaultStreamIdleTimeout
	}
	if out.MaxTurns == 0 {
		out.MaxTurns = defaultMaxTurns
	}
	return out
}

// RetryPolicy says how often and when a failed request is sent again. Retries
// stay below the journal: only the answer that counts is recorded.
type RetryPolicy struct {
	// Attempts is how often a request is sent at most. Default 3.
	Attempts int
	// Initial is the first pause, doubled each time up to Max. Half of a pause
	// is random. Defaults 500 ms and 8 s.
	Initial, Max time.Duration
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts <= 0 {
		p.Attempts = 3
	}
	if p.Initial <= 0 {
		p.Initial = 500 * time.Millisecond
	}
	if p.Max <= 0 {
		p.Max = 8 * time.Second
	}
	return p
}
