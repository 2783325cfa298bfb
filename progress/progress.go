// Package progress shows a person how runs go on, from their events:
//
//	run, err := rulvar.Run(ctx, engine, w, args, &rulvar.RunOptions{OnEvent: progress.Show(os.Stderr)})
package progress

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

// Show returns a listener for [rulvar.RunOptions].OnEvent that shows a person
// how runs go on. Where w is a terminal it keeps a tree up to date: each agent with
// its calls, what was said of them, what waits for an approval, tokens, cost and
// time. Anywhere else, and on a dumb terminal, it writes a line for each thing
// that happens. Text that models, tools and servers make up is shown without
// control characters, and shortened.
//
// One listener may serve several runs, also at once. After an error of w it
// writes nothing more.
func Show(w io.Writer) func(rulvar.Event) {
	return newProgress(w, terminalSize(w)).take
}

// progress is what a listener knows of its runs.
type progress struct {
	mu     sync.Mutex
	w      io.Writer
	screen *screen // nil where lines are written
	runs   []*runProgress
	broken bool
}

// runProgress is one segment of a run.
type runProgress struct {
	id, workflow string
	phase        string
	began, ended time.Time
	status       rulvar.RunStatus
	agents       []*agentProgress
	spent        float64
	waiting      map[int64]string // what is asked, by its entry
	note         string           // the last warning
}

// agentProgress is one agent of a run.
type agentProgress struct {
	span, name, model string
	began, ended      time.Time
	status            rulvar.AgentStatus // "" while it works
	stopped           rulvar.RunStatus   // how the run ended before it did
	replayed          bool
	usage             llm.Usage
	calls             []*callProgress // the last ones
	made              int             // calls so far
}

// callProgress is one call of an agent.
type callProgress struct {
	id, tool string
	state    string // in words
	waits    bool
	done     bool
}

// newProgress makes a listener; size is nil where w is no terminal.
func newProgress(w io.Writer, size func() (columns, rows int)) *progress {
	p := &progress{w: w}
	if size != nil {
		p.screen = &screen{size: size}
	}
	return p
}

// take brings an event in and shows it.
func (p *progress) take(ev rulvar.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.run(ev)
	line := r.take(ev)
	if p.broken {
		return
	}
	if p.screen != nil {
		_, ended := ev.Body.(rulvar.RunEnded)
		p.refresh(ended || line != "")
		return
	}
	if line != "" {
		p.write([]byte(fmt.Sprintf("[%s] %s\n", clockText(ev.Time.Sub(r.began)), line)))
	}
	p.forget()
}

// write writes, until that fails.
func (p *progress) write(b []byte) {
	if _, err := p.w.Write(b); err != nil {
		p.broken = true
	}
}

// run is the run of an event.
func (p *progress) run(ev rulvar.Event) *runProgress {
	_, starts := ev.Body.(rulvar.RunStarted)
	for _, r := range p.runs {
		if r.id == ev.RunID && !(starts && r.status != rulvar.RunRunning) {
			return r
		}
	}
	r := &runProgress{id: ev.RunID, began: ev.Time, status: rulvar.RunRunning, waiting: map[int64]string{}}
	p.runs = append(p.runs, r)
	return r
}

// forget lets go of runs that have ended, once all have.
func (p *progress) forget() {
	for _, r := range p.runs {
		if r.status == rulvar.RunRunning {
			return
		}
	}
	p.runs = nil
}

// take brings an event in and puts it into words; "" where there is nothing to
// say.
func (r *runProgress) take(ev rulvar.Event) string {
	switch b := ev.Body.(type) {
	case rulvar.RunStarted:
		r.workflow = shown(b.Workflow)
		if b.Resumed {
			return r.title() + " goes on"
		}
		return r.title() + " begins"
	case rulvar.PhaseStarted:
		r.phase = shown(b.Phase)
		return "phase " + r.phase
	case rulvar.AgentStarted, rulvar.AgentEnded, rulvar.AgentFailed, rulvar.BudgetUpdated:
		return r.takeAgent(ev)
	case rulvar.ToolStarted, rulvar.ToolEnded, rulvar.ApprovalPending:
		return r.takeCall(ev)
	case rulvar.ResolutionApplied:
		what, ok := r.waiting[b.TargetRef]
		delete(r.waiting, b.TargetRef)
		if !ok {
			what = fmt.Sprintf("entry %d", b.TargetRef)
		}
		return fmt.Sprintf("%s: answered (%s)", what, shown(b.By))
	case rulvar.ExternalWaiting:
		if strings.HasPrefix(b.Key, "approval:") || b.Key == "" || r.waiting[b.EntryRef] != "" {
			return ""
		}
		r.waiting[b.EntryRef] = shown(b.Key)
		return "waits for " + shown(b.Key)
	case rulvar.PolicyWarning:
		r.note = shown(b.Message)
		if !b.Rule.IsZero() {
			r.note += " " + shown(b.Rule.String())
		}
		return "warning: " + r.note
	case rulvar.LogEmitted:
		if b.Level < slog.LevelWarn {
			return ""
		}
		r.note = shown(b.Msg)
		return strings.ToLower(b.Level.String()) + ": " + r.note
	case rulvar.RunEnded:
		r.status, r.ended = b.Status, ev.Time
		for _, a := range r.agents {
			if a.status == "" {
				a.stopped, a.ended = b.Status, ev.Time
			}
		}
		return fmt.Sprintf("%s: %s after %s%s", r.title(), b.Status, clockText(ev.Time.Sub(r.began)), r.account())
	}
	return ""
}

func (r *runProgress) takeAgent(ev rulvar.Event) string {
	if b, ok := ev.Body.(rulvar.AgentStarted); ok {
		name := cmp.Or(shown(b.AgentType), "agent")
		if b.Label != "" {
			name += ":" + shown(b.Label)
		}
		a := &agentProgress{span: ev.SpanID, name: name, model: shown(b.Model), began: ev.Time, replayed: ev.Replayed}
		r.agents = append(r.agents, a)
		if ev.Replayed {
			return ""
		}
		return a.name + ": begins, with " + a.model
	}
	a := r.agent(ev)
	switch b := ev.Body.(type) {
	case rulvar.BudgetUpdated:
		a.usage, r.spent = b.Usage, max(r.spent, b.SpentUSD)
	case rulvar.AgentFailed:
		text := fmt.Sprintf("%s: the request failed (%s): %s", a.name, shown(string(b.Kind)), shown(b.Message))
		if b.WillRetry {
			text += "; it is tried again"
		}
		r.note = text
		return text
	case rulvar.AgentEnded:
		a.status, a.usage, a.ended = b.Status, b.Usage, ev.Time
		if a.replayed {
			return fmt.Sprintf("%s: %s, replayed", a.name, b.Status)
		}
		return fmt.Sprintf("%s: %s%s", a.name, b.Status, tokensText(a.usage))
	}
	return ""
}

// agent is the agent of an event; one whose start was missed begins with it.
func (r *runProgress) agent(ev rulvar.Event) *agentProgress {
	for i := len(r.agents) - 1; i >= 0; i-- {
		if r.agents[i].span == ev.SpanID {
			return r.agents[i]
		}
	}
	a := &agentProgress{span: ev.SpanID, name: "agent", began: ev.Time, replayed: ev.Replayed}
	r.agents = append(r.agents, a)
	return a
}

func (r *runProgress) takeCall(ev rulvar.Event) string {
	a := r.agent(ev)
	switch b := ev.Body.(type) {
	case rulvar.ToolStarted:
		c := a.call(b.ToolCallID, b.ToolName)
		c.state, c.done, c.waits = "is judged and runs", false, false
	case rulvar.ApprovalPending:
		c := a.call(b.ToolCallID, b.ToolName)
		c.waits, c.state = true, "waits for an approval, "+shown(b.Key)
		if b.Reason != "" {
			c.state += ": " + shown(b.Reason)
		}
		r.waiting[b.EntryRef] = c.tool
		return fmt.Sprintf("%s: %s %s", a.name, c.tool, c.state)
	case rulvar.ToolEnded:
		c := a.call(b.ToolCallID, b.ToolName)
		c.done, c.waits, c.state = true, false, endText(&b)
		return fmt.Sprintf("%s: %s %s", a.name, c.tool, c.state)
	}
	return ""
}

// maxKeptCalls is how many calls of an agent are remembered.
const maxKeptCalls = 32

func (a *agentProgress) call(id, tool string) *callProgress {
	for _, c := range a.calls {
		if c.id == id {
			return c
		}
	}
	c := &callProgress{id: id, tool: shown(tool)}
	if a.made++; len(a.calls) >= maxKeptCalls {
		a.calls = slices.DeleteFunc(a.calls, func(c *callProgress) bool { return c.done })
	}
	a.calls = append(a.calls, c)
	return c
}

// endText says what became of a call, and why where it did not just run.
func endText(b *rulvar.ToolEnded) string {
	text := cmp.Or(string(b.Verdict), "not judged") + ": " + string(b.Outcome)
	if b.ErrorCode != "" {
		text += " " + shown(b.ErrorCode)
	}
	if b.Verdict == rulvar.VerdictDeny || b.Verdict == rulvar.VerdictAsk {
		if b.Reason != "" {
			text += ", " + shown(b.Reason)
		}
		if !b.Rule.IsZero() {
			text += " " + shown(b.Rule.String())
		}
	}
	return text + fmt.Sprintf(", %d ms", b.DurationMs)
}

func (r *runProgress) title() string {
	return strings.TrimSpace(r.workflow + " " + shown(r.id))
}

// account is what the run has used and cost, so far as it is known.
func (r *runProgress) account() string {
	var u llm.Usage
	for _, a := range r.agents {
		u = u.Add(a.usage)
	}
	text := tokensText(u)
	if r.spent > 0 {
		text += fmt.Sprintf(", $%.4f", r.spent)
	}
	return text
}

func tokensText(u llm.Usage) string {
	if u.InputTokens == 0 && u.OutputTokens == 0 {
		return ""
	}
	return fmt.Sprintf(", %d tokens in, %d out", u.InputTokens, u.OutputTokens)
}

// clockText is a time as minutes and seconds.
func clockText(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// maxShownText is how many runes of a foreign text are shown.
const maxShownText = 160

// shown makes a foreign text one that a terminal can be given: no control and no
// format characters, which move the cursor, change colours or turn text around.
func shown(s string) string {
	if len(s) > maxShownText*utf8.UTFMax {
		s = s[:maxShownText*utf8.UTFMax]
	}
	var b strings.Builder
	n := 0
	for _, c := range s {
		if n++; n > maxShownText {
			b.WriteRune('…')
			break
		}
		switch {
		case c == '\n' || c == '\t' || c == '\r':
			c = ' '
		case !unicode.IsPrint(c):
			c = utf8.RuneError
		}
		b.WriteRune(c)
	}
	return b.String()
}
