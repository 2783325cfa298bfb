package shell

import (
	"testing"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/argv"
)

// readRulvar finds the simple commands of a line as the permission rules do:
// by the scanner for plain lines where it can, else by both readers. What it
// finds is what a rule is matched against, the commands behind wrappers and in
// the text given to a shell included, so it is more work than the peers' argv.
func readRulvar(l *argv.Line, line string) int {
	if l.Read(line) {
		return l.Commands()
	}
	return len(argv.Read(line).Segments())
}

// benchRulvar times readRulvar.
func benchRulvar(b *testing.B, line string) {
	var l argv.Line
	b.ReportAllocs()
	start := cpuTime()
	defer func() { reportCPU(b, start, 1) }()
	for b.Loop() {
		n := readRulvar(&l, line)
		if n == 0 {
			b.Fatal("nothing found")
		}
		sink += n
	}
}

// rules are those of a project: what may run unasked, what never.
var rules = rulvar.ShellRules{
	Deny:  []string{"rm **", "git push --force **", "sudo **", "curl **"},
	Ask:   []string{"git push **", "npm publish **"},
	Allow: []string{"npm test", "npm run *", "git commit -m *", "cd *", "tee *", "echo **", "go test **", "grep **", "cat *"},
}

// BenchmarkVerdict times the whole judgement, line to verdict, by rules that
// are compiled once and by rules that are compiled for the call.
func BenchmarkVerdict(b *testing.B) {
	m, err := rulvar.CompileShellRules(rules)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range commands {
		for _, way := range []struct {
			name  string
			match func(string) rulvar.Verdict
		}{
			{"rulvar-compiled", m.Match},
			{"rulvar-MatchShellCommand", func(line string) rulvar.Verdict { return rulvar.MatchShellCommand(line, rules) }},
		} {
			b.Run(c.name+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if v := way.match(c.line); v != verdicts[c.name] {
						b.Fatal(v)
					}
				}
			})
		}
		b.Run(c.name+"/byte-loop-bound", func(b *testing.B) { byteLoop(b, c.line) })
	}
}

// verdicts are the answers: the chain asks since it writes to a file that no
// pattern names, the long line since it holds substitutions.
var verdicts = map[string]rulvar.Verdict{
	"npm": rulvar.VerdictAllow, "git": rulvar.VerdictAllow, "chain": rulvar.VerdictAllow, "2kB": rulvar.VerdictAsk,
}

func byteLoop(b *testing.B, line string) {
	b.ReportAllocs()
	start := cpuTime()
	defer func() { reportCPU(b, start, 1) }()
	for b.Loop() {
		n := 0
		for i := 0; i < len(line); i++ {
			n += int(class[line[i]])
		}
		sink += n
	}
}

// TestRulvar holds our reader to the number of commands, and the verdicts to
// what the rules mean.
func TestRulvar(t *testing.T) {
	m, err := rulvar.CompileShellRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		var l argv.Line
		if got := readRulvar(&l, c.line); c.simple != 0 && got != c.simple || got == 0 {
			t.Errorf("%s: %d commands, want %d", c.name, got, c.simple)
		}
		if v := m.Match(c.line); v != verdicts[c.name] {
			t.Errorf("%s: %s, want %s", c.name, v, verdicts[c.name])
		}
		if v := rulvar.MatchShellCommand(c.line, rules); v != verdicts[c.name] {
			t.Errorf("%s: %s, want %s", c.name, v, verdicts[c.name])
		}
	}
}
