package rulvar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
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

// fixtureJournal names the entries of a journal.
type fixtureJournal struct{ bySeq map[int64]*rulvar.Entry }

func newFixtureJournal(entries ...*rulvar.Entry) *fixtureJournal {
	j := &fixtureJournal{bySeq: make(map[int64]*rulvar.Entry)}
	j.add(entries)
	return j
}

func (j *fixtureJournal) add(entries []*rulvar.Entry) {
	for _, en := range entries {
		j.bySeq[en.Seq] = en
	}
}

// addLines adds recorded lines. What cannot be read as an entry, such as a
// torn line, has no name.
func (j *fixtureJournal) addLines(lines []json.RawMessage) []*rulvar.Entry {
	var entries []*rulvar.Entry
	for _, line := range lines {
		if en, err := journal.ParseEntry(line); err == nil {
			entries = append(entries, en)
		}
	}
	j.add(entries)
	return entries
}

// name tells an entry by its kind, scope, key and ordinal. Agents in scopes
// are named by their running entries.
func (j *fixtureJournal) name(seq int64) string {
	en := j.bySeq[seq]
	if en == nil {
		return fmt.Sprintf("no entry %d", seq)
	}
	return fmt.Sprintf("%s %s %.12s/%d", en.Kind, j.scope(en.Scope), en.Key, en.Ordinal)
}

func (j *fixtureJournal) scope(scope string) string {
	parts := strings.Split(scope, "/")
	for i, p := range parts {
		var seq int64
		if n, err := fmt.Sscanf(p, "agent:%d", &seq); n == 1 && err == nil && seq >= 0 && j.bySeq[seq] != nil {
			parts[i] = "(" + j.name(seq) + ")"
		}
	}
	return strings.Join(parts, "/")
}

// sameEntry returns the number that an entry of this journal has in another,
// or seq where there is none.
func (j *fixtureJournal) sameEntry(seq int64, other *fixtureJournal) int64 {
	en := j.bySeq[seq]
	if en == nil {
		return seq
	}
	for _, n := range slices.Sorted(maps.Keys(other.bySeq)) {
		if x := other.bySeq[n]; (x.Ref == nil) == (en.Ref == nil) && x.Kind == en.Kind && other.name(n) == j.name(seq) {
			return n
		}
	}
	return seq
}

// last is the greatest sequence number, -1 where there is none.
func (j *fixtureJournal) last() int64 {
	last := int64(-1)
	for seq := range j.bySeq {
		last = max(last, seq)
	}
	return last
}

// suspensionKey names a suspension's key, which holds a sequence number where
// it is an approval's.
func (j *fixtureJournal) suspensionKey(key string) string {
	if seq, ok := approvalSeq(key); ok {
		return "approval of " + j.name(seq)
	}
	return key
}

// translate turns a suspension's key in this journal into that in another.
func (j *fixtureJournal) translate(key string, other *fixtureJournal) string {
	if seq, ok := approvalSeq(key); ok {
		return fmt.Sprintf("approval:%d", j.sameEntry(seq, other))
	}
	return key
}

// appendedFacts describes the entries that a segment has added, without order
// and without what is accounting: how the two systems bill and number.
func (j *fixtureJournal) appendedFacts(entries []*rulvar.Entry) []string {
	facts := []string{}
	for _, en := range entries {
		if en.Kind == journal.KindDecision {
			var d struct{ DecisionType string }
			_ = json.Unmarshal(en.Value, &d)
			switch d.DecisionType {
			case "provider-call", "provider-intent", "spawn-admission", "approval_consumed", "run_settle":
				continue
			}
		}
		facts = append(facts, j.entryFacts(en))
	}
	sort.Strings(facts)
	return facts
}

func (j *fixtureJournal) entryFacts(en *rulvar.Entry) string {
	value := en.Value
	switch en.Kind {
	case journal.KindApproval, journal.KindExternal:
		value = j.openValue(en.Value)
	case journal.KindRand:
		value = nil
	case journal.KindDecision:
		value = withoutMember(en.Value, "settledSpendUsd") // accounting
	case journal.KindResolution:
		var r journal.Resolution
		_ = json.Unmarshal(en.Resolution, &r)
		if r.By != "timeout" { // its reason is wording
			value = r.Value
		}
		target := *en
		target.Value, target.Kind = nil, journal.Kind(r.By)
		return fmt.Sprintf("%s of %s: %s", en.Kind, j.name(r.Target), canonicalText(value))
	}
	return fmt.Sprintf("%s %s %s", j.name(en.Seq), en.Status, canonicalText(value))
}

func withoutMember(text json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(text, &members)
	delete(members, name)
	out, _ := json.Marshal(members)
	return out
}

// openValue is what both systems write of a suspension.
func (j *fixtureJournal) openValue(value json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(value, &members)
	text, _ := json.Marshal(openMembers(members))
	return text
}

func openMembers(members map[string]json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage)
	for _, name := range []string{"toolName", "input", "flavor", "risk", "key", "prompt", "schema"} {
		if v, ok := members[name]; ok {
			out[name] = v
		}
	}
	return out
}

func canonicalText(text json.RawMessage) string {
	if text == nil {
		return ""
	}
	out, err := jcs.Canonical(text)
	if err != nil {
		return string(text)
	}
	return string(out)
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
		for _, name := range []string{"model", "agentType", "label", "prompt", "roles", "tools", "toolChoice", "schema", "lastMessage"} {
			if v, ok := c[name]; ok {
				facts[name] = v
			}
		}
		list = append(list, facts)
	}
	return list
}

// facts projects what this library did.
func (x *fixtureRun) facts(ctx context.Context, out fixtureOutcome, before int) (fixtureFacts, *fixtureJournal, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	meta, entries, err := x.store.Load(ctx, x.f.RunID, -1)
	if err != nil {
		return nil, nil, err
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
	open, settled, err := x.state(ctx, j, entries)
	f["open"], f["lastSettle"] = open, settled
	return f, j, err
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
