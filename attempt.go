package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// AttemptEnd is an end of an agent that calls for a second attempt.
type AttemptEnd string

// The ends: any failure, a reached limit, an answer that would not fit the
// schema.
const (
	AfterError           AttemptEnd = "error"
	AfterLimit           AttemptEnd = "limit"
	AfterSchemaExhausted AttemptEnd = "schema-exhausted"
)

// SecondAttempt is another agent for the same call, with its own identity,
// conversation and limits, that is asked where the first has failed. Unlike
// Fallbacks it starts from the beginning. Which attempt is made is journaled
// before it is made: a resume goes on with the second and does not ask the
// first again, unless both have failed.
type SecondAttempt struct {
	// Model is "provider:model".
	Model string
	// Effort of the second. Default: the first's.
	Effort string
	// On says after which ends of the first. Default: [AfterError].
	On []AttemptEnd
}

func (s *SecondAttempt) validate() error {
	for _, end := range s.On {
		switch end {
		case AfterError, AfterLimit, AfterSchemaExhausted:
		default:
			return errs.New(errs.Config, "Agent", "SecondAttempt.On", fmt.Sprintf("unknown end %q: use error, limit or schema-exhausted", string(end)))
		}
	}
	if s.Model == "" {
		return errs.New(errs.Config, "Agent", "SecondAttempt.Model", "a second attempt needs a model")
	}
	return nil
}

// after says whether an end calls for the second attempt, and by which word.
func (s *SecondAttempt) after(out *agentOutcome) (AttemptEnd, bool) {
	on := s.On
	if len(on) == 0 {
		on = []AttemptEnd{AfterError}
	}
	switch out.status {
	case AgentLimit:
		return AfterLimit, slices.Contains(on, AfterLimit)
	case AgentErrored:
		if slices.Contains(on, AfterSchemaExhausted) && out.err.Data["kind"] == string(llm.KindSchemaMismatch) {
			return AfterSchemaExhausted, true
		}
		return AfterError, slices.Contains(on, AfterError)
	}
	return "", false
}

// attempt is one agent of a call with its place in the journal.
type attempt struct {
	c       *Ctx
	a       *agentRun
	opts    *AgentOptions
	keys    replay.Keys
	mode    replay.Mode
	first   []*Entry                     // records that go with the running entry
	settled func(*replay.Operation) bool // see replay.MatchSettled
}

// agent makes a call: its agent, and where that fails its second attempt.
func (c *Ctx) agent(prompt string, opts *AgentOptions, schema *compiledSchema) (agentOutcome, error) {
	one, err := c.newAttempt(prompt, opts, schema)
	if err != nil {
		return agentOutcome{}, err
	}
	again := opts.SecondAttempt
	if again == nil {
		return one.run()
	}
	if err := again.validate(); err != nil {
		return agentOutcome{}, err
	}
	other := *opts
	other.Model, other.Effort, other.SecondAttempt, other.Approach = again.Model, firstSet(again.Effort, opts.Effort), nil, ""
	two, err := c.newAttempt(prompt, &other, schema)
	if err != nil {
		return agentOutcome{}, err
	}
	s := c.seg
	recorded := false // the decision for the second stands in the journal
	one.settled = func(op *replay.Operation) bool {
		model, ok := s.fold.Fallback(op.Start.Seq)
		recorded = ok && model == again.Model && s.matcher.Peek(c.scope, two.keys, two.mode) != replay.Rerun
		return recorded
	}
	out, err := one.run()
	end, called := again.after(&out)
	if err != nil || !called {
		return out, err
	}
	if !recorded {
		if two.first, err = c.fallbackEntry(one.a.running.Seq, end, again.Model); err != nil {
			return out, err
		}
	}
	two.a.log("an agent has failed, and another model makes a second attempt", "after", string(end), "model", again.Model)
	return two.run()
}

// newAttempt resolves a call and its identity. Nothing is written or asked.
func (c *Ctx) newAttempt(prompt string, opts *AgentOptions, schema *compiledSchema) (*attempt, error) {
	a, err := c.resolveAgent(prompt, opts, schema)
	if err != nil {
		return nil, err
	}
	t := &attempt{c: c, a: a, opts: opts}
	if t.keys, err = a.identity(opts.Key).Keys(); err != nil {
		return nil, err
	}
	t.mode, err = opts.Replay.mode()
	return t, err
}

// run asks the journal for the attempt and does what it says.
func (t *attempt) run() (agentOutcome, error) {
	s := t.c.seg
	s.mu.Lock()
	m := s.matcher.MatchSettled(t.c.scope, t.keys, t.mode, t.settled)
	s.mu.Unlock()
	return t.perform(m)
}

// perform runs the agent's loop where the journal does not hold its end.
func (t *attempt) perform(m replay.Result) (agentOutcome, error) {
	c, a, s := t.c, t.a, t.c.seg
	switch m.Disposition {
	case replay.Replay:
		a.running = m.Op.Start
		return a.replayed(m.Op)
	case replay.Skip:
		return agentOutcome{status: AgentSkipped}, nil
	}
	if s.dryRun {
		return agentOutcome{}, errs.New(errs.JournalMiss, "dry run", s.runID, fmt.Sprintf("an agent would be asked: %q", firstWords(a.prompt)))
	}
	if err := c.Err(); err != nil {
		return agentOutcome{}, context.Cause(c)
	}
	if a.child == nil { // else it was admitted when it was spawned
		release, err := s.budget.admit(a.modelRef)
		if err != nil {
			return agentOutcome{}, err
		}
		defer release()
	}
	if m.Disposition == replay.RerunDangling {
		a.running = m.Op.Start
		if err := a.boot(); err != nil {
			return agentOutcome{}, err
		}
		return a.run()
	}
	if err := t.begin(m.Disposition == replay.Live); err != nil {
		return agentOutcome{}, err
	}
	return a.run()
}

// begin writes the running entry, and before it what belongs to it.
func (t *attempt) begin(live bool) error {
	c, a := t.c, t.a
	if err := a.acquireTree(); err != nil {
		return err
	}
	a.running = &Entry{
		Scope: c.scope, Key: t.keys(journal.HashVersion), Kind: journal.KindAgent, Status: journal.StatusRunning,
		SpanID: a.span, StartedAt: stamp(time.Now()), MemoizeOutcome: t.opts.MemoizeOutcome, Value: a.runningValue(),
	}
	entries := t.first
	if t.opts.Approach != "" && live {
		admission, err := t.admission()
		if err != nil {
			a.dropUnused()
			return err
		}
		entries = append(entries, admission)
	}
	if err := c.seg.append(append(entries, a.running)...); err != nil {
		a.dropUnused()
		return err
	}
	return nil
}

// admission is the record of how a task is tried, which its agent follows.
func (t *attempt) admission() (*Entry, error) {
	id := t.a.identity(t.opts.Key)
	sig, err := replay.Approach{
		AgentType: id.AgentType, ToolsetHash: id.ToolsetHash, SchemaHash: id.SchemaHash, Isolation: id.Isolation, Tag: t.opts.Approach,
	}.Signature()
	if err != nil {
		return nil, err
	}
	type lineage struct {
		LogicalTaskID     string   `json:"logicalTaskId"`
		Relation          string   `json:"relation"`
		AttemptOrdinal    int      `json:"attemptOrdinal"`
		Ancestry          []string `json:"ancestry"`
		ApproachSig       string   `json:"approachSig"`
		ApproachSigCoarse string   `json:"approachSigCoarse"`
		SigVersion        int      `json:"sigVersion"`
		ApproachTag       string   `json:"approachTag"`
	}
	value, err := marshalJSON(struct {
		DecisionType string  `json:"decisionType"`
		Origin       string  `json:"origin"`
		AttemptScope string  `json:"attemptScope"`
		SpawnKey     string  `json:"spawnKey"`
		ChildScope   string  `json:"childScope"`
		Lineage      lineage `json:"lineage"`
	}{"spawn-admission", "ctx.agent", t.c.scope, t.keys(journal.HashVersion), "", lineage{newID(), "first", 0, []string{}, sig.Signature, sig.Coarse, 1, sig.Tag}})
	if err != nil {
		return nil, err
	}
	return t.c.seg.decision(t.c.scope, value), nil
}

// fallbackEntry is the record that a call goes on with another model.
func (c *Ctx) fallbackEntry(target int64, end AttemptEnd, model string) ([]*Entry, error) {
	value, err := marshalJSON(struct {
		DecisionType string     `json:"decisionType"`
		TargetRef    int64      `json:"targetRef"`
		Trigger      AttemptEnd `json:"trigger"`
		Model        string     `json:"model"`
	}{replay.DecisionFallback, target, end, model})
	if err != nil {
		return nil, err
	}
	return []*Entry{c.seg.decision(c.scope, value)}, nil
}

// decision makes a decision without a key, in a scope.
func (s *segment) decision(scope string, value json.RawMessage) *Entry {
	now := stamp(time.Now())
	return &Entry{Scope: scope, Kind: journal.KindDecision, Status: journal.StatusOK, SpanID: s.span, StartedAt: now, EndedAt: now, Value: value}
}
