package rulvar_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

type verdictAnswer struct {
	Verdict string `json:"verdict"`
}

// askRouted runs one agent that answers with a verdict and returns the models
// that were asked, the agent's result and its terminal entry.
func askRouted(t *testing.T, cfg rulvar.Config, opts *rulvar.AgentOptions, script ...rulvartest.Turn) (*rulvartest.Provider, rulvar.AgentResult[verdictAnswer], *rulvar.Entry) {
	t.Helper()
	ctx := testCtx(t)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: script})
	cfg.Providers, cfg.Model, cfg.Store = []llm.Provider{model}, "test:m", rulvar.NewMemoryStore()
	engine := rulvartest.NewEngine(t, cfg)
	var result rulvar.AgentResult[verdictAnswer]
	w := rulvar.DefineWorkflow("routed", func(c *rulvar.Ctx, _ int) (_ string, err error) {
		result, err = rulvar.AgentFull[verdictAnswer](c, "judge", opts)
		return "", err
	})
	h, err := rulvar.Run(ctx, engine, w, 0, &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	_, err = h.Result(ctx)
	require.NoError(t, err)
	_, entries, err := cfg.Store.Load(ctx, "r1", -1)
	require.NoError(t, err)
	for _, en := range entries {
		if en.Ref != nil {
			return model, result, en
		}
	}
	t.Fatal("the agent has no end")
	return nil, result, nil
}

func modelsAsked(p *rulvartest.Provider) (models []string) {
	for _, r := range p.Requests() {
		models = append(models, r.Model)
	}
	return models
}

func TestRoutesServeTheirRoles(t *testing.T) {
	look := literalTool(t, rulvar.ToolConfig{Name: "look"}, anyObject, nil, 1)
	model, result, end := askRouted(t, rulvar.Config{Effort: "high", Routes: rulvar.Routes{Extract: "test:x", Finalize: "test:f"}},
		&rulvar.AgentOptions{Tools: []rulvar.ToolSource{look}},
		rulvartest.Turn{Calls: []rulvartest.Call{call("look", nil)}}, rulvartest.Turn{Text: "it passes"}, rulvartest.Turn{Text: "it does pass"}, rulvartest.Turn{JSON: verdictAnswer{"pass"}})
	require.Equal(t, verdictAnswer{"pass"}, result.Output)
	require.Equal(t, []string{"m", "m", "f", "x"}, modelsAsked(model))
	require.Equal(t, "test:m", result.ServedBy)
	for i, r := range model.Requests() {
		last := r.Messages[len(r.Messages)-1]
		require.Equal(t, i >= 2, r.ToolChoice == "none", "request %d", i)
		require.Equal(t, i == 3, r.Schema != nil, "request %d", i)
		require.Equal(t, i < 2, r.Effort == "high", "request %d", i)
		require.Len(t, r.Tools, 1)
		if i >= 2 {
			require.Equal(t, llm.RoleUser, last.Role)
		}
	}
	var parts []struct {
		ServedBy, Role string
		Usage          llm.Usage
	}
	require.NoError(t, json.Unmarshal(end.UsageByModel, &parts))
	require.Len(t, parts, 3)
	for i, want := range []struct {
		ref, role string
		tokens    int64
	}{{"test:m", "loop", 20}, {"test:f", "finalize", 10}, {"test:x", "extract", 10}} {
		require.Equal(t, want.ref, parts[i].ServedBy)
		require.Equal(t, want.role, parts[i].Role)
		require.Equal(t, want.tokens, parts[i].Usage.InputTokens)
	}
	require.EqualValues(t, 40, result.Usage.InputTokens)
}

func TestRoutesThatAreNotTaken(t *testing.T) {
	look := literalTool(t, rulvar.ToolConfig{Name: "look"}, anyObject, nil, 1)
	fits := []rulvartest.Turn{{JSON: verdictAnswer{"pass"}}}
	for _, c := range []struct {
		name   string
		routes rulvar.Routes
		tools  []rulvar.ToolSource
		script []rulvartest.Turn
		models []string
	}{
		{"extract: what was said fits", rulvar.Routes{Extract: "test:x"}, nil, fits, []string{"m"}},
		{"extract: the loop's own model", rulvar.Routes{Extract: "test:m"}, nil, fits, []string{"m"}},
		{"finalize: no tools", rulvar.Routes{Finalize: "test:f"}, nil, fits, []string{"m"}},
		{"finalize has written it", rulvar.Routes{Extract: "test:x", Finalize: "test:f"}, []rulvar.ToolSource{look}, append([]rulvartest.Turn{{Text: "hm"}}, fits...), []string{"m", "f"}},
		{"finalize alone extracts with the loop's model", rulvar.Routes{Finalize: "test:f"}, []rulvar.ToolSource{look}, append([]rulvartest.Turn{{Text: "hm"}, {Text: "hm!"}}, fits...), []string{"m", "f", "m"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			model, result, _ := askRouted(t, rulvar.Config{Routes: c.routes}, &rulvar.AgentOptions{Tools: c.tools}, c.script...)
			require.Equal(t, verdictAnswer{"pass"}, result.Output)
			require.Equal(t, c.models, modelsAsked(model))
		})
	}
}

func TestRoutesMergeFieldByField(t *testing.T) {
	look := literalTool(t, rulvar.ToolConfig{Name: "look"}, anyObject, nil, 1)
	script := []rulvartest.Turn{{Text: "a"}, {Text: "b"}, {JSON: verdictAnswer{"pass"}}}
	cfg := rulvar.Config{
		Routes:   rulvar.Routes{Extract: "test:engine-x", Finalize: "test:engine-f"},
		Profiles: map[string]*rulvar.AgentProfile{"judge": {Routes: rulvar.Routes{Extract: "test:profile-x", Finalize: "test:profile-f"}}},
	}
	for _, c := range []struct {
		name   string
		opts   rulvar.AgentOptions
		models []string
	}{
		{"engine", rulvar.AgentOptions{}, []string{"m", "engine-f", "engine-x"}},
		{"profile", rulvar.AgentOptions{AgentType: "judge"}, []string{"m", "profile-f", "profile-x"}},
		{"call", rulvar.AgentOptions{AgentType: "judge", Routes: rulvar.Routes{Extract: "test:call-x"}}, []string{"m", "profile-f", "call-x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Tools = []rulvar.ToolSource{look}
			model, _, _ := askRouted(t, cfg, &c.opts, script...)
			require.Equal(t, c.models, modelsAsked(model))
		})
	}
}

// The exchange with the extract route is bounded as the loop's is, and is no
// part of what the agent has said.
func TestExtractAsksAgain(t *testing.T) {
	wrong := rulvartest.Turn{JSON: map[string]int{"verdict": 1}}
	model, result, _ := askRouted(t, rulvar.Config{Routes: rulvar.Routes{Extract: "test:x"}}, nil, rulvartest.Turn{Text: "well"}, wrong, wrong, wrong, rulvartest.Turn{JSON: verdictAnswer{"pass"}})
	require.Equal(t, rulvar.AgentErrored, result.Status)
	require.Equal(t, "schema-mismatch", result.Err.Data["kind"])
	require.Equal(t, []string{"m", "x", "x", "x"}, modelsAsked(model))
	require.Equal(t, 4, result.Turns)
}

func TestRoutesThatFailEndTheAgent(t *testing.T) {
	look := literalTool(t, rulvar.ToolConfig{Name: "look"}, anyObject, nil, 1)
	broken := rulvartest.Turn{Errs: []error{&llm.Error{Kind: llm.KindTerminal, Message: "gone"}}}
	for _, c := range []struct {
		name string
		last rulvartest.Turn
		want rulvar.AgentStatus
	}{
		{"an error", broken, rulvar.AgentErrored},
		{"a refusal", rulvartest.Turn{Text: "no", Finish: llm.FinishRefusal}, rulvar.AgentErrored},
		{"nothing but the limit", rulvartest.Turn{Finish: llm.FinishMaxTokens}, rulvar.AgentLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, result, _ := askRouted(t, rulvar.Config{Routes: rulvar.Routes{Finalize: "test:f"}}, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{look}}, rulvartest.Turn{Text: "said"}, c.last)
			require.Equal(t, c.want, result.Status)
			require.Equal(t, 2, result.Turns)
		})
	}
}

func TestRoutesToNobody(t *testing.T) {
	providers := []llm.Provider{rulvartest.NewProvider("test")}
	for name, cfg := range map[string]rulvar.Config{
		"engine":  {Routes: rulvar.Routes{Summarize: "nobody:m"}},
		"profile": {Profiles: map[string]*rulvar.AgentProfile{"p": {Routes: rulvar.Routes{Extract: "m"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Providers = providers
			_, err := rulvar.NewEngine(cfg)
			require.ErrorIs(t, err, rulvar.ErrConfig)
		})
	}
	p := runProbe(t, rulvar.Config{}, &rulvar.AgentOptions{Routes: rulvar.Routes{Summarize: "nobody:m"}})
	require.ErrorIs(t, p.err, rulvar.ErrConfig)
	require.False(t, errors.Is(p.err, rulvar.ErrAgent))
	require.Empty(t, p.model.Requests())
}
