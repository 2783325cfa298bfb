package progress

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

// told makes the events of one run out of bodies, a second apart.
type told struct {
	at  time.Time
	seq int64
}

func (e *told) event(span string, replayed bool, body rulvar.EventBody) rulvar.Event {
	e.at, e.seq = e.at.Add(time.Second), e.seq+1
	return rulvar.Event{RunID: "r1", Seq: e.seq, Time: e.at, SpanID: span, Replayed: replayed, Body: body}
}

// story is a run with two agents: one is denied a call and waits for another.
func story() []rulvar.Event {
	e := &told{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	rule := rulvar.ToolRule("rm")
	var out []rulvar.Event
	for _, s := range []struct {
		span     string
		replayed bool
		body     rulvar.EventBody
	}{
		{"s0", false, rulvar.RunStarted{Workflow: "ship"}},
		{"s1", false, rulvar.PhaseStarted{Phase: "check"}},
		{"s9", true, rulvar.AgentStarted{AgentType: "planner", Model: "local:m"}},
		{"s9", true, rulvar.AgentEnded{AgentType: "planner", Status: rulvar.AgentOK, Usage: llm.Usage{InputTokens: 5, OutputTokens: 1}}},
		{"s2", false, rulvar.AgentStarted{AgentType: "reviewer", Label: "one", Model: "local:m"}},
		{"s2", false, rulvar.BudgetUpdated{SpentUSD: 0.0123, Usage: llm.Usage{InputTokens: 300, OutputTokens: 20}}},
		{"s2", false, rulvar.ToolStarted{ToolName: "search", ToolCallID: "c1"}},
		{"s2", false, rulvar.ToolEnded{ToolName: "search", ToolCallID: "c1", Outcome: rulvar.ToolOK, Verdict: rulvar.VerdictAllow, DecidedBy: rulvar.DecidedByDefault, DurationMs: 12}},
		{"s2", false, rulvar.ToolStarted{ToolName: "rm", ToolCallID: "c2"}},
		{"s2", false, rulvar.ToolEnded{ToolName: "rm", ToolCallID: "c2", Outcome: rulvar.ToolDenied, Verdict: rulvar.VerdictDeny, DecidedBy: rulvar.DecidedByDenyRule, Rule: rule, Reason: "engine.deny[0] matches"}},
		{"s2", false, rulvar.AgentFailed{Kind: llm.KindOverloaded, Message: "busy\x1b[2J", WillRetry: true}},
		{"s2", false, rulvar.ToolStarted{ToolName: "deploy", ToolCallID: "c3"}},
		{"s2", false, rulvar.ApprovalPending{ToolName: "deploy", ToolCallID: "c3", EntryRef: 7, Key: "approval:7", Reason: "the tool needs approval"}},
		{"s0", false, rulvar.PolicyWarning{Message: "a rule names no tool of this agent", Rule: rule}},
		{"s0", false, rulvar.LogEmitted{Level: slog.LevelInfo, Msg: "not shown"}},
		{"s0", false, rulvar.ExternalWaiting{Key: "approval:7", EntryRef: 7}},
		{"s0", false, rulvar.RunEnded{Status: rulvar.RunSuspended}},
	} {
		out = append(out, e.event(s.span, s.replayed, s.body))
	}
	return out
}

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, nil)
	for _, ev := range story() {
		p.take(ev)
	}
	require.Equal(t, `[0:00] ship r1 begins
[0:01] phase check
[0:03] planner: ok, replayed
[0:04] reviewer:one: begins, with local:m
[0:07] reviewer:one: search allow: ok, 12 ms
[0:09] reviewer:one: rm deny: denied, engine.deny[0] matches {"tool":"rm"}, 0 ms
[0:10] reviewer:one: the request failed (overloaded): busy`+"\uFFFD"+`[2J; it is tried again
[0:12] reviewer:one: deploy waits for an approval, approval:7: the tool needs approval
[0:13] warning: a rule names no tool of this agent {"tool":"rm"}
[0:16] ship r1: suspended after 0:16, 305 tokens in, 21 out, $0.0123
`, out.String())
	require.Empty(t, p.runs, "an ended run is forgotten")

	out.Reset()
	e := &told{at: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	for _, ev := range []rulvar.Event{
		e.event("s0", false, rulvar.RunStarted{Workflow: "ship", Resumed: true}),
		e.event("s2", true, rulvar.ToolStarted{ToolName: "deploy", ToolCallID: "c3"}),
		e.event("s2", true, rulvar.ApprovalPending{ToolName: "deploy", ToolCallID: "c3", EntryRef: 7, Key: "approval:7"}),
		e.event("s0", false, rulvar.ResolutionApplied{TargetRef: 7, By: "operator"}),
		e.event("s2", false, rulvar.ToolEnded{ToolName: "deploy", ToolCallID: "c3", Outcome: rulvar.ToolOK, Verdict: rulvar.VerdictAsk, Reason: "the tool needs approval"}),
		e.event("s2", false, rulvar.AgentEnded{Status: rulvar.AgentOK}),
		e.event("s0", false, rulvar.ExternalWaiting{Key: "the\npost", EntryRef: 9}),
		e.event("s0", false, rulvar.RunEnded{Status: rulvar.RunOK}),
	} {
		p.take(ev)
	}
	require.Equal(t, `[0:00] ship r1 goes on
[0:02] agent: deploy waits for an approval, approval:7
[0:03] deploy: answered (operator)
[0:04] agent: deploy ask: ok, the tool needs approval, 0 ms
[0:05] agent: ok, replayed
[0:06] waits for the post
[0:07] ship r1: ok after 0:07
`, out.String())
}

// emulator is as much of a terminal as a tree needs: it knows where the cursor is.
type emulator struct {
	t       *testing.T
	columns int
	lines   []string
	row     int
}

func (s *emulator) Write(b []byte) (int, error) {
	text := string(b)
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines, text = s.lines[:min(s.row, len(s.lines))], text[3:]
		case strings.HasPrefix(text, "\x1b["):
			var n int
			_, err := fmt.Sscanf(text, "\x1b[%dA", &n)
			require.NoError(s.t, err)
			require.LessOrEqual(s.t, n, s.row, "the cursor leaves the tree")
			s.row -= n
			text = text[strings.IndexByte(text, 'A')+1:]
		case text[0] == '\r':
			text = text[1:]
		default:
			line, rest, found := strings.Cut(text, "\n")
			require.True(s.t, found)
			for _, c := range line {
				require.True(s.t, unicode.IsPrint(c), "%q", line)
			}
			require.LessOrEqual(s.t, len([]rune(line)), s.columns)
			s.lines = append(s.lines[:s.row], line)
			s.row++
			text = rest
		}
	}
	return len(b), nil
}

func TestProgressTree(t *testing.T) {
	screen := &emulator{t: t, columns: 100}
	p := newProgress(screen, func() (int, int) { return 100, 24 })
	events := story()
	for _, ev := range events[:13] {
		p.take(ev)
	}
	p.mu.Lock()
	lines := p.tree(events[12].Time, 20)
	p.mu.Unlock()
	require.Equal(t, []string{
		"ship r1  running  0:12, 305 tokens in, 21 out, $0.0123  phase check",
		"├─ planner  ok, replayed",
		"└─ reviewer:one  working  0:08, 300 tokens in, 20 out, calls: 3  local:m",
		"     - search  allow: ok, 12 ms",
		`     - rm  deny: denied, engine.deny[0] matches {"tool":"rm"}, 0 ms`,
		"     ? deploy  waits for an approval, approval:7: the tool needs approval",
		"!  reviewer:one: the request failed (overloaded): busy\uFFFD[2J; it is tried again",
	}, lines)
	for _, ev := range events[13:] {
		p.take(ev)
	}
	require.Equal(t, []string{
		"ship r1  suspended  0:16, 305 tokens in, 21 out, $0.0123  phase check",
		"├─ planner  ok, replayed",
		"└─ reviewer:one  suspended  0:12, 300 tokens in, 20 out, calls: 3  local:m",
		"     - search  allow: ok, 12 ms",
		`     - rm  deny: denied, engine.deny[0] matches {"tool":"rm"}, 0 ms`,
		"     ? deploy  waits for an approval, approval:7: the tool needs approval",
	}, screen.lines, "the last tree stays")
	require.Empty(t, p.runs)
	p.take(story()[0])
	require.Len(t, screen.lines, 7, "the next run begins below")
	p.take(story()[16])
}

// A tree never outgrows the terminal, however many agents there are.
func TestProgressTreeIsBounded(t *testing.T) {
	screen := &emulator{t: t, columns: 30}
	p := newProgress(screen, func() (int, int) { return 30, 10 })
	e := &told{at: time.Now()}
	p.take(e.event("s0", false, rulvar.RunStarted{Workflow: strings.Repeat("long", 50)}))
	for i := range 12 {
		span := fmt.Sprint("a", i)
		p.take(e.event(span, false, rulvar.AgentStarted{AgentType: strings.Repeat("界", 40), Model: "m"}))
		for c := range 40 {
			p.take(e.event(span, false, rulvar.ToolStarted{ToolName: "\x1b[31mred", ToolCallID: fmt.Sprint(c)}))
			p.take(e.event(span, false, rulvar.ToolEnded{ToolName: "\u202ered", ToolCallID: fmt.Sprint(c), Outcome: rulvar.ToolOK}))
		}
		if i%2 == 0 {
			p.take(e.event(span, false, rulvar.AgentEnded{Status: rulvar.AgentOK}))
		}
		require.LessOrEqual(t, len(screen.lines), 9)
		require.LessOrEqual(t, len(p.runs[0].agents[i].calls), maxKeptCalls)
	}
	p.take(e.event("s0", false, rulvar.RunEnded{Status: rulvar.RunOK}))
	require.LessOrEqual(t, len(screen.lines), 9)
}

type brokenWriter struct{ writes int }

func (w *brokenWriter) Write([]byte) (int, error) { w.writes++; return 0, errors.New("gone") }

func TestProgressStopsAfterAnError(t *testing.T) {
	for _, size := range []func() (int, int){nil, func() (int, int) { return 80, 24 }} {
		w := &brokenWriter{}
		p := newProgress(w, size)
		for _, ev := range story() {
			p.take(ev)
		}
		require.Equal(t, 1, w.writes)
	}
}

func TestTerminals(t *testing.T) {
	require.Nil(t, terminalSize(&bytes.Buffer{}))
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	require.Nil(t, terminalSize(file))
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	require.Nil(t, terminalSize(null), "a device is not yet a terminal")
}

func FuzzShown(f *testing.F) {
	f.Add("plain", 10)
	f.Add("\x1b[2J\x1b]0;title\x07\u202eevil\u2028\r\n\xff", 5)
	f.Add(strings.Repeat("界", 300), 20)
	f.Fuzz(func(t *testing.T, s string, columns int) {
		got := shown(s)
		require.LessOrEqual(t, len([]rune(got)), maxShownText+1)
		for _, c := range got {
			require.True(t, unicode.IsPrint(c), "%q", got)
		}
		if columns > 0 && columns < 1000 {
			require.LessOrEqual(t, len([]rune(cutColumns(got, columns))), columns+1)
		}
	})
}
