package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// report is what one of several processes says of its part.
type report struct {
	Status rulvar.RunStatus
	Value  string
	// Codes are the kinds of the errors, in order of the attempts; Holder is
	// the one that a held lock names.
	Codes  []rulvar.Code
	Holder struct {
		PID   int
		Owner string
	}
	Answer  rulvar.ResolutionOutcome
	Revoked string
}

func (r *report) failed(err error) {
	e, ok := errors.AsType[*rulvar.Error](err)
	if !ok {
		r.Codes = append(r.Codes, "")
		return
	}
	r.Codes = append(r.Codes, e.Code)
	if holder, ok := e.Data["holder"]; ok {
		text := must(json.Marshal(holder))
		if err := json.Unmarshal(text, &r.Holder); err != nil {
			panic(err)
		}
	}
}

// oneAfterOther calls a tool, then one that needs an approval.
var oneAfterOther = oneAgent("one", lookConfig, deployConfig)

// sideBySide has an agent that needs an approval beside one that works.
func sideBySide(dir string) *rulvar.Workflow[string, string] {
	return rulvar.DefineWorkflow("pair", func(c *rulvar.Ctx, _ string) (string, error) {
		texts, err := rulvar.Parallel(c,
			func(c *rulvar.Ctx) (string, error) { return crashAgent(c, dir, "left", deployConfig) },
			func(c *rulvar.Ctx) (string, error) { return crashAgent(c, dir, "right", lookConfig) })
		return strings.Join(texts, ", "), err
	})
}

var twoConfig = crashConfig(script("one", []string{"look:c1"}, []string{"deploy:c2"}), script("left", []string{"deploy:l1"}), script("right", []string{"look:r1"}))

// twoProcesses makes the child that the tests of this file start several of.
// Its arguments are the directory, the workflow, what to do, and with what.
func twoProcesses(t *testing.T) *rulvartest.Child {
	return rulvartest.NewChild(t, "two", func(args []string) (string, error) {
		r, err := takePart(args[0], args[1], args[2:])
		return string(must(json.Marshal(r))), err
	})
}

func takePart(dir, workflow string, args []string) (r report, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cfg := twoConfig(dir)
	cfg.PollInterval = 10 * time.Millisecond
	cfg.Store = rulvartest.CrashStore(must(rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)))
	engine := must(rulvar.NewEngine(cfg))
	w := map[string]func(string) *rulvar.Workflow[string, string]{"one": oneAfterOther, "pair": sideBySide}[workflow](dir)
	run := func() (*rulvar.RunHandle[string], error) {
		return rulvar.Run(ctx, engine, w, "api", &rulvar.RunOptions{RunID: crashRunID})
	}
	resume := func() (*rulvar.RunHandle[string], error) {
		return rulvar.Resume[string](ctx, engine, w, crashRunID, nil)
	}
	follow := func(h *rulvar.RunHandle[string], err error) {
		if err != nil {
			r.failed(err)
			return
		}
		out, err := h.Result(ctx)
		if r.Status, r.Value = out.Status, out.Value; err != nil {
			r.failed(err)
		}
	}
	switch args[0] {
	case "run":
		follow(run())
	case "resume":
		follow(resume())
	case "intrude":
		follow(run())
		follow(resume())
	case "approve":
		r.Answer, err = engine.Resolve(ctx, crashRunID, args[1], rulvar.Approve("fine"))
	case "reject":
		r.Answer, err = engine.Resolve(ctx, crashRunID, args[1], rulvar.Reject("no"))
	case "revoke":
		r.Revoked, err = engine.RevokeApproval(ctx, crashRunID, args[1], "ada", "a mistake")
	default:
		err = fmt.Errorf("unknown part %q", args[0])
	}
	return r, err
}

func readReport(t *testing.T, v rulvartest.Visit) (r report) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(v.Result), &r), "%+v", v)
	return r
}

// files are the store's files and what stands in them.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "runs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

// Wherever the segment of another process stands, a second one is told who
// holds the run and leaves no trace.
func TestSecondProcessIsRefused(t *testing.T) {
	child := twoProcesses(t)
	for _, point := range []string{
		"lock:after", "meta:running:after", "append:agent:running:after", "model:one:1:before",
		"tool:look:c1:after", "put:ckpt:after#2", "append:decision:run_settle:after", "meta:suspended:after",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first := child.Start(t, &rulvartest.StartOptions{HoldAt: point}, dir, "one", "run")
			first.AwaitHold()
			before := files(t, dir)
			second := readReport(t, child.Run(t, dir, "one", "intrude"))
			require.Equal(t, before, files(t, dir), "the second process has written something")
			want := []rulvar.Code{rulvar.ErrLeaseHeld, rulvar.ErrLeaseHeld}
			if point == "lock:after" {
				want[1] = rulvar.ErrConfig // there is nothing to resume yet
			}
			require.Equal(t, want, second.Codes)
			require.Equal(t, first.PID(), second.Holder.PID)
			require.Contains(t, second.Holder.Owner, fmt.Sprint(first.PID()))
			first.Release()
			require.Equal(t, rulvar.RunSuspended, readReport(t, first.Wait()).Status)
		})
	}
}

// suspended runs the workflow until it waits for its approval and returns the
// approval's key.
func suspended(t *testing.T, child *rulvartest.Child, dir string) string {
	t.Helper()
	require.Equal(t, rulvar.RunSuspended, readReport(t, child.Run(t, dir, "one", "run")).Status)
	return pendingKey(t, dir)
}

// Of two processes that resume at the same moment one does the work. The other
// is refused or, where it came late enough, replays what is done.
func TestTwoProcessesResume(t *testing.T) {
	child := twoProcesses(t)
	dir := t.TempDir()
	key := suspended(t, child, dir)
	require.True(t, readReport(t, child.Run(t, dir, "one", "approve", key)).Answer.Applied)
	var both []*rulvartest.Process
	for range 2 {
		p := child.Start(t, &rulvartest.StartOptions{HoldAt: "lock:before"}, dir, "one", "resume")
		p.AwaitHold()
		both = append(both, p)
	}
	for _, p := range both {
		p.Release()
	}
	var visits []rulvartest.Visit
	done := 0
	for _, p := range both {
		v := p.Wait()
		visits = append(visits, v)
		if r := readReport(t, v); r.Status == rulvar.RunOK {
			done++
		} else {
			require.Equal(t, []rulvar.Code{rulvar.ErrLeaseHeld}, r.Codes)
		}
	}
	require.Positive(t, done)
	end := readCrashEnd(t, dir, visits)
	require.Equal(t, 1, end.reached("tool:deploy:c2:before"))
	require.Equal(t, 1, end.count("decision", "approval_consumed"))
}

// An answer that another process gives reaches a run that is at work.
func TestAnswerReachesLiveRun(t *testing.T) {
	child := twoProcesses(t)
	dir := t.TempDir()
	run := child.Start(t, &rulvartest.StartOptions{HoldAt: "tool:look:r1:before"}, dir, "pair", "run")
	run.AwaitHold()
	run.AwaitPoint("append:approval:suspended:after")
	require.True(t, readReport(t, child.Run(t, dir, "pair", "approve", pendingKey(t, dir))).Answer.Applied)
	run.AwaitPoint("tool:deploy:l1:after")
	run.AwaitPoint("append:agent:ok:after")
	run.Release()
	v := run.Wait()
	r := readReport(t, v)
	require.Equal(t, rulvar.RunOK, r.Status)
	require.Equal(t, "left is done, right is done", r.Value)
	end := readCrashEnd(t, dir, []rulvartest.Visit{v})
	require.Equal(t, 1, end.count("decision", "run_settle"), "the run has not settled in between")
}

// Two approvers decide differently at the same moment: the first record wins,
// both are told, and the run does what the winner has said.
func TestApproversRace(t *testing.T) {
	child := twoProcesses(t)
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			key := suspended(t, child, dir)
			parts := map[string]*rulvartest.Process{}
			for _, part := range []string{"approve", "reject"} {
				parts[part] = child.Start(t, &rulvartest.StartOptions{HoldAt: "append:resolution:ok:before"}, dir, "one", part, key)
				parts[part].AwaitHold()
			}
			for _, p := range parts {
				p.Release()
			}
			var winner string
			var applied, late rulvar.ResolutionOutcome
			for part, p := range parts {
				if a := readReport(t, p.Wait()).Answer; a.Applied {
					require.Empty(t, winner, "both were first")
					winner, applied = part, a
				} else {
					late = a
				}
			}
			require.NotEmpty(t, winner, "neither was first")
			require.Equal(t, applied.EntryRef, late.SupersededBy)
			require.Less(t, applied.EntryRef, late.EntryRef)
			v := child.Run(t, dir, "one", "resume")
			require.Equal(t, rulvar.RunOK, readReport(t, v).Status)
			end := readCrashEnd(t, dir, []rulvartest.Visit{v})
			require.Equal(t, winner == "approve", end.reached("tool:deploy:c2:before") == 1)
		})
	}
}

// An answer that comes while the segment ends is not lost, wherever it ends:
// the segment goes on with it, or the next one does.
func TestAnswerWhileSettling(t *testing.T) {
	child := twoProcesses(t)
	for _, point := range []string{
		"append:approval:suspended:after", "append:decision:run_settle:before", "append:decision:run_settle:after",
		"meta:suspended:before", "meta:suspended:after",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			run := child.Start(t, &rulvartest.StartOptions{HoldAt: point}, dir, "one", "run")
			run.AwaitHold()
			require.True(t, readReport(t, child.Run(t, dir, "one", "approve", pendingKey(t, dir))).Answer.Applied)
			run.Release()
			visits := []rulvartest.Visit{run.Wait()}
			if r := readReport(t, visits[0]); r.Status != rulvar.RunOK {
				require.Equal(t, rulvar.RunSuspended, r.Status)
				visits = append(visits, child.Run(t, dir, "one", "resume"))
				require.Equal(t, rulvar.RunOK, readReport(t, visits[1]).Status)
			}
			end := readCrashEnd(t, dir, visits)
			require.Equal(t, 1, end.reached("tool:deploy:c2:before"))
			require.Equal(t, 1, end.count("decision", "approval_consumed"))
		})
	}
}

// A revocation that is durable before the approval is marked as used keeps the
// call from running, even where the run has read the approval before it.
func TestRevocationRacesUse(t *testing.T) {
	child := twoProcesses(t)
	for _, row := range []struct {
		point, revoked string
		runs           int
	}{
		{"append:decision:approval_consumed:before", "revoked-allow", 0},
		{"append:decision:approval_consumed:after", "already-closed", 1},
	} {
		t.Run(row.revoked, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			key := suspended(t, child, dir)
			require.True(t, readReport(t, child.Run(t, dir, "one", "approve", key)).Answer.Applied)
			run := child.Start(t, &rulvartest.StartOptions{HoldAt: row.point}, dir, "one", "resume")
			run.AwaitHold()
			require.Equal(t, row.revoked, readReport(t, child.Run(t, dir, "one", "revoke", key)).Revoked)
			run.Release()
			v := run.Wait()
			require.Equal(t, rulvar.RunOK, readReport(t, v).Status)
			end := readCrashEnd(t, dir, []rulvartest.Visit{v})
			require.Equal(t, row.runs, end.reached("tool:deploy:c2:before"))
		})
	}
}

// A revocation that is decided before the approval is used and recorded after
// it does not say that it kept the call from running.
func TestRevocationComesTooLate(t *testing.T) {
	child := twoProcesses(t)
	dir := t.TempDir()
	key := suspended(t, child, dir)
	require.True(t, readReport(t, child.Run(t, dir, "one", "approve", key)).Answer.Applied)
	revoke := child.Start(t, &rulvartest.StartOptions{HoldAt: "append:decision:approval_revoked:before"}, dir, "one", "revoke", key)
	revoke.AwaitHold()
	v := child.Run(t, dir, "one", "resume")
	require.Equal(t, rulvar.RunOK, readReport(t, v).Status)
	revoke.Release()
	require.Equal(t, "already-closed", readReport(t, revoke.Wait()).Revoked)
	end := readCrashEnd(t, dir, []rulvartest.Visit{v})
	require.Equal(t, 1, end.reached("tool:deploy:c2:before"))
}

func pendingKey(t *testing.T, dir string) string {
	t.Helper()
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: must(rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil))})
	list, err := engine.Pending(context.Background())
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0].Key
}
