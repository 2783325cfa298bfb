package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/llm"
)

// cost is what u costs at the prices p.
func cost(p *llm.Pricing, u llm.Usage) float64 {
	read, write := p.CacheReadUSD, p.CacheWriteUSD
	if read == 0 {
		read = p.InputUSD
	}
	if write == 0 {
		write = p.InputUSD
	}
	// Input that claims to be less than its cached part does not make up for it.
	plain := max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	return (float64(plain)*p.InputUSD + float64(u.CacheReadTokens)*read + float64(u.CacheWriteTokens)*write + float64(u.OutputTokens)*p.OutputUSD) / 1e6
}

// CostReport is what a run has cost, over all segments.
type CostReport struct {
	TotalUSD float64
	// ByModel is the cost by the model that answered.
	ByModel map[string]float64
	// Unpriced is what models without a price have used: it is not in
	// TotalUSD, and a ceiling does not see it.
	Unpriced map[string]llm.Usage
}

// budget is a run's account. The ceiling is hard for what is priced: an agent
// is admitted with a reserve, each request is cut to what is left, and what an
// answer cost is booked before the next request. So a run oversteps by one
// request of each agent at work at most. It is safe for concurrent use.
type budget struct {
	price   func(model string) (*llm.Pricing, error) // without a price nil
	reserve float64                                  // of an agent
	ceiling *float64                                 // nil is none

	// blind hears, once a model, that a ceiling does not see what it costs.
	blind func(model string)

	mu        sync.Mutex
	spent     float64
	committed float64
	told      map[string]bool
	byModel   map[string]float64
	unpriced  map[string]llm.Usage
	exhausted bool
}

const defaultReserveUSD = 0.5

func (e *Engine) newBudget(ceiling *float64) *budget {
	reserve := e.cfg.ReserveUSD
	if reserve == 0 {
		reserve = defaultReserveUSD
	}
	return &budget{price: e.price, reserve: reserve, ceiling: ceiling, byModel: make(map[string]float64), unpriced: make(map[string]llm.Usage)}
}

// price returns the price of a model: the engine's, or its provider's. The
// error is for a provider that panics.
func (e *Engine) price(ref string) (*llm.Pricing, error) {
	if p, ok := e.cfg.Pricing[ref]; ok {
		return &p, nil
	}
	p, model, err := e.provider(ref)
	if err != nil {
		return nil, nil // a model of an earlier segment that nobody serves now
	}
	caps, err := capabilitiesOf(p, model)
	return caps.Pricing, err
}

// seed books what earlier segments have spent. Agents without an end are
// booked when they go on from their checkpoint.
func (b *budget) seed(entries []*Entry) error {
	for _, en := range entries {
		if en.Kind != journal.KindAgent || en.Ref == nil || en.Usage == nil {
			continue
		}
		var u llm.Usage
		var parts []modelUsage
		if err := json.Unmarshal(en.Usage, &u); err != nil {
			return errs.Wrap(errs.JournalOrder, "budget", fmt.Sprintf("entry %d", en.Seq), "the recorded usage has a wrong shape", err)
		}
		if en.UsageByModel != nil {
			if err := json.Unmarshal(en.UsageByModel, &parts); err != nil {
				return errs.Wrap(errs.JournalOrder, "budget", fmt.Sprintf("entry %d", en.Seq), "the recorded usage has a wrong shape", err)
			}
		} else {
			parts = []modelUsage{{ServedBy: en.ServedBy, Usage: u}}
		}
		for _, p := range parts {
			if !validUsage(p.Usage) {
				return errs.New(errs.JournalOrder, "budget", fmt.Sprintf("entry %d", en.Seq), "the recorded usage is negative")
			}
			if err := b.book(p.ServedBy, p.Usage); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordBudget writes that a resume has replaced the run's ceiling, before
// anything is spent under the new one.
func (s *segment) recordBudget(recorded *float64, applied float64) error {
	type override struct {
		Recorded *float64 `json:"recorded,omitempty"`
		Applied  float64  `json:"applied"`
	}
	key, err := jcs.Hash(map[string]any{"kind": "run-budget-override", "segment": s.number})
	if err != nil {
		return err
	}
	_, err = s.decide(key, struct {
		DecisionType    string   `json:"decisionType"`
		Source          string   `json:"source"`
		Segment         int      `json:"segment"`
		BudgetUSD       override `json:"budgetUsd"`
		SettledSpendUSD float64  `json:"settledSpendUsd"`
	}{"run_budget_override", "resume-options", s.number, override{recorded, applied}, s.budget.spent})
	return err
}

// book adds what a model has used. What cannot be priced, because the provider
// fails, counts as unpriced beside the error.
func (b *budget) book(model string, u llm.Usage) error {
	p, err := b.price(model)
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == nil {
		b.unpriced[model] = b.unpriced[model].Add(u)
		return err
	}
	c := cost(p, u)
	b.spent += c
	b.byModel[model] += c
	return nil
}

// admit reserves for an agent, or refuses it.
func (b *budget) admit(model string) (release func(), err error) {
	p, err := b.price(model)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ceiling == nil || p == nil {
		return func() {}, nil
	}
	if b.spent+b.committed+b.reserve > *b.ceiling {
		return nil, b.refuse("an agent cannot be admitted", b.reserve)
	}
	b.committed += b.reserve
	return func() {
		b.mu.Lock()
		b.committed -= b.reserve
		b.mu.Unlock()
	}, nil
}

// clamp bounds the output of a request by what is left, and refuses one that
// cannot be paid at all. bytes is the size of the request; four of them count
// as a token.
func (b *budget) clamp(model string, bytes, limit int) (int, error) {
	p, err := b.price(model)
	if err != nil {
		return 0, err
	}
	if b.ceiling != nil && p == nil {
		b.tell(model)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ceiling == nil || p == nil || p.OutputUSD == 0 {
		return limit, nil
	}
	left := *b.ceiling - b.spent - float64((bytes+3)/4)*p.InputUSD/1e6
	tokens := int(left * 1e6 / p.OutputUSD)
	if tokens < 1 {
		return 0, b.refuse("a request cannot be paid", 0)
	}
	if limit == 0 || tokens < limit {
		return tokens, nil
	}
	return limit, nil
}

func (b *budget) tell(model string) {
	b.mu.Lock()
	told := b.told[model]
	if b.told == nil {
		b.told = make(map[string]bool)
	}
	b.told[model] = true
	b.mu.Unlock()
	if !told && b.blind != nil {
		b.blind(model)
	}
}

// refuse makes the error of a ceiling. b.mu is held.
func (b *budget) refuse(msg string, proposed float64) error {
	b.exhausted = true
	e := errs.New(errs.BudgetExhausted, "budget", "", fmt.Sprintf("%s: %.6f USD of %.6f are spent, %.6f reserved", msg, b.spent, *b.ceiling, b.committed))
	e.Data = map[string]any{"account": "run", "spentUsd": b.spent, "committedReserveUsd": b.committed, "proposedReserveUsd": proposed, "ceilingUsd": *b.ceiling}
	return e
}

func (b *budget) report() CostReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := CostReport{TotalUSD: b.spent, ByModel: make(map[string]float64), Unpriced: make(map[string]llm.Usage)}
	for m, c := range b.byModel {
		r.ByModel[m] = c
	}
	for m, u := range b.unpriced {
		r.Unpriced[m] = u
	}
	return r
}

// tellBudget tells what is spent after an answer.
func (a *agentRun) tellBudget() {
	b := a.seg.budget
	b.mu.Lock()
	ev := BudgetUpdated{SpentUSD: b.spent, CommittedReserveUSD: b.committed, Usage: a.state.Usage}
	if b.ceiling != nil {
		left := *b.ceiling - b.spent
		ev.RemainingUSD = &left
	}
	b.mu.Unlock()
	a.emit(false, ev)
}

func (b *budget) isExhausted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exhausted
}

// slots bounds how many requests are under way at once. A parked agent makes
// no request and so holds no slot. The zero bound is none.
type slots chan struct{}

func newSlots(n int) slots {
	if n <= 0 {
		return nil
	}
	return make(slots, n)
}

// acquire waits for a slot or for the context.
func (s slots) acquire(ctx context.Context) (release func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
