//go:build unix

package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
)

func fileLedger(t testing.TB, path string) *executor.FileLedger {
	t.Helper()
	l, err := executor.OpenFileLedger(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// stubborn is a ledger that fails where it is told to.
type stubborn struct {
	executor.Ledger
	attempts, intent, outcome error
	lose                      bool // the outcome
}

func (l *stubborn) Attempts(ctx context.Context, key string) ([]executor.Attempt, error) {
	if l.attempts != nil {
		return nil, l.attempts
	}
	return l.Ledger.Attempts(ctx, key)
}

func (l *stubborn) Intent(ctx context.Context, in *executor.Intent) error {
	if l.intent != nil {
		return l.intent
	}
	return l.Ledger.Intent(ctx, in)
}

func (l *stubborn) Outcome(ctx context.Context, out *executor.Outcome) error {
	if l.outcome != nil || l.lose {
		return l.outcome
	}
	return l.Ledger.Outcome(ctx, out)
}

// Both ledgers, under every call of a program.
func TestLedgerRows(t *testing.T) {
	for _, kind := range []string{"memory", "file"} {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "effects.jsonl")
			memory := executor.NewMemoryLedger()
			var l executor.Ledger = memory
			if kind == "file" {
				l = fileLedger(t, path)
			}
			x := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Ledger: l})
			for _, script := range []string{"echo 1", "exit 7", "kill -9 $$", "echo text"} {
				_, _ = run(t, x, scriptCall(t, script))
			}
			_, err := run(t, subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Ledger: l, Timeout: 1e8}), scriptCall(t, "sleep 3600"))
			require.ErrorIs(t, err, executor.ErrTimeout)
			call := scriptCall(t, "")
			call.Spec = json.RawMessage(`{"command":"/nosuch"}`)
			_, err = run(t, x, call)
			require.ErrorIs(t, err, executor.ErrSpawn)

			intents, outcomes := memory.Intents(), memory.Outcomes()
			if kind == "file" {
				rep, err := executor.ReadLedger(path, nil)
				require.NoError(t, err)
				require.Empty(t, rep.Open)
				intents, outcomes = rep.Intents, rep.Outcomes
			}
			require.Len(t, intents, 6)
			var got []string
			for i, out := range outcomes {
				require.Equal(t, intents[i], out.Intent)
				require.Equal(t, "probe", out.Tool)
				require.Equal(t, rulvar.ExecutorSubprocess, out.Executor)
				require.Len(t, out.ArgsHash, 64)
				require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, out.AttemptID)
				require.NotZero(t, out.StartedAt)
				code := "null"
				if out.ExitCode != nil {
					code = fmt.Sprint(*out.ExitCode)
				}
				got = append(got, fmt.Sprintf("%s %s %q %v", out.Outcome, code, out.Signal, out.NoEffect))
			}
			require.Equal(t, []string{
				`ok 0 "" false`, `error 7 "" false`, `error null "SIGKILL" false`, `error 0 "" false`, `timeout null "SIGTERM" false`, `error null "" true`,
			}, got)
		})
	}
}

// What earlier attempts at a call allow.
func TestNextTry(t *testing.T) {
	const count = `echo x >> "$OUT"; echo '"done"'`
	for _, row := range []struct {
		name                string
		first               string // script of the first try, or ""
		lose, idempotent    bool
		keep                bool
		reconcile, happened bool
		code                rulvar.Code
		runs                int
	}{
		{name: "nothing before", runs: 1},
		{name: "an open effect", first: count, lose: true, code: executor.ErrLedger, runs: 1},
		{name: "an open effect of an idempotent tool", first: count, lose: true, idempotent: true, runs: 2},
		{name: "it has happened", first: count, code: executor.ErrLedger, runs: 1},
		{name: "it has happened, idempotent", first: count, idempotent: true, runs: 2},
		{name: "it has happened, and its result is kept", first: count, keep: true, runs: 1},
		{name: "it has failed", first: count + "; exit 1", code: executor.ErrLedger, runs: 1},
		{name: "an open effect that has not happened", first: count, lose: true, reconcile: true, runs: 2},
		{name: "an open effect that has happened", first: count, lose: true, reconcile: true, happened: true, code: executor.ErrLedger, runs: 1},
		{name: "it was not started", first: "-", runs: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "effects.jsonl")
			out := filepath.Join(t.TempDir(), "out")
			options := func(l executor.Ledger) executor.SubprocessOptions {
				return executor.SubprocessOptions{Ledger: l, KeepResults: row.keep, Credentials: func(*rulvar.ToolContext, rulvar.ExecutorCall) (map[string]string, error) {
					return map[string]string{"OUT": out}, nil
				}}
			}
			call := scriptCall(t, count)
			call.Idempotent = row.idempotent
			if row.first != "" {
				before := call
				before.Spec = scriptCall(t, row.first).Spec
				if row.first == "-" {
					before.Spec = json.RawMessage(`{"command":"/nosuch"}`)
				}
				_, _ = run(t, subprocess(t, options(&stubborn{Ledger: fileLedger(t, path), lose: row.lose})), before)
			}
			l := fileLedger(t, path) // another process
			if row.reconcile {
				open, err := l.Open(t.Context())
				require.NoError(t, err)
				require.Len(t, open, 1)
				require.NoError(t, executor.Reconcile(t.Context(), l, open[0], row.happened))
			}
			result, err := run(t, subprocess(t, options(l)), call)
			if row.code != "" {
				require.ErrorIs(t, err, row.code)
			} else {
				require.NoError(t, err)
				require.Equal(t, `"done"`, result)
			}
			text, err := os.ReadFile(out)
			require.NoError(t, err)
			require.Equal(t, row.runs, strings.Count(string(text), "x"))
		})
	}
}

func TestLedgerFails(t *testing.T) {
	broken := errors.New("the disk is full")
	ran := filepath.Join(t.TempDir(), "ran")
	for _, row := range []struct {
		name   string
		l      stubborn
		script string
		runs   bool
		text   string
	}{
		{"reading", stubborn{attempts: broken}, "true", false, "cannot be read"},
		{"the intent", stubborn{intent: broken}, "true", false, "intent"},
		{"the outcome", stubborn{outcome: broken}, "true", true, "outcome"},
		{"the outcome of a failure", stubborn{outcome: broken}, "exit 3", true, "status 3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_ = os.Remove(ran)
			row.l.Ledger = executor.NewMemoryLedger()
			x := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Ledger: &row.l})
			_, err := run(t, x, scriptCall(t, ": > "+ran+"; "+row.script))
			require.ErrorIs(t, err, executor.ErrLedger)
			require.ErrorIs(t, err, broken)
			require.ErrorContains(t, err, row.text)
			if row.runs {
				require.FileExists(t, ran)
			} else {
				require.NoFileExists(t, ran)
			}
		})
	}
	call := scriptCall(t, "true")
	call.IdempotencyKey = ""
	_, err := run(t, subprocess(t, executor.SubprocessOptions{Ledger: executor.NewMemoryLedger()}), call)
	require.ErrorIs(t, err, rulvar.ErrConfig)
}

// A row that the other implementation of the format has written.
const foreign = `{"phase":"intent","idempotencyKey":"k1","runId":"r","spanId":"s","tool":"t","argsHash":"h","executor":"subprocess","workdir":"/w","startedAt":1,"attemptId":"a1","more":{"x":1}}`

func TestLedgerDamage(t *testing.T) {
	outcome := strings.Replace(foreign, `"phase":"intent"`, `"phase":"outcome","durationMs":5,"outcome":"ok","exitCode":0,"signal":null`, 1)
	old := strings.Replace(foreign, `,"attemptId":"a1"`, "", 1)
	for _, row := range []struct {
		name, text string
		open       int
		torn       int
		damaged    []int // lines
	}{
		{"empty", "", 0, 0, nil},
		{"an open effect", foreign + "\n", 1, 0, nil},
		{"settled", foreign + "\n" + outcome + "\n", 0, 0, nil},
		{"settled, without attempt ids", old + "\n" + strings.Replace(outcome, `,"attemptId":"a1"`, "", 1) + "\n", 0, 0, nil},
		{"settled by a sibling", foreign + "\n" + strings.Replace(outcome, `"a1"`, `"a2"`, 1) + "\n", 1, 0, nil},
		{"blank lines", "\n" + foreign + "\n\n \n", 1, 0, nil},
		{"no newline at the end", foreign, 1, 0, nil},
		{"torn", foreign + "\n" + outcome[:40], 1, 1, nil},
		{"torn in a rune", foreign + "\n{\"phase\":\"\xe2\x82", 1, 1, nil},
		{"torn zero bytes", foreign + "\n\x00\x00\x00", 1, 1, nil},
		{"torn in the middle", foreign[:40] + "\n" + foreign + "\n", 0, 0, []int{1}},
		{"not UTF-8", strings.Replace(foreign, `"r"`, "\"\xff\"", 1) + "\n", 0, 0, []int{1}},
		{"a list", foreign + "\n[]\n", 0, 0, []int{2}},
		{"a field is missing", strings.Replace(foreign, `"runId":"r",`, "", 1) + "\n", 0, 0, []int{1}},
		{"a field in another case", strings.Replace(foreign, `"runId"`, `"runID"`, 1) + "\n", 0, 0, []int{1}},
		{"a field twice", strings.Replace(foreign, `"runId":"r"`, `"runId":"r","runId":"q"`, 1) + "\n", 0, 0, []int{1}},
		{"a number that is text", strings.Replace(foreign, `"startedAt":1`, `"startedAt":"1"`, 1) + "\n", 0, 0, []int{1}},
		{"an unknown phase", strings.Replace(foreign, `"intent"`, `"Intent"`, 1) + "\n", 0, 0, []int{1}},
		{"an unknown outcome", strings.Replace(outcome, `"ok"`, `"OK"`, 1) + "\n", 0, 0, []int{1}},
		{"an ill-shaped last line without newline", foreign + "\n{}", 0, 0, []int{2}},
		{"no effect of a success", strings.Replace(outcome, `"ok"`, `"ok","noEffect":true`, 1) + "\n", 0, 0, []int{1}},
		{"two", "x\n" + foreign + "\ny\n", 0, 0, []int{1, 3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "effects.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(row.text), 0o600))
			rep, err := executor.ReadLedger(path, nil)
			l, opened := executor.OpenFileLedger(path)
			if row.damaged != nil {
				for _, err := range []error{err, opened} {
					require.ErrorIs(t, err, executor.ErrLedger)
					var at []int
					for _, c := range dataOf(t, err)["lines"].([]executor.CorruptLine) {
						at = append(at, c.Line)
						require.Len(t, c.SHA256, 64)
						require.True(t, strings.HasPrefix(row.text[c.Offset:], strings.SplitN(c.Preview, "\uFFFD", 2)[0]))
					}
					require.Equal(t, row.damaged, at)
				}
				rep, err = executor.ReadLedger(path, &executor.LedgerReadOptions{TolerateCorrupt: true})
				require.NoError(t, err)
				require.Len(t, rep.Corrupt, len(row.damaged))
				return
			}
			require.NoError(t, err)
			require.NoError(t, opened)
			defer l.Close()
			require.Len(t, rep.Open, row.open)
			require.Len(t, rep.Torn, row.torn)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, row.text, string(text), "opening changes nothing")

			in := &executor.Intent{AttemptID: "mine", IdempotencyKey: "k2", Tool: "t", Executor: "subprocess", StartedAt: 2}
			require.NoError(t, l.Intent(t.Context(), in))
			after, err := executor.ReadLedger(path, nil)
			require.NoError(t, err)
			require.Len(t, after.Open, row.open+1)
			require.Len(t, after.Torn, row.torn)
			for i, torn := range after.Torn {
				require.Equal(t, rep.Torn[i].Bytes, torn.Bytes)
				require.NotZero(t, torn.RecoveredAt)
			}
			again, err := l.Attempts(t.Context(), "k1")
			require.NoError(t, err)
			if row.text != "" {
				require.NotEmpty(t, again)
			}
		})
	}
}

// Two handles, as two processes have, see each other's records.
func TestLedgerOfTwo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects.jsonl")
	one, two := fileLedger(t, path), fileLedger(t, path)
	done := make(chan error)
	for _, l := range []*executor.FileLedger{one, two} {
		go func() {
			var err error
			for i := range 20 {
				in := &executor.Intent{AttemptID: fmt.Sprintf("%p-%d", l, i), IdempotencyKey: fmt.Sprint(i), Executor: "subprocess"}
				err = errors.Join(err, l.Intent(context.Background(), in), l.Outcome(context.Background(), &executor.Outcome{Intent: *in, Outcome: executor.OutcomeOK}))
			}
			done <- err
		}()
	}
	require.NoError(t, errors.Join(<-done, <-done))
	for _, l := range []*executor.FileLedger{one, two} {
		for i := range 20 {
			list, err := l.Attempts(t.Context(), fmt.Sprint(i))
			require.NoError(t, err)
			require.Len(t, list, 2)
			require.NotNil(t, list[0].Outcome)
			require.NotNil(t, list[1].Outcome)
		}
	}
	require.ErrorIs(t, one.Outcome(t.Context(), &executor.Outcome{Outcome: "fine"}), rulvar.ErrConfig)

	require.NoError(t, os.Rename(path, path+".old"))
	_, err := one.Attempts(t.Context(), "k")
	require.ErrorIs(t, err, executor.ErrLedger)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorIs(t, two.Intent(t.Context(), &executor.Intent{}), executor.ErrLedger)
	require.NoError(t, os.Rename(path+".old", path))
	require.NoError(t, os.Truncate(path, 10))
	_, err = one.Open(t.Context())
	require.ErrorIs(t, err, executor.ErrLedger)
	closed := fileLedger(t, filepath.Join(t.TempDir(), "l"))
	require.NoError(t, closed.Close())
	_, err = closed.Open(t.Context())
	require.ErrorIs(t, err, executor.ErrLedger)
	_, err = executor.OpenFileLedger(t.TempDir())
	require.ErrorIs(t, err, executor.ErrLedger)
	_, err = executor.OpenFileLedger("")
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = executor.ReadLedger("/nosuch", nil)
	require.ErrorIs(t, err, executor.ErrLedger)
}
