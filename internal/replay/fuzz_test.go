package replay_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// entriesFrom turns bytes into entries, three bytes each, that are right often
// enough to get far: kind and shape, target, value.
func entriesFrom(script []byte) []journal.Entry {
	var l log
	values := []string{`{"decision":"allow"}`, `{"decision":"deny"}`, `null`, `{}`, `"x"`, ``, `{"decision":"allow","expiresAt":5}`, `[`}
	scopes := []string{"", "agent:0", "par:0:1", "par:0:1/agent:2", "wf:w:0", "plan/x", "agent:x"}
	for ; len(script) >= 3 && len(l) < 200; script = script[3:] {
		shape, target, v := script[0], int64(int8(script[1])), values[int(script[2])%len(values)]
		scope, k := scopes[int(script[2]>>3)%len(scopes)], string('a'+rune(script[1]%3))
		e := journal.Entry{Scope: scope, Key: k, HashVersion: int(script[2]%4) - 1, Ordinal: int64(shape) << (script[2] % 60)}
		switch shape % 12 {
		case 0:
			e.Kind, e.Status = journal.KindAgent, journal.StatusRunning
			e.MemoizeOutcome = shape&16 != 0
		case 1:
			e.Kind, e.Status = journal.KindChild, journal.StatusRunning
			e.Value = json.RawMessage(`{"childScope":"wf:w:0"}`)
		case 2:
			e.Kind, e.Status = journal.KindExternal, journal.StatusSuspended
			e.Value = json.RawMessage(`{"key":"k","schema":true}`)
		case 3:
			e.Kind, e.Status = journal.KindApproval, journal.StatusSuspended
			e.Value = json.RawMessage(fmt.Sprintf(`{"toolName":"deploy","input":{},"toolCallId":"c%d"}`, target&3))
		case 4:
			e.Kind, e.Status, e.Ref = journal.KindResolution, journal.StatusOK, &target
			e.Resolution = json.RawMessage(fmt.Sprintf(`{"target":%d,"by":"x","value":%s}`, target, v))
		case 5:
			e.Kind, e.Status, e.Ref = journal.KindAbandon, journal.StatusOK, &target
			e.Abandon = json.RawMessage(fmt.Sprintf(`{"target":%d}`, target))
		case 6, 7:
			if target >= 0 && target < int64(len(l)) {
				s := l[target]
				e.Kind, e.Scope, e.Key = s.Kind, s.Scope, s.Key
			}
			e.Ref = &target
			e.Status = []journal.Status{"ok", "error", "limit", "cancelled", "escalated", "odd"}[int(shape>>4)%6]
			e.Error = json.RawMessage(`{"code":"agent","retryable":false,"data":{"kind":"tool"}}`)
		case 8:
			e.Kind, e.Value = journal.KindDecision, json.RawMessage(fmt.Sprintf(`{"decisionType":"approval_consumed","targetRef":%d,"toolCallId":"c%d"}`, target, shape>>4))
		case 9:
			e.Kind, e.Value = journal.KindDecision, json.RawMessage(fmt.Sprintf(`{"decisionType":"approval_revoked","targetRef":%d}`, target))
		case 10:
			e.Kind, e.Value = journal.KindDecision, json.RawMessage(fmt.Sprintf(`{"decisionType":"operation_invalidated","targetRef":%d}`, target))
		case 11:
			e.Kind, e.Value = journal.Kind(v), json.RawMessage(v)
		}
		l.add(e)
		l[len(l)-1].HashVersion = e.HashVersion
	}
	return l
}

// FuzzFold feeds whatever entries to everything that reads entries. Nothing
// panics; a journal that folds whole folds the same entry by entry; and no
// call is let through without an entry that allows it.
func FuzzFold(f *testing.F) {
	f.Add([]byte(nil), []byte{0, 0, 0, 3, 1, 8, 4, 1, 0, 8, 1, 0, 6, 0, 0})
	f.Add([]byte(nil), []byte{1, 0, 0, 0, 0, 32, 3, 2, 24, 5, 1, 0, 5, 0, 0, 4, 2, 0, 9, 2, 0, 7, 1, 0})
	f.Add([]byte(nil), []byte{2, 0, 0, 4, 0, 2, 4, 0, 0, 10, 0, 0, 11, 0, 5})
	f.Add([]byte(`{"hashVersion":2,"seq":0,"scope":"","key":"k","ordinal":0,"kind":"external","status":"suspended","value":{"key":"e"}}
{"hashVersion":2,"seq":4,"ref":0,"scope":"","key":"","ordinal":0,"kind":"resolution","status":"ok","resolution":{"target":0,"by":"external","value":1}}
{"seq":5,"v":1,"kind":"future.kind","status":"ok","ref":3}`), []byte(nil))
	f.Fuzz(func(t *testing.T, lines, script []byte) {
		for _, entries := range [][]journal.Entry{decodeLines(lines), entriesFrom(script)} {
			_ = checkVersions(entries)
			o := seedOrdinals(entries)
			if n := o.Next("", 2, "a"); n < 0 || o.Next("", 2, "a") < n {
				t.Fatalf("ordinal %d", n)
			}
			fold, err := newFold(entries, nil)
			if err != nil {
				continue
			}
			step, err := newFold(nil, nil)
			require.NoError(t, err)
			for i := range entries {
				_, err := step.Add(&entries[i])
				require.NoError(t, err)
			}
			require.Equal(t, snapshot(fold), snapshot(step))
			for s := range fold.Suspensions() {
				_, _ = s.Key(), s.Flavor()
				if s.Decision().Decision == replay.DecisionAllow && s.State != replay.Resolved {
					t.Fatalf("entry %d allows while %s", s.Entry.Seq, s.State)
				}
			}
			fuzzMatch(t, entries, fold)
		}
	})
}

func fuzzMatch(t *testing.T, entries []journal.Entry, fold *replay.Fold) {
	m, err := newMatcher(entries, fold, []int64{2, -1})
	if err != nil {
		return
	}
	k, err := replay.ApprovalKey("deploy", json.RawMessage(`{}`))
	require.NoError(t, err)
	for i := range entries {
		e := &entries[i]
		a := m.Approval(replay.ApprovalQuery{Scope: e.Scope, ToolCallID: "c1", Key: k, Awaiting: i%2 == 0})
		if a.Decision.Allows(time.Time{}) && (a.Status != replay.ApprovalDecided || a.Suspension.State != replay.Resolved) {
			t.Fatalf("call is let through by %+v", a)
		}
		mode := replay.Mode(i % 3)
		res := m.Match(e.Scope, replay.SameKey(e.Key), mode)
		if res.Disposition == replay.Replay && res.Op.Recorded() == nil {
			t.Fatalf("entry %d replays nothing", e.Seq)
		}
		if (res.Disposition == replay.Live) != (res.Op == nil) {
			t.Fatalf("disposition %s with operation %v", res.Disposition, res.Op)
		}
	}
	_ = m.Preview()
}

// FuzzScope: what parses is spelt in the one way.
func FuzzScope(f *testing.F) {
	for _, s := range []string{"", "par:0:1/pipe:2:3", "wf:a:b:0/agent:7", "plan/01ARZ3NDEKTSV4RRFFQ69G5FAV", "plan", "plan/", "wf::0", "par:01:0", "agent:9007199254740992", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segs, err := replay.ParseScope(path)
		if err == nil && replay.Format(segs) != path {
			t.Fatalf("%q is formatted as %q", path, replay.Format(segs))
		}
	})
}

// FuzzIdentity: a record either has keys or an error.
func FuzzIdentity(f *testing.F) {
	for _, s := range []string{
		`{"kind":"step","key":"load","deps":[]}`, `{"kind":"rand","subtype":"now"}`, `{"kind":"step","kind":"other"}`, `[]`, ``, `{"kind":"step","key":"\ud800"}`,
		`{"kind":"agent","agentType":"","modelSpec":{"kind":"model","model":"a:b","effort":"low"},"prompt":"p","schemaHash":"s","toolsetHash":"t","isolation":"none"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		c, err := replay.CanonicalIdentity(record)
		if err != nil {
			return
		}
		if !json.Valid([]byte(c.Text)) || !json.Valid([]byte(c.TextV1)) {
			t.Fatalf("%q has canonical text %q", record, c.Text)
		}
		again, err := replay.CanonicalIdentity([]byte(c.Text))
		if err != nil || again.KeyV1 != c.KeyV1 {
			t.Fatalf("%q is not stable: %+v, %v", c.Text, again, err)
		}
	})
}
