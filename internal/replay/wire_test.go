package replay_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

func intent(agent, ordinal int) string {
	return fmt.Sprintf(`{"decisionType":"provider-intent","agentRef":%d,"ordinal":%d,"attempt":1}`, agent, ordinal)
}

func called(agent, ordinal int) string {
	return fmt.Sprintf(`{"decisionType":"provider-call","agentRef":%d,"record":{"ordinal":%d,"outcome":"ok"}}`, agent, ordinal)
}

func TestOpenIntents(t *testing.T) {
	const ack = `{"decisionType":"open_wire_intents_acknowledged","segment":2,"count":1}`
	for _, c := range []struct {
		name      string
		decisions []string
		open      int
		next      int64 // for agent 0
	}{
		{"none", nil, 0, 1},
		{"open", []string{intent(0, 1)}, 1, 2},
		{"ended", []string{intent(0, 1), called(0, 1)}, 0, 2},
		{"another request ended", []string{intent(0, 1), called(0, 2)}, 1, 3},
		{"another agent's ended", []string{intent(0, 1), called(1, 1)}, 1, 2},
		{"acknowledged", []string{intent(0, 1), intent(1, 1), ack}, 0, 2},
		{"open again", []string{intent(0, 1), ack, intent(0, 1)}, 1, 2},
		{"calls without intents", []string{called(0, 1), called(0, 2)}, 0, 3},
		{"of nobody", []string{`{"decisionType":"provider-intent"}`, `{"decisionType":"provider-intent","agentRef":0,"ordinal":-1}`}, 2, 1},
		{"ended by nobody", []string{intent(0, 1), `{"decisionType":"provider-call","agentRef":0}`, `{"decisionType":"provider-call","agentRef":0,"record":[]}`}, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l log
			for _, d := range c.decisions {
				l.decision(d)
			}
			f := mustFold(t, l)
			require.Equal(t, c.open, f.OpenIntents())
			require.Equal(t, c.next, f.NextOrdinal(0))
		})
	}
}

func TestFallback(t *testing.T) {
	var l log
	agent := l.op(journal.KindAgent, "", "k", journal.StatusError)
	l.decision(fmt.Sprintf(`{"decisionType":"model.fallback","targetRef":%d,"trigger":"error","model":"a:b"}`, agent))
	l.decision(`{"decisionType":"model.fallback","targetRef":7}`)
	f := mustFold(t, l)
	model, ok := f.Fallback(agent)
	require.True(t, ok)
	require.Equal(t, "a:b", model)
	_, ok = f.Fallback(7)
	require.False(t, ok, "a decision without a model decides nothing")
}

func TestMatchSettled(t *testing.T) {
	var l log
	failed := l.op(journal.KindAgent, "", "failed", journal.StatusError)
	l.running(journal.KindAgent, "", "dangling")
	always := func(*replay.Operation) bool { return true }
	for _, c := range []struct {
		name       string
		key        string
		settled    func(*replay.Operation) bool
		invalidate []int64
		peek, want replay.Disposition
	}{
		{"settled", "failed", always, nil, replay.Rerun, replay.Replay},
		{"not settled", "failed", func(*replay.Operation) bool { return false }, nil, replay.Rerun, replay.Rerun},
		{"nobody says so", "failed", nil, nil, replay.Rerun, replay.Rerun},
		{"invalidated", "failed", always, []int64{failed}, replay.Rerun, replay.Rerun},
		{"dangling", "dangling", always, nil, replay.RerunDangling, replay.RerunDangling},
		{"nothing", "nothing", always, nil, replay.Live, replay.Live},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustMatcher(t, l, c.invalidate...)
			require.Equal(t, c.peek, m.Peek("", key(c.key), replay.Scoped))
			require.Equal(t, c.peek, m.Peek("", key(c.key), replay.Scoped), "looking binds nothing")
			require.Equal(t, c.want, m.MatchSettled("", key(c.key), replay.Scoped, c.settled).Disposition)
			require.Equal(t, replay.Live, m.Peek("", key(c.key), replay.Scoped), "an operation is for one call")
		})
	}
}
