package progress

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	rulvar "github.com/rulvar/rulvar-go"
)

// screen is a terminal below whose cursor a tree is kept.
type screen struct {
	size  func() (columns, rows int)
	lines int // that the tree takes now
	drawn time.Time
	timer *time.Timer
}

// How often the tree is drawn: at once where something was said, soon where a
// detail changed, and for the time that passes.
const (
	drawSoon  = 50 * time.Millisecond
	drawClock = time.Second
)

// refresh draws the tree, now or soon. p.mu is held.
func (p *progress) refresh(now bool) {
	if !now && time.Since(p.screen.drawn) < drawSoon {
		p.screen.arm(drawSoon, p.tick)
		return
	}
	p.draw()
}

// tick draws the tree because time has passed.
func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.runs) > 0 && !p.broken {
		p.draw()
	}
}

func (s *screen) arm(d time.Duration, fn func()) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(d, fn)
}

// draw puts the tree in the place of the last one. When all runs have ended it
// stays, and the next one begins below.
func (p *progress) draw() {
	s := p.screen
	columns, rows := s.size()
	lines := p.tree(time.Now(), max(rows-1, 4))
	var b bytes.Buffer
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	b.WriteString("\r\x1b[J")
	for _, line := range lines {
		b.WriteString(cutColumns(line, max(columns-2, 1)))
		b.WriteByte('\n')
	}
	p.write(b.Bytes())
	s.lines, s.drawn = len(lines), time.Now()
	if p.forget(); len(p.runs) == 0 || p.broken {
		s.lines = 0
		if s.timer != nil {
			s.timer.Stop()
		}
		return
	}
	s.arm(drawClock, p.tick)
}

// tree is all runs in lines, of which the terminal holds at most limit. What has
// ended goes first where there are too many.
func (p *progress) tree(now time.Time, limit int) []string {
	for shownCalls := 3; ; shownCalls-- {
		var lines []string
		for _, r := range p.runs {
			lines = append(lines, r.tree(now, shownCalls)...)
		}
		if len(lines) <= limit {
			return lines
		}
		if shownCalls <= -1 {
			return append(lines[:limit-1:limit-1], fmt.Sprintf("… %d more lines", len(lines)-limit+1))
		}
	}
}

// tree is one run: its head, and each agent with its last calls. Fewer than no
// calls leaves out the agents that have ended.
func (r *runProgress) tree(now time.Time, calls int) []string {
	if !r.ended.IsZero() {
		now = r.ended
	}
	head := fmt.Sprintf("%s  %s  %s%s", r.title(), r.status, clockText(now.Sub(r.began)), r.account())
	if r.phase != "" {
		head += "  phase " + r.phase
	}
	lines := []string{head}
	agents, left := r.agents, 0
	if calls < 0 {
		agents = nil
		for _, a := range r.agents {
			if a.status == "" {
				agents = append(agents, a)
			} else {
				left++
			}
		}
	}
	for i, a := range agents {
		branch, stem := "├─ ", "│    "
		if i == len(agents)-1 && left == 0 {
			branch, stem = "└─ ", "     "
		}
		lines = append(lines, branch+a.line(now))
		for _, c := range a.shownCalls(max(calls, 0)) {
			lines = append(lines, stem+c.line())
		}
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("└─ %d that have ended", left))
	}
	if r.note != "" && r.status == rulvar.RunRunning {
		lines = append(lines, "!  "+r.note)
	}
	return lines
}

func (a *agentProgress) line(now time.Time) string {
	if a.replayed {
		return fmt.Sprintf("%s  %s, replayed", a.name, cmp.Or(string(a.status), "working"))
	}
	if !a.ended.IsZero() {
		now = a.ended
	}
	text := fmt.Sprintf("%s  %s  %s%s", a.name, cmp.Or(string(a.status), string(a.stopped), "working"), clockText(now.Sub(a.began)), tokensText(a.usage))
	if a.made > 0 {
		text += fmt.Sprintf(", calls: %d", a.made)
	}
	return text + "  " + a.model
}

// shownCalls are the calls that are worth a line: what waits and runs always,
// what was done last as far as there is room, and nothing of an agent that has
// ended.
func (a *agentProgress) shownCalls(limit int) []*callProgress {
	if a.status != "" {
		return nil
	}
	from := max(len(a.calls)-limit, 0)
	var out []*callProgress
	for i, c := range a.calls {
		if i >= from || !c.done {
			out = append(out, c)
		}
	}
	return out
}

func (c *callProgress) line() string {
	mark := "·"
	switch {
	case c.waits:
		mark = "?"
	case c.done:
		mark = "-"
	}
	return fmt.Sprintf("%s %s  %s", mark, c.tool, c.state)
}

// cutColumns cuts a line that would wrap. It counts a rune that may be wide as
// two columns and no rune as none: a line that is too short does no harm.
func cutColumns(line string, columns int) string {
	used := 0
	for i, c := range line {
		w := 1
		if c >= 0x1100 && !unicode.Is(unicode.Latin, c) && !strings.ContainsRune("├─└│…", c) {
			w = 2
		}
		if used += w; used > columns {
			return line[:i] + "…"
		}
	}
	return line
}
