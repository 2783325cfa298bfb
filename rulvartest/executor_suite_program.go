package rulvartest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
)

// executorObligation is one thing that is asked of an executor.
type executorObligation struct {
	name  string
	check func(u *executorTest)
}

// short is a bound that strikes; what it strikes would take an hour.
const short = 300 * time.Millisecond

var executorObligations = []executorObligation{
	{"the request is read and the result comes back", func(u *executorTest) {
		call := u.call("cat")
		out, err := u.run(u.open(&ExecutorSetup{AllowEnv: []string{"PATH"}}), call)
		want := fmt.Sprintf(`{"tool":"suite_tool","args":{"n":1,"text":"a b"},"idempotencyKey":%q}`, call.IdempotencyKey)
		if err != nil || out != want {
			u.Fatalf("the result is %s, the error %v; want %s", out, err, want)
		}
		u.gives(u.open(&ExecutorSetup{}), "cat > /dev/null; :", "null")
	}},
	{"the host's environment is not seen", func(u *executorTest) {
		u.Setenv("RULVAR_SUITE_SECRET", "secret")
		u.gives(u.open(&ExecutorSetup{}), `echo "\"${RULVAR_SUITE_SECRET-none}/${HOME-none}\""`, `"none/none"`)
	}},
	{"what is allowed is seen", func(u *executorTest) {
		u.Setenv("RULVAR_SUITE_ALLOWED", "allowed value")
		u.gives(u.open(&ExecutorSetup{AllowEnv: []string{"RULVAR_SUITE_ALLOWED", "RULVAR_SUITE_UNSET"}}),
			`echo "\"$RULVAR_SUITE_ALLOWED/${RULVAR_SUITE_UNSET-none}\""`, `"allowed value/none"`)
	}},
	{"credentials are given, and win", func(u *executorTest) {
		u.Setenv("RULVAR_SUITE_TOKEN", "the host's")
		u.gives(u.open(&ExecutorSetup{AllowEnv: []string{"RULVAR_SUITE_TOKEN"}, Credentials: map[string]string{"RULVAR_SUITE_TOKEN": "the call's"}}),
			`echo "\"$RULVAR_SUITE_TOKEN\""`, `"the call's"`)
	}},
	{"the idempotency key is in the environment, and nothing takes its place", func(u *executorTest) {
		x := u.open(&ExecutorSetup{Credentials: map[string]string{executor.EnvIdempotencyKey: "forged"}})
		call := u.call(`echo "\"$` + executor.EnvIdempotencyKey + `/$` + executor.EnvTool + `\""`)
		if out, err := u.run(x, call); err != nil || out != `"`+call.IdempotencyKey+`/suite_tool"` {
			u.Fatalf("the result is %s, the error %v", out, err)
		}
	}},
	{"a time-out ends a program", func(u *executorTest) {
		x := u.open(&ExecutorSetup{AllowEnv: []string{"PATH"}, Timeout: short, KillDelay: short})
		u.fails(x, "echo partial; exec sleep 3600", executor.ErrTimeout)
	}},
	{"output has a bound", func(u *executorTest) {
		x := u.open(&ExecutorSetup{MaxOutput: 32 << 10, KillDelay: short})
		u.fails(x, "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", executor.ErrOutputCap)
	}},
	{"a status is an error that shows standard error", func(u *executorTest) {
		e := u.fails(u.open(&ExecutorSetup{}), "echo what went wrong >&2; exit 7", executor.ErrExit)
		if !strings.Contains(e.Error(), "what went wrong") || !strings.Contains(e.Error(), "7") {
			u.Fatalf("the error %q shows neither the status nor what the program has said", e)
		}
	}},
	{"output that is no JSON is an error", func(u *executorTest) {
		x := u.open(&ExecutorSetup{})
		for _, script := range []string{"echo garbage", "echo 1 2", "echo '{}' trailing", `printf '"\377"'`} {
			u.fails(x, script, executor.ErrProtocol)
		}
	}},
	{"a directory of its own, empty, and removed", func(u *executorTest) {
		l := newWatchedLedger()
		x := u.open(&ExecutorSetup{AllowEnv: []string{"PATH"}, Ledger: l})
		for range 2 {
			u.gives(x, `test -z "$(ls -A)" && mkdir left && : > left/file && echo true`, "true")
		}
		u.fails(x, ": > left; exit 1", executor.ErrExit)
		seen := map[string]bool{}
		for _, in := range l.Intents() {
			if _, err := os.Lstat(in.Workdir); !errors.Is(err, os.ErrNotExist) {
				u.Fatalf("the directory %s is left: %v", in.Workdir, err)
			}
			seen[in.Workdir] = true
		}
		if len(seen) != 3 {
			u.Fatalf("three calls had %d directories", len(seen))
		}
	}},
	{"the agent's own tree, where the program asks for it and there is one", checkTree},
	{"the ledger has an intent and an outcome of each call", checkRows},
	{"output that is no JSON is accounted for as an error with its status", func(u *executorTest) {
		l := newWatchedLedger()
		u.fails(u.open(&ExecutorSetup{Ledger: l}), "echo garbage", executor.ErrProtocol)
		out := l.Outcomes()
		if len(out) != 1 || out[0].Outcome != executor.OutcomeError || out[0].ExitCode == nil || *out[0].ExitCode != 0 {
			u.Fatalf("the outcomes are %s", show(out))
		}
	}},
	{"an outcome that is lost leaves an open intent", checkOrphan},
	{"what a program has started is ended with it", checkGrandchild},
	{"input that is not read is no error", func(u *executorTest) {
		call := u.call(`exec 0<&-; echo true`)
		call.Input = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		if out, err := u.run(u.open(&ExecutorSetup{}), call); err != nil || out != "true" {
			u.Fatalf("the result is %s, the error %v", out, err)
		}
	}},
	{"a call whose context has ended is not started", func(u *executorTest) {
		l := newWatchedLedger()
		x := u.open(&ExecutorSetup{Ledger: l})
		ctx, cancel := context.WithCancel(u.Context())
		cancel()
		_, err := x.Execute(&rulvar.ToolContext{Context: ctx}, u.call("echo true"))
		if !errors.Is(err, executor.ErrAborted) {
			u.Fatalf("the error is %v, want one with the code %s", err, executor.ErrAborted)
		}
		for _, out := range l.Outcomes() {
			if !out.NoEffect {
				u.Fatalf("the outcome is %s, of a program that was never started", show(out))
			}
		}
	}},
	{"exactly the bound is too much", func(u *executorTest) {
		x := u.open(&ExecutorSetup{AllowEnv: []string{"PATH"}})
		fill := func(n int) string {
			return fmt.Sprintf(`printf '"'; head -c %d /dev/zero | tr '\0' x; printf '"'`, n-2)
		}
		if out, err := u.run(x, u.call(fill(1<<20-1))); err != nil || len(out) != 1<<20-1 {
			u.Fatalf("one byte below 1 MiB: %d bytes, the error %v", len(out), err)
		}
		u.fails(x, fill(1<<20), executor.ErrOutputCap)
		u.fails(x, fill(1<<20+1), executor.ErrOutputCap)
	}},
	{"what was written is kept", func(u *executorTest) {
		var e *rulvar.Error
		for bound := short; bound < time.Minute; bound *= 4 { // a program may need a while to begin
			x := u.open(&ExecutorSetup{AllowEnv: []string{"PATH"}, Timeout: bound, KillDelay: short})
			if e = u.fails(x, "echo partial; exec sleep 3600", executor.ErrTimeout); e.Data["stdout"] == "partial\n" {
				return
			}
		}
		u.Fatalf("the error holds %s", show(e.Data))
	}},
	{"an open effect stops the next try, unless the tool is idempotent", checkNextTry},
}

func checkRows(u *executorTest) {
	l := newWatchedLedger()
	x := u.open(&ExecutorSetup{Ledger: l})
	u.gives(x, "echo true", "true")
	u.fails(x, "exit 1", executor.ErrExit)
	intents, outcomes := l.Intents(), l.Outcomes()
	if len(intents) != 2 || len(outcomes) != 2 {
		u.Fatalf("two calls have %d intents and %d outcomes", len(intents), len(outcomes))
	}
	for i, want := range []executor.OutcomeKind{executor.OutcomeOK, executor.OutcomeError} {
		out := outcomes[i]
		switch {
		case out.Outcome != want:
			u.Fatalf("the outcome of call %d is %q, want %q", i, out.Outcome, want)
		case out.Intent != intents[i]:
			u.Fatalf("the outcome of call %d is of another intent: %s", i, show(out))
		case len(out.ArgsHash) != 64 || out.ArgsHash != strings.ToLower(out.ArgsHash) || out.AttemptID == "" || out.Tool != "suite_tool" || out.StartedAt == 0:
			u.Fatalf("the row of call %d is %s", i, show(out))
		}
	}
	if intents[0].AttemptID == intents[1].AttemptID {
		u.Fatal("two attempts have one id")
	}
}

func checkOrphan(u *executorTest) {
	l := newWatchedLedger()
	l.lose = errors.New("the ledger is gone")
	u.fails(u.open(&ExecutorSetup{Ledger: l}), ": > file; echo true", executor.ErrLedger)
	if len(l.atIntent) > 0 {
		u.Fatalf("at the time of the intent the directory held %q", l.atIntent)
	}
	if open := l.Open(); len(open) != 1 || open[0].Intent != l.Intents()[0] {
		u.Fatalf("the open attempts are %s", show(open))
	}
}

// checkGrandchild has a program start another that ignores SIGTERM, holds the
// output, and writes its pulse where the host sees it, if it can reach that.
func checkGrandchild(u *executorTest) {
	pulse := filepath.Join(u.TempDir(), "pulse")
	x := u.open(&ExecutorSetup{AllowEnv: []string{"PATH"}, Timeout: short, KillDelay: short, Credentials: map[string]string{"PULSE": pulse}})
	u.fails(x, `sh -c 'trap "" TERM; while :; do echo x >> "$PULSE"; sleep 0.01; done' & wait`, executor.ErrTimeout)
	before, _ := os.ReadFile(pulse)
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		if after, _ := os.ReadFile(pulse); len(after) > len(before) {
			u.Fatal("what the program has started goes on")
		}
	}
	// One that is left behind by a program that ends does not hold up the call.
	u.gives(u.open(&ExecutorSetup{AllowEnv: []string{"PATH"}}), `sleep 3600 & echo true`, "true")
}

func checkNextTry(u *executorTest) {
	l := newWatchedLedger()
	x := u.open(&ExecutorSetup{Ledger: l})
	call := u.call("echo true")
	l.lose = errors.New("the host has died")
	if _, err := u.run(x, call); !errors.Is(err, executor.ErrLedger) {
		u.Fatalf("the outcome was lost, and the error is %v", err)
	}
	l.lose = nil
	if _, err := u.run(x, call); !errors.Is(err, executor.ErrLedger) {
		u.Fatalf("an effect is open, and the error of the next try is %v", err)
	}
	if n := len(l.Intents()); n != 1 {
		u.Fatalf("a call that was not started has an intent: %d in all", n)
	}
	call.Idempotent = true
	if out, err := u.run(x, call); err != nil || out != "true" {
		u.Fatalf("an idempotent call: the result is %s, the error %v", out, err)
	}
	if n := len(l.Open()); n != 1 {
		u.Fatalf("%d attempts are open; another attempt does not settle the first", n)
	}
}
