package rulvar

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func logBody(msg string) LogEmitted { return LogEmitted{Level: slog.LevelInfo, Msg: msg} }

func drainBus(b *eventBus) (out []Event) {
	for ev := range b.events(nil) {
		out = append(out, ev)
	}
	return out
}

func TestBusIsolatesListeners(t *testing.T) {
	b := newEventBus("r", 0, 0)
	var seen []string
	b.on(func(Event) { panic("listener") })
	cancel := b.on(func(ev Event) { seen = append(seen, ev.Body.EventType()) })
	b.emit("s", "", false, logBody("one"))
	b.emit("s", "", false, logBody("two"))
	cancel()
	b.emit("s", "", false, logBody("three"))
	b.close()
	require.Equal(t, []string{"log", "log", "log"}, seen, "two events and one warning about the panic")
	require.Len(t, drainBus(b), 4)
}

// A listener may emit, may end its goroutine and may close: nothing deadlocks
// and nobody is left waiting.
func TestBusSurvivesItsListeners(t *testing.T) {
	b := newEventBus("r", 0, 0)
	b.on(func(ev Event) {
		if l, ok := ev.Body.(LogEmitted); ok && l.Msg == "first" {
			b.emit("s", "", false, logBody("from the listener"))
		}
	})
	b.emit("s", "", false, logBody("first"))
	exit := b.on(func(Event) { runtime.Goexit() })
	var wg sync.WaitGroup
	wg.Go(func() { b.emit("s", "", false, logBody("second")) })
	wg.Wait()
	exit()
	b.emit("s", "", false, logBody("third"))
	b.close()
	var msgs []string
	for _, ev := range drainBus(b) {
		msgs = append(msgs, ev.Body.(LogEmitted).Msg)
	}
	require.Equal(t, []string{"first", "from the listener", "second", "third"}, msgs, "a listener that ends its goroutine takes no event along")
}

func TestBusDropsButNotApprovals(t *testing.T) {
	b := newEventBus("r", 2, 8)
	for i := range 100 {
		b.emit("s", "", false, ApprovalPending{Key: fmt.Sprint(i)})
		for range 10 {
			b.emit("s", "", false, logBody("noise"))
		}
	}
	b.close()
	approvals, last := 0, int64(-1)
	for _, ev := range drainBus(b) {
		require.Greater(t, ev.Seq, last)
		last = ev.Seq
		if _, ok := ev.Body.(ApprovalPending); ok {
			approvals++
		}
	}
	require.Equal(t, 100, approvals)
	require.Less(t, len(b.buffer), 200)
	require.GreaterOrEqual(t, last, int64(2)<<32, "segment 2 counts from its own base")
}

func TestBusConcurrentEmitAndRead(t *testing.T) {
	b := newEventBus("r", 0, 0)
	var wg sync.WaitGroup
	counts := make([]int, 3)
	for i := range counts {
		wg.Go(func() { counts[i] = len(drainBus(b)) })
	}
	var emitters sync.WaitGroup
	for range 4 {
		emitters.Go(func() {
			for range 100 {
				b.emit("s", "", false, logBody("x"))
			}
		})
	}
	emitters.Wait()
	b.close()
	wg.Wait()
	require.Equal(t, []int{400, 400, 400}, counts)
}

func TestEventJSON(t *testing.T) {
	rule := RiskRule(RiskDestructive)
	text, err := json.Marshal(Event{RunID: "r", Seq: 7, SpanID: "s1", ParentSpanID: "s0", Replayed: true,
		Body: ToolEnded{ToolName: "rm", ToolCallID: "c", Outcome: ToolDenied, Verdict: VerdictDeny, DecidedBy: DecidedByDenyRule, Layer: LayerEngine, Rule: rule}})
	require.NoError(t, err)
	require.JSONEq(t, `{"runId":"r","seq":7,"ts":"0001-01-01T00:00:00.000Z","spanId":"s1","parentSpanId":"s0","replayed":true,"type":"tool:end",
		"toolName":"rm","toolCallId":"c","outcome":"denied","durationMs":0,"verdict":"deny","decidedBy":"deny-rule","layer":"engine","rule":{"risk":"destructive"}}`, string(text))
	require.False(t, strings.HasSuffix(string(text), "\n"))
}

func TestEventsAreMasked(t *testing.T) {
	secret := "ghp_" + strings.Repeat("x", 30)
	b := newEventBus("r", 0, 0)
	b.emit("s", "", false, LogEmitted{Msg: "token " + secret, Data: map[string]any{"a": secret, "b": json.RawMessage(`{"c":"` + secret + `"}`)}})
	b.emit("s", "", false, AgentFailed{Message: secret})
	b.emit("s", "", false, AgentDelta{Delta: secret})
	b.emit("s", "", false, ToolEnded{Reason: secret})
	b.emit("s", "", false, ApprovalPending{Reason: secret})
	b.emit("s", "", false, ExternalWaiting{Prompt: secret})
	b.emit("s", "", false, PolicyWarning{Message: secret})
	b.close()
	var log strings.Builder
	write := LogEvents(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	n := 0
	for _, ev := range drainBus(b) {
		text, err := json.Marshal(ev)
		require.NoError(t, err)
		require.NotContains(t, string(text), secret)
		require.Contains(t, string(text), "masked-secret")
		write(ev)
		n++
	}
	require.Equal(t, 7, n)
	require.Equal(t, 7, strings.Count(log.String(), "\n"))
	require.NotContains(t, log.String(), secret)
}
