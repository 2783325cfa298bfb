package rulvartest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
)

// ExecutorSetup is what an obligation asks of the executor that it is held
// against. An executor that cannot be set up so cannot be held to it.
type ExecutorSetup struct {
	// AllowEnv names the variables of the host that programs find.
	AllowEnv []string
	// Credentials are further variables, for every call.
	Credentials map[string]string
	// Timeout, KillDelay and MaxOutput bound a program; zero is the executor's
	// default.
	Timeout, KillDelay time.Duration
	MaxOutput          int
	// Ledger accounts for effects; nil is none.
	Ledger executor.Ledger
}

// RunExecutorSuite holds an executor to what is asked of one that runs programs:
// what a program sees, what ends it, what the ledger says of it. Each obligation
// is a subtest with a name of its own. open returns an executor, anew for each
// subtest, for tools whose spec is an [executor.Program].
//
// The programs are scripts for /bin/sh, which needs cat, env, ls and sleep
// beside itself; PATH is among the AllowEnv of those that do. Failures have the
// codes of package executor. A program that is not ended hangs the test: nothing
// here measures a time.
func RunExecutorSuite(t *testing.T, open func(t *testing.T, setup *ExecutorSetup) rulvar.ToolExecutor) {
	t.Helper()
	for _, o := range executorObligations {
		t.Run(o.name, func(t *testing.T) {
			o.check(&executorTest{TB: t, open: func(s *ExecutorSetup) rulvar.ToolExecutor { return open(t, s) }})
		})
	}
}

// executorTest is an executor that an obligation is held against.
type executorTest struct {
	testing.TB
	open func(*ExecutorSetup) rulvar.ToolExecutor
}

// executorCalls makes each call's key its own.
var executorCalls atomic.Int64

// call is a call of a tool that is a script.
func (u *executorTest) call(script string) rulvar.ExecutorCall {
	u.Helper()
	spec, err := executor.Program{Command: "/bin/sh", Args: []string{"-c", script}}.Spec()
	if err != nil {
		u.Fatal(err)
	}
	return rulvar.ExecutorCall{
		Tool: "suite_tool", Input: json.RawMessage(`{"n":1,"text":"a b"}`), Spec: spec,
		IdempotencyKey: fmt.Sprintf("suite-%d-%d", os.Getpid(), executorCalls.Add(1)),
	}
}

func (u *executorTest) run(x rulvar.ToolExecutor, call rulvar.ExecutorCall) (string, error) {
	out, err := x.Execute(&rulvar.ToolContext{Context: u.Context()}, call)
	return string(out), err
}

// gives ends the test where a script does not have this result.
func (u *executorTest) gives(x rulvar.ToolExecutor, script, want string) {
	u.Helper()
	out, err := u.run(x, u.call(script))
	if err != nil || out != want {
		u.Fatalf("the program %q: the result is %s, the error %v; want %s", script, out, err, want)
	}
}

// fails ends the test where a script does not fail with a code. It returns what
// the error knows.
func (u *executorTest) fails(x rulvar.ToolExecutor, script string, code rulvar.Code) *rulvar.Error {
	u.Helper()
	out, err := u.run(x, u.call(script))
	e, typed := errors.AsType[*rulvar.Error](err)
	if !typed || !errors.Is(err, code) {
		u.Fatalf("the program %q: the result is %s, the error %v; want an error with the code %s", script, out, err, code)
	}
	return e
}

// watchedLedger looks at the directory of each intent, and loses outcomes where
// it is told to.
type watchedLedger struct {
	*executor.MemoryLedger
	lose error

	mu       sync.Mutex
	atIntent []string // what the directories held
}

// Intent implements [executor.Ledger].
func (l *watchedLedger) Intent(ctx context.Context, in *executor.Intent) error {
	entries, err := os.ReadDir(in.Workdir)
	l.mu.Lock()
	if err != nil {
		l.atIntent = append(l.atIntent, err.Error())
	}
	for _, e := range entries {
		l.atIntent = append(l.atIntent, e.Name())
	}
	l.mu.Unlock()
	return l.MemoryLedger.Intent(ctx, in)
}

// Outcome implements [executor.Ledger].
func (l *watchedLedger) Outcome(ctx context.Context, out *executor.Outcome) error {
	if l.lose != nil {
		return l.lose
	}
	return l.MemoryLedger.Outcome(ctx, out)
}

func newWatchedLedger() *watchedLedger {
	return &watchedLedger{MemoryLedger: executor.NewMemoryLedger()}
}
