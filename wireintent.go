package rulvar

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// wireIntent is the durable record that a request is about to be sent. With
// [Config.WireIntents] each request has one, and a second record once it has
// ended: a request without the second may have been paid for nothing, and a
// resume does not go on before somebody has said that they know.
type wireIntent struct {
	ordinal int64
	role    string
	model   string
	attempt int
}

func (a *agentRun) wireDecision(key string, value any) error {
	text, err := marshalJSON(value)
	if err != nil {
		return err
	}
	now := stamp(time.Now())
	return a.seg.append(&Entry{Key: key, Kind: journal.KindDecision, Status: journal.StatusOK, SpanID: a.span, StartedAt: now, EndedAt: now, Value: text})
}

// intend records that a request is about to be sent; nil where nobody asked for
// that.
func (a *agentRun) intend(l *modelLine, attempt int, req *llm.Request) (*wireIntent, error) {
	if !a.seg.e.cfg.WireIntents {
		return nil, nil
	}
	a.seg.mu.Lock()
	w := &wireIntent{ordinal: a.seg.fold.NextOrdinal(a.running.Seq), role: l.role, model: l.served().ref, attempt: attempt}
	a.seg.mu.Unlock()
	return w, a.wireDecision(fmt.Sprintf("pi:%d:%d:%d", a.running.Seq, w.ordinal, attempt), struct {
		DecisionType       string `json:"decisionType"`
		AgentRef           int64  `json:"agentRef"`
		Ordinal            int64  `json:"ordinal"`
		Role               string `json:"role"`
		ServedBy           string `json:"servedBy"`
		Attempt            int    `json:"attempt"`
		RequestFingerprint string `json:"requestFingerprint,omitempty"`
	}{replay.DecisionIntent, a.running.Seq, w.ordinal, w.role, w.model, attempt, fingerprint(req)})
}

// fingerprint tells requests apart; "" where a request has no canonical form.
func fingerprint(req *llm.Request) string {
	text, err := marshalJSON(struct {
		Model, ToolChoice, Effort string
		Messages                  []llm.Message
		Tools                     []llm.ToolDeclaration
		Schema                    json.RawMessage
		MaxOutputTokens           int
	}{req.Model, req.ToolChoice, req.Effort, req.Messages, req.Tools, req.Schema, req.MaxOutputTokens})
	if err != nil {
		return ""
	}
	canonical, err := jcs.Canonical(text)
	if err != nil {
		return ""
	}
	return jcs.Sum(canonical)
}

// close records how the request has ended.
func (w *wireIntent) close(a *agentRun, used llm.Usage, failure error) error {
	if w == nil {
		return nil
	}
	type record struct {
		Ordinal   int64     `json:"ordinal"`
		Role      string    `json:"role"`
		ServedBy  string    `json:"servedBy"`
		Attempt   int       `json:"attempt"`
		Outcome   string    `json:"outcome"`
		Usage     llm.Usage `json:"usage"`
		Approx    bool      `json:"usageApprox,omitempty"`
		ErrorCode string    `json:"errorCode,omitempty"`
	}
	r := record{Ordinal: w.ordinal, Role: w.role, ServedBy: w.model, Attempt: w.attempt, Outcome: "ok", Usage: used}
	if failure != nil {
		r.Outcome, r.Approx, r.ErrorCode = "error", true, string(errs.Agent)
	}
	return a.wireDecision(fmt.Sprintf("pc:%d:%d", a.running.Seq, w.ordinal), struct {
		DecisionType string `json:"decisionType"`
		AgentRef     int64  `json:"agentRef"`
		Record       record `json:"record"`
	}{replay.DecisionCall, a.running.Seq, r})
}

// exchange sends one request and reads its answer, between two records where
// those are asked for.
func (a *agentRun) exchange(l *modelLine, attempt int, req *llm.Request) (modelReply, error) {
	w, err := a.intend(l, attempt, req)
	if err != nil {
		return modelReply{}, unrecorded{err}
	}
	reply, err := a.receive(l, req)
	if closing := w.close(a, reply.last, err); closing != nil {
		return reply, unrecorded{errors.Join(closing, err)}
	}
	return reply, err
}

// unrecorded is a failure of the journal around a request: the run's, not the
// agent's.
type unrecorded struct{ error }

func (e unrecorded) Unwrap() error { return e.error }

// refuseOpenIntents stops a resume that would ask again what may have been paid.
func (s *segment) refuseOpenIntents(acknowledged bool) error {
	open := s.fold.OpenIntents()
	if open == 0 || acknowledged || s.dryRun {
		return nil
	}
	return errs.New(errs.Config, "Resume", s.runID, fmt.Sprintf("the process died while %d requests to models were under way, which may be paid and would be asked again: set ResumeOptions.AcknowledgeWireIntents to go on", open))
}

// acknowledgeIntents records that somebody knows of the open requests.
func (s *segment) acknowledgeIntents() error {
	open := s.fold.OpenIntents()
	if open == 0 || s.dryRun {
		return nil
	}
	key, err := jcs.Hash(map[string]any{"kind": "open-wire-intents-acknowledged", "segment": s.number})
	if err != nil {
		return err
	}
	_, err = s.decide(key, struct {
		DecisionType string `json:"decisionType"`
		Segment      int    `json:"segment"`
		Count        int    `json:"count"`
	}{replay.DecisionIntentsAck, s.number, open})
	return err
}
