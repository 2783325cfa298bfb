package rulvar

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// Workflow is a Go function whose calls to agents, steps and the other
// primitives of [Ctx] are journaled. It is made by [DefineWorkflow] and may run
// any number of times at once.
//
// The body runs again from the top in each segment; completed calls return
// what they returned before. So it must be deterministic between its calls:
// time, randomness and anything read from outside belong into a [Step] or into
// [Ctx.Now], [Ctx.Random] and [Ctx.UUID].
type Workflow[A, R any] struct {
	name    string
	version string
	body    func(*Ctx, A) (R, error)
}

// DefineWorkflow names a workflow. The name is what a resume checks; it holds
// no "/". A bad name is an [ErrConfig] of [Run].
func DefineWorkflow[A, R any](name string, body func(*Ctx, A) (R, error)) *Workflow[A, R] {
	return &Workflow[A, R]{name: name, body: body}
}

// Versioned returns a copy of the workflow that carries a version. A resume
// under another version warns, or refuses with ResumeOptions.RefuseVersion.
func (w *Workflow[A, R]) Versioned(version string) *Workflow[A, R] {
	c := *w
	c.version = version
	return &c
}

// Name returns the workflow's name.
func (w *Workflow[A, R]) Name() string { return w.name }

func (w *Workflow[A, R]) check(op string) error {
	switch {
	case w == nil || w.body == nil:
		return errs.New(errs.Config, op, "", "the workflow has no body: make it with DefineWorkflow")
	case w.name == "" || strings.Contains(w.name, "/"):
		return errs.New(errs.Config, op, "", fmt.Sprintf("%q is no workflow name: it must not be empty and holds no /", w.name))
	}
	return nil
}

func (w *Workflow[A, R]) hash() string { return jcs.Sum([]byte(w.version)) }

// Ctx is a workflow's hold on its run. It is a context that is cancelled with
// the run. It belongs to the goroutine it was given to: a second primitive on
// the same Ctx at the same time is an [ErrConfig].
type Ctx struct {
	context.Context

	seg   *segment
	scope string
	span  string
	depth int   // of child workflows
	line  *line // of a pipeline's item
	busy  atomic.Bool

	spawner *PermissionChain // of the agent whose child is called with it
	path    string           // of that agent, for an approver
}

// RunID returns the id of the run.
func (c *Ctx) RunID() string { return c.seg.runID }

// begin marks the start of a primitive and end its end.
func (c *Ctx) begin(op string) error {
	if err := c.seg.checkLive(); err != nil {
		return err
	}
	if !c.busy.CompareAndSwap(false, true) {
		return errs.New(errs.Config, op, "", "the Ctx is in use by another goroutine: a Ctx belongs to the one it was given to")
	}
	return nil
}

func (c *Ctx) end() { c.busy.Store(false) }

// Log emits a log event of the run; data are key and value in turn. Nothing is
// journaled, so a replay logs again.
func (c *Ctx) Log(level slog.Level, msg string, data ...any) {
	c.seg.logEvent(c.span, "", level, msg, data...)
}

// Phase runs fn under a name that events carry. It adds nothing to the journal
// and nothing to the identity of the calls inside.
func (c *Ctx) Phase(name string, fn func(*Ctx) error) error {
	if err := c.seg.checkLive(); err != nil {
		return err
	}
	span := c.seg.bus.span()
	c.seg.bus.emit(span, c.span, false, PhaseStarted{Phase: name})
	outer := c.span
	c.span = span
	defer func() { c.span = outer }()
	return fn(c)
}

// StepOptions refine a [Step].
type StepOptions struct {
	// Key replaces the label in the step's identity.
	Key string
	// Deps are values that the result depends on: another value is another
	// step. They must encode to JSON.
	Deps []any
}

// Step runs fn once and journals its result: a replay returns the recorded
// value without running it. A step whose process dies before the result is
// durable runs again, so fn is at-least-once. An error is journaled and
// returned; a resume tries again. The result must encode to JSON.
func Step[T any](c *Ctx, label string, fn func(context.Context) (T, error), opts *StepOptions) (T, error) {
	var zero T
	if err := c.begin("Step"); err != nil {
		return zero, err
	}
	defer c.end()
	raw, err := c.step(label, opts, func() (json.RawMessage, error) {
		v, err := fn(c)
		if err != nil {
			return nil, err
		}
		text, err := encodeResult(v)
		if err != nil {
			return nil, errs.Wrap(errs.NonSerializable, "Step", label, "the result cannot be written as JSON", err)
		}
		return text, nil
	})
	if err != nil {
		return zero, err
	}
	return decodeRecorded[T]("Step", label, raw)
}

// decodeRecorded reads a recorded value back. A value whose type has changed
// since is told, not guessed at.
func decodeRecorded[T any](op, label string, raw json.RawMessage) (T, error) {
	var v T
	if raw == nil {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, errs.Wrap(errs.Config, op, label, "the recorded value does not fit the type: give the call another key", err)
	}
	return v, nil
}

func (c *Ctx) step(label string, opts *StepOptions, fn func() (json.RawMessage, error)) (json.RawMessage, error) {
	if opts == nil {
		opts = &StepOptions{}
	}
	name := label
	if opts.Key != "" {
		name = opts.Key
	}
	deps := opts.Deps
	if deps == nil {
		deps = []any{}
	}
	depsText, err := jcs.Marshal(deps)
	if err != nil {
		return nil, errs.Wrap(errs.NonSerializable, "Step", label, "the deps cannot be written as JSON", err)
	}
	key, err := replay.StepKey(name, depsText)
	if err != nil {
		return nil, err
	}
	s := c.seg
	m := s.match(c.scope, replay.SameKey(key))
	switch m.Disposition {
	case replay.Replay:
		return m.Op.Recorded().Value, recordedError(m.Op.Recorded())
	case replay.Skip:
		return nil, nil
	}
	now := stamp(time.Now())
	running := &Entry{Scope: c.scope, Key: key, Kind: journal.KindStep, Status: journal.StatusRunning, SpanID: c.span, StartedAt: now}
	entries := []*Entry{running}
	if m.Disposition == replay.RerunDangling {
		running, entries = m.Op.Start, nil
	} else if s.dryRun {
		return nil, s.append(running)
	}
	if err := c.Err(); err != nil {
		return nil, context.Cause(c)
	}
	value, err := callStep(fn)
	end := terminal(running, journal.StatusOK)
	end.Value = value
	if err != nil {
		end.Status, end.Value = journal.StatusError, nil
		end.Error = wireError(err)
	}
	// The running line rides in the terminal's sync: a step is at-least-once
	// either way, and one sync is cheaper than two.
	if appendErr := s.append(append(entries, end)...); appendErr != nil {
		return nil, appendErr
	}
	return value, err
}

// callStep turns a panic of fn into an error, so that it is recorded.
func callStep(fn func() (json.RawMessage, error)) (v json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			buf := make([]byte, 8<<10)
			err = &panicError{value: p, stack: string(buf[:runtime.Stack(buf, false)])}
		}
	}()
	return fn()
}

type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// match asks the journal for a call.
func (s *segment) match(scope string, keys replay.Keys) replay.Result {
	return s.matchIn(scope, keys, replay.Scoped)
}

func (s *segment) matchIn(scope string, keys replay.Keys, mode replay.Mode) replay.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.matcher.Match(scope, keys, mode)
}

// AwaitExternal waits for a value from outside that somebody gives with
// [Engine.Resolve] and the key, which a scope waits for once. schema, where it is not nil, is pinned in the
// journal, and a value that does not fit is refused. A key that begins with
// "approval:", or that the scope has waited for before, is an [ErrConfig].
func AwaitExternal[T any](c *Ctx, key, prompt string, schema json.RawMessage) (T, error) {
	var zero T
	if err := c.begin("AwaitExternal"); err != nil {
		return zero, err
	}
	defer c.end()
	raw, err := c.await(key, prompt, schema)
	if err != nil {
		return zero, err
	}
	return decodeRecorded[T]("AwaitExternal", key, raw)
}

func (c *Ctx) await(key, prompt string, schema json.RawMessage) (json.RawMessage, error) {
	if key == "" || strings.HasPrefix(key, "approval:") {
		return nil, errs.New(errs.Config, "AwaitExternal", key, `a key is not empty and does not begin with "approval:"`)
	}
	value := externalValue{Key: key, Prompt: prompt}
	if schema != nil {
		compiled, err := parseSchema(schema)
		if err != nil {
			return nil, errs.Wrap(errs.Config, "AwaitExternal", key, "the schema is not usable", err)
		}
		value.Schema = compiled.canonical
	}
	contentKey, err := replay.ExternalKey(key)
	if err != nil {
		return nil, err
	}
	s := c.seg
	if !s.awaitOnce(c.scope, key) {
		return nil, errs.New(errs.Config, "AwaitExternal", key, "the workflow waits for this key twice in one scope: an answer could not say which wait it is for")
	}
	m := s.match(c.scope, replay.SameKey(contentKey))
	if m.Disposition == replay.Skip {
		return nil, nil
	}
	var seq int64
	if m.Disposition == replay.Suspended {
		seq = m.Op.Start.Seq
	} else {
		payload, err := marshalJSON(value)
		if err != nil {
			return nil, err
		}
		now := stamp(time.Now())
		en := &Entry{Scope: c.scope, Key: contentKey, Kind: journal.KindExternal, Status: journal.StatusSuspended, SpanID: c.span, StartedAt: now, EndedAt: now, Value: payload}
		if err := s.append(en); err != nil {
			return nil, err
		}
		seq = en.Seq
		s.bus.emit(c.span, "", false, ExternalWaiting{Key: key, EntryRef: seq, Prompt: prompt})
	}
	sus, err := s.park(c, seq)
	if err != nil {
		return nil, err
	}
	if sus.State == replay.Abandoned {
		return nil, errs.New(errs.Config, "AwaitExternal", key, "the wait was abandoned")
	}
	return sus.Value, nil
}

// awaitOnce reports whether a scope waits for a key for the first time in this
// segment.
func (s *segment) awaitOnce(scope, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := awaitedKey{scope, key}
	if s.awaited[k] {
		return false
	}
	s.awaited[k] = true
	return true
}

type awaitedKey struct{ scope, key string }

// Now returns the time, journaled: a replay returns the same.
func (c *Ctx) Now() (time.Time, error) {
	raw, err := c.draw("now", nil, func() any { return time.Now().UnixMilli() })
	if err != nil {
		return time.Time{}, err
	}
	var ms float64
	if err := json.Unmarshal(raw, &ms); err != nil {
		return time.Time{}, errs.Wrap(errs.JournalOrder, "Now", c.seg.runID, "the recorded time is not a number", err)
	}
	return time.UnixMilli(int64(ms)), nil
}

// Random returns a number in [0,1), journaled. A key tells draws apart that an
// edit of the workflow may reorder; at most one may be given.
func (c *Ctx) Random(key ...string) (float64, error) {
	if len(key) > 1 {
		return 0, errs.New(errs.Config, "Random", c.seg.runID, "a draw has one key at most")
	}
	raw, err := c.draw("random", key, func() any { return randomFloat() })
	if err != nil {
		return 0, err
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil {
		return 0, errs.Wrap(errs.JournalOrder, "Random", c.seg.runID, "the recorded value is not a number", err)
	}
	return f, nil
}

// UUID returns a random UUID, journaled.
func (c *Ctx) UUID() (string, error) {
	raw, err := c.draw("uuid", nil, func() any { return randomUUID() })
	if err != nil {
		return "", err
	}
	var id string
	if err := json.Unmarshal(raw, &id); err != nil {
		return "", errs.Wrap(errs.JournalOrder, "UUID", c.seg.runID, "the recorded value is not a string", err)
	}
	return id, nil
}

// draw journals a value that must not change between segments.
func (c *Ctx) draw(subtype string, name []string, fresh func() any) (json.RawMessage, error) {
	if err := c.begin(subtype); err != nil {
		return nil, err
	}
	defer c.end()
	var given *string
	if len(name) > 0 {
		given = &name[0]
	}
	key, err := replay.RandKey(subtype, given)
	if err != nil {
		return nil, err
	}
	if m := c.seg.match(c.scope, replay.SameKey(key)); m.Disposition == replay.Replay {
		var v struct{ Value json.RawMessage }
		if err := json.Unmarshal(m.Op.Recorded().Value, &v); err != nil {
			return nil, errs.Wrap(errs.JournalOrder, subtype, c.seg.runID, "the recorded value has a wrong shape", err)
		}
		return v.Value, nil
	}
	text, err := marshalJSON(fresh())
	if err != nil {
		return nil, err
	}
	payload, err := marshalJSON(struct {
		Subtype string          `json:"subtype"`
		Value   json.RawMessage `json:"value"`
		Key     *string         `json:"key,omitempty"`
	}{subtype, text, given})
	if err != nil {
		return nil, err
	}
	now := stamp(time.Now())
	return text, c.seg.append(&Entry{Scope: c.scope, Key: key, Kind: journal.KindRand, Status: journal.StatusOK, SpanID: c.span, StartedAt: now, EndedAt: now, Value: payload})
}
