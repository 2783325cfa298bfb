package rulvar_test

import (
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
		if !accounting(en) && decisionType(en) != "run_settle" {
			facts = append(facts, j.entryFacts(en))
		}
	}
	sort.Strings(facts)
	return facts
}

// accounting reports whether an entry is one that each system writes or leaves
// out as it sees fit.
func accounting(en *rulvar.Entry) bool {
	switch decisionType(en) {
	case "provider-call", "provider-intent", "spawn-admission", "approval_consumed", "isolation-tree":
		return true
	}
	return false
}

func decisionType(en *rulvar.Entry) string {
	var d struct{ DecisionType string }
	if en.Kind == journal.KindDecision {
		_ = json.Unmarshal(en.Value, &d)
	}
	return d.DecisionType
}

func (j *fixtureJournal) entryFacts(en *rulvar.Entry) string {
	value := en.Value
	switch en.Kind {
	case journal.KindApproval, journal.KindExternal:
		value = j.openValue(en.Value)
	case journal.KindRand:
		value = nil
	case journal.KindAgent:
		if en.Status == journal.StatusRunning && value != nil {
			value = withoutMember(en.Value, "tree") // the reference does not record it
		}
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
