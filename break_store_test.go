package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// breakAll reports whether the long forms of the tests that try to break the
// engine are asked for.
func breakAll() bool { return os.Getenv("RULVAR_BREAK") == "full" }

var errFaulty = errors.New("the store is broken")

// faultyStore fails one of its calls: the one whose number, counted from 1
// over all methods, is at; and where broken, all calls after it. late lets the
// failing call have its effect first, as a write whose answer was lost.
type faultyStore struct {
	rulvar.Store
	at     int64
	broken bool
	late   bool

	calls atomic.Int64
	mu    sync.Mutex
	which string // the call that has failed first
}

func (s *faultyStore) guard(name string, call func() error) error {
	n := s.calls.Add(1)
	if s.at == 0 || n < s.at || n > s.at && !s.broken {
		return call()
	}
	s.mu.Lock()
	if s.which == "" {
		s.which = name
	}
	s.mu.Unlock()
	if s.late {
		if err := call(); err != nil {
			return err
		}
	}
	return errFaulty
}

func (s *faultyStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	name := fmt.Sprintf("append %s %s", entries[0].Kind, entries[0].Status)
	return s.guard(name, func() error { return s.Store.AppendAll(ctx, runID, entries, lock) })
}

func (s *faultyStore) Load(ctx context.Context, runID string, after int64) (m *rulvar.RunMeta, list []*rulvar.Entry, err error) {
	err = s.guard("load", func() (err error) { m, list, err = s.Store.Load(ctx, runID, after); return err })
	if err != nil {
		return nil, nil, err
	}
	return m, list, nil
}

func (s *faultyStore) PutMeta(ctx context.Context, m *rulvar.RunMeta, lock *rulvar.RunLock) error {
	return s.guard("meta "+m.Status, func() error { return s.Store.PutMeta(ctx, m, lock) })
}

func (s *faultyStore) ListRuns(ctx context.Context, filter func(*rulvar.RunMeta) bool) (list []*rulvar.RunMeta, err error) {
	err = s.guard("list", func() (err error) { list, err = s.Store.ListRuns(ctx, filter); return err })
	return list, err
}

func (s *faultyStore) Lock(ctx context.Context, runID, owner string) (lock *rulvar.RunLock, err error) {
	err = s.guard("lock", func() (err error) { lock, err = s.Store.Lock(ctx, runID, owner); return err })
	if err != nil && lock != nil { // as a store must: a lock that is not handed out is not held
		return nil, errors.Join(err, lock.Release())
	}
	return lock, err
}

func (s *faultyStore) Put(ctx context.Context, ref string, data []byte) error {
	return s.guard("put "+ref, func() error { return s.Store.Put(ctx, ref, data) })
}

func (s *faultyStore) Get(ctx context.Context, ref string) (data []byte, err error) {
	err = s.guard("get "+ref, func() (err error) { data, err = s.Store.Get(ctx, ref); return err })
	return data, err
}

// cell is one workflow with everything in it: steps, agents with free and with
// approved calls, branches inside branches.
type cell struct {
	w     *rulvar.Workflow[string, []string]
	model llm.Provider

	mu   sync.Mutex
	runs map[string]int // executions by input
}

const cellSchema = `{"type":"object","properties":{"service":{"type":"string"}},"required":["service"],"additionalProperties":false}`

func newCell(t *testing.T) *cell {
	c := &cell{runs: map[string]int{}}
	count := func(_ *rulvar.ToolContext, in json.RawMessage) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.runs[string(in)]++
		return "done", nil
	}
	schema := must(rulvar.SchemaLiteral(json.RawMessage(cellSchema)))
	deploy := must(rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "deploy", Risk: rulvar.RiskExecute, NeedsApproval: true}, schema, count))
	check := must(rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "check", Risk: rulvar.RiskExecute}, schema, count))
	var scripts []rulvartest.Script
	for _, name := range []string{"a", "b"} {
		arg := func(s string) map[string]string { return map[string]string{"service": name + s} }
		scripts = append(scripts, rulvartest.Script{Prompt: name, Turns: []rulvartest.Turn{
			{Calls: []rulvartest.Call{{ID: name + "1", Tool: "check", Args: arg("1")}, {ID: name + "2", Tool: "deploy", Args: arg("2")}}},
			{Text: "end of " + name},
		}})
	}
	c.model = rulvartest.NewProvider("test", scripts...)
	agent := func(name string) func(*rulvar.Ctx) (string, error) {
		return func(c *rulvar.Ctx) (string, error) {
			return rulvar.Agent[string](c, name, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy, check}})
		}
	}
	step := func(name string) func(*rulvar.Ctx) (string, error) {
		return func(c *rulvar.Ctx) (string, error) {
			return rulvar.Step(c, name, func(context.Context) (string, error) { return "step " + name, nil }, nil)
		}
	}
	c.w = rulvar.DefineWorkflow("cell", func(c *rulvar.Ctx, _ string) ([]string, error) {
		first, err := step("one")(c)
		if err != nil {
			return nil, err
		}
		out, err := rulvar.Parallel(c, agent("a"), func(c *rulvar.Ctx) (string, error) {
			in, err := rulvar.Parallel(c, agent("b"), step("two"))
			return fmt.Sprint(in), err
		})
		return append([]string{first}, out...), err
	})
	return c
}

var cellResult = []string{"step one", "end of a", "[end of b step two]"}

// carry runs or resumes r1, answers what waits, and goes on until the run has
// settled otherwise. It returns the first error.
func (c *cell) carry(ctx context.Context, e *rulvar.Engine) ([]string, error) {
	h, err := rulvar.Run(ctx, e, c.w, "x", &rulvar.RunOptions{RunID: "r1"})
	if errors.Is(err, rulvar.ErrConfig) { // it exists
		h, err = rulvar.Resume[string](ctx, e, c.w, "r1", nil)
	}
	for range 8 {
		if err != nil {
			return nil, err
		}
		out, err2 := h.Result(ctx)
		if err2 != nil || out.Status != rulvar.RunSuspended {
			return out.Value, err2
		}
		pending, err2 := e.PendingOf(ctx, "r1")
		if err2 != nil {
			return nil, err2
		}
		for _, p := range pending {
			if _, err := e.Resolve(ctx, "r1", p.Key, rulvar.Approve("fine")); err != nil {
				return nil, err
			}
		}
		h, err = rulvar.Resume[string](ctx, e, c.w, "r1", nil)
	}
	return nil, fmt.Errorf("the run suspends again and again: %w", err)
}

// Each call of the store fails once, or from then on, before or after its
// effect. The run ends with an error or with the right result, and a healthy
// store finishes it. A tool that needs an approval never runs without one, and
// no call runs more often than the failures explain.
func TestBreakStore(t *testing.T) {
	every := int64(4)
	if breakAll() {
		every = 1
	}
	for i := range int64(4) {
		broken, late := i&1 != 0, i&2 != 0
		t.Run(fmt.Sprintf("broken=%v late=%v", broken, late), func(t *testing.T) {
			for at := 1 + i%every; breakStoreAt(t, at, broken, late); at += every {
				require.Less(t, at, int64(1000), "the store is asked without end")
			}
		})
	}
}

// breakStoreAt reports whether a call with that number was made.
func breakStoreAt(t *testing.T, at int64, broken, late bool) bool {
	ctx := testCtx(t)
	healthy := rulvar.NewMemoryStore()
	faulty := &faultyStore{Store: healthy, at: at, broken: broken, late: late}
	c := newCell(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: faulty, Providers: []llm.Provider{c.model}, Model: "test:m"})
	got, err := c.carry(ctx, engine)
	require.NoError(t, ctx.Err(), "call %d (%s) makes the run hang", at, faulty.which)
	if err == nil {
		require.Equal(t, cellResult, got, "call %d (%s)", at, faulty.which)
	}
	if faulty.which == "" {
		require.NoError(t, err)
		return false
	}
	after := rulvartest.NewEngine(t, rulvar.Config{Store: healthy, Providers: []llm.Provider{c.model}, Model: "test:m"})
	got, err = c.carry(ctx, after)
	require.NoError(t, err, "call %d (%s) leaves a run that cannot be finished", at, faulty.which)
	require.Equal(t, cellResult, got, "call %d (%s)", at, faulty.which)
	for in, n := range c.runs {
		require.LessOrEqual(t, n, 2, "call %d (%s): %s", at, faulty.which, in)
	}
	require.Len(t, c.runs, 4)
	return true
}
