package rulvar_test

import (
	"context"
	"encoding/json"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// fixtureFacts are the facts of a segment that must agree, by name. Values are
// JSON trees. Places in the journal are named by what stands there, not by
// sequence numbers: see fixtureJournal.name.
type fixtureFacts map[string]any

// fixtureRecord is what the reference was seen to do in a segment.
type fixtureRecord struct {
	Title, Mode string
	Killed      bool
	Resolutions []struct {
		Via     string
		Outcome *struct {
			Applied bool
			Reason  string
		}
		Error *struct{ Code string }
	}
	AppendedByResolutions []json.RawMessage
	Preview               *fixturePreview
	Outcome               *struct {
		Status  string
		Value   json.RawMessage
		Error   *struct{ Code string }
		Pending []fixturePending
		Dropped []json.RawMessage
	}
	Rejected         *struct{ Code string }
	UnusedTurns      int
	ModelCalls       []map[string]json.RawMessage
	ToolExecutions   []json.RawMessage
	StepExecutions   []string
	AgentResults     []map[string]json.RawMessage
	JournalUnchanged bool
	Appended         []json.RawMessage
	Meta             *struct {
		Status   string
		Segments int
	}
	After *fixtureState
}

type fixturePreview struct {
	Hits, Misses, Skipped, Reruns int
	Orphaned                      []int64
	InvalidResolutions            []struct{ Seq int64 }
}

type fixturePending struct {
	Key      string
	EntryRef int64
	Prompt   string
}

type fixtureState struct {
	Entries         int
	LastSettle      *struct{ RunStatus string }
	OpenSuspensions []fixtureOpen
}

type fixtureOpen struct {
	Key        string
	Seq        int64
	Value      map[string]json.RawMessage
	DeadlineAt *string
}

type fixtureBefore struct {
	fixtureState
	ListRuns  []map[string]json.RawMessage
	LastSeq   *int64
	LoadError json.RawMessage
	FoldError json.RawMessage
}

// facts projects a recorded segment. j is the reference's journal after it.
func (r *fixtureRecord) facts(j *fixtureJournal, appended []*rulvar.Entry, concurrent bool) fixtureFacts {
	f := fixtureFacts{
		"requests": requestList(r.ModelCalls), "tools": asTree(r.ToolExecutions), "steps": asTree(r.StepExecutions),
		"unusedTurns": r.UnusedTurns, "unchanged": r.JournalUnchanged, "appended": j.appendedFacts(appended),
	}
	resolutions := []any{}
	for _, x := range r.Resolutions {
		switch {
		case x.Error != nil:
			resolutions = append(resolutions, map[string]any{"error": x.Error.Code})
		case x.Outcome != nil && x.Outcome.Reason != "" && x.Via != "raw":
			resolutions = append(resolutions, map[string]any{"applied": x.Outcome.Applied, "reason": x.Outcome.Reason})
		case x.Outcome != nil:
			resolutions = append(resolutions, map[string]any{"applied": x.Outcome.Applied})
		}
	}
	f["resolutions"] = resolutions
	if r.Preview != nil {
		f["preview"] = r.Preview.facts(j)
	}
	if r.Rejected != nil {
		f["rejected"] = r.Rejected.Code
	}
	if o := r.Outcome; o != nil {
		f["status"], f["dropped"] = o.Status, len(o.Dropped)
		if o.Value != nil {
			f["value"] = asTree(o.Value)
		}
		if o.Error != nil {
			f["errorCode"] = o.Error.Code
		}
		f["pending"] = pendingFacts(j, o.Pending)
	}
	agents := []any{}
	for _, a := range r.AgentResults {
		agents = append(agents, map[string]any{"prompt": a["prompt"], "status": a["status"], "servedBy": a["servedBy"], "usage": a["usage"]})
	}
	f["agents"] = asTree(agents)
	if r.Meta != nil {
		f["runStatus"], f["segments"] = r.Meta.Status, r.Meta.Segments
	}
	if r.After != nil {
		f["open"], f["lastSettle"] = openFacts(j, r.After.OpenSuspensions), settleFact(r.After)
	}
	return f.normal(concurrent)
}

func (p *fixturePreview) facts(j *fixtureJournal) any {
	orphaned := []string{}
	for _, seq := range p.Orphaned {
		orphaned = append(orphaned, j.name(seq))
	}
	return map[string]any{
		"hits": p.Hits, "misses": p.Misses, "skipped": p.Skipped, "reruns": p.Reruns,
		"orphaned": orphaned, "invalidResolutions": len(p.InvalidResolutions),
	}
}

func pendingFacts(j *fixtureJournal, pending []fixturePending) any {
	list := []any{}
	for _, p := range pending {
		facts := map[string]any{"key": j.suspensionKey(p.Key), "entry": j.name(p.EntryRef)}
		if _, approval := approvalSeq(p.Key); !approval {
			facts["prompt"] = p.Prompt
		}
		list = append(list, facts)
	}
	return list
}

func openFacts(j *fixtureJournal, open []fixtureOpen) any {
	list := []any{}
	for _, o := range open {
		list = append(list, map[string]any{
			"key": j.suspensionKey(o.Key), "entry": j.name(o.Seq), "value": openMembers(o.Value), "deadline": o.DeadlineAt != nil,
		})
	}
	return list
}

func settleFact(s *fixtureState) any {
	if s.LastSettle == nil {
		return nil
	}
	return s.LastSettle.RunStatus
}

func requestList(calls []map[string]json.RawMessage) any {
	list := []any{}
	for _, c := range calls {
		facts := make(map[string]any)
		if choice, ok := c["toolChoice"]; ok {
			c["toolChoice"] = choiceText(choice)
		}
		for _, name := range []string{"model", "agentType", "label", "prompt", "roles", "tools", "toolChoice", "schema", "lastMessage"} {
			if v, ok := c[name]; ok {
				facts[name] = v
			}
		}
		list = append(list, facts)
	}
	return list
}

// choiceText writes a choice of one tool as this library does.
func choiceText(choice json.RawMessage) json.RawMessage {
	var named map[string]string
	if json.Unmarshal(choice, &named) != nil {
		return choice
	}
	for _, member := range []string{"name", "tool", "toolName"} {
		if name := named[member]; name != "" {
			return mustText("tool:" + name)
		}
	}
	return choice
}

// dropWording leaves out what the engine's own words are part of.
func (f fixtureFacts) dropWording() {
	for _, r := range f.list("requests") {
		if m, ok := r.(map[string]any); ok {
			delete(m, "lastMessage")
			delete(m, "prompt")
		}
	}
}

// facts projects what this library did.
func (x *fixtureRun) facts(ctx context.Context, out fixtureOutcome, before int) (fixtureFacts, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	meta, entries, err := x.store.Load(ctx, x.f.RunID, -1)
	if err != nil && out.rejected == nil {
		return nil, err
	}
	j := newFixtureJournal(entries...)
	f := fixtureFacts{
		"requests": x.model.requests, "tools": x.tools, "steps": x.steps, "unusedTurns": x.model.unused(),
		"unchanged": len(entries) == before, "appended": j.appendedFacts(entries[min(before, len(entries)):]), "resolutions": x.resolutions, "agents": x.agents,
	}
	if out.rejected != nil {
		f["rejected"] = errorCode(out.rejected)
	} else {
		p := fixturePreview{Hits: out.Preview.Hits, Misses: out.Preview.Misses, Skipped: out.Preview.Skipped, Reruns: out.Preview.Reruns, Orphaned: out.Preview.Orphaned}
		p.InvalidResolutions = make([]struct{ Seq int64 }, len(out.Preview.InvalidResolutions))
		f["preview"], f["status"], f["dropped"] = p.facts(j), string(out.Status), x.dropped
		if out.Status == rulvar.RunOK {
			f["value"] = out.Value
		}
		if out.Err != nil {
			f["errorCode"] = errorCode(out.Err)
		}
		var pending []fixturePending
		for _, q := range out.Pending {
			pending = append(pending, fixturePending{Key: q.Key, EntryRef: q.EntryRef, Prompt: q.Prompt})
		}
		f["pending"] = pendingFacts(j, pending)
	}
	if meta != nil {
		f["runStatus"], f["segments"] = meta.Status, meta.Segments
	}
	if err == nil {
		f["open"], f["lastSettle"], err = x.state(ctx, j, entries)
	}
	if err != nil && out.rejected != nil {
		err = nil // refused for just that
	}
	return f, err
}

// state lists the open suspensions and the status of the last settle.
func (x *fixtureRun) state(ctx context.Context, j *fixtureJournal, entries []*rulvar.Entry) (open, settled any, err error) {
	pending, err := x.engine.PendingOf(ctx, x.f.RunID)
	if err != nil {
		return nil, nil, err
	}
	var list []fixtureOpen
	for _, p := range pending {
		o := fixtureOpen{Key: p.Key, Seq: p.EntryRef}
		if err := json.Unmarshal(j.bySeq[p.EntryRef].Value, &o.Value); err != nil {
			return nil, nil, err
		}
		if p.DeadlineAt != nil {
			o.DeadlineAt = new(string)
		}
		list = append(list, o)
	}
	for _, en := range entries {
		var d struct{ DecisionType, RunStatus string }
		if en.Kind == journal.KindDecision && json.Unmarshal(en.Value, &d) == nil && d.DecisionType == "run_settle" {
			settled = d.RunStatus
		}
	}
	return openFacts(j, list), settled, nil
}
