package rulvar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/llm"
)

// taskDigest is what an orchestrating agent learns of a child.
type taskDigest struct {
	NodeID        string            `json:"nodeId"`
	LogicalTaskID string            `json:"logicalTaskId"`
	Handle        int64             `json:"handle"`
	AgentType     string            `json:"agentType"`
	Status        AgentStatus       `json:"status"`
	OutputSummary string            `json:"outputSummary"`
	CostUSD       float64           `json:"costUsd"`
	Artifacts     []json.RawMessage `json:"artifactsIndex"`
	Error         string            `json:"error,omitempty"`
	Escalation    json.RawMessage   `json:"escalation,omitempty"`
	Settled       []int64           `json:"settledHandles,omitempty"` // of await_any
}

// statusParked is the status in a digest of a child that waits for an approval.
const statusParked AgentStatus = "parked"

// maxSummary is how many characters of a child's answer a digest holds.
const maxSummary = 400

func controlAwaitAny(j *toolJob, input json.RawMessage) (any, error) {
	o := j.a.orch
	list, err := o.pick(input)
	if err != nil {
		return nil, err
	}
	if err := o.wait(j, func() bool { return slices.ContainsFunc(list, isSettledLocked) }); err != nil {
		return nil, err
	}
	first, settled := (*spawned)(nil), []int64{}
	for _, ch := range list {
		if o.isSettled(ch) {
			settled = append(settled, ch.handle)
			if first == nil {
				first = ch
			}
		}
	}
	d, err := o.digest(first)
	if err != nil {
		return nil, err
	}
	d.Settled = settled
	return d, nil
}

// controlAwaitAll waits for all children, but not for an approval while another
// one has failed and the model does not know: what failed must not be hidden
// behind what is parked.
func controlAwaitAll(j *toolJob, input json.RawMessage) (any, error) {
	o := j.a.orch
	list, err := o.pick(input)
	if err != nil {
		return nil, err
	}
	err = o.wait(j, func() bool {
		failed, waiting := false, false
		for _, ch := range list {
			switch {
			case !ch.settled && !ch.isParkedLocked():
				return false
			case !ch.settled:
				waiting = true
			case ch.out.status != AgentOK && !o.told[ch.handle]:
				failed = true
			}
		}
		return failed || !waiting
	})
	if err != nil {
		return nil, err
	}
	digests := make([]*taskDigest, len(list))
	for i, ch := range list {
		if digests[i], err = o.digest(ch); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

func isSettledLocked(ch *spawned) bool { return ch.settled }

// isParkedLocked reports whether the child waits for an answer.
func (ch *spawned) isParkedLocked() bool {
	return ch.owned != "" && ch.orch.a.seg.isParked(ch.owned)
}

// pick reads the handles of a call.
func (o *orchestrator) pick(input json.RawMessage) ([]*spawned, error) {
	var in struct{ Handles []int64 }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, refuseControl(string(errs.InvalidArguments), "%s", err)
	}
	var list []*spawned
	for _, h := range in.Handles {
		ch, err := o.find(h)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, ch) {
			list = append(list, ch)
		}
	}
	return list, nil
}

func (o *orchestrator) find(handle int64) (*spawned, error) {
	if ch := o.children[handle]; ch != nil && ch.started {
		return ch, nil
	}
	var have []string
	for _, ch := range o.order {
		if ch.started {
			have = append(have, fmt.Sprint(ch.handle))
		}
	}
	return nil, refuseControl("unknown-handle", "no agent has the handle %d; there are: %s", handle, firstSet(strings.Join(have, ", "), "none"))
}

// wait waits until ready, which is asked under the segment's lock. The turn so
// far is made durable first, and the agent's time stands still.
func (o *orchestrator) wait(j *toolJob, ready func() bool) error {
	s := o.a.seg
	s.mu.Lock()
	now := ready()
	s.mu.Unlock()
	if now {
		return nil
	}
	if err := j.hold(); err != nil {
		return err
	}
	o.a.clock.pause()
	j.parked = true
	err := s.join(o.a.ctx, ready) // ends the goroutine when the run settles suspended
	j.parked = false
	o.a.clock.resume()
	return err
}

// digest tells how a child has ended, or that it is parked.
func (o *orchestrator) digest(ch *spawned) (*taskDigest, error) {
	s := o.a.seg
	s.mu.Lock()
	settled, out, err := ch.settled, ch.out, ch.err
	end := s.fold.Entry(out.entryRef)
	s.mu.Unlock()
	d := &taskDigest{
		NodeID: fmt.Sprint(ch.handle), LogicalTaskID: ch.task(), Handle: ch.handle, AgentType: ch.spec.AgentType,
		Status: out.status, OutputSummary: summarize(out.output), Artifacts: []json.RawMessage{}, Escalation: out.escalation,
	}
	if !settled {
		d.Status = statusParked
		return d, nil
	}
	switch {
	case out.err != nil:
		d.Error = out.err.Msg
	case err != nil:
		d.Error = err.Error()
	}
	if out.status != AgentOK {
		o.told[ch.handle] = true
	}
	if end != nil && end.Ref != nil {
		parts, err := usageParts(end)
		if err != nil {
			return nil, err
		}
		d.CostUSD = s.budget.costOf(parts)
		d.Artifacts = indexArtifacts(end)
	}
	return d, nil
}

// summarize is the beginning of an answer.
func summarize(output json.RawMessage) string {
	text := string(output)
	var s string
	if json.Unmarshal(output, &s) == nil {
		text = s
	}
	r := []rune(text)
	return string(r[:min(len(r), maxSummary)])
}

// usageParts reads what an agent has used from its end, by model.
func usageParts(end *Entry) ([]modelUsage, error) {
	var parts []modelUsage
	if end.UsageByModel != nil {
		return parts, json.Unmarshal(end.UsageByModel, &parts)
	}
	if end.Usage == nil {
		return nil, nil
	}
	var u llm.Usage
	err := json.Unmarshal(end.Usage, &u)
	return []modelUsage{{ServedBy: end.ServedBy, Usage: u}}, err
}

// indexArtifacts names the artifacts of an agent, without what they hold.
func indexArtifacts(end *Entry) []json.RawMessage {
	var list []struct {
		ID    string   `json:"id"`
		Kind  string   `json:"kind"`
		Label string   `json:"label,omitempty"`
		Files []string `json:"files,omitempty"`
		Ref   string   `json:"ref,omitempty"`
	}
	out := []json.RawMessage{}
	if json.Unmarshal(end.Artifacts, &list) != nil {
		return out
	}
	for _, a := range list {
		out = append(out, mustMarshal(a))
	}
	return out
}

// recall finds in the conversation which failures the model knows.
func (o *orchestrator) recall() {
	note := func(name string, result json.RawMessage) {
		var list []taskDigest
		switch name {
		case toolAwaitAny, toolChildResult:
			list = make([]taskDigest, 1)
			_ = json.Unmarshal(result, &list[0]) // an error result tells of none
		case toolAwaitAll:
			_ = json.Unmarshal(result, &list)
		}
		for _, d := range list {
			if d.Status != "" && d.Status != AgentOK && d.Status != statusParked {
				o.told[d.Handle] = true
			}
		}
	}
	for _, m := range o.a.state.Messages {
		for _, p := range m.Parts {
			if p.Type == llm.PartToolResult {
				note(p.Name, p.Result)
			}
		}
	}
	if p := o.a.state.Pending; p != nil {
		for _, x := range p.Executed {
			note(x.Name, x.Result)
		}
	}
}

// controlCancel calls a child off, durably, and waits for its end.
func controlCancel(j *toolJob, input json.RawMessage) (any, error) {
	o := j.a.orch
	var in struct {
		Handle int64
		Reason string
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, refuseControl(string(errs.InvalidArguments), "%s", err)
	}
	ch, err := o.find(in.Handle)
	if err != nil {
		return nil, err
	}
	if !o.isSettled(ch) {
		if err := j.hold(); err != nil {
			return nil, err
		}
		if err := o.callOff(firstSet(in.Reason, "its parent does not need it"), ch); err != nil {
			return nil, err
		}
		ch.cancel(errCalledOff)
		if err := o.wait(j, func() bool { return ch.settled }); err != nil {
			return nil, err
		}
		if err := o.closeRequests(); err != nil {
			return nil, err
		}
	}
	o.a.seg.mu.Lock()
	cancelled := ch.cancelled && ch.out.status == AgentStatus(journal.StatusCancelled)
	o.a.seg.mu.Unlock()
	return map[string]any{"cancelled": cancelled, "handle": ch.handle}, nil
}
