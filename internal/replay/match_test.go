package replay_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

func key(k string) replay.Keys { return replay.SameKey(k) }

// wire builds a recorded error; kind "" stands for one that no agent made.
func wire(kind string, retryable bool) json.RawMessage {
	if kind == "" {
		return json.RawMessage(fmt.Sprintf(`{"code":"error","message":"m","retryable":%v}`, retryable))
	}
	return json.RawMessage(fmt.Sprintf(`{"code":"agent","message":"m","retryable":%v,"data":{"kind":%q}}`, retryable, kind))
}

func TestDispositionTable(t *testing.T) {
	const onRunning, onTerminal = 1, 2
	tests := []struct {
		name    string
		status  journal.Status // "" leaves the operation dangling
		version int            // 0 means the current one
		memo    int
		err     json.RawMessage
		settled string
		want    replay.Disposition
	}{
		{name: "ok", status: "ok", want: replay.Replay},
		{name: "escalated", status: "escalated", want: replay.Replay},
		{name: "dangling", want: replay.RerunDangling},
		{name: "cancelled", status: "cancelled", want: replay.Rerun},
		{name: "cancelled is never memoized", status: "cancelled", memo: onRunning | onTerminal, settled: "ok", want: replay.Rerun},
		{name: "error", status: "error", err: wire("terminal", false), want: replay.Rerun},
		{name: "error of a run that ended ok", status: "error", err: wire("terminal", false), settled: "ok", want: replay.Rerun},
		{name: "memoized error", status: "error", memo: onRunning, err: wire("terminal", false), want: replay.Replay},
		{name: "error memoized by its terminal", status: "error", memo: onTerminal, err: wire("schema-mismatch", true), want: replay.Replay},
		{name: "memoized tool error", status: "error", memo: onRunning, err: wire("tool", false), want: replay.Replay},
		{name: "memoized retryable tool error", status: "error", memo: onRunning, err: wire("tool", true), want: replay.Rerun},
		{name: "memoized transport error", status: "error", memo: onRunning, err: wire("transport", true), want: replay.Rerun},
		{name: "memoized rate limit", status: "error", memo: onRunning, err: wire("rate-limit", true), want: replay.Rerun},
		{name: "memoized budget error", status: "error", memo: onRunning, err: wire("budget", false), want: replay.Rerun},
		{name: "memoized foreign error", status: "error", memo: onRunning, err: wire("", false), want: replay.Replay},
		{name: "memoized retryable foreign error", status: "error", memo: onRunning, err: wire("", true), want: replay.Rerun},
		{name: "memoized error without kind", status: "error", memo: onRunning, err: json.RawMessage(`{"code":"agent"}`), want: replay.Rerun},
		{name: "memoized unreadable error", status: "error", memo: onRunning, want: replay.Rerun},
		{name: "limit", status: "limit", want: replay.Rerun},
		{name: "limit of a failed run", status: "limit", settled: "error", want: replay.Rerun},
		{name: "limit of a run that ended ok", status: "limit", settled: "ok", want: replay.Replay},
		{name: "memoized limit", status: "limit", memo: onTerminal, settled: "error", want: replay.Replay},
		{name: "v1 ok", status: "ok", version: 1, want: replay.Replay},
		{name: "v1 escalated", status: "escalated", version: 1, want: replay.Rerun},
		{name: "v1 memoized error", status: "error", version: 1, memo: onRunning, err: wire("terminal", false), want: replay.Rerun},
		{name: "v1 limit of a run that ended ok", status: "limit", version: 1, memo: onRunning, settled: "ok", want: replay.Rerun},
		{name: "v1 dangling", version: 1, want: replay.RerunDangling},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l log
			seq := l.add(journal.Entry{HashVersion: tt.version, Kind: journal.KindAgent, Status: journal.StatusRunning,
				Key: "k", MemoizeOutcome: tt.memo&onRunning != 0})
			if tt.status != "" {
				end := l.end(seq, tt.status, "1")
				l[end].Error, l[end].MemoizeOutcome = tt.err, tt.memo&onTerminal != 0
			}
			if tt.settled != "" {
				l.settle(tt.settled)
			}
			res := mustMatcher(t, l).Match("", key("k"), replay.Scoped)
			require.Equal(t, tt.want, res.Disposition, "got %s", res.Disposition)
			require.Equal(t, seq, res.Op.Start.Seq)

			inv := mustMatcher(t, l, seq).Match("", key("k"), replay.Scoped)
			require.Equal(t, replay.Rerun, inv.Disposition, "invalidated")
			ab := append(log{}, l...)
			ab.abandon(seq)
			require.Equal(t, replay.Skip, mustMatcher(t, ab, seq).Match("", key("k"), replay.Scoped).Disposition,
				"an abandon comes before an invalidation")
		})
	}
}

func TestMatchSuspendedAndSingleEntries(t *testing.T) {
	var l log
	ext := l.suspended(journal.KindExternal, "", "e", `{"key":"e"}`)
	now := l.add(journal.Entry{Kind: journal.KindRand, Status: journal.StatusOK, Key: "n", Value: json.RawMessage(`{"subtype":"now","value":1}`)})
	l.suspended(journal.KindApproval, "", "p", anyApproval)
	l.decision(`{"decisionType":"spawn-admission"}`)
	m := mustMatcher(t, l)

	res := m.Match("", key("e"), replay.Scoped)
	require.Equal(t, replay.Suspended, res.Disposition)
	require.Equal(t, ext, res.Suspension.Entry.Seq)
	require.Nil(t, res.Op.Recorded())
	res = m.Match("", key("n"), replay.Scoped)
	require.Equal(t, replay.Replay, res.Disposition)
	require.Equal(t, now, res.Op.Recorded().Seq)
	require.Equal(t, replay.Live, m.Match("", key("p"), replay.Scoped).Disposition, "an approval is bound to its call, not to a key")
	require.Equal(t, replay.Live, m.Match("", key(""), replay.Scoped).Disposition, "an empty key matches nothing")
	require.Equal(t, replay.Live, m.Match("", nil, replay.Scoped).Disposition)

	t.Run("asked again after an invalidation", func(t *testing.T) {
		l := append(log{}, l...)
		newer := l.suspended(journal.KindExternal, "", "e", `{"key":"e"}`)
		res := mustMatcher(t, l, ext).Match("", key("e"), replay.Scoped)
		require.Equal(t, newer, res.Op.Start.Seq)
	})
	again := mustMatcher(t, l, ext).Match("", key("e"), replay.Scoped)
	require.Equal(t, replay.Rerun, again.Disposition)
	l.abandon(ext)
	skip := mustMatcher(t, l).Match("", key("e"), replay.Scoped)
	require.Equal(t, replay.Skip, skip.Disposition)
}

func TestMatchModesAndVersions(t *testing.T) {
	var l log
	a := l.op(journal.KindStep, "par:0:0", "k", journal.StatusOK)
	v1 := l.add(journal.Entry{HashVersion: 1, Kind: journal.KindAgent, Status: journal.StatusRunning, Key: "old"})
	l.end(v1, journal.StatusOK, `"v1"`)
	m := mustMatcher(t, l)
	require.Equal(t, replay.Live, m.Match("par:0:0", key("k"), replay.Never).Disposition)
	require.Equal(t, replay.Live, m.Match("par:0:0", key("k"), replay.Mode(9)).Disposition)
	require.Equal(t, replay.Live, m.Match("", key("k"), replay.Scoped).Disposition)
	require.Equal(t, a, m.Match("", key("k"), replay.Cache).Op.Start.Seq)
	require.Equal(t, replay.Live, m.Match("par:0:0", key("k"), replay.Scoped).Disposition, "it was consumed")
	keys := func(v int) string { return map[int]string{1: "old", 2: "new"}[v] }
	require.Equal(t, v1, m.Match("", keys, replay.Scoped).Op.Start.Seq, "the key is derived under the entry's version")
	t.Run("the oldest of two versions", func(t *testing.T) {
		var l log
		newer := l.op(journal.KindAgent, "", "new", journal.StatusOK)
		older := l.add(journal.Entry{HashVersion: 1, Kind: journal.KindAgent, Status: journal.StatusRunning, Key: "old"})
		l.end(older, journal.StatusOK, `1`)
		m := mustMatcher(t, l)
		require.Equal(t, newer, m.Match("", keys, replay.Scoped).Op.Start.Seq)
		require.Equal(t, older, m.Match("", keys, replay.Scoped).Op.Start.Seq)
	})
	require.Equal(t, replay.Preview{Hits: 2, Misses: 4, Orphaned: []int64{}, InvalidResolutions: []replay.InvalidResolution{}}, m.Preview())
}

// Each row is a journal of earlier segments; want is what successive calls of
// one key get, as disposition and first entry.
func TestMatchBestAttempt(t *testing.T) {
	const agent = journal.KindAgent
	type get struct {
		d   replay.Disposition
		seq int64
	}
	tests := []struct {
		name  string
		build func(l *log)
		want  []get
	}{
		{"paid work is not repaid after an earlier failure (10.2.1)", func(l *log) {
			l.op(agent, "", "k", journal.StatusError)
			l.settle("error")
			l.op(agent, "", "k", journal.StatusOK)
			l.settle("suspended")
		}, []get{{replay.Replay, 3}, {replay.Rerun, 0}, {replay.Live, -1}}},
		{"the same for a step", func(l *log) {
			l.op(journal.KindStep, "", "k", journal.StatusError)
			l.op(journal.KindStep, "", "k", journal.StatusCancelled)
			l.op(journal.KindStep, "", "k", journal.StatusOK)
		}, []get{{replay.Replay, 4}, {replay.Rerun, 0}, {replay.Rerun, 2}}},
		{"an interrupted attempt goes on before a failed one is repeated", func(l *log) {
			l.op(agent, "", "k", journal.StatusError)
			l.running(agent, "", "k")
		}, []get{{replay.RerunDangling, 2}, {replay.Rerun, 0}}},
		{"a good attempt beats an interrupted one", func(l *log) {
			l.running(agent, "", "k")
			l.op(agent, "", "k", journal.StatusOK)
		}, []get{{replay.Replay, 1}, {replay.RerunDangling, 0}}},
		{"a memoized failure gives way to a good attempt", func(l *log) {
			seq := l.op(agent, "", "k", journal.StatusError)
			(*l)[seq].MemoizeOutcome = true
			(*l)[seq+1].Error = wire("terminal", false)
			l.op(agent, "", "k", journal.StatusOK)
		}, []get{{replay.Replay, 2}, {replay.Replay, 0}, {replay.Live, -1}}},
		{"a limit that the run outlived gives way to a good attempt", func(l *log) {
			l.op(agent, "", "k", journal.StatusLimit)
			l.settle("error")
			l.op(agent, "", "k", journal.StatusOK)
			l.settle("ok")
		}, []get{{replay.Replay, 3}, {replay.Replay, 0}}},
		{"identical calls bind in journal order", func(l *log) {
			l.op(agent, "", "k", journal.StatusOK)
			l.op(agent, "", "k", journal.StatusEscalated)
			l.op(agent, "", "k", journal.StatusOK)
		}, []get{{replay.Replay, 0}, {replay.Replay, 2}, {replay.Replay, 4}, {replay.Live, -1}}},
		{"the oldest of several failures", func(l *log) {
			l.op(agent, "", "k", journal.StatusError)
			l.op(agent, "", "k", journal.StatusLimit)
		}, []get{{replay.Rerun, 0}, {replay.Rerun, 2}}},
		{"an invalidation is remembered", func(l *log) {
			l.op(agent, "", "k", journal.StatusOK)
			l.settle("ok")
			_, value, _ := replay.InvalidatedEntry(0)
			l.decision(string(value))
			l.op(agent, "", "k", journal.StatusOK)
		}, []get{{replay.Replay, 4}, {replay.Rerun, 0}}},
		{"two terminals: good work is kept", func(l *log) {
			seq := l.running(agent, "", "k")
			l.end(seq, journal.StatusOK, `1`)
			l.end(seq, journal.StatusError, ``)
		}, []get{{replay.Replay, 0}, {replay.Live, -1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l log
			tt.build(&l)
			m := mustMatcher(t, l)
			for i, want := range tt.want {
				res := m.Match("", key("k"), replay.Scoped)
				got := get{res.Disposition, -1}
				if res.Op != nil {
					got.seq = res.Op.Start.Seq
				}
				require.Equal(t, want, got, "call %d", i)
			}
		})
	}
}

func TestMatchWorkflowEdits(t *testing.T) {
	var l log
	for _, k := range []string{"a", "b", "c"} {
		l.op(journal.KindAgent, "", k, journal.StatusOK)
	}
	tests := []struct {
		name, calls          string
		hits, misses, reruns int
	}{
		{"unchanged", "abc", 3, 0, 0},
		{"inserted", "aXbc", 3, 1, 0},
		{"reordered", "cba", 3, 0, 0},
		{"deleted", "ac", 2, 0, 0},
		{"repeated", "aabc", 3, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mustMatcher(t, l)
			for _, c := range tt.calls {
				m.Match("", key(string(c)), replay.Scoped)
			}
			p := m.Preview()
			require.Equal(t, []int{tt.hits, tt.misses, tt.reruns}, []int{p.Hits, p.Misses, p.Reruns})
			require.Empty(t, p.Orphaned)
		})
	}
}

func TestPreviewOrphans(t *testing.T) {
	var l log
	dangling := l.running(journal.KindAgent, "", "a")
	open := l.suspended(journal.KindApproval, replay.AgentScope("", dangling), "p", anyApproval)
	closed := l.suspended(journal.KindExternal, "", "e", `{"key":"e"}`)
	l.resolve(closed, `1`)
	gone := l.running(journal.KindAgent, "", "b")
	l.suspended(journal.KindApproval, replay.AgentScope("", gone), "p", anyApproval)
	l.abandon(gone)
	l.op(journal.KindStep, "", "s", journal.StatusError)
	m := mustMatcher(t, l)
	require.Equal(t, []int64{dangling, open}, m.Preview().Orphaned)
	require.Equal(t, replay.RerunDangling, m.Match("", key("a"), replay.Scoped).Disposition)
	require.Equal(t, replay.Skip, m.Match("", key("b"), replay.Scoped).Disposition)
	require.Equal(t, []int64{open}, m.Preview().Orphaned)
	b, err := json.Marshal(mustMatcher(t, nil).Preview())
	require.NoError(t, err)
	require.JSONEq(t, `{"hits":0,"misses":0,"skipped":0,"reruns":0,"orphaned":[],"invalidResolutions":[]}`, string(b))
}

func TestMatcherRefusesOddTerminals(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(e *journal.Entry)
	}{
		{"other kind", func(e *journal.Entry) { e.Kind = journal.KindStep }},
		{"other scope", func(e *journal.Entry) { e.Scope = "par:0:0" }},
		{"other key", func(e *journal.Entry) { e.Key = "x" }},
		{"running again", func(e *journal.Entry) { e.Status = journal.StatusRunning }},
		{"unknown status", func(e *journal.Entry) { e.Status = "done" }},
		{"of a terminal", func(e *journal.Entry) { *e.Ref = 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l log
			seq := l.op(journal.KindAgent, "", "k", journal.StatusOK)
			tt.spoil(&l[l.end(seq, journal.StatusOK, `1`)])
			_, err := newMatcher(l, mustFold(t, l), nil)
			check(t, err, errs.JournalOrder, "entry 2")
		})
	}
}

// attempts draws a journal of attempts at a few keys in one scope.
func attempts(t *rapid.T) (l log, invalidate []int64) {
	statuses := []journal.Status{"ok", "escalated", "error", "limit", "cancelled", ""}
	for range rapid.IntRange(0, 15).Draw(t, "attempts") {
		seq := l.running(journal.KindAgent, "", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"))
		l[seq].MemoizeOutcome = rapid.Bool().Draw(t, "memoized")
		if s := rapid.SampledFrom(statuses).Draw(t, "status"); s != "" {
			end := l.end(seq, s, `1`)
			l[end].Error = wire("terminal", false)
		}
		if rapid.Bool().Draw(t, "invalidate") {
			invalidate = append(invalidate, seq)
		}
		if rapid.Bool().Draw(t, "settle") {
			l.settle(rapid.SampledFrom([]string{"ok", "error"}).Draw(t, "run status"))
		}
	}
	return l, invalidate
}

// isGood reports whether an attempt holds a result worth having.
func isGood(l log, op *replay.Operation, invalid []int64) bool {
	for _, seq := range invalid {
		if seq == op.Start.Seq {
			return false
		}
	}
	return op.End != nil && (op.End.Status == "ok" || op.End.Status == "escalated")
}

func TestMatchLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, invalid := attempts(t)
		m := mustMatcher(t, l, invalid...)
		lastGood := map[string]int64{"a": -1, "b": -1}
		badSeen := map[string]bool{}
		seen := map[int64]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "calls") {
			k := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "call")
			res := m.Match("", key(k), replay.Scoped)
			if res.Disposition == replay.Live {
				require.Nil(t, res.Op)
				continue
			}
			seq := res.Op.Start.Seq
			require.False(t, seen[seq], "one operation, one call")
			seen[seq] = true
			require.Equal(t, k, res.Op.Start.Key)
			if isGood(l, res.Op, invalid) {
				require.Equal(t, replay.Replay, res.Disposition)
				require.False(t, badSeen[k], "a failed attempt was bound while a good one existed")
				require.Greater(t, seq, lastGood[k], "identical calls bind in journal order")
				lastGood[k] = seq
				continue
			}
			badSeen[k] = true
			for _, i := range invalid {
				if i == seq {
					require.Equal(t, replay.Rerun, res.Disposition, "an invalidated attempt never replays")
				}
			}
		}
	})
}

// Calls of one scope may come in any order: the same operations are bound, and
// the counts stay.
func TestMatchReorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, invalid := attempts(t)
		calls := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c"})).Draw(t, "calls")
		shuffled := rapid.Permutation(calls).Draw(t, "shuffled")
		run := func(calls []string) (map[int64]replay.Disposition, replay.Preview) {
			m := mustMatcher(t, l, invalid...)
			got := map[int64]replay.Disposition{}
			for _, k := range calls {
				if res := m.Match("", key(k), replay.Scoped); res.Op != nil {
					got[res.Op.Start.Seq] = res.Disposition
				}
			}
			return got, m.Preview()
		}
		gotA, previewA := run(calls)
		gotB, previewB := run(shuffled)
		require.Equal(t, gotA, gotB)
		require.Equal(t, previewA, previewB)
	})
}
