package shell

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/process"
)

// judging is the part of a [rulvar.ToolContext] that knows the policy.
type judging interface {
	JudgeArgv(argv []string) (rulvar.Verdict, rulvar.Rule)
	JudgeRedirect(op, target string, aliases ...string) (rulvar.Verdict, rulvar.Rule)
}

// judge answers for what one command wants to execute and to open, and keeps
// what it has refused. It is safe for concurrent use.
type judge struct {
	by  judging
	log func(level slog.Level, msg string, data ...any)

	mu      sync.Mutex
	refused []Refusal
	more    int // refusals that are not kept
}

const (
	maxRefused   = 32  // refusals of one command that are kept
	maxShown     = 16  // words of an argv that are shown
	maxShownWord = 200 // bytes of a word that are shown
)

// argv returns "" where argv may be executed, or a line that says why not.
func (j *judge) argv(argv []string) string {
	if len(argv) == 0 {
		return "shell: there is nothing to execute"
	}
	verdict, rule := j.by.JudgeArgv(argv)
	if verdict == rulvar.VerdictPass {
		return ""
	}
	shown := make([]string, min(len(argv), maxShown))
	for i := range shown {
		shown[i] = printable(argv[i])
	}
	if len(argv) > maxShown {
		shown = append(shown, "…")
	}
	return j.refuse(printable(argv[0]), Refusal{Argv: shown, Verdict: verdict, Rule: rule})
}

// file returns "" where a file may be opened, or why not. names are the names
// of the file, as the shell has it first. Files that are only read are held
// against the deny rules alone: the programs of a command read what they like.
func (j *judge) file(op string, names []string) string {
	if len(names) == 0 {
		return "there is nothing to open"
	}
	verdict, rule := j.by.JudgeRedirect(op, names[0], names[1:]...)
	if verdict == rulvar.VerdictPass || op == "<" && verdict == rulvar.VerdictAsk {
		return ""
	}
	return j.refuse("", Refusal{Redirect: op + " " + printable(names[0]), Verdict: verdict, Rule: rule})
}

// refuse keeps a refusal and puts it into words.
func (j *judge) refuse(name string, r Refusal) string {
	if r.Verdict != rulvar.VerdictAsk {
		r.Verdict = rulvar.VerdictDeny // whatever it is, it is no pass
	}
	j.mu.Lock()
	if len(j.refused) < maxRefused {
		j.refused = append(j.refused, r)
	} else {
		j.more++
	}
	j.mu.Unlock()
	j.log(slog.LevelWarn, "the shell was refused something", "argv", r.Argv, "redirect", r.Redirect, "verdict", r.Verdict, "rule", r.Rule)

	text := "denied by policy"
	if r.Verdict == rulvar.VerdictAsk {
		text = "needs approval: nobody has approved this command as it would run"
	}
	if !r.Rule.IsZero() {
		text += fmt.Sprintf(" (%s rule %s)", r.Verdict, r.Rule)
	}
	if name == "" {
		return text
	}
	return "shell: " + name + ": " + text
}

// report adds to a result what was refused.
func (j *judge) report(res *Result) {
	j.mu.Lock()
	defer j.mu.Unlock()
	res.Refused = j.refused
	if j.more > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%d more refusals are not listed", j.more))
	}
}

// printable shortens a word and makes it one that JSON and a person can read.
func printable(word string) string {
	cut := len(word) > maxShownWord
	if cut {
		word = string(process.WholeRunes([]byte(word[:maxShownWord])))
	}
	word = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return utf8.RuneError
		}
		return c
	}, strings.ToValidUTF8(word, "\uFFFD"))
	if cut {
		word += "…"
	}
	return word
}
