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
	"github.com/rulvar/rulvar-go/rulvartest"
)

// handleModel is a scripted model whose scripts name the handles of spawned
// agents by their order: "$1" is the first that the conversation knows.
type handleModel struct{ *rulvartest.Provider }

func newHandleModel(scripts ...rulvartest.Script) handleModel {
	return handleModel{rulvartest.NewProvider("test", scripts...)}
}

func (m handleModel) Stream(ctx context.Context, req *rulvar.Request) iter.Seq2[rulvar.StreamEvent, error] {
	var pairs []string
	for _, h := range spawnedHandles(req.Messages) {
		pairs = append([]string{fmt.Sprintf(`"$%d"`, len(pairs)/2+1), h}, pairs...)
	}
	names := strings.NewReplacer(pairs...)
	return func(yield func(rulvar.StreamEvent, error) bool) {
		for ev, err := range m.Provider.Stream(ctx, req) {
			ev.Arguments = names.Replace(ev.Arguments)
			if !yield(ev, err) {
				return
			}
		}
	}
}

func spawnedHandles(messages []rulvar.Message) (handles []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			var out struct {
				Handle  json.Number
				Handles []json.Number
			}
			if p.Type != rulvar.PartToolResult || (p.Name != "spawn_agent" && p.Name != "parallel_agents") || json.Unmarshal(p.Result, &out) != nil {
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
	cfg.Providers, cfg.Model = []rulvar.Provider{f.model}, "test:m"
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
	var last []rulvar.Message
	for _, r := range f.model.Requests() {
		if r.Messages[0].Parts[0].Text == "goal" {
			last = r.Messages
		}
	}
	for _, m := range last {
		for _, p := range m.Parts {
			if p.Type == rulvar.PartToolResult && p.Name == tool {
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

var _ = errors.New
var _ = time.Second
