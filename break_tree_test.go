package rulvar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// node is a part of a random workflow: branches that run at the same time, or
// a leaf, which is a step, or an agent with an approval, or a wait.
type node struct {
	kind string // parallel, settled, pipeline, sequence, step, agent, wait
	name string
	sub  []*node
}

// grow makes a random tree; names are unique within it.
func grow(r *rand.Rand, depth int, names *int) *node {
	*names++
	n := &node{name: fmt.Sprint("n", *names)}
	kinds := []string{"step", "agent", "agent", "wait", "parallel", "parallel", "settled", "pipeline", "sequence"}
	if depth == 0 {
		kinds = kinds[:4]
	}
	n.kind = kinds[r.IntN(len(kinds))]
	switch n.kind {
	case "parallel", "settled", "pipeline", "sequence":
		for range r.IntN(4) {
			n.sub = append(n.sub, grow(r, depth-1, names))
		}
	}
	return n
}

// plain is what the node's run returns.
func (n *node) plain() string {
	switch n.kind {
	case "step", "agent", "wait":
		return n.kind + " " + n.name
	}
	parts := []string{}
	for _, s := range n.sub {
		parts = append(parts, s.plain())
	}
	return fmt.Sprint(n.name, parts)
}

func (n *node) walk(fn func(*node)) {
	fn(n)
	for _, s := range n.sub {
		s.walk(fn)
	}
}

func (n *node) run(c *rulvar.Ctx, tool rulvar.ToolSource) (string, error) {
	var branches []func(*rulvar.Ctx) (string, error)
	for _, s := range n.sub {
		branches = append(branches, func(c *rulvar.Ctx) (string, error) { return s.run(c, tool) })
	}
	parts := []string{}
	var settled []rulvar.Settled[string]
	var err error
	switch n.kind {
	case "step":
		return rulvar.Step(c, n.name, func(context.Context) (string, error) { return n.plain(), nil }, nil)
	case "agent":
		return rulvar.Agent[string](c, n.name, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	case "wait":
		return rulvar.AwaitExternal[string](c, n.name, "", nil)
	case "parallel":
		parts, err = rulvar.Parallel(c, branches...)
		if len(branches) == 0 {
			parts = []string{}
		}
	case "settled":
		settled, err = rulvar.ParallelSettled(c, branches...)
	case "pipeline":
		settled, err = rulvar.Pipeline(c, n.sub, rulvar.Then(
			func(_ *rulvar.Ctx, s *node) (*node, error) { return s, nil },
			func(c *rulvar.Ctx, s *node) (string, error) { return s.run(c, tool) }))
	case "sequence":
		for _, b := range branches {
			one, err := b(c)
			if err != nil {
				return "", err
			}
			parts = append(parts, one)
		}
	}
	for _, s := range settled {
		if s.Err != nil {
			return "", s.Err
		}
		parts = append(parts, s.Value)
	}
	return fmt.Sprint(n.name, parts), err
}

// Whatever a workflow's shape, in whatever order its approvals and waits are
// answered, one or several at a time, while it lives or between restarts: the
// result is that of the plain program, and each tool has run once.
func TestBreakTrees(t *testing.T) {
	trees := 60
	if breakAll() {
		trees = 2000
	}
	for seed := range trees {
		t.Run(fmt.Sprint("tree ", seed), func(t *testing.T) { breakTree(t, uint64(seed)) })
	}
}

func breakTree(t *testing.T, seed uint64) {
	ctx := testCtx(t)
	r := rand.New(rand.NewPCG(seed, 1))
	names := 0
	root := &node{kind: "parallel", name: "root"}
	for range 2 {
		root.sub = append(root.sub, grow(r, 3, &names))
	}
	var mu sync.Mutex
	ran := map[string]int{}
	schema := must(rulvar.SchemaLiteral(json.RawMessage(cellSchema)))
	tool := must(rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "deploy", Risk: rulvar.RiskExecute, NeedsApproval: true}, schema,
		func(_ *rulvar.ToolContext, in json.RawMessage) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			ran[string(in)]++
			return "done", nil
		}))
	var scripts []rulvartest.Script
	agents := 0
	root.walk(func(n *node) {
		if n.kind == "agent" {
			agents++
			scripts = append(scripts, rulvartest.Script{Prompt: n.name, Turns: []rulvartest.Turn{
				{Calls: []rulvartest.Call{{ID: "1" + n.name, Tool: "deploy", Args: map[string]string{"service": n.name}}}}, {Text: n.plain()},
			}})
		}
	})
	w := rulvar.DefineWorkflow("tree", func(c *rulvar.Ctx, _ int) (string, error) { return root.run(c, tool) })
	store := rulvar.NewMemoryStore()
	engine := func() *rulvar.Engine {
		return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{rulvartest.NewProvider("test", scripts...)}, Model: "test:m"})
	}
	answer := func(e *rulvar.Engine, p rulvar.Pending) {
		var value any = rulvar.Approve("fine")
		if p.Call == nil {
			value = "wait " + p.Key
		}
		if _, err := e.Resolve(ctx, "r1", p.Key, value); err != nil {
			t.Error(err)
		}
	}
	e := engine()
	// In half of the trees a listener answers some of what waits at once.
	var eager func(rulvar.Event)
	if seed%2 == 0 {
		eager = func(ev rulvar.Event) {
			if ask, ok := ev.Body.(rulvar.ApprovalPending); ok && ask.EntryRef%2 == 0 {
				answer(e, rulvar.Pending{Key: ask.Key, Call: &rulvar.PendingCall{}})
			}
		}
	}
	h, err := rulvar.Run(ctx, e, w, 0, &rulvar.RunOptions{RunID: "r1", OnEvent: eager})
	require.NoError(t, err)
	var out rulvar.Outcome[string]
	for range 100 {
		out, err = h.Result(ctx)
		require.NoError(t, err)
		if out.Status != rulvar.RunSuspended {
			break
		}
		open, err := e.PendingOf(ctx, "r1")
		require.NoError(t, err)
		r.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		for _, p := range open[:min(len(open), 1+r.IntN(3))] {
			answer(e, p)
		}
		if r.IntN(2) == 0 {
			e = engine()
		}
		h, err = rulvar.Resume(ctx, e, w, "r1", &rulvar.ResumeOptions[int]{OnEvent: eager})
		require.NoError(t, err)
	}
	require.Equal(t, rulvar.RunOK, out.Status)
	require.Equal(t, root.plain(), out.Value)
	require.Len(t, ran, agents)
	for in, n := range ran {
		require.Equal(t, 1, n, in)
	}
}

// A branch that fails while its sibling waits for an approval fails the run,
// however it fails: it is never taken for one that has nothing left to do.
func TestBreakFailureBesideParkedBranch(t *testing.T) {
	rows := map[string]func() (string, error){
		"error": func() (string, error) { return "", fmt.Errorf("broken") },
		"panic": func() (string, error) { panic("broken") },
		"exit":  func() (string, error) { exitGoroutine(); return "", nil },
	}
	rounds := 5
	if breakAll() {
		rounds = 500
	}
	for name, fail := range rows {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				ctx := testCtx(t)
				parked := make(chan struct{})
				engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore()})
				w := rulvar.DefineWorkflow("mixed", func(c *rulvar.Ctx, _ int) ([]string, error) {
					return rulvar.Parallel(c, func(c *rulvar.Ctx) (string, error) {
						return rulvar.AwaitExternal[string](c, "k", "", nil)
					}, func(*rulvar.Ctx) (string, error) {
						<-parked
						return fail()
					})
				})
				h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
					if ev.Body.EventType() == (rulvar.ExternalWaiting{}).EventType() {
						select {
						case <-parked:
						default:
							close(parked)
						}
					}
				}})
				require.NoError(t, err)
				out, err := h.Result(ctx)
				require.Error(t, err)
				require.Equal(t, rulvar.RunError, out.Status)
				require.Empty(t, out.Pending)
			}
		})
	}
}

// A branch of ParallelSettled that panics or ends its goroutine does not touch
// the others.
func TestBreakSettledBranches(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore()})
	w := rulvar.DefineWorkflow("settled", func(c *rulvar.Ctx, _ int) (string, error) {
		var failed sync.WaitGroup
		failed.Add(2)
		list, err := rulvar.ParallelSettled(c,
			func(*rulvar.Ctx) (string, error) { defer failed.Done(); panic("broken") },
			func(*rulvar.Ctx) (string, error) { defer failed.Done(); exitGoroutine(); return "", nil },
			func(c *rulvar.Ctx) (string, error) {
				failed.Wait()
				return rulvar.Step(c, "s", func(context.Context) (string, error) { return "fine", nil }, nil)
			})
		if err != nil || list[0].Err == nil || list[1].Err == nil {
			return "", fmt.Errorf("%v %v", list, err)
		}
		return list[2].Value, list[2].Err
	})
	h, err := rulvar.Run(ctx, engine, w, 0, nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "fine", out.Value)
}
