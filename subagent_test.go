package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// handleModel is a scripted model whose scripts name the handles of spawned
// agents by their order: "$1" is the first that the conversation knows.
type handleModel struct{ *rulvartest.Provider }

func newHandleModel(scripts ...rulvartest.Script) handleModel {
	return handleModel{rulvartest.NewProvider("test", scripts...)}
}

func (m handleModel) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	var pairs []string
	for _, h := range spawnedHandles(req.Messages) {
		pairs = append([]string{fmt.Sprintf(`"$%d"`, len(pairs)/2+1), h}, pairs...)
	}
	names := strings.NewReplacer(pairs...)
	return func(yield func(llm.StreamEvent, error) bool) {
		for ev, err := range m.Provider.Stream(ctx, req) {
			ev.Arguments = names.Replace(ev.Arguments)
			if !yield(ev, err) {
				return
			}
		}
	}
}

func spawnedHandles(messages []llm.Message) (handles []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			var out struct {
				Handle  json.Number
				Handles []json.Number
			}
			if p.Type != llm.PartToolResult || (p.Name != "spawn_agent" && p.Name != "parallel_agents") || json.Unmarshal(p.Result, &out) != nil {
				continue
			}
			if out.Handle != "" {
				handles = append(handles, out.Handle.String())
			}
			for _, h := range out.Handles {
				handles = append(handles, h.String())
			}
		}
	}
	return handles
}

// do is a turn of calls; each has an id made of its place.
func do(calls ...rulvartest.Call) rulvartest.Turn { return rulvartest.Turn{Calls: calls} }

func spawn(agentType, prompt string) rulvartest.Call {
	return call("spawn_agent", map[string]any{"agentType": agentType, "prompt": prompt})
}

func task(agentType, prompt string) map[string]any {
	return map[string]any{"agentType": agentType, "prompt": prompt}
}

func spawnAll(tasks ...map[string]any) rulvartest.Call {
	return call("parallel_agents", map[string]any{"tasks": tasks})
}

func await(tool string, handles ...string) rulvartest.Call {
	return call(tool, map[string]any{"handles": handles})
}

func finish(result any) rulvartest.Call { return call("finish", map[string]any{"result": result}) }

func goal(turns ...rulvartest.Turn) rulvartest.Script {
	return rulvartest.Script{Prompt: "goal", Turns: turns}
}

func says(prompt, text string) rulvartest.Script {
	return rulvartest.Script{Prompt: prompt, Turns: []rulvartest.Turn{{Text: text}}}
}

// fleet is an engine with profiles to spawn and a workflow that orchestrates.
type fleet struct {
	engine   *rulvar.Engine
	model    handleModel
	workflow *rulvar.Workflow[int, string]
	deployed atomic.Int64
	looked   atomic.Int64

	mu     sync.Mutex
	events []rulvar.Event
}

func newFleet(t *testing.T, cfg rulvar.Config, opts *rulvar.OrchestrateOptions, scripts ...rulvartest.Script) *fleet {
	t.Helper()
	f := &fleet{model: newHandleModel(scripts...)}
	look := literalTool(t, rulvar.ToolConfig{Name: "look", Risk: rulvar.RiskRead}, anyObject, &f.looked, "seen")
	profiles := map[string]*rulvar.AgentProfile{
		"thinker":  {Description: "Thinks."},
		"looker":   {Description: "Looks.", Tools: []rulvar.ToolSource{look}},
		"deployer": {Description: "Deploys.", Tools: []rulvar.ToolSource{deployTool(t, &f.deployed)}},
	}
	for name, p := range cfg.Profiles {
		profiles[name] = p
	}
	cfg.Profiles = profiles
	cfg.Providers, cfg.Model = []llm.Provider{f.model}, "test:m"
	f.engine = rulvartest.NewEngine(t, cfg)
	f.workflow = rulvar.DefineWorkflow("flow", func(c *rulvar.Ctx, _ int) (string, error) {
		return rulvar.Orchestrate[string](c, "goal", opts)
	})
	return f
}

func (f *fleet) note(ev rulvar.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, ev)
}

func (f *fleet) run(t *testing.T) (rulvar.Outcome[string], error) {
	t.Helper()
	ctx := testCtx(t)
	h, err := rulvar.Run(ctx, f.engine, f.workflow, 0, &rulvar.RunOptions{RunID: "r1", OnEvent: f.note})
	require.NoError(t, err)
	return h.Result(ctx)
}

func (f *fleet) resume(t *testing.T) (rulvar.Outcome[string], error) {
	t.Helper()
	ctx := testCtx(t)
	h, err := rulvar.Resume(ctx, f.engine, f.workflow, "r1", &rulvar.ResumeOptions[int]{OnEvent: f.note})
	require.NoError(t, err)
	return h.Result(ctx)
}

// results are the results of the calls of one tool that the orchestrator has
// been shown, as its last request has them.
func (f *fleet) results(t *testing.T, tool string) (out []string) {
	t.Helper()
	var last []llm.Message
	for _, r := range f.model.Requests() {
		if r.Messages[0].Parts[0].Text == "goal" {
			last = r.Messages
		}
	}
	for _, m := range last {
		for _, p := range m.Parts {
			if p.Type == llm.PartToolResult && p.Name == tool {
				out = append(out, string(p.Result))
			}
		}
	}
	return out
}

// asked counts the requests of agents by their prompt.
func (f *fleet) asked(prompt string) (n int) {
	for _, r := range f.model.Requests() {
		if r.Messages[0].Parts[0].Text == prompt {
			n++
		}
	}
	return n
}

func TestOrchestrate(t *testing.T) {
	f := newFleet(t, rulvar.Config{}, nil,
		goal(do(spawn("thinker", "a"), spawn("looker", "b")), do(await("await_all", "$1", "$2")), do(finish("both"))),
		says("a", "thought"), rulvartest.Script{Prompt: "b", Turns: []rulvartest.Turn{do(call("look", map[string]any{})), {Text: strings.Repeat("ü", 500)}}})
	out, err := f.run(t)
	require.NoError(t, err)
	require.Equal(t, "both", out.Value)
	require.EqualValues(t, 1, f.looked.Load())
	require.EqualValues(t, 3*10+10+2*10, out.Usage.InputTokens)

	var digests []map[string]any
	require.NoError(t, json.Unmarshal([]byte(f.results(t, "await_all")[0]), &digests))
	require.Len(t, digests, 2)
	require.Equal(t, "thinker", digests[0]["agentType"])
	require.Equal(t, "ok", digests[0]["status"])
	require.Equal(t, "thought", digests[0]["outputSummary"])
	require.Equal(t, []any{}, digests[0]["artifactsIndex"])
	require.Equal(t, strings.Repeat("ü", 400), digests[1]["outputSummary"])

	requests := len(f.model.Requests())
	again, err := f.resume(t)
	require.NoError(t, err)
	require.Equal(t, "both", again.Value)
	require.Equal(t, out.Usage, again.Usage, "children are told of and counted")
	require.Len(t, f.model.Requests(), requests)
	require.Empty(t, again.Preview.Orphaned)
}

// A child that waits for an approval surfaces with its path, parks its parent
// and the run, and goes on in another engine without anything done twice.
func TestParkedChildSuspendsTheRun(t *testing.T) {
	store := fileStore(t)
	scripts := []rulvartest.Script{
		goal(do(spawn("deployer", "ship"), spawn("thinker", "think")), do(await("await_all", "$1", "$2")), do(finish("done"))),
		{Prompt: "ship", Turns: []rulvartest.Turn{do(call("deploy", map[string]string{"service": "api"})), {Text: "shipped"}}},
		says("think", "thought"),
	}
	f := newFleet(t, rulvar.Config{Store: store, Concurrency: 1}, nil, scripts...)
	out, err := f.run(t)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	require.Len(t, out.Pending, 1)
	require.Regexp(t, `^flow/orchestrator/deployer:#\d+$`, out.Pending[0].Call.AgentPath)
	require.Equal(t, 2, f.asked("goal"))
	require.Zero(t, f.deployed.Load())

	g := newFleet(t, rulvar.Config{Store: store}, nil, scripts...)
	out, err = g.resume(t)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status, "nobody has answered")
	require.Empty(t, g.model.Requests())

	_, err = g.engine.Resolve(testCtx(t), "r1", out.Pending[0].Key, rulvar.Approve("fine"))
	require.NoError(t, err)
	out, err = g.resume(t)
	require.NoError(t, err)
	require.Equal(t, "done", out.Value)
	require.EqualValues(t, 1, g.deployed.Load())
	require.Equal(t, []int{1, 1, 0}, []int{g.asked("goal"), g.asked("ship"), g.asked("think")}, "each goes on where it was")
	require.Contains(t, g.results(t, "await_all")[0], "shipped")
	require.Len(t, g.results(t, "spawn_agent"), 2)
}

// A live answer wakes the child in place.
func TestParkedChildIsWokenLive(t *testing.T) {
	f := newFleet(t, rulvar.Config{}, nil,
		goal(do(spawn("deployer", "ship"), spawn("looker", "slow")), do(await("await_all", "$1", "$2")), do(finish("done"))),
		rulvartest.Script{Prompt: "ship", Turns: []rulvartest.Turn{do(call("deploy", map[string]string{"service": "api"})), {Text: "shipped"}}},
		rulvartest.Script{Prompt: "slow", Turns: []rulvartest.Turn{{Text: "late", Delay: 300 * time.Millisecond}}})
	ctx := testCtx(t)
	h, err := rulvar.Run(ctx, f.engine, f.workflow, 0, nil)
	require.NoError(t, err)
	h.On(func(ev rulvar.Event) {
		if p, ok := ev.Body.(rulvar.ApprovalPending); ok {
			go func() { _, _ = h.ResolveExternal(ctx, p.Key, rulvar.Approve("")) }()
		}
	})
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "done", out.Value)
	require.EqualValues(t, 1, f.deployed.Load())
}

func TestSpawnsAreRefusedWithTheReason(t *testing.T) {
	denied := &rulvar.AgentProfile{
		Tools:       []rulvar.ToolSource{literalTool(t, rulvar.ToolConfig{Name: "wipe", Risk: rulvar.RiskDestructive}, anyObject, nil, 1)},
		Permissions: &rulvar.AgentProfilePermissions{Preset: rulvar.PresetStrict},
	}
	broken := &rulvar.AgentProfile{Tools: []rulvar.ToolSource{rulvar.Toolset("pair")}}
	for _, row := range []struct {
		name   string
		cfg    rulvar.Config
		opts   rulvar.OrchestrateOptions
		spec   map[string]any
		budget float64
		code   string
		reason string
	}{
		{name: "unknown profile", spec: task("nobody", "x"), code: "profile", reason: "nobody"},
		{name: "profile that is not on the list", opts: rulvar.OrchestrateOptions{Profiles: []string{"looker"}}, spec: task("thinker", "x"), code: "profile"},
		{name: "no profile at all", opts: rulvar.OrchestrateOptions{Profiles: []string{}}, spec: task("thinker", "x"), code: "profile"},
		{name: "every tool denied", spec: task("denied", "x"), code: "tools_denied", reason: `wipe by profile.preset.deny[0]`},
		{name: "a toolset nobody has granted", spec: map[string]any{"agentType": "thinker", "prompt": "x", "toolsetRef": "pair"}, code: "toolset"},
		{name: "unknown schema", spec: map[string]any{"agentType": "thinker", "prompt": "x", "outputSchemaRef": "nope"}, code: "schema"},
		{name: "a profile that cannot run", spec: task("broken", "x"), code: "config", reason: "two tools"},
		{name: "unknown lineage", spec: map[string]any{"agentType": "thinker", "prompt": "x", "lineage": map[string]any{"continues": 99, "causeRef": "it failed"}}, code: "lineage_unknown"},
		{name: "budget", cfg: rulvar.Config{ReserveUSD: 0.5, Pricing: map[string]llm.Pricing{"test:m": {InputUSD: 1, OutputUSD: 1}}}, budget: 0.6, spec: task("thinker", "x"), code: "budget", reason: "reserved"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := row.cfg
			one := literalTool(t, rulvar.ToolConfig{Name: "one"}, anyObject, nil, 1)
			cfg.Toolsets = map[string][]rulvar.ToolSource{"pair": {one, one}}
			cfg.Profiles = map[string]*rulvar.AgentProfile{"denied": denied, "broken": broken}
			f := newFleet(t, cfg, &row.opts, goal(do(rulvartest.Call{Tool: "spawn_agent", Args: row.spec}), do(finish("no"))))
			ctx := testCtx(t)
			h, err := rulvar.Run(ctx, f.engine, f.workflow, 0, &rulvar.RunOptions{BudgetUSD: row.budget})
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, "no", out.Value)
			var got struct {
				Error   string
				Refused struct{ Code, Reason string }
			}
			require.NoError(t, json.Unmarshal([]byte(f.results(t, "spawn_agent")[0]), &got))
			require.Equal(t, row.code, got.Refused.Code, "%+v", got)
			require.Contains(t, got.Refused.Reason, row.reason)
			require.Zero(t, f.asked("x"))
		})
	}
}

func TestSpawnDepth(t *testing.T) {
	f := newFleet(t, rulvar.Config{}, nil, goal(do(spawn("thinker", "x")), do(finish("no"))))
	outer := rulvar.DefineWorkflow("outer", func(c *rulvar.Ctx, _ int) (string, error) { return rulvar.CallWorkflow(c, f.workflow, 0, "") })
	h, err := rulvar.Run(testCtx(t), f.engine, outer, 0, nil)
	require.NoError(t, err)
	_, err = h.Result(testCtx(t))
	require.NoError(t, err)
	require.Contains(t, f.results(t, "spawn_agent")[0], `"code":"depth"`)
}

func TestParallelAdmission(t *testing.T) {
	for _, row := range []struct {
		way      rulvar.ParallelAdmission
		handles  int
		children []string
		result   string
	}{
		{rulvar.AdmitFailFast, 1, []string{"a"}, `"refused":{"code":"profile","index":1`},
		{rulvar.AdmitTryAll, 2, []string{"a", "c"}, `"refusals":[{"code":"profile","index":1`},
		{rulvar.AdmitAllOrNone, 0, nil, `"code":"batch_atomic","index":0`},
	} {
		t.Run(string(row.way), func(t *testing.T) {
			f := newFleet(t, rulvar.Config{}, &rulvar.OrchestrateOptions{ParallelAdmission: row.way},
				goal(do(spawnAll(task("thinker", "a"), task("nobody", "b"), task("thinker", "c"), task("nobody", "d"))),
					do(call("await_all", map[string]any{"handles": []any{"$1", "$2"}[:max(row.handles, 1)]})), do(finish("done"))),
				says("a", "A"), says("c", "C"))
			_, err := f.run(t)
			require.NoError(t, err)
			require.Contains(t, f.results(t, "parallel_agents")[0], row.result)
			var got struct{ Handles []int64 }
			require.NoError(t, json.Unmarshal([]byte(f.results(t, "parallel_agents")[0]), &got))
			require.Len(t, got.Handles, row.handles)
			for _, p := range []string{"a", "b", "c", "d"} {
				want := 0
				for _, c := range row.children {
					if c == p {
						want = 1
					}
				}
				require.Equal(t, want, f.asked(p), p)
			}
		})
	}
}

func TestMaxSpawns(t *testing.T) {
	f := newFleet(t, rulvar.Config{}, &rulvar.OrchestrateOptions{MaxSpawns: 2, ParallelAdmission: rulvar.AdmitTryAll},
		goal(do(spawnAll(task("thinker", "a"), task("thinker", "a"), task("thinker", "a"))), do(await("await_all", "$1", "$2")), do(finish("done"))), says("a", "A"))
	_, err := f.run(t)
	require.NoError(t, err)
	require.Contains(t, f.results(t, "parallel_agents")[0], `"code":"quota","index":2`)
	require.Equal(t, 2, f.asked("a"), "equal tasks are two agents")
}

// Children that are not needed any more are cancelled, and what they have asked
// for is closed.
func TestUnneededChildrenAreCancelled(t *testing.T) {
	for _, row := range []struct {
		name string
		last rulvartest.Turn
	}{
		{"by finish", do(finish("done"))},
		{"by cancel_agent", do(call("cancel_agent", map[string]any{"handle": "$2", "reason": "enough"}), call("cancel_agent", map[string]any{"handle": "$3"}), finish("done"))},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFleet(t, rulvar.Config{}, nil,
				goal(do(spawn("thinker", "quick"), spawn("deployer", "ship"), spawn("thinker", "hang")), do(await("await_any", "$1", "$2")), row.last),
				says("quick", "q"), rulvartest.Script{Prompt: "hang", Turns: []rulvartest.Turn{{Hang: true}}},
				rulvartest.Script{Prompt: "ship", Turns: []rulvartest.Turn{do(call("deploy", map[string]string{"service": "api"}))}})
			out, err := f.run(t)
			require.NoError(t, err)
			require.Equal(t, "done", out.Value)
			require.Contains(t, f.results(t, "await_any")[0], `"outputSummary":"q"`)
			require.Zero(t, f.deployed.Load())
			open, err := f.engine.PendingOf(testCtx(t), "r1")
			require.NoError(t, err)
			require.Empty(t, open)
		})
	}
}

func TestCancelWhileChildrenAreParked(t *testing.T) {
	f := newFleet(t, rulvar.Config{}, nil, goal(do(spawn("deployer", "ship"), spawn("thinker", "hang")), do(await("await_all", "$1", "$2"))),
		rulvartest.Script{Prompt: "ship", Turns: []rulvartest.Turn{do(call("deploy", map[string]string{"service": "api"}))}},
		rulvartest.Script{Prompt: "hang", Turns: []rulvartest.Turn{{Hang: true}}})
	ctx := testCtx(t)
	h, err := rulvar.Run(ctx, f.engine, f.workflow, 0, nil)
	require.NoError(t, err)
	h.On(func(ev rulvar.Event) {
		if _, ok := ev.Body.(rulvar.ApprovalPending); ok {
			h.Cancel("enough")
		}
	})
	out, _ := h.Result(ctx)
	require.Equal(t, rulvar.RunCancelled, out.Status)
}

func TestFailingSiblingIsNotHidden(t *testing.T) {
	ship := rulvartest.Script{Prompt: "ship", Turns: []rulvartest.Turn{do(call("deploy", map[string]string{"service": "api"})), {Text: "shipped"}}}
	fails := rulvartest.Script{Prompt: "fail", Turns: []rulvartest.Turn{{Errs: []error{&llm.Error{Kind: llm.KindTerminal, Message: "no"}}}}}
	t.Run("of the orchestrator", func(t *testing.T) {
		f := newFleet(t, rulvar.Config{}, nil, goal(do(spawn("deployer", "ship")), do(await("await_all", "$1"))), ship)
		w := rulvar.DefineWorkflow("flow", func(c *rulvar.Ctx, _ int) ([]string, error) {
			return rulvar.Parallel(c,
				func(c *rulvar.Ctx) (string, error) { return rulvar.Orchestrate[string](c, "goal", nil) },
				func(c *rulvar.Ctx) (string, error) {
					_, err := rulvar.Step(c, "late", func(ctx context.Context) (int, error) {
						for f.asked("ship") == 0 {
							time.Sleep(time.Millisecond)
						}
						return 0, errors.New("the sibling failed")
					}, nil)
					return "", err
				})
		})
		h, err := rulvar.Run(testCtx(t), f.engine, w, 0, nil)
		require.NoError(t, err)
		out, err := h.Result(testCtx(t))
		require.ErrorContains(t, err, "the sibling failed")
		require.Equal(t, rulvar.RunError, out.Status)
	})
	t.Run("of a child", func(t *testing.T) {
		f := newFleet(t, rulvar.Config{}, nil,
			goal(do(spawn("deployer", "ship"), spawn("thinker", "fail")), do(await("await_all", "$1", "$2")), do(await("await_all", "$1", "$2")), do(finish("done"))), ship, fails)
		out, err := f.run(t)
		require.NoError(t, err)
		require.Equal(t, rulvar.RunSuspended, out.Status, "what failed is known, so that the second wait is one")
		require.Equal(t, 3, f.asked("goal"))
		first := f.results(t, "await_all")[0]
		require.Contains(t, first, `"status":"parked"`)
		require.Contains(t, first, `"status":"error"`)
		_, err = f.engine.Resolve(testCtx(t), "r1", out.Pending[0].Key, rulvar.Approve(""))
		require.NoError(t, err)
		out, err = f.resume(t)
		require.NoError(t, err)
		require.Equal(t, "done", out.Value)
		require.Equal(t, 1, f.asked("fail"), "a child that has failed stays as it ended")
	})
}

// The control tools are judged, but not by rules about risk.
func TestPresetsDoNotGateControlTools(t *testing.T) {
	scripts := []rulvartest.Script{goal(do(spawn("thinker", "a")), do(await("await_all", "$1")), do(finish("done"))), says("a", "A")}
	undeclared := rulvar.RiskRule(rulvar.RiskUndeclared, rulvar.RiskRead, rulvar.RiskWrite, rulvar.RiskNetwork, rulvar.RiskExecute, rulvar.RiskDestructive)
	t.Run("rules about risk", func(t *testing.T) {
		f := newFleet(t, rulvar.Config{
			Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{undeclared}, Ask: []rulvar.Rule{undeclared}},
			Profiles:    map[string]*rulvar.AgentProfile{"lead": {Permissions: &rulvar.AgentProfilePermissions{Preset: rulvar.PresetStrict}}},
		}, &rulvar.OrchestrateOptions{AgentOptions: rulvar.AgentOptions{AgentType: "lead"}}, scripts...)
		out, err := f.run(t)
		require.NoError(t, err)
		require.Equal(t, "done", out.Value)
	})
	t.Run("a rule that names one", func(t *testing.T) {
		f := newFleet(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{Ask: []rulvar.Rule{rulvar.ToolRule("finish")}, Deny: []rulvar.Rule{rulvar.ToolRule("parallel_agents")}}}, nil, scripts...)
		out, err := f.run(t)
		require.NoError(t, err)
		require.Equal(t, rulvar.RunSuspended, out.Status)
		require.Equal(t, "finish", out.Pending[0].Call.Tool)
		require.Equal(t, rulvar.RiskControl, out.Pending[0].Call.Risk)
		_, err = f.engine.Resolve(testCtx(t), "r1", out.Pending[0].Key, rulvar.Approve(""))
		require.NoError(t, err)
		out, err = f.resume(t)
		require.NoError(t, err)
		require.Equal(t, "done", out.Value)
	})
	t.Run("no tool of a host can declare it", func(t *testing.T) {
		_, err := rulvar.NewTool(rulvar.ToolConfig{Name: "mine", Risk: rulvar.RiskControl}, func(*rulvar.ToolContext, struct{}) (int, error) { return 0, nil })
		require.ErrorIs(t, err, rulvar.ErrConfig)
		requireConfigError(t, chainError(&rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskControl)}}), "engine.deny[0].risk")
	})
}

func chainError(c *rulvar.PermissionConfig) error {
	_, err := rulvar.CompilePermissionChain(c, nil, nil)
	return err
}

// Through the spawn itself: what the spawning agent is denied reaches a child
// that opts in, and no other.
func TestChildrenInheritByChoice(t *testing.T) {
	inherits := &rulvar.AgentProfilePermissions{InheritPermissions: true}
	for _, row := range []struct {
		name     string
		lead     rulvar.AgentProfile
		child    *rulvar.AgentProfilePermissions
		executes bool
	}{
		{"a rule, not inherited", rulvar.AgentProfile{Permissions: denying("write")}, nil, true},
		{"a rule", rulvar.AgentProfile{Permissions: denying("write")}, inherits, false},
		{"readonly isolation, not inherited", rulvar.AgentProfile{Isolation: isolated(rulvar.Readonly())}, &rulvar.AgentProfilePermissions{}, true},
		{"readonly isolation", rulvar.AgentProfile{Isolation: isolated(rulvar.Readonly())}, inherits, false},
		{"a hook", rulvar.AgentProfile{Permissions: &rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{Hooks: []rulvar.PermissionHook{func(_ *rulvar.ToolContext, c rulvar.Call) (rulvar.Decision, error) {
			if c.Tool == "write" {
				return rulvar.Deny("no writing"), nil
			}
			return rulvar.Pass(), nil
		}}}}}, inherits, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var wrote atomic.Int64
			tools := []rulvar.ToolSource{
				literalTool(t, rulvar.ToolConfig{Name: "write", Risk: rulvar.RiskWrite}, anyObject, &wrote, 1),
				literalTool(t, rulvar.ToolConfig{Name: "read", Risk: rulvar.RiskRead}, anyObject, nil, 1),
			}
			f := newFleet(t, rulvar.Config{Profiles: map[string]*rulvar.AgentProfile{"lead": &row.lead, "writer": {Tools: tools, Permissions: row.child}}},
				&rulvar.OrchestrateOptions{AgentOptions: rulvar.AgentOptions{AgentType: "lead"}},
				goal(do(spawn("writer", "w")), do(await("await_all", "$1")), do(finish("done"))),
				rulvartest.Script{Prompt: "w", Turns: []rulvartest.Turn{do(call("write", map[string]any{})), {Text: "tried"}}})
			out, err := f.run(t)
			require.NoError(t, err)
			require.Equal(t, "done", out.Value)
			require.Equal(t, row.executes, wrote.Load() == 1)
		})
	}
}

func denying(tool string) *rulvar.AgentProfilePermissions {
	return &rulvar.AgentProfilePermissions{PermissionConfig: rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule(tool)}}}
}

func isolated(i rulvar.Isolation) *rulvar.Isolation { return &i }

func TestFinish(t *testing.T) {
	type plan struct {
		Steps []string `json:"steps"`
	}
	run := func(t *testing.T, turns ...rulvartest.Turn) (*fleet, plan, error) {
		f := newFleet(t, rulvar.Config{}, nil, goal(turns...))
		w := rulvar.DefineWorkflow("flow", func(c *rulvar.Ctx, _ int) (plan, error) { return rulvar.Orchestrate[plan](c, "goal", nil) })
		h, err := rulvar.Run(testCtx(t), f.engine, w, 0, nil)
		require.NoError(t, err)
		out, err := h.Result(testCtx(t))
		return f, out.Value, err
	}
	t.Run("a result of a type", func(t *testing.T) {
		f, got, err := run(t, do(finish(map[string]any{"step": 1})), do(finish(map[string]any{"steps": []string{"one"}}), spawn("thinker", "never")))
		require.NoError(t, err)
		require.Equal(t, plan{Steps: []string{"one"}}, got)
		require.Contains(t, f.results(t, "finish")[0], "steps")
		require.Zero(t, f.asked("never"), "the calls behind finish are not executed")
		require.Contains(t, f.model.Requests()[0].Tools[5].Description, `"steps"`)
	})
	t.Run("talk is no end", func(t *testing.T) {
		_, got, err := run(t, rulvartest.Turn{Text: "I think"}, do(finish(map[string]any{"steps": []string{"two"}})))
		require.NoError(t, err)
		require.Equal(t, plan{Steps: []string{"two"}}, got)
		_, _, err = run(t, rulvartest.Turn{Text: "1"}, rulvartest.Turn{Text: "2"}, rulvartest.Turn{Text: "3"})
		require.ErrorContains(t, err, "without a call of finish")
	})
	t.Run("no limit on tool calls stops it", func(t *testing.T) {
		none := 0
		f := newFleet(t, rulvar.Config{}, &rulvar.OrchestrateOptions{AgentOptions: rulvar.AgentOptions{Limits: &rulvar.UsageLimits{MaxToolCalls: &none}}}, goal(do(finish("done"))))
		out, err := f.run(t)
		require.NoError(t, err)
		require.Equal(t, "done", out.Value)
	})
}

func TestChildBudget(t *testing.T) {
	f := newFleet(t, rulvar.Config{Pricing: map[string]llm.Pricing{"test:m": {InputUSD: 1, OutputUSD: 1}}}, &rulvar.OrchestrateOptions{ChildBudgetUSD: 0.00004},
		goal(do(spawn("looker", "b")), do(await("await_all", "$1")), do(finish("done"))),
		rulvartest.Script{Prompt: "b", Turns: []rulvartest.Turn{do(call("look", map[string]any{})), do(call("look", map[string]any{})), do(call("look", map[string]any{})), do(call("look", map[string]any{}))}})
	_, err := f.run(t)
	require.NoError(t, err)
	require.Equal(t, 3, f.asked("b"), "0.000015 a turn")
	require.Contains(t, f.results(t, "await_all")[0], `"status":"limit"`)
	require.Contains(t, f.results(t, "await_all")[0], `"costUsd":0.000045`)
}

func TestLineage(t *testing.T) {
	again := func(of string) rulvartest.Call {
		return call("spawn_agent", map[string]any{"agentType": "thinker", "prompt": "b", "lineage": map[string]any{"continues": of, "causeRef": "too short"}})
	}
	f := newFleet(t, rulvar.Config{}, nil,
		goal(do(spawn("thinker", "a")), do(await("await_all", "$1")), do(again("$1")), do(await("await_all", "$2")), do(again("$2"), again("$2")), do(finish("done"))),
		says("a", "A"), rulvartest.Script{Prompt: "b", Turns: []rulvartest.Turn{{Text: "B", Delay: 20 * time.Millisecond}}})
	_, err := f.run(t)
	require.NoError(t, err)
	got := f.results(t, "spawn_agent")
	require.Len(t, got, 4)
	require.Contains(t, got[3], "lineage_busy")
	require.Contains(t, f.results(t, "await_all")[1], `"logicalTaskId":"`+spawnedHandles(f.model.Requests()[len(f.model.Requests())-1].Messages)[0]+`"`)
}

func TestOrchestrateRefusesBadOptions(t *testing.T) {
	for _, row := range []struct {
		path string
		opts rulvar.OrchestrateOptions
	}{
		{"Profiles", rulvar.OrchestrateOptions{Profiles: []string{"nobody"}}},
		{"Toolsets", rulvar.OrchestrateOptions{Toolsets: []string{"none"}}},
		{`Schemas["s"]`, rulvar.OrchestrateOptions{Schemas: map[string]json.RawMessage{"s": json.RawMessage(`{"type":1}`)}}},
		{"MaxSpawns", rulvar.OrchestrateOptions{MaxSpawns: -1}},
		{"ParallelAdmission", rulvar.OrchestrateOptions{ParallelAdmission: "some"}},
	} {
		f := newFleet(t, rulvar.Config{}, &row.opts)
		_, err := f.run(t)
		require.ErrorIs(t, err, rulvar.ErrConfig)
		require.ErrorContains(t, err, row.path)
		require.Empty(t, f.model.Requests())
	}
}
