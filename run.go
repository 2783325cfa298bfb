package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// RunStatus is how a segment of a run ended, or that it goes on.
type RunStatus string

// The statuses of a run.
const (
	RunRunning   RunStatus = "running"
	RunOK        RunStatus = "ok"
	RunError     RunStatus = "error"
	RunCancelled RunStatus = "cancelled"
	RunSuspended RunStatus = "suspended"
	RunExhausted RunStatus = "exhausted"
)

// RunOptions refine [Run].
type RunOptions struct {
	// RunID names the run: characters of A-Z, a-z, 0-9, ., _ and -. Default: a
	// new ULID. A run that exists is refused.
	RunID string
	// Name and Tags are for listings.
	Name string
	Tags []string
	// BudgetUSD is the ceiling of what the run's agents may cost, over all
	// segments; zero is none. A run that reaches it ends with status exhausted.
	// It sees priced models alone: a warning tells of another one, what it used
	// is in CostReport.Unpriced, and Config.Pricing gives a model a price.
	BudgetUSD float64
	// ConfigFingerprint is recorded, to be compared by resumes: a text that
	// changes with what must not change under a run.
	ConfigFingerprint string
	// OnEvent sees every event from the first. It is called in order, one
	// event at a time. The run waits while it is called, for ten seconds at
	// most; then it goes on and the events that follow wait for the listener.
	// Where more than twice Config.EventBuffer wait the oldest are dropped, but
	// no approvals; what waits ten seconds at the run's end is not delivered.
	OnEvent func(Event)
}

// ResumeOptions refine [Resume].
type ResumeOptions[A any] struct {
	// Args replace the recorded arguments; nil takes those. Other arguments
	// than the recorded ones are refused.
	Args *A
	// DryRun replays without writing anything or asking a model. A run that
	// comes to work the journal does not hold ends with [ErrJournalMiss].
	DryRun bool
	// Invalidate lists running entries whose operations run again.
	Invalidate []int64
	// BudgetUSD replaces the ceiling that the run was started with, from this
	// segment on; zero keeps it. It must not be below what is spent.
	BudgetUSD float64
	// ConfigFingerprint, where it is not "", must equal the recorded one, if
	// there is one.
	ConfigFingerprint string
	// AcknowledgeWireIntents lets a run go on that died while a request was
	// under way; see Config.WireIntents.
	AcknowledgeWireIntents bool
	// RefuseVersion makes another workflow version an error, not a warning.
	RefuseVersion bool
	// OnEvent sees every event from the first.
	OnEvent func(Event)
}

// Outcome is how a segment ended.
type Outcome[R any] struct {
	Status RunStatus
	// Value is what the workflow returned; the zero value unless Status is ok.
	Value R
	// Err says why Status is error, cancelled or exhausted.
	Err error
	// Pending are the open suspensions where Status is suspended.
	Pending []Pending
	// Usage is what the agents of this segment used; replayed ones add theirs.
	Usage llm.Usage
	// Cost is what the run has cost, over all segments.
	Cost CostReport
	// Preview counts what the segment replayed and what it did anew.
	Preview Preview
}

// Preview counts what the calls of a segment met in the journal. Its fields:
//
//	Hits     int      replayed, or bound to a suspension
//	Misses   int      nothing was recorded: done for the first time
//	Skipped  int      withdrawn
//	Reruns   int      failed or unfinished before: done again, or gone on with
//	Orphaned []int64  the entries of unfinished operations and open suspensions
//	                  that no call has asked for, as after a change of the workflow
//	InvalidResolutions  answers that do not fit what they answer
type Preview = replay.Preview

type runOutcome struct {
	status  RunStatus
	value   json.RawMessage
	err     error
	pending []Pending
	usage   llm.Usage
	cost    CostReport
	preview Preview
}

// RunHandle is a hold on a segment of a run. It is safe for concurrent use.
type RunHandle[R any] struct {
	seg   *segment
	value *R
}

// RunID returns the run's id.
func (h *RunHandle[R]) RunID() string { return h.seg.runID }

// Result waits until the segment has settled. A suspended run is an outcome,
// not an error; a failed or cancelled one is both. The error is ctx's where
// ctx is done first, and the run goes on.
func (h *RunHandle[R]) Result(ctx context.Context) (Outcome[R], error) {
	select {
	case <-h.seg.done:
	case <-ctx.Done():
		return Outcome[R]{Status: RunRunning}, ctx.Err()
	}
	r := h.seg.result
	out := Outcome[R]{Status: r.status, Err: r.err, Pending: r.pending, Usage: r.usage, Cost: r.cost, Preview: r.preview}
	if r.status == RunOK {
		out.Value = *h.value
	}
	return out, r.err
}

// Events iterates over the segment's events, from the first that is buffered,
// and ends with the segment. It may be called several times.
func (h *RunHandle[R]) Events() iter.Seq[Event] { return h.seg.bus.events(nil) }

// On calls fn for each event from now on, in order, and returns a function
// that ends it. To see every event use RunOptions.OnEvent, which also says how
// long the run waits for fn.
func (h *RunHandle[R]) On(fn func(Event)) (cancel func()) { return h.seg.bus.on(fn) }

// ResolveExternal is [Engine.Resolve] for this run.
func (h *RunHandle[R]) ResolveExternal(ctx context.Context, key string, value any) (ResolutionOutcome, error) {
	return h.seg.e.Resolve(ctx, h.seg.runID, key, value)
}

// Cancel ends the run and returns at once; Result tells when it has settled.
func (h *RunHandle[R]) Cancel(reason string) { h.seg.cancel(&cancelled{reason: reason}) }

// Run starts a workflow and returns a handle to it. The run outlives ctx only
// where ctx has no cancellation: when ctx is cancelled so is the run. Run
// refuses an id that exists, before anything is written.
func Run[A, R any](ctx context.Context, e *Engine, w *Workflow[A, R], args A, opts *RunOptions) (*RunHandle[R], error) {
	if opts == nil {
		opts = &RunOptions{}
	}
	if err := e.made("Run"); err != nil {
		return nil, err
	}
	if err := w.check("Run"); err != nil {
		return nil, err
	}
	argsText, argsHash, err := encodeArgs(args)
	if err != nil {
		return nil, errs.Wrap(errs.NonSerializable, "Run", w.name, "the arguments cannot be written as JSON", err)
	}
	s := e.newSegment(ctx, w.name)
	s.runID = opts.RunID
	if s.runID == "" {
		s.runID = newID()
	}
	provided := string(argsText) != "null"
	if !provided {
		argsHash = "" // another reader takes it for arguments
	}
	s.meta = &RunMeta{
		RunID: s.runID, Status: string(RunRunning), Segments: 1, UpdatedAt: stamp(time.Now()), Name: opts.Name, Tags: opts.Tags,
		Args: argsText, ArgsProvided: provided, ArgsHash: argsHash, Genesis: newID(), ExecKeyDerivation: 2,
		WorkflowName: w.name, WorkflowHash: w.hash(), ConfigFingerprint: opts.ConfigFingerprint,
	}
	if !(opts.BudgetUSD >= 0) || math.IsInf(opts.BudgetUSD, 1) { // not a number is no budget either
		s.cancel(nil)
		return nil, errs.New(errs.Config, "Run", "BudgetUSD", "a budget is a number that is not negative")
	}
	if opts.BudgetUSD > 0 {
		s.meta.BudgetUSD = &opts.BudgetUSD
	}
	if err := e.enter("Run", s.runID); err != nil {
		s.cancel(nil)
		return nil, err
	}
	defer e.goroutines.Done()
	if err := s.openNew(ctx); err != nil {
		s.cancel(nil)
		return nil, err
	}
	h := &RunHandle[R]{seg: s, value: new(R)}
	s.start(opts.OnEvent, false, func(c *Ctx) (json.RawMessage, error) { return runBody(c, w, args, h.value) })
	return h, nil
}

// Resume continues a run from its journal: completed work is replayed,
// unfinished agents go on at their last checkpoint, answered approvals apply.
// The workflow must have the recorded name. A run that does not exist, or
// whose metadata cannot be read, is an error; a run that another segment works
// on is an [ErrLeaseHeld] that names it.
func Resume[A, R any](ctx context.Context, e *Engine, w *Workflow[A, R], runID string, opts *ResumeOptions[A]) (*RunHandle[R], error) {
	if opts == nil {
		opts = &ResumeOptions[A]{}
	}
	if err := e.made("Resume"); err != nil {
		return nil, err
	}
	if err := w.check("Resume"); err != nil {
		return nil, err
	}
	s := e.newSegment(ctx, w.name)
	s.runID, s.dryRun = runID, opts.DryRun
	if err := e.enter("Resume", runID); err != nil {
		s.cancel(nil)
		return nil, err
	}
	defer e.goroutines.Done()
	args, err := resumeSegment(ctx, s, w, opts)
	if err != nil {
		s.cancel(nil)
		return nil, err
	}
	h := &RunHandle[R]{seg: s, value: new(R)}
	s.start(opts.OnEvent, true, func(c *Ctx) (json.RawMessage, error) { return runBody(c, w, args, h.value) })
	return h, nil
}

// encodeArgs writes arguments and the hash of their canonical form.
func encodeArgs(args any) (text json.RawMessage, hash string, err error) {
	if text, err = encodeResult(args); err != nil {
		return nil, "", err
	}
	canonical, err := jcs.Canonical(text)
	if err != nil {
		return nil, "", err
	}
	return text, jcs.Sum(canonical), nil
}

func runBody[A, R any](c *Ctx, w *Workflow[A, R], args A, out *R) (json.RawMessage, error) {
	r, err := w.body(c, args)
	if err != nil {
		return nil, err
	}
	text, err := encodeResult(r)
	if err != nil {
		return nil, errs.Wrap(errs.NonSerializable, "Run", w.name, "the workflow's result cannot be written as JSON", err)
	}
	*out = r
	return text, nil
}

// start tells that the segment runs and runs the body.
func (s *segment) start(onEvent func(Event), resumed bool, body func(*Ctx) (json.RawMessage, error)) {
	s.bus = newEventBus(s.runID, s.number-1, s.e.cfg.EventBuffer)
	s.bus.log = s.e.log
	if onEvent != nil {
		s.bus.on(onEvent)
	}
	s.span = s.bus.span()
	s.active = 1
	result := make(chan bodyResult, 1)
	s.e.goroutines.Go(func() {
		s.bus.emit(s.span, "", false, RunStarted{Workflow: s.workflow, Resumed: resumed})
		if s.versionWarning {
			s.logEvent(s.span, "", slog.LevelWarn, "the run was started under another version of the workflow")
		}
		s.mu.Lock()
		open := s.fold.OpenSuspensions()
		s.mu.Unlock()
		for _, sus := range open {
			p := pendingOf(s.runID, s.workflow, sus)
			s.bus.emit(s.span, "", true, ExternalWaiting{Key: p.Key, EntryRef: p.EntryRef, Prompt: p.Prompt, DeadlineAt: p.DeadlineAt})
		}
		s.e.goroutines.Go(func() { s.runBody(body, result) })
		s.supervise(result)
	})
}

// runBody runs the workflow in its goroutine. A body that ends its goroutine
// without the segment having settled has failed.
func (s *segment) runBody(body func(*Ctx) (json.RawMessage, error), result chan<- bodyResult) {
	r := bodyResult{err: errors.New("the workflow ended its goroutine without returning")}
	defer func() {
		if p := recover(); p != nil {
			s.e.log.Error("rulvar: a workflow panicked", "run", s.runID, "panic", p, "stack", string(debug.Stack()))
			r = bodyResult{err: fmt.Errorf("the workflow panicked: %v", p)}
		}
		result <- r
	}()
	r.value, r.err = body(&Ctx{Context: s.ctx, seg: s, span: s.span})
}

// wireError writes an error as the journal stores it.
func wireError(err error) json.RawMessage {
	w := struct {
		Code      string         `json:"code"`
		Message   string         `json:"message"`
		Retryable bool           `json:"retryable"`
		Data      map[string]any `json:"data,omitempty"`
	}{Code: string(errs.Plain), Message: strings.ToValidUTF8(err.Error(), "\uFFFD")}
	if e, ok := errors.AsType[*Error](err); ok {
		w.Code, w.Retryable, w.Data = string(e.Code), e.Retryable, e.Data
	}
	text, mErr := marshalJSON(w)
	if mErr != nil { // data that is not JSON
		w.Data = nil
		text, _ = marshalJSON(w)
	}
	return text
}

// recordedError rebuilds the error of a replayed entry.
func recordedError(en *Entry) error {
	if en.Error == nil {
		return nil
	}
	var w struct {
		Code      Code           `json:"code"`
		Message   string         `json:"message"`
		Retryable bool           `json:"retryable"`
		Data      map[string]any `json:"data"`
	}
	if err := json.Unmarshal(en.Error, &w); err != nil {
		return errs.Wrap(errs.JournalOrder, "replay", fmt.Sprintf("entry %d", en.Seq), "the recorded error has a wrong shape", err)
	}
	return &Error{Code: w.Code, Op: "replay", Msg: w.Message, Retryable: w.Retryable, Data: w.Data}
}
