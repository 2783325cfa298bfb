package replay_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// call is a tool call of the agent with running entry 0 in the root scope.
type call struct{ id, input string }

func (c call) query(t require.TestingT) replay.ApprovalQuery {
	k, err := replay.ApprovalKey("deploy", json.RawMessage(c.input))
	require.NoError(t, err)
	h, err := replay.InputHash(json.RawMessage(c.input))
	require.NoError(t, err)
	return replay.ApprovalQuery{Scope: "agent:0", ToolCallID: c.id, Key: k, InputHash: h}
}

// ask suspends the call as this library does, with its id and input hash.
func (l *log) ask(t require.TestingT, c call) int64 {
	q := c.query(t)
	return l.suspended(journal.KindApproval, "agent:0", q.Key, fmt.Sprintf(
		`{"toolName":"deploy","input":%s,"flavor":"approval","toolCallId":%q,"inputHash":%q}`, c.input, c.id, q.InputHash))
}

// askForeign suspends the call as the reference does.
func (l *log) askForeign(t require.TestingT, c call) int64 {
	return l.suspended(journal.KindApproval, "agent:0", c.query(t).Key,
		fmt.Sprintf(`{"toolName":"deploy","input":%s,"flavor":"approval","risk":"execute"}`, c.input))
}

func (l *log) consume(t require.TestingT, target int64, id string) {
	_, value, err := replay.ConsumedEntry(target, id)
	require.NoError(t, err)
	l.decision(string(value))
}

func (l *log) revoke(t require.TestingT, target int64) {
	_, value, err := replay.RevokedEntry(target, "ann", "stop")
	require.NoError(t, err)
	l.decision(string(value))
}

const (
	allow = `{"decision":"allow"}`
	deny  = `{"decision":"deny","reason":"no"}`
)

var (
	first  = call{"c1", `{"s":"api"}`}
	second = call{"c2", `{"s":"api"}`} // the same input, later
	other  = call{"c1", `{"s":"db"}`}  // the same call, other input
)

func TestApprovalBinding(t *testing.T) {
	type want struct {
		status   replay.ApprovalStatus
		seq      int64 // of the suspension
		allows   bool
		refusal  replay.Refusal
		consumed bool
	}
	none := want{replay.ApprovalNone, -1, false, "", false}
	tests := []struct {
		name   string
		build  func(l *log)
		call   call
		change func(q *replay.ApprovalQuery)
		want   want
	}{
		{"nothing recorded", func(l *log) {}, first, nil, none},
		{"open", func(l *log) { l.ask(t, first) }, first, nil, want{replay.ApprovalOpen, 1, false, "", false}},
		{"allowed", func(l *log) { l.resolve(l.ask(t, first), allow) }, first, nil,
			want{replay.ApprovalDecided, 1, true, "", false}},
		{"denied", func(l *log) { l.resolve(l.ask(t, first), deny) }, first, nil,
			want{replay.ApprovalDecided, 1, false, "", false}},
		{"malformed", func(l *log) { l.resolve(l.ask(t, first), `true`) }, first, nil,
			want{replay.ApprovalDecided, 1, false, "", false}},
		{"expired", func(l *log) {
			l.resolve(l.ask(t, first), `{"decision":"allow","expiresAt":"2001-01-01T00:00:00Z"}`)
		}, first, nil, want{replay.ApprovalDecided, 1, false, "", false}},
		{"abandoned", func(l *log) { l.abandon(l.ask(t, first)) }, first, nil,
			want{replay.ApprovalAbandoned, 1, false, "", false}},
		{"abandoned with its agent", func(l *log) { l.ask(t, first); l.abandon(0) }, first, nil,
			want{replay.ApprovalAbandoned, 1, false, "", false}},
		{"revoked", func(l *log) { s := l.ask(t, first); l.resolve(s, allow); l.revoke(t, s) }, first, nil,
			want{replay.ApprovalDecided, 1, false, replay.RefusedRevoked, false}},
		{"revoked after it was used", func(l *log) {
			s := l.ask(t, first)
			l.resolve(s, allow)
			l.consume(t, s, "c1")
			l.revoke(t, s)
		}, first, nil, want{replay.ApprovalDecided, 1, false, replay.RefusedRevoked, true}},
		{"an allow is not reused by a later identical call (10.4.1)", func(l *log) {
			l.resolve(l.ask(t, first), allow)
		}, second, nil, none},
		{"nor over that call's own deny", func(l *log) {
			l.resolve(l.ask(t, first), allow)
			l.resolve(l.ask(t, second), deny)
		}, second, nil, want{replay.ApprovalDecided, 3, false, "", false}},
		{"used before by this call", func(l *log) { s := l.ask(t, first); l.resolve(s, allow); l.consume(t, s, "c1") }, first, nil,
			want{replay.ApprovalDecided, 1, true, "", true}},
		{"used by another call", func(l *log) { s := l.ask(t, first); l.resolve(s, allow); l.consume(t, s, "c2") }, first, nil,
			want{replay.ApprovalDecided, 1, false, replay.RefusedSpent, false}},
		{"and that call has no claim", func(l *log) { s := l.ask(t, first); l.resolve(s, allow); l.consume(t, s, "c2") }, second, nil, none},
		{"allowed, but another input would run", func(l *log) { l.resolve(l.ask(t, other), allow) }, first, nil,
			want{replay.ApprovalDecided, 1, false, replay.RefusedChanged, false}},
		{"allowed, but defaults changed", func(l *log) { l.resolve(l.ask(t, first), allow) }, first,
			func(q *replay.ApprovalQuery) { q.InputHash = "other" }, want{replay.ApprovalDecided, 1, false, replay.RefusedChanged, false}},
		{"denied for another input", func(l *log) { l.resolve(l.ask(t, other), deny) }, first, nil,
			want{replay.ApprovalDecided, 1, false, "", false}},
		{"open for another input", func(l *log) { l.ask(t, other) }, first, nil, none},
		{"open for another input, then for this one", func(l *log) { l.ask(t, other); l.ask(t, first) }, first, nil,
			want{replay.ApprovalOpen, 2, false, "", false}},
		{"a stale allow does not close the new request", func(l *log) { s := l.ask(t, other); l.ask(t, first); l.resolve(s, allow) }, first, nil,
			want{replay.ApprovalOpen, 2, false, "", false}},
		{"a stale deny does", func(l *log) { s := l.ask(t, other); l.ask(t, first); l.resolve(s, deny) }, first, nil,
			want{replay.ApprovalDecided, 1, false, "", false}},
		{"altered after it was asked", func(l *log) {
			s := l.ask(t, first)
			(*l)[s].Value = json.RawMessage(`{"toolName":"deploy","input":{"s":"harmless"},"toolCallId":"c1"}`)
			l.resolve(s, allow)
		}, first, nil, want{replay.ApprovalDecided, 1, false, replay.RefusedAltered, false}},
		{"effective input nobody hashed", func(l *log) {
			s := l.ask(t, first)
			(*l)[s].Value = json.RawMessage(`{"toolName":"deploy","input":{"s":"api"},"toolCallId":"c1","effectiveInput":{"s":"api","n":1}}`)
			l.resolve(s, allow)
		}, first, nil, want{replay.ApprovalDecided, 1, false, replay.RefusedAltered, false}},
		{"no call id", func(l *log) { l.resolve(l.ask(t, call{"", `{}`}), allow) }, call{"", `{}`}, nil, none},
		{"call id is no text", func(l *log) {
			s := l.askForeign(t, first)
			(*l)[s].Value = json.RawMessage(`{"toolName":"deploy","input":{"s":"api"},"toolCallId":null}`)
			l.resolve(s, allow)
		}, first, func(q *replay.ApprovalQuery) { q.Awaiting = true }, none},
		{"another agent's", func(l *log) { l.resolve(l.ask(t, first), allow) }, first,
			func(q *replay.ApprovalQuery) { q.Scope = "agent:1" }, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l log
			l.running(journal.KindAgent, "", "a")
			tt.build(&l)
			q := tt.call.query(t)
			if tt.change != nil {
				tt.change(&q)
			}
			m := mustMatcher(t, l)
			peeked := m.PeekApproval(q)
			require.Zero(t, m.Preview().Hits+m.Preview().Misses)
			got := m.Approval(q)
			require.Equal(t, peeked, got)
			have := want{got.Status, -1, got.Decision.Allows(time.Now()), got.Refusal, got.Consumed}
			if got.Suspension != nil {
				have.seq = got.Suspension.Entry.Seq
			}
			require.Equal(t, tt.want, have)
			p := m.Preview()
			require.Equal(t, tt.want.status == replay.ApprovalNone, p.Misses == 1)
			require.Equal(t, tt.want.status != replay.ApprovalNone, p.Hits == 1)
			require.NotContains(t, p.Orphaned, tt.want.seq)
			require.Equal(t, got, m.Approval(q), "asking again gives the same answer")
			require.Equal(t, p.Hits, m.Preview().Hits, "and counts once")
		})
	}
}

func TestApprovalOfForeignEntries(t *testing.T) {
	receipt := `{"decisionType":"provider-call","agentRef":0,"record":{}}`
	tests := []struct {
		name     string
		build    func(l *log)
		call     call
		awaiting bool
		earlier  int
		want     replay.ApprovalStatus
	}{
		{"bound to the awaiting call", func(l *log) { l.resolve(l.askForeign(t, first), allow) }, first, true, 0, replay.ApprovalDecided},
		{"still open", func(l *log) { l.askForeign(t, first) }, first, true, 0, replay.ApprovalOpen},
		{"not to a remaining call", func(l *log) { l.resolve(l.askForeign(t, first), allow) }, first, false, 0, replay.ApprovalNone},
		{"other input", func(l *log) { l.resolve(l.askForeign(t, first), allow) }, other, true, 0, replay.ApprovalNone},
		{"the last of two identical calls", func(l *log) {
			l.resolve(l.askForeign(t, first), allow)
			l.decision(receipt)
			l.resolve(l.askForeign(t, second), deny)
		}, second, true, 1, replay.ApprovalDecided},
		{"the model was called since", func(l *log) { l.resolve(l.askForeign(t, first), allow); l.decision(receipt) }, second, true, 0, replay.ApprovalNone},
		{"another agent's model was", func(l *log) {
			l.resolve(l.askForeign(t, first), allow)
			l.decision(`{"decisionType":"provider-call","agentRef":9}`)
		}, first, true, 0, replay.ApprovalDecided},
		{"as many entries as earlier calls", func(l *log) { l.resolve(l.askForeign(t, first), allow) }, second, true, 1, replay.ApprovalNone},
		{"something else was asked since", func(l *log) {
			l.resolve(l.askForeign(t, first), allow)
			l.askForeign(t, other)
		}, second, true, 0, replay.ApprovalNone},
		{"consumed by another call", func(l *log) { s := l.askForeign(t, first); l.resolve(s, allow); l.consume(t, s, "c1") }, second, true, 0, replay.ApprovalNone},
		{"consumed by this call", func(l *log) { s := l.askForeign(t, first); l.resolve(s, allow); l.consume(t, s, "c1") }, first, false, 1, replay.ApprovalDecided},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l log
			l.running(journal.KindAgent, "", "a")
			tt.build(&l)
			q := tt.call.query(t)
			q.Awaiting, q.Earlier = tt.awaiting, tt.earlier
			got := mustMatcher(t, l).Approval(q)
			require.Equal(t, tt.want, got.Status)
			if tt.name == "the last of two identical calls" {
				require.Equal(t, replay.ApprovalDecision{Decision: "deny", Reason: "no"}, got.Decision)
			}
		})
	}
	t.Run("altered", func(t *testing.T) {
		var l log
		l.running(journal.KindAgent, "", "a")
		s := l.askForeign(t, first)
		l[s].Value = json.RawMessage(`{"toolName":"deploy","input":{"s":"harmless"},"flavor":"approval"}`)
		l.resolve(s, allow)
		q := first.query(t)
		q.Awaiting = true
		got := mustMatcher(t, l).Approval(q)
		require.Equal(t, replay.RefusedAltered, got.Refusal)
		require.False(t, got.Decision.Allows(time.Time{}))
	})
}

func TestApprovalEffectiveInput(t *testing.T) {
	var l log
	l.running(journal.KindAgent, "", "a")
	q := first.query(t)
	effective := `{"s":"api","replicas":1}`
	h, err := replay.InputHash(json.RawMessage(effective))
	require.NoError(t, err)
	s := l.suspended(journal.KindApproval, "agent:0", q.Key, fmt.Sprintf(
		`{"toolName":"deploy","input":%s,"toolCallId":"c1","effectiveInput":%s,"inputHash":%q}`, first.input, effective, h))
	l.resolve(s, `{"decision":"allow-edited","input":{"s":"api","replicas":2}}`)
	q.InputHash = h
	got := mustMatcher(t, l).Approval(q)
	require.True(t, got.Decision.Allows(time.Time{}))
	require.JSONEq(t, `{"s":"api","replicas":2}`, string(got.Decision.Input))
}

func TestApprovalInvalidated(t *testing.T) {
	var l log
	l.running(journal.KindAgent, "", "a")
	s := l.ask(t, first)
	l.resolve(s, allow)
	require.Equal(t, replay.ApprovalNone, mustMatcher(t, l, s).Approval(first.query(t)).Status)
}

// Whatever the journal holds, a call is allowed only by an entry that names it
// (or, from a foreign writer, that is the last of its agent), that somebody
// allowed, that nobody revoked and no other call used.
func TestApprovalLaw(t *testing.T) {
	calls := []call{first, second, other, {"c3", `{"s":"db"}`}}
	rapid.Check(t, func(t *rapid.T) {
		var l log
		l.running(journal.KindAgent, "", "a")
		owner := map[int64]call{}
		foreign, revoked, firstWord := map[int64]bool{}, map[int64]bool{}, map[int64]string{}
		consumedBy := map[int64]string{}
		var asked []int64
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			c := rapid.SampledFrom(calls).Draw(t, "call")
			pick := rapid.IntRange(0, 5).Draw(t, "pick")
			if len(asked) == 0 && pick > 1 {
				pick = 0
			}
			switch pick {
			case 0, 1:
				s := int64(0)
				if pick == 0 {
					s = l.ask(t, c)
				} else {
					s = l.askForeign(t, c)
				}
				owner[s], foreign[s] = c, pick == 1
				asked = append(asked, s)
				continue
			}
			s := rapid.SampledFrom(asked).Draw(t, "target")
			switch pick {
			case 2, 3:
				word := rapid.SampledFrom([]string{allow, deny, `null`}).Draw(t, "word")
				l.resolve(s, word)
				if firstWord[s] == "" {
					firstWord[s] = word
				}
			case 4:
				l.revoke(t, s)
				revoked[s] = true
			case 5:
				l.consume(t, s, c.id)
				if consumedBy[s] == "" {
					consumedBy[s] = c.id
				}
			}
		}
		c := rapid.SampledFrom(calls).Draw(t, "query")
		q := c.query(t)
		q.Awaiting = rapid.Bool().Draw(t, "awaiting")
		got := mustMatcher(t, l).Approval(q)
		if !got.Decision.Allows(time.Time{}) {
			return
		}
		s := got.Suspension.Entry.Seq
		require.Equal(t, replay.ApprovalDecided, got.Status)
		require.Equal(t, allow, firstWord[s])
		require.False(t, revoked[s])
		require.Equal(t, c.input, owner[s].input)
		require.Contains(t, []string{"", c.id}, consumedBy[s])
		require.Equal(t, consumedBy[s] == c.id, got.Consumed)
		switch {
		case !foreign[s]:
			require.Equal(t, c.id, owner[s].id)
		case consumedBy[s] == "":
			require.True(t, q.Awaiting)
			require.Equal(t, asked[len(asked)-1], s)
		}
		for seq, o := range owner { // a deny of this very call is final
			if !foreign[seq] && o.id == c.id {
				require.NotEqual(t, deny, firstWord[seq])
				require.False(t, revoked[seq])
			}
		}
	})
}
