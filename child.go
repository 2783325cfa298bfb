package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// ChildStarted and ChildEnded frame a child workflow.
type ChildStarted struct {
	Workflow string `json:"workflow"`
	Scope    string `json:"scope"`
}

// ChildEnded says how a child workflow ended.
type ChildEnded struct {
	Workflow string    `json:"workflow"`
	Scope    string    `json:"scope"`
	Status   RunStatus `json:"status"`
}

// EventType implements [EventBody].
func (ChildStarted) EventType() string { return "child:start" }

// EventType implements [EventBody].
func (ChildEnded) EventType() string { return "child:end" }

// CallWorkflow runs another workflow as part of this run and returns its
// result. Its calls have a scope of their own, so they never meet those of the
// caller. The result is journaled: a replay does not run the body. The call's
// identity is the workflow's name and its arguments, or key where it is not "".
// Workflows nest as deep as [Config.MaxDepth] says.
func CallWorkflow[A, R any](c *Ctx, w *Workflow[A, R], args A, key string) (R, error) {
	var zero R
	if err := w.check("CallWorkflow"); err != nil {
		return zero, err
	}
	if err := c.begin("CallWorkflow"); err != nil {
		return zero, err
	}
	defer c.end()
	argsText, err := encodeResult(args)
	if err != nil {
		return zero, errs.Wrap(errs.NonSerializable, "CallWorkflow", w.name, "the arguments cannot be written as JSON", err)
	}
	if key != "" {
		argsText = mustMarshal(key)
	}
	raw, err := c.child(w.name, argsText, func(cc *Ctx) (json.RawMessage, error) {
		r, err := w.body(cc, args)
		if err != nil {
			return nil, err
		}
		return encodeResult(r)
	})
	if err != nil {
		return zero, err
	}
	return decodeRecorded[R]("CallWorkflow", w.name, raw)
}

func (c *Ctx) child(name string, args json.RawMessage, body func(*Ctx) (json.RawMessage, error)) (json.RawMessage, error) {
	s := c.seg
	if c.depth >= s.e.cfg.MaxDepth {
		err := errs.New(errs.AdmissionRejected, "CallWorkflow", name, fmt.Sprintf("workflows may nest %d deep: see Config.MaxDepth", s.e.cfg.MaxDepth))
		err.Data = map[string]any{"reason": map[string]any{"code": "depth"}}
		return nil, err
	}
	key, err := replay.ChildKey(name, args)
	if err != nil {
		return nil, err
	}
	scope := replay.Child(c.scope, name, s.nextChild(c.scope, name))
	m := s.match(c.scope, replay.SameKey(key))
	switch m.Disposition {
	case replay.Replay:
		en := m.Op.Recorded()
		s.bus.emit(c.span, "", true, ChildStarted{Workflow: name, Scope: scope})
		s.bus.emit(c.span, "", true, ChildEnded{Workflow: name, Scope: scope, Status: RunStatus(en.Status)})
		return en.Value, recordedError(en)
	case replay.Skip:
		return nil, nil
	}
	if err := c.Err(); err != nil {
		return nil, context.Cause(c)
	}
	var running *Entry
	if m.Disposition == replay.RerunDangling {
		running = m.Op.Start
	} else {
		value, err := marshalJSON(map[string]string{"workflow": name, "childScope": scope})
		if err != nil {
			return nil, err
		}
		running = &Entry{Scope: c.scope, Key: key, Kind: journal.KindChild, Status: journal.StatusRunning, SpanID: c.span, StartedAt: stamp(time.Now()), Value: value}
		if err := s.append(running); err != nil {
			return nil, err
		}
	}
	s.bus.emit(c.span, "", false, ChildStarted{Workflow: name, Scope: scope})
	value, err := c.runChild(scope, body)
	end := terminal(running, journal.StatusOK)
	switch {
	case err == nil:
		end.Value = value
	case c.Err() != nil:
		end.Status = journal.StatusCancelled
	default:
		end.Status, end.Error = journal.StatusError, wireError(err)
	}
	if s.dryRun && errors.Is(err, errs.JournalMiss) {
		return nil, err
	}
	if appendErr := s.append(end); appendErr != nil {
		return nil, appendErr
	}
	s.bus.emit(c.span, "", false, ChildEnded{Workflow: name, Scope: scope, Status: RunStatus(end.Status)})
	return value, err
}

// runChild runs the body in its own scope; a panic becomes an error, so that
// the child's end is recorded.
func (c *Ctx) runChild(scope string, body func(*Ctx) (json.RawMessage, error)) (json.RawMessage, error) {
	cc := &Ctx{Context: c.Context, seg: c.seg, scope: scope, span: c.span, depth: c.depth + 1}
	return callStep(func() (json.RawMessage, error) { return body(cc) })
}

// nextChild counts the calls of a workflow in a scope.
func (s *segment) nextChild(scope, name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := scope + "\x00" + name
	n := s.sites[k]
	s.sites[k] = n + 1
	return n
}
