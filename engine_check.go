package rulvar

import (
	"fmt"
	"reflect"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/llm"
)

// check refuses a configuration that could only fail later.
func (e *Engine) check() error {
	refuse := func(path, msg string) error { return errs.New(errs.Config, "NewEngine", path, msg) }
	e.providers = make(map[string]llm.Provider, len(e.cfg.Providers))
	for i, p := range e.cfg.Providers {
		path := fmt.Sprintf("Providers[%d]", i)
		if p == nil {
			return refuse(path, "the provider is nil")
		}
		if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer && v.IsNil() {
			return refuse(path, fmt.Sprintf("the provider is a nil %T: its constructor has returned an error", p))
		}
		if e.providers[p.ID()] != nil {
			return refuse(path, fmt.Sprintf("two providers have the id %q", p.ID()))
		}
		e.providers[p.ID()] = p
	}
	e.slots = make(map[string]slots, len(e.cfg.ProviderConcurrency))
	for id, n := range e.cfg.ProviderConcurrency {
		if n < 1 || e.providers[id] == nil {
			return refuse(fmt.Sprintf("ProviderConcurrency[%q]", id), "a bound is at least 1 and names a registered provider")
		}
		e.slots[id] = newSlots(n)
	}
	if err := e.checkSettings(); err != nil {
		return err
	}
	if e.cfg.Model != "" {
		if _, _, err := e.provider(e.cfg.Model); err != nil {
			return errs.Wrap(errs.Config, "NewEngine", "Model", "", err)
		}
	}
	if err := e.checkRoutes("Routes", e.cfg.Routes); err != nil {
		return err
	}
	if err := e.cfg.Limits.validate("Limits"); err != nil {
		return err
	}
	for kind, x := range e.cfg.Executors {
		if !kind.known() || kind == ExecutorInProcess || x == nil {
			return refuse("Executors", fmt.Sprintf("%q cannot be registered: use subprocess or container and an executor", kind))
		}
	}
	for name, set := range e.cfg.Toolsets {
		if err := e.checkTools(fmt.Sprintf("Toolsets[%q]", name), set, false); err != nil {
			return err
		}
	}
	if _, err := CompilePermissionChain(e.cfg.Permissions, nil, nil); err != nil {
		return err
	}
	for name, p := range e.cfg.Profiles {
		if err := e.checkProfile(name, p); err != nil {
			return err
		}
	}
	return nil
}

// checkSettings checks what stands for itself: numbers and words.
func (e *Engine) checkSettings() error {
	refuse := func(path, msg string) error { return errs.New(errs.Config, "NewEngine", path, msg) }
	if e.cfg.Concurrency < 1 || !(e.cfg.ReserveUSD >= 0) {
		return refuse("Concurrency, ReserveUSD", "a bound is at least 1 and a reserve not negative")
	}
	for ref, p := range e.cfg.Pricing {
		if _, _, err := splitModelRef(ref); err != nil {
			return errs.Wrap(errs.Config, "NewEngine", fmt.Sprintf("Pricing[%q]", ref), "no model is priced by it", err)
		}
		if !(min(p.InputUSD, p.OutputUSD, p.CacheReadUSD, p.CacheWriteUSD) >= 0) {
			return refuse(fmt.Sprintf("Pricing[%q]", ref), "a price is not negative")
		}
	}
	if e.cfg.MaxDepth < 0 || e.cfg.MaxDepth > 4 {
		return refuse("MaxDepth", fmt.Sprintf("%d is not between 0 and 4", e.cfg.MaxDepth))
	}
	switch e.cfg.OnInterrupted {
	case InterruptedRerun, InterruptedReport, InterruptedAsk:
	default:
		return refuse("OnInterrupted", fmt.Sprintf("unknown answer %q: use rerun, report or ask", e.cfg.OnInterrupted))
	}
	switch e.cfg.OnCorruptCheckpoint {
	case CorruptRefuse, CorruptRestart:
	default:
		return refuse("OnCorruptCheckpoint", fmt.Sprintf("unknown answer %q: use refuse or restart", e.cfg.OnCorruptCheckpoint))
	}
	return nil
}

func (e *Engine) checkProfile(name string, p *AgentProfile) error {
	path := fmt.Sprintf("Profiles[%q]", name)
	if p == nil || name == "" {
		return errs.New(errs.Config, "NewEngine", path, "a profile needs a name and a value")
	}
	if p.Model != "" {
		if _, _, err := e.provider(p.Model); err != nil {
			return errs.Wrap(errs.Config, "NewEngine", path+".Model", "", err)
		}
	}
	for i, ref := range p.Fallbacks {
		if _, _, err := e.provider(ref); err != nil {
			return errs.Wrap(errs.Config, "NewEngine", fmt.Sprintf("%s.Fallbacks[%d]", path, i), "", err)
		}
	}
	if err := e.checkRoutes(path+".Routes", p.Routes); err != nil {
		return err
	}
	if err := p.Limits.validate(path + ".Limits"); err != nil {
		return err
	}
	if err := p.Escalation.validate(path + ".Escalation"); err != nil {
		return err
	}
	if err := e.checkTools(path+".Tools", p.Tools, true); err != nil {
		return err
	}
	if p.Attestation != nil {
		if err := p.Attestation.Validate(); err != nil {
			return errs.Wrap(errs.Config, "NewEngine", path+".Attestation", "", err)
		}
	}
	if _, err := CompilePermissionChain(e.cfg.Permissions, p.Permissions, nil); err != nil {
		return errs.Wrap(errs.Config, "NewEngine", path+".Permissions", "", err)
	}
	return nil
}

// checkTools refuses, at registration, tools that could only fail at their
// first call.
func (e *Engine) checkTools(path string, sources []ToolSource, names bool) error {
	for i, src := range sources {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch s := src.(type) {
		case nil:
			return errs.New(errs.Config, "NewEngine", at, "the tool source is nil")
		case *Tool:
			if err := e.checkExecutor(s); err != nil {
				return errs.Wrap(errs.Config, "NewEngine", at, "", err)
			}
		case Toolset:
			if !names {
				return errs.New(errs.Config, "NewEngine", at, "a registered toolset cannot hold the name of another")
			}
			if _, ok := e.cfg.Toolsets[string(s)]; !ok {
				return errs.New(errs.Config, "NewEngine", at, fmt.Sprintf("there is no toolset %q: registered are %s", string(s), listNames(e.cfg.Toolsets)))
			}
		}
	}
	return nil
}

func (e *Engine) checkExecutor(t *Tool) error {
	if t == nil || t.contract == nil {
		return errs.New(errs.Config, "tool", "", "the tool was not made by NewTool")
	}
	if t.cfg.Executor == ExecutorInProcess {
		return nil
	}
	x := e.cfg.Executors[t.cfg.Executor]
	if x == nil {
		return errs.New(errs.Config, "tool", toolPath(t.cfg.Name), fmt.Sprintf("no executor serves %q: register one in Config.Executors", t.cfg.Executor))
	}
	if c, ok := x.(interface{ CheckTool(*Tool) error }); ok {
		return askExecutor(c.CheckTool, t)
	}
	return nil
}

// askExecutor asks an executor whether it can serve a tool. What it cannot say,
// it cannot serve.
func askExecutor(check func(*Tool) error, t *Tool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errs.New(errs.Config, "tool", toolPath(t.cfg.Name), fmt.Sprintf("its executor panicked when it was asked for the tool: %v", p))
		}
	}()
	if err := check(t); err != nil {
		return errs.Wrap(errs.Config, "tool", toolPath(t.cfg.Name), "its executor cannot serve it", err)
	}
	return nil
}
