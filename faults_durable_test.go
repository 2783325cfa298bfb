package rulvar_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// An agent fails, runs again and ends well, and the run suspends behind it: the
// next resume takes the good end.
func faultPaidAgain(t *testing.T) {
	ctx := testCtx(t)
	broken := &llm.Error{Kind: llm.KindTerminal, Message: "broken"}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "good", Errs: []error{broken}}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (string, error) {
		text, err := rulvar.Agent[string](c, "go", nil)
		if err != nil {
			return "", err
		}
		more, err := rulvar.AwaitExternal[string](c, "more", "", nil)
		return text + more, err
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrAgent)
	for range 3 {
		h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
		require.NoError(t, err)
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, rulvar.RunSuspended, out.Status)
	}
	_, err = engine.Resolve(ctx, "r1", "more", "!")
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "good!", out.Value)
	require.Len(t, model.Requests(), 2, "one that failed and one that was paid")
}

// A refused run leaves every file as it was: the ceiling, the name, the status.
func faultExistingRun(t *testing.T) {
	dir := t.TempDir()
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: must(rulvar.OpenFileStore(dir, nil))})
	ctx := testCtx(t)
	first := rulvar.DefineWorkflow("first", func(*rulvar.Ctx, int) (int, error) { return 1, nil })
	other := rulvar.DefineWorkflow("other", func(*rulvar.Ctx, string) (int, error) { return 2, nil })
	h, err := rulvar.Run(ctx, engine, first, 1, &rulvar.RunOptions{RunID: "r1", BudgetUSD: 5})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	before := readStore(t, dir)
	_, err = rulvar.Run(ctx, engine, other, "x", &rulvar.RunOptions{RunID: "r1"})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	after := readStore(t, dir)
	for name, text := range before {
		if name != "r1.lock" { // it names its last holder
			require.Equal(t, text, after[name], name)
		}
	}
}

// Agents of different segments have transcripts of their own.
func faultBlobNames(t *testing.T) {
	ctx := testCtx(t)
	store := fileStore(t)
	said := func(prompt string) rulvartest.Script {
		return rulvartest.Script{Prompt: prompt, Turns: []rulvartest.Turn{{Text: "answer to " + prompt}}}
	}
	engine := rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{rulvartest.NewProvider("test", said("AAA"), said("BBB"))}, Model: "test:m"})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) ([]string, error) {
		a, err := rulvar.AgentFull[string](c, "AAA", nil)
		if err != nil {
			return nil, err
		}
		if _, err := rulvar.AwaitExternal[string](c, "k", "", nil); err != nil {
			return nil, err
		}
		b, err := rulvar.AgentFull[string](c, "BBB", nil)
		return []string{a.TranscriptRef, b.TranscriptRef}, err
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	_, err = engine.Resolve(ctx, "r1", "k", "go on")
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	for i, prompt := range []string{"AAA", "BBB"} {
		blob, err := store.Get(ctx, out.Value[i])
		require.NoError(t, err)
		require.Contains(t, string(blob), "answer to "+prompt)
	}
}

// crowd counts the requests that are under way, and makes each of them last as
// long as the scheduler likes.
type crowd struct {
	llm.Provider
	now, most atomic.Int64
}

func (p *crowd) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		n := p.now.Add(1)
		defer p.now.Add(-1)
		for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
		}
		p.Provider.Stream(ctx, req)(yield)
	}
}

// Many short requests come and go at a small limit: none slips in between one
// that leaves and one that was woken.
func faultOneTooMany(t *testing.T) {
	ctx := testCtx(t)
	p := &crowd{Provider: rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "x"}}})}
	engine := rulvartest.NewEngine(t, rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{p}, Model: "test:m", Concurrency: 3,
	})
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) ([]string, error) {
		branches := make([]func(*rulvar.Ctx) (string, error), 200)
		for i := range branches {
			branches[i] = func(c *rulvar.Ctx) (string, error) { return rulvar.Agent[string](c, fmt.Sprint("go ", i), nil) }
		}
		return rulvar.Parallel(c, branches...)
	})
	h, err := rulvar.Run(ctx, engine, w, 0, nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, p.most.Load(), int64(3))
}

// Branches and stages ask the model that the run would ask.
func faultBranchModel(t *testing.T) {
	ctx := testCtx(t)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "x"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{
		Providers: []llm.Provider{model}, Model: "test:small",
		Profiles: map[string]*rulvar.AgentProfile{"big": {Model: "test:big"}},
	})
	ask := func(kind string) func(*rulvar.Ctx) (string, error) {
		return func(c *rulvar.Ctx) (string, error) {
			return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{AgentType: kind})
		}
	}
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (int, error) {
		_, err := rulvar.Parallel(c, ask(""), ask("big"))
		settled, pipeErr := rulvar.Pipeline(c, []string{"", "big"}, func(c *rulvar.Ctx, kind string) (string, error) { return ask(kind)(c) })
		for _, s := range settled {
			err = errors.Join(err, s.Err)
		}
		return 0, errors.Join(err, pipeErr)
	})
	h, err := rulvar.Run(ctx, engine, w, 0, nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	asked := map[string]int{}
	for _, r := range model.Requests() {
		asked[r.AgentType+" "+r.Model]++
	}
	require.Equal(t, map[string]int{" small": 2, "big big": 2}, asked)
}
