package rulvar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/llm"
)

// fixturePolicy is a layer of policy as the scenarios write it: rules as in
// policy files, closures as constant answers by tool name.
type fixturePolicy struct {
	Hooks []struct {
		Tool          string
		Verdict       string
		ModifiedInput json.RawMessage
	}
	Deny, Ask          []rulvar.Rule
	CanUseTool         map[string]json.RawMessage
	StrictApprovals    bool
	ApprovalDeadlineMs int64
	Preset             rulvar.Preset
	InheritPermissions bool
}

type fixtureProfile struct {
	Description string
	Tools       []string
	Permissions *fixturePolicy
	Model       string
	Effort      string
	Limits      *fixtureLimits
}

// config makes the engine's configuration of a segment. retry is that of the
// workflow's calls: when requests are sent again is the engine's to say here.
func (x *fixtureRun) config() (rulvar.Config, error) {
	cfg := rulvar.Config{
		Store: x.store, Providers: []llm.Provider{x.model}, Logger: slog.New(slog.DiscardHandler),
		OnCorruptCheckpoint: x.onCorrupt, PollInterval: 5 * time.Millisecond,
		Retry: &rulvar.RetryPolicy{Attempts: 3, Initial: time.Millisecond, Max: time.Millisecond},
	}
	if x.f.trees != nil {
		cfg.Isolation = &fixtureTrees{GitProvider: x.f.trees, stopped: x.stopped}
	}
	var routing map[string]string
	if err := x.member("routing", &routing); err != nil {
		return cfg, err
	}
	cfg.Model = routing["loop"]
	cfg.Routes = rulvar.Routes{Extract: routing["extract"], Finalize: routing["finalize"], Summarize: routing["summarize"]}
	var receipts string
	var policy *fixturePolicy
	var limits *fixtureLimits
	var retry *fixtureRetry
	var profiles map[string]fixtureProfile
	var budget struct {
		FlatReserveUsd float64
		MaxDepth       int
	}
	for name, v := range map[string]any{"billingReceipts": &receipts, "budgetDefaults": &budget, "permissions": &policy, "limits": &limits, "retry": &retry, "profiles": &profiles} {
		if err := x.member(name, v); err != nil {
			return cfg, err
		}
	}
	if r := retryOf(x.f.Workflow.Body); r != nil {
		retry = r
	}
	if retry != nil && retry.Attempts > 0 {
		cfg.Retry.Attempts = retry.Attempts
	}
	cfg.ReserveUSD, cfg.MaxDepth = budget.FlatReserveUsd, budget.MaxDepth
	cfg.Limits = limits.options()
	cfg.WireIntents = receipts == "intent"
	if policy != nil {
		layer := policy.config()
		cfg.Permissions = &layer
	}
	cfg.Profiles = make(map[string]*rulvar.AgentProfile)
	for name, p := range profiles {
		tools, err := x.toolSources(p.Tools)
		if err != nil {
			return cfg, err
		}
		profile := &rulvar.AgentProfile{Description: p.Description, Tools: tools, Model: p.Model, Effort: p.Effort, Limits: p.Limits.options()}
		if q := p.Permissions; q != nil {
			profile.Permissions = &rulvar.AgentProfilePermissions{PermissionConfig: q.config(), Preset: q.Preset, InheritPermissions: q.InheritPermissions}
		}
		cfg.Profiles[name] = profile
	}
	return cfg, nil
}

func (x *fixtureRun) member(name string, v any) error {
	text, ok := x.f.Engine[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("engine.%s: %w", name, err)
	}
	return nil
}

func retryOf(ops []fixtureOp) *fixtureRetry {
	for i := range ops {
		if ops[i].Retry != nil {
			return ops[i].Retry
		}
	}
	return nil
}

func (l *fixtureLimits) options() *rulvar.UsageLimits {
	if l == nil {
		return nil
	}
	return &rulvar.UsageLimits{
		MaxTurns: l.MaxTurns, MaxToolCalls: l.MaxToolCalls, MaxOutputTokensPerTurn: l.MaxOutputTokensPerTurn,
		Timeout: time.Duration(l.TimeoutMs) * time.Millisecond, StreamIdleTimeout: time.Duration(l.StreamIdleTimeoutMs) * time.Millisecond,
	}
}

func (p *fixturePolicy) config() rulvar.PermissionConfig {
	cfg := rulvar.PermissionConfig{
		Deny: p.Deny, Ask: p.Ask, StrictApprovals: p.StrictApprovals,
		ApprovalDeadline: time.Duration(p.ApprovalDeadlineMs) * time.Millisecond,
	}
	for _, h := range p.Hooks {
		cfg.Hooks = append(cfg.Hooks, func(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
			if h.Tool != call.Tool && h.Tool != "*" {
				return rulvar.Decision{}, nil
			}
			if h.ModifiedInput != nil {
				return rulvar.ModifyInput(h.ModifiedInput), nil
			}
			return rulvar.Decision{Verdict: rulvar.Verdict(h.Verdict)}, nil
		})
	}
	if p.CanUseTool != nil {
		cfg.CanUseTool = p.canUseTool
	}
	return cfg
}

// canUseTool answers for the tool's name, then for *; without either it has no
// opinion.
func (p *fixturePolicy) canUseTool(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
	answer, ok := p.CanUseTool[call.Tool]
	if !ok {
		answer, ok = p.CanUseTool["*"]
	}
	if !ok {
		return rulvar.Pass(), nil
	}
	var word rulvar.Verdict
	if json.Unmarshal(answer, &word) == nil {
		return rulvar.Decision{Verdict: word}, nil
	}
	var modify struct{ ModifiedInput json.RawMessage }
	if err := json.Unmarshal(answer, &modify); err != nil || modify.ModifiedInput == nil {
		return rulvar.Decision{}, fmt.Errorf("no answer: %s", answer)
	}
	return rulvar.ModifyInput(modify.ModifiedInput), nil
}

func (x *fixtureRun) toolSources(names []string) ([]rulvar.ToolSource, error) {
	sources := []rulvar.ToolSource{}
	for _, name := range names {
		spec, ok := x.f.Tools[name]
		if !ok {
			return nil, fmt.Errorf("the scenario has no tool %q", name)
		}
		schema, err := rulvar.SchemaLiteral(spec.Parameters)
		if err != nil {
			return nil, err
		}
		t, err := rulvar.NewToolWithSchema(rulvar.ToolConfig{
			Name: name, Description: spec.Description, Version: spec.Version, Risk: rulvar.Risk(spec.Risk), NeedsApproval: spec.NeedsApproval,
		}, schema, func(tc *rulvar.ToolContext, in json.RawMessage) (json.RawMessage, error) {
			return x.execute(tc, name, spec, in)
		})
		if err != nil {
			return nil, err
		}
		sources = append(sources, t)
	}
	return sources, nil
}

// execute does what the first case says whose input is the actual one.
func (x *fixtureRun) execute(tc *rulvar.ToolContext, name string, spec fixtureTool, in json.RawMessage) (json.RawMessage, error) {
	if err := x.toolCalled(tc, name, in); err != nil {
		return nil, err
	}
	canonical, err := jcs.Canonical(in)
	if err != nil {
		return nil, err
	}
	does := spec.Default
	for i := range spec.Cases {
		want, err := jcs.Canonical(spec.Cases[i].Input)
		if err != nil {
			return nil, err
		}
		if string(want) == string(canonical) {
			does = &spec.Cases[i]
			break
		}
	}
	if does == nil {
		return json.RawMessage("null"), nil
	}
	return does.do(tc.Cwd())
}

func (c *fixtureCase) do(cwd string) (json.RawMessage, error) {
	if w := c.WriteFile; w != nil {
		path := filepath.Join(cwd, w.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(w.Content), 0o666); err != nil {
			return nil, err
		}
	}
	if d := c.DeleteFile; d != nil {
		if err := os.Remove(filepath.Join(cwd, d.Path)); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Error != nil:
		return nil, errors.New(*c.Error)
	case c.ModelRetry != nil && c.Data != nil:
		return nil, rulvar.ModelRetry(*c.ModelRetry, c.Data)
	case c.ModelRetry != nil:
		return nil, rulvar.ModelRetry(*c.ModelRetry, nil)
	case c.ReadFile != nil:
		text, err := os.ReadFile(filepath.Join(cwd, c.ReadFile.Path))
		if err != nil {
			return json.RawMessage("null"), nil
		}
		return json.Marshal(string(text))
	case c.Result == nil:
		return json.RawMessage("null"), nil
	}
	return c.Result, nil
}
