package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// parkedRun suspends a run "r1" on the approval of deploy.
type parkedRun struct {
	ctx     context.Context
	dir     string
	store   *rulvar.FileStore
	engine  *rulvar.Engine
	model   *rulvartest.Provider
	w       *rulvar.Workflow[string, string]
	runs    atomic.Int64
	inputs  []string
	pending rulvar.Pending
}

func park(t *testing.T, cfg rulvar.Config) *parkedRun {
	t.Helper()
	p := &parkedRun{ctx: testCtx(t), dir: t.TempDir()}
	var err error
	p.store, err = rulvar.OpenFileStore(p.dir, nil)
	require.NoError(t, err)
	schema, err := rulvar.SchemaLiteral(json.RawMessage(deploySchema))
	require.NoError(t, err)
	deploy, err := rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "deploy", NeedsApproval: true, Risk: rulvar.RiskExecute}, schema,
		func(_ *rulvar.ToolContext, in json.RawMessage) (string, error) {
			p.runs.Add(1)
			p.inputs = append(p.inputs, string(in))
			return "done", nil
		})
	require.NoError(t, err)
	p.model = rulvartest.NewProvider("test", shipScript)
	cfg.Store, cfg.Providers, cfg.Model = p.store, []llm.Provider{p.model}, "test:m"
	p.engine = rulvartest.NewEngine(t, cfg)
	p.w = askShip(deploy)
	h, err := rulvar.Run(p.ctx, p.engine, p.w, "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(p.ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	p.pending = out.Pending[0]
	return p
}

func (p *parkedRun) resolve(t *testing.T, d rulvar.ApprovalDecision) {
	t.Helper()
	out, err := p.engine.Resolve(p.ctx, "r1", p.pending.Key, d)
	require.NoError(t, err)
	require.True(t, out.Applied)
}

func (p *parkedRun) resume(t *testing.T) rulvar.Outcome[string] {
	t.Helper()
	h, err := rulvar.Resume(p.ctx, p.engine, p.w, "r1", nil)
	require.NoError(t, err)
	out, err := h.Result(p.ctx)
	require.NoError(t, err)
	return out
}

// lastResult is the result of the deploy call that the model saw.
func (p *parkedRun) lastResult(t *testing.T) string {
	t.Helper()
	reqs := p.model.Requests()
	msgs := reqs[len(reqs)-1].Messages
	return string(msgs[len(msgs)-1].Parts[0].Result)
}

func TestApproveWithEdits(t *testing.T) {
	for name, c := range map[string]struct {
		input, ran, say string
	}{
		"fits":             {`{"service":"docs"}`, `{"service":"docs"}`, ""},
		"does not fit":     {`{"service":7}`, "", "does not fit"},
		"denied by a rule": {`{"service":"prod"}`, "", "denied by policy"},
	} {
		t.Run(name, func(t *testing.T) {
			p := park(t, rulvar.Config{})
			deny := func(_ *rulvar.ToolContext, c rulvar.Call) (rulvar.Decision, error) { return rulvar.Decision{}, nil }
			_ = deny
			if strings.Contains(c.input, "prod") {
				p.engine = rulvartest.NewEngine(t, rulvar.Config{Store: p.store, Providers: []llm.Provider{p.model}, Model: "test:m",
					Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("deploy")}}})
			}
			p.resolve(t, rulvar.ApproveEdited(json.RawMessage(c.input), ""))
			require.Equal(t, rulvar.RunOK, p.resume(t).Status)
			if c.ran != "" {
				require.Equal(t, []string{c.ran}, p.inputs)
				return
			}
			require.Empty(t, p.inputs)
			require.Contains(t, p.lastResult(t), c.say)
		})
	}
}

// A grant that has expired, was revoked, or meets a rule that denies now, does
// not run the tool; a recorded deny is not undone by a configuration that
// allows now.
func TestAnswersAgainstLaterConfiguration(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	allowAll := &rulvar.PermissionConfig{CanUseTool: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return rulvar.Allow(), nil }}
	denyNow := &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("deploy")}}
	for name, c := range map[string]struct {
		decision rulvar.ApprovalDecision
		then     *rulvar.PermissionConfig
		revoke   bool
		runs     int64
		say      string
	}{
		"allow":                        {rulvar.Approve(""), nil, false, 1, "done"},
		"allow, then a rule denies":    {rulvar.Approve(""), denyNow, false, 0, "denied by policy"},
		"allow, expired":               {rulvar.ApprovalDecision{Decision: "allow", ExpiresAt: &past}, nil, false, 0, "expired"},
		"allow, revoked":               {rulvar.Approve(""), nil, true, 0, "revoked by ops: wrong service"},
		"deny":                         {rulvar.Reject("no"), nil, false, 0, "no"},
		"deny, then all is allowed":    {rulvar.Reject("no"), allowAll, false, 0, "no"},
		"revoked, then all is allowed": {rulvar.Approve(""), allowAll, true, 0, "revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			p := park(t, rulvar.Config{})
			p.resolve(t, c.decision)
			if c.revoke {
				did, err := p.engine.RevokeApproval(p.ctx, "r1", p.pending.Key, "ops", "wrong service")
				require.NoError(t, err)
				require.Equal(t, "revoked-allow", did)
				did, err = p.engine.RevokeApproval(p.ctx, "r1", p.pending.Key, "ops", "again")
				require.NoError(t, err)
				require.Equal(t, "already-revoked", did)
			}
			if c.then != nil {
				p.engine = rulvartest.NewEngine(t, rulvar.Config{Store: p.store, Providers: []llm.Provider{p.model}, Model: "test:m", Permissions: c.then})
			}
			require.Equal(t, rulvar.RunOK, p.resume(t).Status)
			require.Equal(t, c.runs, p.runs.Load())
			require.Contains(t, p.lastResult(t), c.say)
		})
	}
}

// An open request stays open when the configuration allows now.
func TestOpenRequestStaysOpen(t *testing.T) {
	p := park(t, rulvar.Config{})
	p.engine = rulvartest.NewEngine(t, rulvar.Config{Store: p.store, Providers: []llm.Provider{p.model}, Model: "test:m",
		Permissions: &rulvar.PermissionConfig{CanUseTool: func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return rulvar.Allow(), nil }}})
	before := readStore(t, p.dir)
	require.Equal(t, rulvar.RunSuspended, p.resume(t).Status)
	require.Zero(t, p.runs.Load())
	require.Equal(t, before["r1.jsonl"], readStore(t, p.dir)["r1.jsonl"], "parking again appends nothing")
	_, err := p.engine.RevokeApproval(p.ctx, "r1", p.pending.Key, "", "")
	require.ErrorIs(t, err, rulvar.ErrInvalidResolution)
	did, err := p.engine.RevokeApproval(p.ctx, "r1", p.pending.Key, "ops", "no need")
	require.NoError(t, err)
	require.Equal(t, "denied-pending", did)
	require.Equal(t, rulvar.RunOK, p.resume(t).Status)
	require.Zero(t, p.runs.Load())
}

func readStore(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(text)
		return err
	}))
	return files
}

// The same call again needs an approval of its own, and a deny of the second
// is not undone by the allow of the first.
func TestGrantIsForOneCall(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	args := map[string]string{"service": "api"}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{ID: "c1", Tool: "deploy", Args: args}}}, {Calls: []rulvartest.Call{{ID: "c2", Tool: "deploy", Args: args}}}, {Text: "end"}}})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	w := askShip(deployTool(t, &runs))
	h, err := rulvar.Run(ctx, engine, w, "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	for i, d := range []rulvar.ApprovalDecision{rulvar.Approve(""), rulvar.Reject("once is enough")} {
		out, err := h.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, rulvar.RunSuspended, out.Status, "ask %d", i)
		require.Len(t, out.Pending, 1)
		_, err = engine.Resolve(ctx, "r1", out.Pending[0].Key, d)
		require.NoError(t, err)
		h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
		require.NoError(t, err)
	}
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunOK, out.Status)
	require.EqualValues(t, 1, runs.Load())
	require.Len(t, model.Requests(), 3)
}

func TestDeadlineDeniesAParkedRun(t *testing.T) {
	p := park(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{ApprovalDeadline: 50 * time.Millisecond}})
	require.NotNil(t, p.pending.DeadlineAt)
	require.Eventually(t, func() bool {
		open, err := p.engine.PendingOf(p.ctx, "r1")
		return err == nil && len(open) == 0
	}, 10*time.Second, 10*time.Millisecond, "the process lives, so the deadline denies the settled run")
	require.Equal(t, rulvar.RunOK, p.resume(t).Status)
	require.Zero(t, p.runs.Load())
	require.Contains(t, p.lastResult(t), "timeout")
}

// An answer that comes after the deadline is too late, also where no process
// lived to record that.
func TestAnswerAfterTheDeadline(t *testing.T) {
	p := park(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{ApprovalDeadline: time.Hour}})
	path := filepath.Join(p.dir, "r1.jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	at := p.pending.DeadlineAt.UTC().Format("2006-01-02T15:04:05.000Z")
	require.Contains(t, string(text), at)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), at, "2020-01-01T00:00:00.000Z")), 0o600))
	out, err := p.engine.Resolve(p.ctx, "r1", p.pending.Key, rulvar.Approve("late"))
	require.NoError(t, err)
	require.False(t, out.Applied)
	require.Equal(t, rulvar.RunOK, p.resume(t).Status)
	require.Zero(t, p.runs.Load())
	require.Contains(t, p.lastResult(t), "timeout")
}

// A failing branch is not hidden by one that waits for an approval.
func TestFailureBesideAParkedBranch(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	boom := errors.New("boom")
	model := rulvartest.NewProvider("test", shipScript)
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	deploy := deployTool(t, &runs)
	w := rulvar.DefineWorkflow("two", func(c *rulvar.Ctx, _ int) ([]string, error) {
		return rulvar.Parallel(c,
			func(c *rulvar.Ctx) (string, error) {
				return rulvar.Agent[string](c, "Ship api", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
			},
			func(c *rulvar.Ctx) (string, error) {
				return rulvar.Step(c, "fails", func(context.Context) (string, error) {
					time.Sleep(50 * time.Millisecond)
					return "", boom
				}, nil)
			})
	})
	h, err := rulvar.Run(ctx, engine, w, 0, nil)
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.ErrorIs(t, err, boom)
	require.Equal(t, rulvar.RunError, out.Status)
}

// Two approvals of two branches, answered in the other order.
func TestTwoPendingAnyOrder(t *testing.T) {
	ctx := testCtx(t)
	var runs atomic.Int64
	turns := func(service string) []rulvartest.Turn {
		return []rulvartest.Turn{{Calls: []rulvartest.Call{{Tool: "deploy", Args: map[string]string{"service": service}}}}, {Text: service}}
	}
	model := rulvartest.NewProvider("test", rulvartest.Script{Prompt: "Ship a", Turns: turns("a")}, rulvartest.Script{Prompt: "Ship b", Turns: turns("b")})
	engine := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m"})
	deploy := deployTool(t, &runs)
	ship := func(s string) func(*rulvar.Ctx) (string, error) {
		return func(c *rulvar.Ctx) (string, error) {
			return rulvar.Agent[string](c, "Ship "+s, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
		}
	}
	w := rulvar.DefineWorkflow("two", func(c *rulvar.Ctx, _ int) ([]string, error) { return rulvar.Parallel(c, ship("a"), ship("b")) })
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	require.Len(t, out.Pending, 2)
	require.NotEqual(t, out.Pending[0].Key, out.Pending[1].Key)
	for _, i := range []int{1, 0} {
		_, err = engine.Resolve(ctx, "r1", out.Pending[i].Key, rulvar.Approve(""))
		require.NoError(t, err)
		h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
		require.NoError(t, err)
		got, err := h.Result(ctx)
		require.NoError(t, err)
		if i == 1 {
			require.Equal(t, rulvar.RunSuspended, got.Status)
			require.Len(t, got.Pending, 1)
			continue
		}
		require.Equal(t, []string{"a", "b"}, got.Value)
	}
	require.EqualValues(t, 2, runs.Load())
	require.Len(t, model.Requests(), 4)
}

func TestExternalWait(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	w := rulvar.DefineWorkflow("wait", func(c *rulvar.Ctx, _ int) (int, error) {
		before, err := c.Now()
		if err != nil {
			return 0, err
		}
		n, err := rulvar.AwaitExternal[int](c, "number", "which?", json.RawMessage(`{"type":"integer","minimum":1}`))
		if err != nil {
			return 0, err
		}
		after, err := c.Now()
		if err != nil || after.Before(before) {
			return 0, errors.New("time runs backwards")
		}
		return n * 2, nil
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "number", out.Pending[0].Key)
	require.Nil(t, out.Pending[0].Call)
	for _, bad := range []any{0, "x", nil, 1.5} {
		_, err = engine.Resolve(ctx, "r1", "number", bad)
		require.ErrorIs(t, err, rulvar.ErrInvalidResolution)
	}
	_, err = engine.Resolve(ctx, "r1", "number", 21)
	require.NoError(t, err)
	h, err = rulvar.Resume(ctx, engine, w, "r1", nil)
	require.NoError(t, err)
	out, err = h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 42, out.Value)
	reserved := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (int, error) {
		return rulvar.AwaitExternal[int](c, "approval:1", "", nil)
	})
	h, err = rulvar.Run(ctx, engine, reserved, 0, nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrConfig)
}

func TestDryRun(t *testing.T) {
	p := park(t, rulvar.Config{})
	before := readStore(t, p.dir)
	dry := func() (rulvar.Outcome[string], error) {
		h, err := rulvar.Resume(p.ctx, p.engine, p.w, "r1", &rulvar.ResumeOptions[string]{DryRun: true})
		require.NoError(t, err)
		return h.Result(p.ctx)
	}
	out, err := dry()
	require.ErrorIs(t, err, rulvar.ErrJournalMiss)
	require.Equal(t, 1, out.Preview.Reruns)
	require.Equal(t, before, readStore(t, p.dir), "nothing is written")
	p.resolve(t, rulvar.Approve(""))
	p.resume(t)
	before = readStore(t, p.dir)
	out, err = dry()
	require.NoError(t, err)
	require.Equal(t, "shipped", out.Value)
	require.Equal(t, 1, out.Preview.Hits)
	require.Equal(t, before, readStore(t, p.dir))
	p.resume(t)
	require.Equal(t, before["r1.jsonl"], readStore(t, p.dir)["r1.jsonl"], "a pure replay appends nothing")
}

func TestResumeRefusals(t *testing.T) {
	p := park(t, rulvar.Config{})
	other := rulvar.DefineWorkflow("other", func(*rulvar.Ctx, string) (string, error) { return "", nil })
	_, err := rulvar.Resume(p.ctx, p.engine, other, "r1", nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "ship")
	args := "web"
	_, err = rulvar.Resume(p.ctx, p.engine, p.w, "r1", &rulvar.ResumeOptions[string]{Args: &args})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = rulvar.Resume(p.ctx, p.engine, p.w.Versioned("2"), "r1", &rulvar.ResumeOptions[string]{RefuseVersion: true})
	require.ErrorIs(t, err, rulvar.ErrConfig)
	p.resolve(t, rulvar.Approve(""))
	var warned bool
	h, err := rulvar.Resume(p.ctx, p.engine, p.w.Versioned("2"), "r1", &rulvar.ResumeOptions[string]{OnEvent: func(ev rulvar.Event) {
		if l, ok := ev.Body.(rulvar.LogEmitted); ok && strings.Contains(l.Msg, "version") {
			warned = true
		}
	}})
	require.NoError(t, err)
	_, err = h.Result(p.ctx)
	require.NoError(t, err)
	require.True(t, warned)
}

func TestCorruptCheckpoint(t *testing.T) {
	for _, answer := range []rulvar.OnCorruptCheckpoint{rulvar.CorruptRefuse, rulvar.CorruptRestart} {
		t.Run(string(answer), func(t *testing.T) {
			p := park(t, rulvar.Config{OnCorruptCheckpoint: answer})
			require.NoError(t, p.store.Put(p.ctx, "r1/ckpt/0", []byte("\x01{")))
			p.resolve(t, rulvar.Approve(""))
			h, err := rulvar.Resume(p.ctx, p.engine, p.w, "r1", nil)
			require.NoError(t, err)
			out, err := h.Result(p.ctx)
			if answer == rulvar.CorruptRefuse {
				require.ErrorIs(t, err, rulvar.ErrJournalIntegrity)
				require.Len(t, p.model.Requests(), 1)
				return
			}
			require.NoError(t, err)
			require.Equal(t, rulvar.RunOK, out.Status)
			require.Len(t, p.model.Requests(), 3)
		})
	}
}

// TestMissingCheckpoint: an agent that has asked for an approval had a
// checkpoint. Without it nothing is asked of the model again unseen.
func TestMissingCheckpoint(t *testing.T) {
	for _, answer := range []rulvar.OnCorruptCheckpoint{rulvar.CorruptRefuse, rulvar.CorruptRestart} {
		t.Run(string(answer), func(t *testing.T) {
			p := park(t, rulvar.Config{OnCorruptCheckpoint: answer})
			require.NoError(t, p.store.DeleteBlob(p.ctx, "r1/ckpt/0"))
			p.resolve(t, rulvar.Approve(""))
			h, err := rulvar.Resume(p.ctx, p.engine, p.w, "r1", nil)
			require.NoError(t, err)
			out, err := h.Result(p.ctx)
			if answer == rulvar.CorruptRefuse {
				require.ErrorIs(t, err, rulvar.ErrJournalIntegrity)
				require.ErrorContains(t, err, "r1/ckpt/0")
				require.Len(t, p.model.Requests(), 1)
				return
			}
			require.NoError(t, err)
			require.Equal(t, rulvar.RunOK, out.Status)
			require.Len(t, p.model.Requests(), 3)
		})
	}
}

func TestCtxMisuse(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	var kept *rulvar.Ctx
	w := rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ int) (int, error) {
		kept = c
		started, release := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := rulvar.Step(c, "outer", func(context.Context) (int, error) { close(started); <-release; return 1, nil }, nil)
			done <- err
		}()
		<-started
		_, err := rulvar.Step(c, "inner", func(context.Context) (int, error) { return 1, nil }, nil)
		close(release)
		return 1, errors.Join(err, <-done)
	})
	h, err := rulvar.Run(ctx, engine, w, 0, nil)
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "another goroutine")
	_, err = rulvar.Step(kept, "late", func(context.Context) (int, error) { return 1, nil }, nil)
	require.ErrorIs(t, err, rulvar.ErrJournalSealed)
}

func TestBodiesThatEndBadly(t *testing.T) {
	ctx := testCtx(t)
	engine := rulvartest.NewEngine(t, rulvar.Config{})
	for name, body := range map[string]func(*rulvar.Ctx, int) (any, error){
		"panics":            func(*rulvar.Ctx, int) (any, error) { panic("x") },
		"cannot be written": func(*rulvar.Ctx, int) (any, error) { return func() {}, nil },
		"step cannot be written": func(c *rulvar.Ctx, _ int) (any, error) {
			return rulvar.Step(c, "s", func(context.Context) (any, error) { return make(chan int), nil }, nil)
		},
		"step panics": func(c *rulvar.Ctx, _ int) (any, error) {
			return rulvar.Step(c, "s", func(context.Context) (any, error) { panic("x") }, nil)
		},
		"branch panics": func(c *rulvar.Ctx, _ int) (any, error) {
			return rulvar.Parallel(c, func(*rulvar.Ctx) (any, error) { panic("x") }, func(c *rulvar.Ctx) (any, error) { <-c.Done(); return 1, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := rulvar.Run(ctx, engine, rulvar.DefineWorkflow("w", body), 0, nil)
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.Error(t, err)
			require.Equal(t, rulvar.RunError, out.Status)
		})
	}
	_, err := rulvar.Run(ctx, engine, rulvar.DefineWorkflow("a/b", func(*rulvar.Ctx, int) (int, error) { return 0, nil }), 0, nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = rulvar.Run(ctx, engine, rulvar.DefineWorkflow[int, int]("w", nil), 0, nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
}
