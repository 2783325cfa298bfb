package rulvar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// The kill matrix: a run is killed at each of its points, by a signal that
// cannot be caught, and other processes finish it. crash_scenarios_test.go
// holds the runs. By default a sample of the points is taken;
//
//	RULVAR_KILL_MATRIX=full go test -run TestKillMatrix .
//
// takes all of them, and two points of the processes that go on for a second
// kill; with "pairs" it takes all of those too.

const (
	crashRunID = "r"
	fullMatrix = "RULVAR_KILL_MATRIX"
)

// crashRun is a run that the matrix kills.
type crashRun struct {
	name string
	// config is the engine's, over what the tools may write to in dir.
	config   func(dir string) rulvar.Config
	workflow func(dir string) *rulvar.Workflow[string, string]
	// answer answers an open suspension; nil leaves it open.
	answer func(p rulvar.Pending) any
	// check looks at the finished run.
	check func(t testing.TB, end crashEnd)
	// loose is for runs whose points depend on timing.
	loose bool
}

func TestKillMatrix(t *testing.T) {
	runs := crashRuns()
	child := rulvartest.NewChild(t, "process", func(args []string) (string, error) {
		for _, r := range runs {
			if r.name == args[1] {
				return r.process(args[0])
			}
		}
		return "", fmt.Errorf("no run %q", args[1])
	})
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			m := &rulvartest.KillMatrix{
				Process: child, Args: []string{r.name}, Recorded: recordedWork, Loose: r.loose, Limit: 3, Again: 1,
				Check: func(t testing.TB, dir string, visits []rulvartest.Visit) {
					end := readCrashEnd(t, dir, visits)
					end.laws(t)
					r.check(t, end)
				},
			}
			switch os.Getenv(fullMatrix) {
			case "full":
				m.Limit, m.Again = 0, 2
			case "pairs":
				m.Limit, m.Again = 0, -1
			}
			m.Run(t)
		})
	}
}

// process does what is next for the run in dir.
func (r *crashRun) process(dir string) (result string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	file, err := rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
	if err != nil {
		return "", err
	}
	cfg := r.config(dir)
	cfg.Store = tornStore{rulvartest.CrashStore(file), filepath.Join(dir, "runs")}
	engine, err := rulvar.NewEngine(cfg)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, engine.Close(ctx)) }()
	h, err := r.next(ctx, engine, file, r.workflow(dir))
	if h == nil || err != nil {
		return "", err
	}
	out, err := h.Result(ctx)
	switch out.Status {
	case rulvar.RunOK:
		return out.Value, nil
	case rulvar.RunSuspended:
		return "", nil
	case rulvar.RunError:
		if strings.Contains(err.Error(), flakyFault) {
			return "", nil // the next process tries again
		}
	}
	return "", fmt.Errorf("the run ended with %s: %w", out.Status, err)
}

// next starts the run where there is none, answers what waits, or resumes.
func (r *crashRun) next(ctx context.Context, e *rulvar.Engine, store rulvar.Store, w *rulvar.Workflow[string, string]) (*rulvar.RunHandle[string], error) {
	meta, entries, err := store.Load(ctx, crashRunID, -1)
	if err != nil {
		return nil, err
	}
	if meta == nil && len(entries) == 0 {
		return rulvar.Run(ctx, e, w, "api", &rulvar.RunOptions{RunID: crashRunID})
	}
	pending, err := e.PendingOf(ctx, crashRunID)
	if err != nil {
		return nil, err
	}
	answered := false
	for _, p := range pending {
		value := r.answer(p)
		if value == nil {
			continue
		}
		answered = true
		if out, err := e.Resolve(ctx, crashRunID, p.Key, value); err != nil {
			return nil, err
		} else if !out.Applied {
			return nil, fmt.Errorf("%s was open and the answer came too late: %+v", p.Key, out)
		}
	}
	if answered {
		return nil, nil
	}
	return rulvar.Resume[string](ctx, e, w, crashRunID, nil)
}

// tornStore adds a point to each append at which half of a line stands in the
// journal.
type tornStore struct {
	rulvar.Store
	dir string
}

func (s tornStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	if lock != nil {
		if err := s.tear(runID, "append:"+string(entries[0].Kind)+":torn"); err != nil {
			return err
		}
	}
	return s.Store.AppendAll(ctx, runID, entries, lock)
}

func (s tornStore) tear(runID, point string) error {
	path := filepath.Join(s.dir, runID+".jsonl")
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasSuffix(text, []byte("\n")) {
		return nil // there is none yet, or it is torn already
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(`{"hashVersion":2,"seq":`)
	rulvartest.Point(point)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
}

// recordedWork lists the points behind which lies recorded work: the requests
// whose answers, and the calls whose results, stand in a checkpoint or a
// transcript, and the steps that have ended well.
func recordedWork(t testing.TB, dir string) []string {
	t.Helper()
	store, entries := readCrashRun(t, dir)
	return recordedPoints(t, store, entries)
}

func recordedPoints(t testing.TB, store rulvar.Store, entries []*rulvar.Entry) []string {
	t.Helper()
	var points []string
	for _, a := range rulvartest.ReadAgents(t, store, crashRunID) {
		for turn := range a.Turns {
			points = append(points, fmt.Sprintf("model:%s:%d:before", a.Prompt, turn+1))
		}
		for _, call := range a.Calls {
			points = append(points, fmt.Sprintf("tool:%s:%s:before", call.Tool, call.ID))
		}
	}
	for _, en := range entries {
		if en.Kind == "step" && en.Status == "ok" {
			var label string
			require.NoError(t, json.Unmarshal(en.Value, &label), "a step of these runs returns its label")
			points = append(points, "step:"+label+":before")
		}
	}
	return points
}

func readCrashRun(t testing.TB, dir string) (rulvar.Store, []*rulvar.Entry) {
	t.Helper()
	store, err := rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
	require.NoError(t, err)
	_, entries, err := store.Load(context.Background(), crashRunID, -1)
	require.NoError(t, err)
	return store, entries
}

// crashEnd is a finished run.
type crashEnd struct {
	visits  []rulvartest.Visit
	entries []*rulvar.Entry
	effects []string      // what the tools have done, in order
	turns   map[int64]int // of the agents, by the seq of their running entry
}

func readCrashEnd(t testing.TB, dir string, visits []rulvartest.Visit) crashEnd {
	t.Helper()
	store, entries := readCrashRun(t, dir)
	return crashEndOf(t, store, entries, dir, visits)
}

// crashEndOf reads the effects in dir and the run from elsewhere.
func crashEndOf(t testing.TB, store rulvar.Store, entries []*rulvar.Entry, dir string, visits []rulvartest.Visit) crashEnd {
	t.Helper()
	end := crashEnd{visits: visits, entries: entries, turns: make(map[int64]int)}
	for _, a := range rulvartest.ReadAgents(t, store, crashRunID) {
		end.turns[a.Entry] = a.Turns
	}
	if text, err := os.ReadFile(filepath.Join(dir, effectsFile)); err == nil {
		end.effects = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	} else {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	return end
}

// reached counts how often the processes together have come to a point.
func (e *crashEnd) reached(point string) int {
	n := 0
	for _, v := range e.visits {
		for _, p := range v.Points {
			if name, _, _ := strings.Cut(p, "#"); name == point {
				n++
			}
		}
	}
	return n
}

// count counts journal records of a kind and a status; for a decision, of a
// type.
func (e *crashEnd) count(kind, status string) int {
	n := 0
	for _, en := range e.entries {
		if string(en.Kind) == kind && (string(en.Status) == status || strings.Contains(string(en.Value), `"decisionType":"`+status+`"`)) {
			n++
		}
	}
	return n
}

// laws hold for every run: work is repeated only where a process died over
// it, and each executed approval was marked as used before.
func (e *crashEnd) laws(t testing.TB) {
	t.Helper()
	kills := 0
	counts := map[string]int{}
	for _, v := range e.visits {
		if v.Killed != "" {
			kills++
		}
		for _, p := range v.Points {
			name, _, _ := strings.Cut(p, "#")
			counts[name]++
		}
	}
	for point, n := range counts {
		if strings.HasPrefix(point, "model:") || strings.HasPrefix(point, "tool:") {
			require.LessOrEqual(t, n, 1+kills, "%s was reached %d times with %d kills", point, n, kills)
		}
	}
	// A request that was lost with its process is not in the account.
	for _, en := range e.entries {
		if en.Kind == "agent" && en.Status == "ok" {
			var usage llm.Usage
			require.NoError(t, json.Unmarshal(en.Usage, &usage))
			require.Equal(t, e.turns[*en.Ref]*10, int(usage.InputTokens))
		}
	}
	// Of an operation that stands in the journal there is one good end.
	ends := map[int64]int{}
	for _, en := range e.entries {
		if en.Ref != nil && en.Kind != "resolution" {
			ends[*en.Ref]++
		}
	}
	for seq, n := range ends {
		require.Equal(t, 1, n, "operation %d has %d ends", seq, n)
	}
}

// usedBefore requires that the effect of a tool came after the mark that its
// approval is used.
func (e *crashEnd) usedBefore(t testing.TB, tool string) {
	t.Helper()
	var points []string
	for _, v := range e.visits {
		points = append(points, v.Points...)
	}
	mark := slices.Index(points, "append:decision:approval_consumed:after")
	effect := slices.IndexFunc(points, func(p string) bool { return strings.HasPrefix(p, "tool:"+tool) })
	require.GreaterOrEqual(t, effect, 0, "the tool never ran")
	if mark >= 0 { // else its process was killed before it could say so
		require.Less(t, mark, effect)
	}
	require.Positive(t, e.count("decision", "approval_consumed"))
}
