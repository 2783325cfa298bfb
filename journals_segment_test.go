package rulvar_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

// fixtureRun performs one segment of a scenario as a process of its own would:
// with its own store handle, engine and model. It records what happened.
type fixtureRun struct {
	t         *testing.T
	f         *fixture // as the segment sees it
	seg       *fixtureSegment
	dir       string
	store     *rulvar.FileStore
	engine    *rulvar.Engine
	model     *fixtureModel
	onCorrupt rulvar.OnCorruptCheckpoint
	stopsAt   *fixtureStopRequest // the request to stop at, where counting does not tell
	complete  func() bool         // the store holds what other branches write before a stop
	keys      func(string) string // the reference's suspension key in this store

	mu          sync.Mutex
	handle      *rulvar.RunHandle[json.RawMessage]
	started     chan struct{} // closed when handle is set
	tools       []any
	steps       []string
	executions  map[string]int // of tools and steps
	agents      []any
	dropped     int
	suspensions int
	resolutions []any
	live        []fixtureResolve

	stopOnce sync.Once
	stopped  chan struct{} // closed when the segment was stopped
	snapshot string        // the store when it was
}

// fixtureOutcome is how a segment ended; rejected where it could not begin.
type fixtureOutcome struct {
	rulvar.Outcome[json.RawMessage]
	rejected error
	killed   bool
}

// fixtureStopRequest names a request by its conversation: the number of a
// request says nothing where branches run at the same time.
type fixtureStopRequest struct {
	Prompt       string
	MessageCount int
}

func newFixtureRun(t *testing.T, f *fixture, seg *fixtureSegment, dir string) *fixtureRun {
	t.Helper()
	if f.Repo != nil && f.trees == nil {
		f.trees = newFixtureTrees(t, f.Repo)
	}
	x := &fixtureRun{
		t: t, f: f.in(seg), seg: seg, dir: dir, keys: func(k string) string { return k },
		executions: make(map[string]int), started: make(chan struct{}), stopped: make(chan struct{}),
	}
	x.model = newFixtureModel(x.f.Adapter, seg.Script)
	x.model.onCall = x.modelCalled
	store, err := rulvar.OpenFileStore(dir, &rulvar.FileStoreOptions{SyncEvery: -1})
	require.NoError(t, err)
	x.store = store
	return x
}

// open makes the segment's engine.
func (x *fixtureRun) open() {
	x.t.Helper()
	cfg, err := x.config()
	require.NoError(x.t, err)
	x.engine, err = rulvar.NewEngine(cfg)
	require.NoError(x.t, err)
}

func (x *fixtureRun) close(ctx context.Context) {
	x.t.Helper()
	require.NoError(x.t, x.engine.Close(ctx))
}

// perform runs the segment to its end, or to where it is stopped.
func (x *fixtureRun) perform(ctx context.Context) fixtureOutcome {
	x.t.Helper()
	for _, r := range x.seg.Resolve {
		if r.Via == "live" {
			x.live = append(x.live, r)
		}
	}
	h, err := x.start(ctx)
	if err != nil {
		return fixtureOutcome{rejected: err}
	}
	x.handle = h
	close(x.started)
	ended := make(chan fixtureOutcome, 1)
	go func() {
		out, _ := h.Result(ctx)
		ended <- fixtureOutcome{Outcome: out}
	}()
	select {
	case out := <-ended:
		return out
	case <-x.stopped:
		return fixtureOutcome{killed: true}
	}
}

func (x *fixtureRun) start(ctx context.Context) (*rulvar.RunHandle[json.RawMessage], error) {
	w := x.workflow(x.f.Workflow)
	var opts struct {
		DryRun     bool
		Invalidate []int64
		Args       json.RawMessage
		Name       string
		Tags       []string
		BudgetUSD  float64
		Run        struct{ BudgetUSD float64 }

		ConfigFingerprint string

		AcknowledgeOpenWireIntents bool
	}
	for _, layer := range []map[string]json.RawMessage{x.f.RunOptions, x.seg.Options} {
		text, err := json.Marshal(layer)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &opts); err != nil {
			return nil, err
		}
	}
	args := x.f.Args
	if opts.Args != nil {
		args = opts.Args
	}
	if x.seg.Mode == "run" {
		return rulvar.Run(ctx, x.engine, w, args, &rulvar.RunOptions{RunID: x.f.RunID, Name: opts.Name, Tags: opts.Tags, BudgetUSD: opts.BudgetUSD, ConfigFingerprint: opts.ConfigFingerprint, OnEvent: x.onEvent})
	}
	resume := &rulvar.ResumeOptions[json.RawMessage]{DryRun: opts.DryRun, Invalidate: opts.Invalidate, BudgetUSD: opts.Run.BudgetUSD, ConfigFingerprint: opts.ConfigFingerprint, AcknowledgeWireIntents: opts.AcknowledgeOpenWireIntents, OnEvent: x.onEvent}
	if args != nil {
		resume.Args = &args
	}
	return rulvar.Resume(ctx, x.engine, w, x.f.RunID, resume)
}

// modelCalled stops or cancels the segment at the request that it names.
func (x *fixtureRun) modelCalled(ctx context.Context, n int, req *llm.Request) error {
	if s := x.seg.Stop; s != nil && s.At == "modelCall" && (s.AgentType == "" || s.AgentType == req.AgentType) {
		here := s.N == n
		if at := x.stopsAt; at != nil {
			here = at.Prompt == firstUserText(req.Messages) && at.MessageCount == len(req.Messages)
		}
		if here {
			return x.stop(ctx)
		}
	}
	if c := x.seg.Cancel; c != nil && c.AtModelCall == n {
		<-x.started
		x.handle.Cancel(c.Reason)
		<-ctx.Done()
	}
	return ctx.Err()
}

func (x *fixtureRun) toolCalled(tc *rulvar.ToolContext, name string, in json.RawMessage) error {
	facts := map[string]any{"tool": name, "input": in}
	if who := tc.Agent(); who.Type != "" {
		facts["agentType"] = who.Type
	}
	if who := tc.Agent(); who.Label != "" {
		facts["label"] = who.Label
	}
	x.mu.Lock()
	x.tools = append(x.tools, facts)
	x.executions["tool "+name]++
	n := x.executions["tool "+name]
	x.mu.Unlock()
	if s := x.seg.Stop; s != nil && s.At == "toolExecute" && s.Tool == name && s.N == n {
		return x.stop(tc)
	}
	return nil
}

func (x *fixtureRun) stepCalled(ctx context.Context, label string) (*fixtureStepOutcome, error) {
	x.mu.Lock()
	x.steps = append(x.steps, label)
	n := x.executions["step "+label]
	x.executions["step "+label]++
	x.mu.Unlock()
	if s := x.seg.Stop; s != nil && s.At == "step" && s.Label == label {
		return nil, x.stop(ctx)
	}
	if list := x.seg.StepOutcomes[label]; n < len(list) {
		return &list[n], nil
	}
	return nil, nil
}

// onEvent answers, from within the segment, the suspensions that are to be
// answered live, and stops the segment at the suspension that it names.
func (x *fixtureRun) onEvent(ev rulvar.Event) {
	entry := int64(-1)
	switch b := ev.Body.(type) {
	case rulvar.ApprovalPending:
		entry = b.EntryRef
		x.resolveLive(b.Key)
	case rulvar.ExternalWaiting:
		entry = b.EntryRef
		x.resolveLive(b.Key)
	}
	if entry < 0 || ev.Replayed || x.seg.Stop == nil || x.seg.Stop.At != "suspended" {
		return
	}
	x.mu.Lock()
	x.suspensions++
	n := x.suspensions
	x.mu.Unlock()
	if n == x.seg.Stop.N {
		_ = x.stop(context.Background())
	}
}

// stop makes a copy of the store, which is what a process that dies here
// leaves, and lets the segment go no further.
func (x *fixtureRun) stop(ctx context.Context) error {
	x.stopOnce.Do(func() {
		for i := 0; x.complete != nil && !x.complete() && i < 1000; i++ {
			time.Sleep(5 * time.Millisecond)
		}
		x.snapshot = filepath.Join(x.t.TempDir(), "store")
		copyTree(x.t, x.dir, x.snapshot)
		close(x.stopped)
	})
	if ctx.Done() != nil {
		<-ctx.Done()
	}
	return errStopped
}

func (x *fixtureRun) agentEnded(prompt string, r *fixtureAgentResult) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.agents = append(x.agents, map[string]any{"prompt": prompt, "status": r.Status, "servedBy": r.ServedBy, "usage": r.Usage})
}

func (x *fixtureRun) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropped++
}
