package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	rulvar "github.com/rulvar/rulvar-go"
)

// Ledger accounts for the effects of programs, in two phases. It is asked and
// written by the executors, and safe for concurrent use. An error of any method
// means that the program is not started, or that its call fails although it was.
//
// [OpenFileLedger] and [NewMemoryLedger] make the two that are here.
type Ledger interface {
	// Attempts returns what is known of earlier attempts at the call that has
	// this key, in the order of their intents.
	Attempts(ctx context.Context, idempotencyKey string) ([]Attempt, error)
	// Intent is called before a program is started, and returns when the
	// intent is durable.
	Intent(ctx context.Context, in *Intent) error
	// Outcome is called when a program has ended, or was not started after
	// all, and returns when the outcome is durable. The last outcome of an
	// attempt counts.
	Outcome(ctx context.Context, out *Outcome) error
}

// Intent says that a program is about to be started.
type Intent struct {
	// AttemptID is of this attempt alone, a UUID. IdempotencyKey is of the
	// call, and the same at the next try.
	AttemptID      string `json:"attemptId,omitempty"`
	IdempotencyKey string `json:"idempotencyKey"`
	RunID          string `json:"runId"`
	SpanID         string `json:"spanId"`
	Tool           string `json:"tool"`
	// ArgsHash is the sha256 of the canonical arguments, in hex.
	ArgsHash string              `json:"argsHash"`
	Executor rulvar.ExecutorKind `json:"executor"`
	// Workdir is the directory that was made for the program.
	Workdir string `json:"workdir"`
	// StartedAt is in milliseconds since 1970.
	StartedAt int64 `json:"startedAt"`
}

// OutcomeKind says how a call ended.
type OutcomeKind string

// The kinds: with a result; by its time-out; in any other way.
const (
	OutcomeOK      OutcomeKind = "ok"
	OutcomeError   OutcomeKind = "error"
	OutcomeTimeout OutcomeKind = "timeout"
)

func (k OutcomeKind) known() bool {
	return k == OutcomeOK || k == OutcomeError || k == OutcomeTimeout
}

// Outcome says what became of an attempt.
type Outcome struct {
	Intent
	// DurationMs is how long the program ran, in milliseconds.
	DurationMs int64       `json:"durationMs"`
	Outcome    OutcomeKind `json:"outcome"`
	// ExitCode is nil, and Signal "", where there was none.
	ExitCode *int   `json:"exitCode"`
	Signal   string `json:"-"`
	// NoEffect says that the program certainly has done nothing: it was not
	// started, or somebody has looked. The call may be tried again.
	NoEffect bool `json:"noEffect,omitempty"`
	// Result is the call's result, where the executor is told to keep results.
	Result json.RawMessage `json:"result,omitempty"`
}

// Attempt is an intent and the outcome that belongs to it. Without one the
// attempt is open: the program runs, or the host has died and nobody knows.
type Attempt struct {
	Intent  Intent
	Outcome *Outcome // nil: open
}

// Reconcile settles an attempt that is open, or that failed, once somebody has
// found out what became of its effect. Where it has not happened, the next try
// of the call runs the program; where it has, no try ever does.
func Reconcile(ctx context.Context, l Ledger, a Attempt, happened bool) error {
	out := &Outcome{Intent: a.Intent, Outcome: OutcomeOK}
	if !happened {
		out.Outcome, out.NoEffect = OutcomeError, true
	}
	return l.Outcome(ctx, out)
}

// attempts is what is known of the attempts of all calls.
type attempts struct {
	byKey map[string][]*Attempt
}

func newAttempts() attempts { return attempts{byKey: make(map[string][]*Attempt)} }

// add takes in an intent.
func (x *attempts) add(in *Intent) {
	x.byKey[in.IdempotencyKey] = append(x.byKey[in.IdempotencyKey], &Attempt{Intent: *in})
}

// settle takes in an outcome. It belongs to the intent with its attempt id, or,
// in old ledgers that have none, with its key and its start. One without an
// intent, from a ledger that is not written in two phases, stands for both.
func (x *attempts) settle(out *Outcome) {
	list := x.byKey[out.IdempotencyKey]
	for _, a := range slices.Backward(list) {
		if a.Intent.AttemptID == out.AttemptID && (out.AttemptID != "" || a.Intent.StartedAt == out.StartedAt) {
			a.Outcome = out
			return
		}
	}
	x.byKey[out.IdempotencyKey] = append(list, &Attempt{Intent: out.Intent, Outcome: out})
}

// of returns the attempts of a call.
func (x *attempts) of(key string) []Attempt {
	list := make([]Attempt, 0, len(x.byKey[key]))
	for _, a := range x.byKey[key] {
		list = append(list, *a)
	}
	return list
}

// open returns the attempts without an outcome, the oldest first.
func (x *attempts) open() []Attempt {
	var list []Attempt
	for _, of := range x.byKey {
		for _, a := range of {
			if a.Outcome == nil {
				list = append(list, *a)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Attempt) int {
		if a.Intent.StartedAt != b.Intent.StartedAt {
			return cmp.Compare(a.Intent.StartedAt, b.Intent.StartedAt)
		}
		return cmp.Compare(a.Intent.AttemptID, b.Intent.AttemptID)
	})
	return list
}

// MemoryLedger is a [Ledger] for tests and for hosts that outlive their effects:
// it dies with the process. It is safe for concurrent use.
type MemoryLedger struct {
	mu       sync.Mutex
	known    attempts
	intents  []Intent
	outcomes []Outcome
}

// NewMemoryLedger returns an empty one.
func NewMemoryLedger() *MemoryLedger { return &MemoryLedger{known: newAttempts()} }

// Attempts implements [Ledger].
func (l *MemoryLedger) Attempts(_ context.Context, key string) ([]Attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.of(key), nil
}

// Intent implements [Ledger].
func (l *MemoryLedger) Intent(_ context.Context, in *Intent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intents = append(l.intents, *in)
	l.known.add(in)
	return nil
}

// Outcome implements [Ledger].
func (l *MemoryLedger) Outcome(_ context.Context, out *Outcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := *out
	l.outcomes = append(l.outcomes, kept)
	l.known.settle(&kept)
	return nil
}

// Intents returns all intents, in order.
func (l *MemoryLedger) Intents() []Intent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.intents)
}

// Outcomes returns all outcomes, in order.
func (l *MemoryLedger) Outcomes() []Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.outcomes)
}

// Open returns the attempts without an outcome, the oldest first.
func (l *MemoryLedger) Open() []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.open()
}
