package rulvar

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
	"github.com/rulvar/rulvar-go/internal/replay"
	"github.com/rulvar/rulvar-go/llm"
)

// resolveAgent merges call, profile and engine, and refuses what cannot run
// before anything is written or asked.
func (c *Ctx) resolveAgent(prompt string, opts *AgentOptions, schema *compiledSchema) (*agentRun, error) {
	e := c.seg.e
	refuse := func(msg string, err error) (*agentRun, error) {
		return nil, errs.Wrap(errs.Config, "Agent", opts.AgentType, msg, err)
	}
	profile := &AgentProfile{}
	if opts.AgentType != "" {
		p, ok := e.cfg.Profiles[opts.AgentType]
		if !ok {
			return refuse(fmt.Sprintf("there is no agent profile %q: registered are %s", opts.AgentType, listNames(e.cfg.Profiles)), nil)
		}
		profile = p
	}
	a := &agentRun{
		seg: c.seg, ctx: c.Context, scope: c.scope, parentSpan: c.span, span: c.seg.bus.span(), prompt: prompt,
		info: AgentInfo{Type: opts.AgentType, Label: opts.Label}, stream: opts.Stream, schema: schema,
		modelRef: firstSet(opts.Model, profile.Model, e.cfg.Model), effort: firstSet(opts.Effort, profile.Effort, e.cfg.Effort),
		basePath: firstSet(c.path, c.seg.workflow), escalation: profile.Escalation,
	}
	if opts.Escalation != nil {
		a.escalation = opts.Escalation
	}
	if err := a.escalation.validate("AgentOptions.Escalation"); err != nil {
		return nil, err
	}
	if a.modelRef == "" {
		return refuse("no model: set Config.Model, the profile's Model or AgentOptions.Model", nil)
	}
	fallbacks := profile.Fallbacks
	if opts.Fallbacks != nil {
		fallbacks = opts.Fallbacks
	}
	var err error
	if a.loop, err = e.line(roleLoop, a.effort, append([]string{a.modelRef}, fallbacks...)...); err != nil {
		return refuse("", err)
	}
	if err := opts.Limits.validate("AgentOptions.Limits"); err != nil {
		return nil, err
	}
	a.limits = mergeLimits(opts.Limits, profile.Limits, e.cfg.Limits)
	switch {
	case opts.Isolation != nil:
		a.isolation = *opts.Isolation
	case profile.Isolation != nil:
		a.isolation = *profile.Isolation
	}
	if err := a.checkIsolation(); err != nil {
		return nil, err
	}
	sources := profile.Tools
	if opts.Tools != nil {
		sources = opts.Tools
	}
	if err := a.resolveTools(sources, controlTools(opts, a.escalation), profile); err != nil {
		return nil, err
	}
	if err := a.resolveRoutes(mergeRoutes(opts.Routes, profile.Routes, e.cfg.Routes)); err != nil {
		return refuse("", err)
	}
	if err := a.compileChain(profile, c.spawner); err != nil {
		return nil, err
	}
	if opts.spawn != nil {
		a.orchestrate(c, opts.spawn)
	}
	return a, nil
}

// resolveTools takes the snapshot of the agent's tools, control tools last. An
// attestation is about the tools of the host alone.
func (a *agentRun) resolveTools(sources, control []ToolSource, profile *AgentProfile) error {
	e := a.seg.e
	var err error
	if a.tools, err = resolveToolset(a.ctx, slices.Concat(sources, control), e.cfg.Toolsets); err != nil {
		return err
	}
	var own []*Tool
	a.byName = make(map[string]*Tool, len(a.tools))
	for _, t := range a.tools {
		if err := e.checkExecutor(t); err != nil {
			return err
		}
		if !t.schema.object {
			return errs.New(errs.Config, "spawn", toolPath(t.cfg.Name), `the schema's root is not {"type":"object"}, which models demand of a tool`)
		}
		a.byName[t.cfg.Name] = t
		if !t.control {
			own = append(own, t)
		}
		a.declared = append(a.declared, llm.ToolDeclaration{Name: t.cfg.Name, Description: t.cfg.Description, Parameters: t.schema.declared, Version: t.cfg.Version})
	}
	switch {
	case profile.Attestation != nil:
		return profile.Attestation.Enforce(own)
	case e.cfg.RequireAttestation && len(own) > 0:
		return errs.New(errs.Config, "spawn", a.info.Type, "the engine requires an attestation and the profile has none")
	}
	return nil
}

// compileChain compiles the agent's chain; spawner is that of the agent that
// spawns it, or nil.
func (a *agentRun) compileChain(profile *AgentProfile, spawner *PermissionChain) (err error) {
	if a.chain, err = CompilePermissionChain(a.seg.e.cfg.Permissions, profile.Permissions, spawner); err != nil {
		return err
	}
	if a.isolation.Kind() == IsolationReadonly {
		a.chain = a.chain.withReadonly()
	}
	return nil
}

// warnUnmatched tells of rules that name none of the agent's tools: a rule
// that silently stopped matching is how policies rot.
func (a *agentRun) warnUnmatched() {
	if len(a.tools) == 0 {
		return
	}
	for _, r := range a.chain.UnmatchedRules(a.tools) {
		a.emit(false, PolicyWarning{Message: "a rule names no tool of this agent", Rule: r})
	}
}

func (a *agentRun) identity(key string) replay.AgentIdentity {
	id := replay.AgentIdentity{
		AgentType: a.info.Type, ModelSpec: replay.ModelSpec(a.modelRef, a.effort), Prompt: firstSet(key, a.prompt),
		SchemaHash: jsonschema.NoSchemaHash, ToolsetHash: ToolsetHash(a.tools),
	}
	if schema := a.answers(); schema != nil {
		id.SchemaHash = schema.hash
	}
	id.Isolation, _ = a.isolation.MarshalJSON() // two strings always encode
	return id
}

// runningValue is what the running entry records: the isolation's kind, where
// there is one, the tree, and the handle of a child.
func (a *agentRun) runningValue() json.RawMessage {
	v := treeValue{}
	if a.isolation.Kind() != IsolationNone {
		v.Isolation = a.isolation.Kind()
	}
	if a.tree != nil {
		t := a.tree.record()
		v.Tree = &t
	}
	if a.child != nil {
		v.SpawnRef = a.child.handle
	}
	if v == (treeValue{}) {
		return nil
	}
	return mustMarshal(v)
}

func firstSet(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func (m ReplayMode) mode() (replay.Mode, error) {
	switch m {
	case ReplayScoped:
		return replay.Scoped, nil
	case ReplayCache:
		return replay.Cache, nil
	case ReplayNever:
		return replay.Never, nil
	}
	return replay.Never, errs.New(errs.Config, "Agent", "Replay", fmt.Sprintf("unknown mode %q: use cache or never, or leave it empty", string(m)))
}

// answerSchema is the schema of T, nil where the answer is plain text.
func answerSchema[T any](opts *AgentOptions) (*compiledSchema, error) {
	var zero T
	switch any(&zero).(type) {
	case *string:
		if opts.Schema == nil {
			return nil, nil
		}
	case *json.RawMessage, *any:
		if opts.Schema == nil {
			return nil, errs.New(errs.Config, "Agent", "", "an answer of this type needs AgentOptions.Schema")
		}
	default:
		if opts.Schema == nil {
			s, err := SchemaOf[T]()
			if err != nil {
				return nil, err
			}
			return &s.compiledSchema, nil
		}
	}
	s, err := parseSchema(opts.Schema)
	if err != nil {
		return nil, errs.Wrap(errs.Config, "Agent", "Schema", "", err)
	}
	return &s, nil
}
