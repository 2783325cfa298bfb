package rulvar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// PermissionChain is the compiled policy of one agent: every layer merged into
// one fixed order, and an index by tool name. It is made by
// [CompilePermissionChain], is immutable and may be used by any number of
// goroutines. A nil or zero chain denies every call.
type PermissionChain struct {
	all   layerSet // what a call is held against
	above layerSet // the same without the engine's layer: what a child may inherit
	index chainIndex

	// A chain that inherits is also kept in two parts: what it would be alone,
	// and what is inherited. Both are nil otherwise.
	own, inherited *PermissionChain
}

// layerSet is a merged run of layers, in evaluation order.
type layerSet struct {
	hooks            []placedHook
	deny, ask        []*placedRule
	canUse           placedCanUse
	strict, advisory bool
	deadline         time.Duration
}

// placedHook is a hook and where it came from. index counts within the layer.
type placedHook struct {
	run   PermissionHook
	layer Layer
	index int
}

type placedCanUse struct {
	run   CanUseTool
	layer Layer
}

// placedRule is a rule and where it came from. path is that place in words:
// "engine.deny[2]", "inherited.profile.ask[0]", "profile.preset.deny[0]".
type placedRule struct {
	rule  Rule
	layer Layer
	index int
	path  string
	// reason is what an evaluation says where the rule decides.
	reason string
}

// maxApprovalDeadline is a hundred years of 365.25 days.
const maxApprovalDeadline = 3155760000000 * time.Millisecond

// opCompile is the Op of every error of [CompilePermissionChain].
const opCompile = "CompilePermissionChain"

// CompilePermissionChain merges the layers of policy into one chain:
//
//	hooks       engine, inherited, profile; each in registration order
//	deny, ask   engine, inherited, profile, then the rules of the profile's preset
//	CanUseTool  one slot: the profile's, else the engine's and the inherited one
//	StrictApprovals, HookAllow   armed by any layer
//	ApprovalDeadline             of the most specific layer that sets it
//
// inherited is the chain of the agent that spawns this one. It counts only
// where the profile sets InheritPermissions, and without its engine layer,
// which is not taken twice; the spawning agent's preset and its readonly rule
// come with it. What is inherited can only make the chain stricter: its denies
// deny, its asks ask where the rest would allow, its allows are no opinion. Each
// argument may be nil. Anything wrong in a layer is an
// [ErrConfig] whose Path names the place, such as "engine.deny[2].argv".
func CompilePermissionChain(engine *PermissionConfig, profile *AgentProfilePermissions, inherited *PermissionChain) (*PermissionChain, error) {
	var base, own, from, alone layerSet
	if engine != nil {
		if err := base.add(opCompile, engine, LayerEngine); err != nil {
			return nil, err
		}
	}
	if profile != nil {
		if profile.InheritPermissions && inherited != nil {
			if !inherited.compiled() {
				return nil, configFault(opCompile, "inherited", "the chain was not made by CompilePermissionChain")
			}
			from = inherited.above.inherit()
			own = from
		}
		if err := own.addProfile(profile); err != nil {
			return nil, err
		}
		if err := alone.addProfile(profile); err != nil {
			return nil, err
		}
	}
	c := newChain(base.then(own), own)
	if profile != nil && profile.InheritPermissions && inherited != nil {
		c.split(base.then(alone), from, alone.canUse.run != nil)
	}
	return c, nil
}

// split keeps what the chain would be alone apart from what is inherited. A
// CanUseTool of the profile has the slot for itself.
func (c *PermissionChain) split(alone, from layerSet, filled bool) {
	alone.strict, alone.advisory = c.all.strict, c.all.advisory
	if filled {
		from.canUse = placedCanUse{}
	}
	c.own, c.inherited = newChain(alone, alone), newChain(from, from)
}

func newChain(all, above layerSet) *PermissionChain {
	return &PermissionChain{all: all, above: above, index: newChainIndex(all.deny, all.ask)}
}

// compiled reports whether the chain was made by [CompilePermissionChain].
func (c *PermissionChain) compiled() bool { return c != nil && c.index.rest != nil }

// withReadonly returns the chain with the deny rule of readonly isolation at
// the end of its deny table.
func (c *PermissionChain) withReadonly() *PermissionChain {
	if !c.compiled() {
		return c
	}
	rule := placeRule(readonlyRule(), LayerIsolation, 0, "isolation.readonly")
	all, above := c.all, c.above
	all.deny = append(slices.Clone(all.deny), rule)
	above.deny = append(slices.Clone(above.deny), rule)
	out := newChain(all, above)
	if c.own != nil {
		out.own, out.inherited = c.own.withReadonly(), c.inherited
	}
	return out
}

// add appends what one layer declares.
func (s *layerSet) add(op string, c *PermissionConfig, layer Layer) error {
	for i, h := range c.Hooks {
		if h == nil {
			return configFault(op, fmt.Sprintf("%s.hooks[%d]", layer, i), "the hook is nil")
		}
		s.hooks = append(s.hooks, placedHook{h, layer, i})
	}
	for _, t := range []struct {
		name string
		from []Rule
		to   *[]*placedRule
	}{{"deny", c.Deny, &s.deny}, {"ask", c.Ask, &s.ask}} {
		for i, r := range t.from {
			path := fmt.Sprintf("%s.%s[%d]", layer, t.name, i)
			if f := r.problem(); f != nil {
				return f.at(op, path)
			}
			*t.to = append(*t.to, placeRule(r, layer, i, path))
		}
	}
	if c.CanUseTool != nil {
		s.canUse = placedCanUse{c.CanUseTool, layer}
	}
	if why := c.HookAllow.problem(); why != "" {
		return configFault(op, string(layer)+".hookAllow", "%s", why)
	}
	s.advisory = s.advisory || c.HookAllow == HookAllowAdvisory
	s.strict = s.strict || c.StrictApprovals
	if why := deadlineProblem(c.ApprovalDeadline); why != "" {
		return configFault(op, string(layer)+".approvalDeadlineMs", "%s", why)
	}
	if c.ApprovalDeadline != 0 {
		s.deadline = c.ApprovalDeadline
	}
	return nil
}

func (s *layerSet) addProfile(p *AgentProfilePermissions) error {
	if err := s.add(opCompile, &p.PermissionConfig, LayerProfile); err != nil {
		return err
	}
	if p.Preset == "" {
		return nil
	}
	deny, ask, err := CompilePermissionPreset(p.Preset)
	if err != nil {
		return errs.New(errs.Config, opCompile, "profile.preset", unknownPreset(string(p.Preset)))
	}
	for i, r := range deny {
		s.deny = append(s.deny, placeRule(r, LayerPreset, i, fmt.Sprintf("profile.preset.deny[%d]", i)))
	}
	for i, r := range ask {
		s.ask = append(s.ask, placeRule(r, LayerPreset, i, fmt.Sprintf("profile.preset.ask[%d]", i)))
	}
	return nil
}

// inherit renames every part of s to the inherited layer.
func (s layerSet) inherit() layerSet {
	out := s
	out.hooks = make([]placedHook, len(s.hooks))
	for i, h := range s.hooks {
		out.hooks[i] = placedHook{h.run, LayerInherited, i}
	}
	rename := func(from []*placedRule) []*placedRule {
		to := make([]*placedRule, len(from))
		for i, r := range from {
			to[i] = placeRule(r.rule, LayerInherited, i, "inherited."+r.path)
		}
		return to
	}
	out.deny, out.ask = rename(s.deny), rename(s.ask)
	if s.canUse.run != nil {
		out.canUse.layer = LayerInherited
	}
	return out
}

// then puts next behind s.
func (s layerSet) then(next layerSet) layerSet {
	out := layerSet{
		hooks:    slices.Concat(s.hooks, next.hooks),
		deny:     slices.Concat(s.deny, next.deny),
		ask:      slices.Concat(s.ask, next.ask),
		canUse:   s.canUse,
		strict:   s.strict || next.strict,
		advisory: s.advisory || next.advisory,
		deadline: s.deadline,
	}
	if next.canUse.run != nil {
		out.canUse = next.canUse
	}
	if next.deadline != 0 {
		out.deadline = next.deadline
	}
	return out
}

func placeRule(r Rule, layer Layer, index int, path string) *placedRule {
	return &placedRule{rule: r, layer: layer, index: index, path: path, reason: path + " matches"}
}

func (m HookAllowMode) problem() string {
	switch m {
	case "", HookAllowDecisive, HookAllowAdvisory:
		return ""
	}
	return fmt.Sprintf("unknown mode %q: use decisive or advisory", string(m))
}

func deadlineProblem(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond || d > maxApprovalDeadline:
		return fmt.Sprintf("the deadline %s is not between a millisecond and a hundred years", d)
	case d%time.Millisecond != 0:
		return fmt.Sprintf("the deadline %s is not a whole number of milliseconds", d)
	}
	return ""
}

// ApprovalDeadline returns how long an ask waits before it is denied; zero for
// ever.
func (c *PermissionChain) ApprovalDeadline() time.Duration {
	if c == nil {
		return 0
	}
	return c.all.deadline
}

// UnmatchedRules returns the rules that name tools, but none of these: rules
// that can never match for an agent with this toolset, as after a misspelling
// or a changed prefix. Risk rules name no tool and are never among them.
func (c *PermissionChain) UnmatchedRules(tools []*Tool) []Rule {
	if c == nil {
		return nil
	}
	have := make(map[string]bool, len(tools))
	for _, t := range tools {
		if t != nil {
			have[t.cfg.Name] = true
		}
	}
	var out []Rule
	for _, r := range slices.Concat(c.all.deny, c.all.ask) {
		spec := r.rule.spec
		if spec.kind != ruleRisk && !slices.ContainsFunc(spec.tool.words, func(n string) bool { return have[n] }) {
			out = append(out, r.rule)
		}
	}
	return out
}

// MarshalJSON writes the merged layers for inspection. It is not a policy
// file: closures are only counted, and nothing reads it back.
//
//	{"hooks":2,"deny":[…],"ask":[…],"canUseTool":true,"strictApprovals":false,
//	 "hookAllow":"decisive","approvalDeadlineMs":60000}
func (c *PermissionChain) MarshalJSON() ([]byte, error) {
	if !c.compiled() {
		return nil, configFault("marshal chain", "", "the chain was not made by CompilePermissionChain")
	}
	view := struct {
		Hooks           int           `json:"hooks"`
		Deny            []Rule        `json:"deny"`
		Ask             []Rule        `json:"ask"`
		CanUseTool      bool          `json:"canUseTool"`
		StrictApprovals bool          `json:"strictApprovals"`
		HookAllow       HookAllowMode `json:"hookAllow"`
		DeadlineMs      int64         `json:"approvalDeadlineMs,omitempty"`
	}{
		Hooks: len(c.all.hooks), Deny: rulesOf(c.all.deny), Ask: rulesOf(c.all.ask),
		CanUseTool: c.all.canUse.run != nil, StrictApprovals: c.all.strict,
		HookAllow: HookAllowDecisive, DeadlineMs: c.all.deadline.Milliseconds(),
	}
	if c.all.advisory {
		view.HookAllow = HookAllowAdvisory
	}
	return json.Marshal(view)
}

func rulesOf(placed []*placedRule) []Rule {
	out := make([]Rule, len(placed))
	for i, p := range placed {
		out[i] = p.rule
	}
	return out
}

// slots are the CanUseTool closures that are asked, in order.
func (c *PermissionChain) slots() (out []placedCanUse) {
	parts := []*PermissionChain{c}
	if c.own != nil {
		parts = []*PermissionChain{c.own, c.inherited}
	}
	for _, p := range parts {
		if p.all.canUse.run != nil {
			out = append(out, p.all.canUse)
		}
	}
	return out
}

// String lists the chain in evaluation order, one part a line, each with the
// layer it came from.
func (c *PermissionChain) String() string {
	if !c.compiled() {
		return "no chain: every call is denied"
	}
	var b strings.Builder
	for _, h := range c.all.hooks {
		fmt.Fprintf(&b, "hook %s[%d]\n", h.layer, h.index)
	}
	for _, r := range c.all.deny {
		fmt.Fprintf(&b, "deny %s %s\n", r.path, r.rule)
	}
	for _, r := range c.all.ask {
		fmt.Fprintf(&b, "ask %s %s\n", r.path, r.rule)
	}
	for _, slot := range c.slots() {
		fmt.Fprintf(&b, "canUseTool %s\n", slot.layer)
	}
	b.WriteString("default: ask where the tool needs approval, else allow\n")
	return b.String()
}
