package replay_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

const anyApproval = `{"toolName":"deploy","input":{}}`

func TestFoldFirstClosingEntryWins(t *testing.T) {
	var l log
	agent := l.running(journal.KindAgent, "", "a")
	s := l.suspended(journal.KindApproval, replay.AgentScope("", agent), "k", anyApproval)
	f := mustFold(t, l)
	require.Equal(t, replay.Open, f.Suspension(s).State)
	require.Len(t, f.OpenSuspensions(), 1)
	require.Equal(t, "approval:1", f.Suspension(s).Key())

	steps := []struct {
		seq  int64
		want replay.Outcome
	}{
		{l.resolve(s, `{"decision":"deny","reason":"first"}`),
			replay.Outcome{Seq: 2, Target: 1, Applied: true, SupersededBy: -1}},
		{l.resolve(s, `{"decision":"allow"}`),
			replay.Outcome{Seq: 3, Target: 1, Reason: replay.AlreadyResolved, SupersededBy: 2}},
		{l.abandon(s),
			replay.Outcome{Seq: 4, Target: 1, Reason: replay.AlreadyResolved, SupersededBy: 2}},
	}
	for _, step := range steps {
		got, err := f.Add(&l[step.seq])
		require.NoError(t, err)
		require.Equal(t, step.want, got)
	}
	got := f.Suspension(s)
	require.Equal(t, replay.Resolved, got.State)
	require.EqualValues(t, 2, got.ClosedBy)
	require.Equal(t, "external", got.By)
	require.Equal(t, replay.ApprovalDecision{Decision: "deny", Reason: "first"}, got.Decision())
	require.Empty(t, f.OpenSuspensions())
	require.Empty(t, f.InvalidResolutions())
	require.EqualValues(t, 4, f.LastSeq())
}

func TestFoldPinnedSchema(t *testing.T) {
	var l log
	s := l.suspended(journal.KindExternal, "", "k", `{"key":"sign","schema":{"type":"boolean"}}`)
	bad := l.resolve(s, `"yes"`)
	l.resolve(s, `true`)
	l.resolve(s, `"too late, and wrong"`)
	validate := func(schema, value json.RawMessage) error {
		require.JSONEq(t, `{"type":"boolean"}`, string(schema))
		if string(value) == "true" {
			return nil
		}
		return errors.New("not a boolean")
	}
	f, err := newFold(l, validate)
	require.NoError(t, err)
	require.Equal(t, replay.Resolved, f.Suspension(s).State)
	require.Equal(t, "true", string(f.Suspension(s).Value))
	require.Equal(t, "sign", f.Suspension(s).Key())
	require.Len(t, f.InvalidResolutions(), 1)
	require.Equal(t, bad, f.InvalidResolutions()[0].Seq)
	require.Contains(t, f.InvalidResolutions()[0].Detail, "not a boolean")

	t.Run("without a validator nothing fits", func(t *testing.T) {
		f := mustFold(t, l)
		require.Equal(t, replay.Open, f.Suspension(s).State)
		require.Len(t, f.InvalidResolutions(), 3)
	})
	t.Run("an approval has no schema", func(t *testing.T) {
		var l log
		s := l.suspended(journal.KindApproval, "agent:9", "k", `{"toolName":"t","input":1,"schema":false}`)
		l.resolve(s, `true`)
		require.Equal(t, replay.Resolved, mustFold(t, l).Suspension(s).State)
	})
}

func TestFoldRefusesDamage(t *testing.T) {
	ref := func(n int64) *int64 { return &n }
	payload := func(s string) json.RawMessage { return json.RawMessage(s) }
	approval := journal.Entry{HashVersion: 2, Seq: 0, Kind: journal.KindApproval, Status: journal.StatusSuspended,
		Scope: "agent:0", Key: "k", Value: payload(anyApproval)}
	tests := []struct {
		name string
		e    journal.Entry
		word string
	}{
		{"sequence repeats", journal.Entry{Seq: 0, Kind: journal.KindStep}, "greater than 0"},
		{"ref forwards", journal.Entry{Seq: 1, Ref: ref(2), Kind: journal.KindStep}, "backwards"},
		{"ref to itself", journal.Entry{Seq: 1, Ref: ref(1), Kind: journal.KindResolution}, "backwards"},
		{"negative ref", journal.Entry{Seq: 1, Ref: ref(-1), Kind: journal.KindAgent}, "not in the journal"},
		{"missing target", journal.Entry{Seq: 7, Ref: ref(3), Kind: journal.KindResolution,
			Resolution: payload(`{"target":3,"by":"external","value":1}`)}, "not in the journal"},
		{"resolution without ref", journal.Entry{Seq: 1, Kind: journal.KindResolution,
			Resolution: payload(`{"target":0}`)}, "needs a ref"},
		{"resolution without payload", journal.Entry{Seq: 1, Ref: ref(0), Kind: journal.KindResolution}, "no object"},
		{"target is text", journal.Entry{Seq: 1, Ref: ref(0), Kind: journal.KindResolution,
			Resolution: payload(`{"target":"0"}`)}, "target"},
		{"target differs from ref", journal.Entry{Seq: 1, Ref: ref(0), Kind: journal.KindResolution,
			Resolution: payload(`{"target":1}`)}, "where ref is 0"},
		{"abandon without payload", journal.Entry{Seq: 1, Ref: ref(0), Kind: journal.KindAbandon}, "no object"},
		{"revocation of anything", journal.Entry{Seq: 1, Kind: journal.KindDecision,
			Value: payload(`{"decisionType":"approval_revoked"}`)}, "targetRef"},
		{"revocation of the future", journal.Entry{Seq: 1, Kind: journal.KindDecision,
			Value: payload(`{"decisionType":"approval_revoked","targetRef":1}`)}, "no earlier entry"},
		{"consumption by nobody", journal.Entry{Seq: 1, Kind: journal.KindDecision,
			Value: payload(`{"decisionType":"approval_consumed","targetRef":0}`)}, "toolCallId"},
		{"consumption by an empty id", journal.Entry{Seq: 1, Kind: journal.KindDecision,
			Value: payload(`{"decisionType":"approval_consumed","targetRef":0,"toolCallId":""}`)}, "toolCallId"},
		{"invalidation of nothing", journal.Entry{Seq: 1, Kind: journal.KindDecision,
			Value: payload(`{"decisionType":"operation_invalidated","targetRef":5}`)}, "no earlier entry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := newFold([]journal.Entry{approval}, nil)
			require.NoError(t, err)
			_, err = f.Add(&tt.e)
			check(t, err, errs.JournalOrder, tt.word)
			require.EqualValues(t, 0, f.LastSeq(), "a refused entry leaves no trace")
			require.Equal(t, replay.Open, f.Suspension(0).State)
			_, err = newFold([]journal.Entry{approval, tt.e}, nil)
			require.ErrorIs(t, err, errs.JournalOrder)
		})
	}
}

func TestFoldReportsWhatClosesNothing(t *testing.T) {
	var l log
	step := l.op(journal.KindStep, "", "s", journal.StatusOK)
	ext := l.suspended(journal.KindExternal, "", "e", `{"key":"e"}`)
	l.resolve(step, `1`)
	l.abandon(step + 1) // a terminal is no operation
	l.decision(`{"decisionType":"approval_revoked","targetRef":2,"principal":"p","reason":"r"}`)
	l.decision(`{"decisionType":"approval_consumed","targetRef":0,"toolCallId":"c"}`)
	l.decision(`{"decisionType":"something.else","targetRef":99}`)
	l.decision(`[]`)
	l.add(journal.Entry{Kind: "future.kind", Status: "odd", Ref: new(int64)})
	l.abandon(l.add(journal.Entry{Kind: journal.KindAgent, Status: journal.StatusOK, Key: "odd"}))
	f := mustFold(t, l)
	var seqs []int64
	for _, i := range f.InvalidResolutions() {
		seqs = append(seqs, i.Seq)
	}
	require.Equal(t, []int64{3, 4, 5, 6, 11}, seqs)
	require.Nil(t, f.Suspension(ext).Revoked)
}

func TestFoldAbandon(t *testing.T) {
	var l log
	agent := l.running(journal.KindAgent, "par:0:1", "a")
	inside := l.suspended(journal.KindApproval, replay.AgentScope("par:0:1", agent), "k", anyApproval)
	deep := l.suspended(journal.KindExternal, replay.Branch(replay.AgentScope("par:0:1", agent), 0, 0), "k", `{}`)
	decided := l.suspended(journal.KindApproval, replay.AgentScope("par:0:1", agent), "k", anyApproval)
	l.resolve(decided, `{"decision":"allow"}`)
	beside := l.suspended(journal.KindExternal, "par:0:1/agent:00", "k", `{}`)
	ab := l.abandon(agent)
	late := l.suspended(journal.KindApproval, replay.AgentScope("par:0:1", agent), "k", anyApproval)
	child := l.add(journal.Entry{Kind: journal.KindChild, Status: journal.StatusRunning, Key: "c",
		Value: json.RawMessage(`{"workflow":"w","childScope":"wf:w:0"}`)})
	inChild := l.running(journal.KindStep, "wf:w:0/par:1:1", "s")
	abChild := l.abandon(child)

	f := mustFold(t, l)
	for _, seq := range []int64{inside, deep, late} {
		require.Equal(t, replay.Abandoned, f.Suspension(seq).State)
		require.Equal(t, ab, f.Suspension(seq).ClosedBy)
		require.Equal(t, "deny", f.Suspension(seq).Decision().Decision)
	}
	require.Equal(t, replay.Open, f.Suspension(beside).State)
	require.Equal(t, replay.Resolved, f.Suspension(decided).State)
	by, ok := f.Covered(&l[inChild])
	require.True(t, ok)
	require.Equal(t, abChild, by)

	out, err := f.Add(&l[l.resolve(inside, `{"decision":"allow"}`)])
	require.NoError(t, err)
	require.Equal(t, replay.TargetAbandoned, out.Reason)
	require.Equal(t, ab, out.SupersededBy)
	out, err = f.Add(&l[l.abandon(agent)])
	require.NoError(t, err)
	require.Equal(t, replay.Outcome{Seq: 12, Target: agent, Reason: replay.TargetAbandoned, SupersededBy: ab}, out)
}

func TestFoldGrants(t *testing.T) {
	var l log
	s := l.suspended(journal.KindApproval, "agent:0", "k", anyApproval)
	l.resolve(s, `{"decision":"allow"}`)
	key, value, err := replay.ConsumedEntry(s, "call-1")
	require.NoError(t, err)
	require.Equal(t, "approval-consumed:0", key)
	l.decision(string(value))
	l.decision(string(value)) // again, after a crash
	_, other, err := replay.ConsumedEntry(s, "call-2")
	require.NoError(t, err)
	spent := l.decision(string(other))
	f := mustFold(t, l)
	require.Equal(t, &replay.Consumption{Seq: 2, ToolCallID: "call-1"}, f.Suspension(s).Consumed)
	require.Equal(t, spent, f.InvalidResolutions()[0].Seq)
	require.Equal(t, "allow", f.Suspension(s).Decision().Decision)

	key, value, err = replay.RevokedEntry(s, "ann", "wrong host")
	require.NoError(t, err)
	require.Equal(t, "approval-revoked:0", key)
	_, err = f.Add(&l[l.decision(string(value))])
	require.NoError(t, err)
	require.Equal(t, replay.ApprovalDecision{Decision: "deny", Reason: "revoked by ann: wrong host"}, f.Suspension(s).Decision())
}

func TestSuspensionFlavor(t *testing.T) {
	tests := []struct {
		name  string
		entry journal.Entry
		want  replay.Flavor
	}{
		{"external", journal.Entry{Kind: journal.KindExternal, Value: json.RawMessage(`{"key":"k"}`)}, replay.FlavorExternal},
		{"approval", journal.Entry{Kind: journal.KindApproval, Value: json.RawMessage(`{"toolName":"escalate","flavor":"approval"}`),
			DeadlineAt: "2030-01-01T00:00:00Z"}, replay.FlavorApproval},
		{"escalation", journal.Entry{Kind: journal.KindApproval, Value: json.RawMessage(`{"toolName":"escalate"}`),
			DeadlineAt: "2030-01-01T00:00:00Z"}, replay.FlavorEscalation},
		{"no deadline", journal.Entry{Kind: journal.KindApproval, Value: json.RawMessage(`{"toolName":"escalate"}`)}, replay.FlavorApproval},
		{"unreadable", journal.Entry{Kind: journal.KindApproval}, replay.FlavorApproval},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.entry.Status = journal.StatusSuspended
			require.Equal(t, tt.want, mustFold(t, log{tt.entry}).Suspension(0).Flavor())
		})
	}
}

// snapshot is what the fold says about the suspended entries.
func snapshot(f *replay.Fold) map[int64]replay.Suspension {
	all := map[int64]replay.Suspension{}
	for s := range f.Suspensions() {
		c := *s
		c.Entry, c.Late = nil, 0
		all[s.Entry.Seq] = c
	}
	return all
}

// Losing resolutions and abandons are no-ops: a journal without them folds to
// the same state, and so does one that is folded entry by entry.
func TestFoldIgnoresLosers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l log
		var targets []int64
		var losers []int64
		f := mustFold(t, nil)
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			var seq int64
			switch pick := rapid.IntRange(0, 5).Draw(t, "pick"); {
			case len(targets) == 0 || pick == 0:
				seq = l.suspended(journal.KindApproval, "agent:99", "k", anyApproval)
				targets = append(targets, seq)
			case pick == 1:
				seq = l.running(journal.KindAgent, "", "a")
				targets = append(targets, seq)
			case pick == 2:
				seq = l.abandon(rapid.SampledFrom(targets).Draw(t, "target"))
			default:
				seq = l.resolve(rapid.SampledFrom(targets).Draw(t, "target"), rapid.SampledFrom([]string{`{"decision":"allow"}`, `null`}).Draw(t, "value"))
			}
			e := l[seq] // a copy: the slice moves as it grows
			out, err := f.Add(&e)
			require.NoError(t, err)
			if (e.Kind == journal.KindResolution || e.Kind == journal.KindAbandon) && !out.Applied {
				losers = append(losers, seq)
			}
		}
		winners := slices.DeleteFunc(slices.Clone(l), func(e journal.Entry) bool { return slices.Contains(losers, e.Seq) })
		require.Equal(t, snapshot(f), snapshot(mustFold(t, winners)))
		require.Equal(t, snapshot(f), snapshot(mustFold(t, l)))
	})
}
