//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// fakePolicy denies and asks by the first word of an argv and by the names of a
// file, and keeps what it was asked.
type fakePolicy struct {
	deny, ask string
	seen      []string
}

func (p *fakePolicy) answer(word string) rulvar.Verdict {
	for _, side := range []struct {
		list    string
		verdict rulvar.Verdict
	}{{p.deny, rulvar.VerdictDeny}, {p.ask, rulvar.VerdictAsk}} {
		if strings.Contains(" "+side.list+" ", " "+word+" ") {
			return side.verdict
		}
	}
	return rulvar.VerdictPass
}

func (p *fakePolicy) JudgeArgv(argv []string) (rulvar.Verdict, *rulvar.Rule) {
	p.seen = append(p.seen, strings.Join(argv, "|"))
	return p.answer(argv[0]), nil
}

func (p *fakePolicy) JudgeRedirect(op, target string, aliases ...string) (rulvar.Verdict, *rulvar.Rule) {
	p.seen = append(p.seen, op+target)
	for _, name := range append(aliases, target) {
		if v := p.answer(op + name); v != rulvar.VerdictPass {
			return v, nil
		}
	}
	return rulvar.VerdictPass, nil
}

// runCommand runs a command in a directory of its own.
func runCommand(t *testing.T, ctx context.Context, o Options, p judging, command string, timeout time.Duration) *Result {
	t.Helper()
	r, err := newRunner(o)
	require.NoError(t, err)
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	res, err := r.run(ctx, &job{command: command, dir: o.Dir, timeout: timeout, judge: &judge{by: p, log: func(level slog.Level, msg string, data ...any) {
		if level >= slog.LevelError {
			t.Log(append([]any{msg}, data...)...)
		}
	}}})
	require.NoError(t, err)
	return res
}

func TestAdHoc(t *testing.T) {
	cmds := strings.Split(os.Getenv("CMDS"), "@@")
	for _, c := range cmds {
		start := time.Now()
		res := runCommand(t, t.Context(), Options{}, &fakePolicy{deny: "rm", ask: "git"}, c, 20*time.Second)
		b, _ := json.Marshal(res)
		if len(b) > 600 {
			b = b[:600]
		}
		t.Logf("%s\n   %s  %v", c, b, time.Since(start))
	}
}
