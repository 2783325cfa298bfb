package rulvar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// parkedRuns is how many runs wait at once: RULVAR_PARKED_RUNS, or 100.
func parkedRuns(t *testing.T) int {
	text := os.Getenv("RULVAR_PARKED_RUNS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// Many runs wait for approvals. Every other one is live: an agent of it is
// parked and a step holds its segment open. Another process answers all of them
// in random order. All end, each having run its tool once, and no goroutine is
// left.
func TestParkedRuns(t *testing.T) {
	child := rulvartest.NewChild(t, "approver", func(args []string) (string, error) { return approveAll(args[0]) })
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	n, dir := parkedRuns(t), t.TempDir()
	p := newParkedFleet(t, dir)

	var live []*rulvar.RunHandle[string]
	var runs sync.WaitGroup
	gate := make(chan struct{}, 16) // starts under way
	for i := range n {
		id, held := fmt.Sprintf("run-%04d", i), i%2 == 0
		gate <- struct{}{}
		parked := make(chan struct{})
		h, err := rulvar.Run(ctx, p.engine, p.workflow, held, &rulvar.RunOptions{RunID: id, OnEvent: func(ev rulvar.Event) {
			if _, ok := ev.Body.(rulvar.ApprovalPending); ok {
				close(parked)
			}
		}})
		require.NoError(t, err)
		if held {
			live = append(live, h)
		}
		runs.Go(func() {
			defer func() { <-gate }()
			if held {
				select {
				case <-parked:
				case <-ctx.Done():
					t.Errorf("%s has not parked", id)
				}
				return
			}
			if out, err := h.Result(ctx); err != nil || out.Status != rulvar.RunSuspended {
				t.Errorf("%s: %v %v", id, out.Status, err)
			}
		})
	}
	runs.Wait()
	require.Equal(t, fmt.Sprint(n), child.Run(t, dir).Result, "as many answers as runs")

	for _, h := range live {
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "shipped", out.Value)
	}
	order := rand.Perm(n)
	for _, i := range order {
		if i%2 == 0 {
			continue
		}
		gate <- struct{}{}
		runs.Go(func() {
			defer func() { <-gate }()
			id := fmt.Sprintf("run-%04d", i)
			if err := p.finish(ctx, id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	runs.Wait()
	require.Len(t, p.shipped, n)
	for id, times := range p.shipped {
		require.Equal(t, 1, times, id)
	}
	pending, err := p.engine.Pending(ctx)
	require.NoError(t, err)
	require.Empty(t, pending)
	require.NoError(t, p.engine.Close(ctx))
}

// approveAll answers everything that waits, in random order, with an engine
// that has neither tools nor models.
func approveAll(dir string) (string, error) {
	ctx := context.Background()
	engine := must(rulvar.NewEngine(rulvar.Config{Store: must(rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil))}))
	list, err := engine.Pending(ctx)
	if err != nil {
		return "", err
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, p := range list {
		out, err := engine.Resolve(ctx, p.RunID, p.Key, rulvar.Approve("fine"))
		if err != nil {
			return "", err
		}
		if !out.Applied {
			return "", fmt.Errorf("%s %s: %+v", p.RunID, p.Key, out)
		}
	}
	return fmt.Sprint(len(list)), nil
}

// parkedFleet is one engine with many runs.
type parkedFleet struct {
	engine   *rulvar.Engine
	workflow *rulvar.Workflow[bool, string] // its argument says whether a step holds it open

	mu      sync.Mutex
	shipped map[string]int // by run
}

// finish resumes a run that has its answer.
func (p *parkedFleet) finish(ctx context.Context, id string) error {
	h, err := rulvar.Resume[bool](ctx, p.engine, p.workflow, id, nil)
	if err != nil {
		return err
	}
	out, err := h.Result(ctx)
	if err == nil && (out.Status != rulvar.RunOK || out.Value != "shipped") {
		err = fmt.Errorf("it ended with %s and %q", out.Status, out.Value)
	}
	return err
}

func newParkedFleet(t *testing.T, dir string) *parkedFleet {
	t.Helper()
	p := &parkedFleet{shipped: map[string]int{}}
	schema := must(rulvar.SchemaLiteral([]byte(`{"type":"object","properties":{}}`)))
	ship := must(rulvar.NewToolWithSchema(deployConfig, schema, func(tc *rulvar.ToolContext, _ json.RawMessage) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.shipped[tc.RunID()]++
		return "done", nil
	}))
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "deploy"}}}, {Text: "shipped"},
	}})
	p.engine = must(rulvar.NewEngine(rulvar.Config{
		Store:     must(rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)),
		Providers: []llm.Provider{model}, Model: "test:m",
	}))
	p.workflow = rulvar.DefineWorkflow("parked", func(c *rulvar.Ctx, held bool) (string, error) {
		agent := func(c *rulvar.Ctx) (string, error) {
			return rulvar.Agent[string](c, "Ship it.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{ship}})
		}
		if !held {
			return agent(c)
		}
		ended := make(chan struct{})
		texts, err := rulvar.Parallel(c, func(c *rulvar.Ctx) (string, error) {
			defer close(ended)
			return agent(c)
		}, func(c *rulvar.Ctx) (string, error) {
			return rulvar.Step(c, "hold", func(ctx context.Context) (string, error) {
				select {
				case <-ended:
					return "", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}, nil)
		})
		return texts[0], err
	})
	return p
}
