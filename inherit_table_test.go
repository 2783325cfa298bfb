package rulvar_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// layerSource is one thing that a layer can say. The closures speak of the tool
// "t" alone, as the engine's own tools are none of their business.
type layerSource struct {
	name string
	set  func(*rulvar.AgentProfilePermissions)
	argv bool // what it says depends on the command
}

func hookSource(name string, d rulvar.Decision, err error) layerSource {
	closure := aboutT(d, err, name == "panic")
	return layerSource{"hook " + name, func(p *rulvar.AgentProfilePermissions) { p.Hooks = []rulvar.PermissionHook{closure} }, d.Input != nil}
}

func canUseSource(name string, d rulvar.Decision, err error) layerSource {
	closure := aboutT(d, err, name == "panic")
	return layerSource{"canUseTool " + name, func(p *rulvar.AgentProfilePermissions) { p.CanUseTool = rulvar.CanUseTool(closure) }, d.Input != nil}
}

func aboutT(d rulvar.Decision, err error, panics bool) rulvar.PermissionHook {
	return func(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
		switch {
		case call.Tool != "t":
			return rulvar.Pass(), nil
		case panics:
			panic("closure")
		}
		return d, err
	}
}

const (
	commandHit  = `{"command":"rm x"}`
	commandMiss = `{"command":"ls"}`
)

func layerSources() []layerSource {
	type layer = *rulvar.AgentProfilePermissions
	preset := func(p rulvar.Preset) layerSource {
		return layerSource{"preset " + string(p), func(l layer) { l.Preset = p }, false}
	}
	deny := func(name string, r rulvar.Rule) layerSource {
		return layerSource{"deny " + name, func(l layer) { l.Deny = []rulvar.Rule{r} }, name == "argv"}
	}
	ask := func(name string, r rulvar.Rule) layerSource {
		return layerSource{"ask " + name, func(l layer) { l.Ask = []rulvar.Rule{r} }, name == "argv"}
	}
	hit, miss := rulvar.ModifyInput(json.RawMessage(commandHit)), rulvar.ModifyInput(json.RawMessage(commandMiss))
	onRm := func(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
		if call.Tool == "t" && strings.Contains(string(call.Input), "rm") {
			return rulvar.Deny("rm"), nil
		}
		return rulvar.Pass(), nil
	}
	out := []layerSource{
		{"nothing", func(layer) {}, false},
		preset(rulvar.PresetOpen), preset(rulvar.PresetStandard), preset(rulvar.PresetStrict),
		deny("tool", rulvar.ToolRule("t")), deny("risk", rulvar.RiskRule(rulvar.RiskWrite, rulvar.RiskUndeclared)), deny("argv", rulvar.ArgvRule("t", "rm **")),
		ask("tool", rulvar.ToolRule("t")), ask("risk", rulvar.RiskRule(rulvar.RiskWrite, rulvar.RiskUndeclared)), ask("argv", rulvar.ArgvRule("t", "rm **")),
		{"hook on rm", func(l layer) { l.Hooks = []rulvar.PermissionHook{onRm} }, true},
		{"canUseTool on rm", func(l layer) { l.CanUseTool = onRm }, true},
	}
	for _, kind := range []func(string, rulvar.Decision, error) layerSource{hookSource, canUseSource} {
		out = append(out,
			kind("allow", rulvar.Allow(), nil), kind("deny", rulvar.Deny("no"), nil), kind("ask", rulvar.Ask("who"), nil),
			kind("to rm", hit, nil), kind("to ls", miss, nil), kind("pass", rulvar.Pass(), nil),
			kind("error", rulvar.Decision{}, errors.New("closure")), kind("panic", rulvar.Decision{}, nil), kind("zero", rulvar.Decision{}, nil))
	}
	return out
}

// tableLayer is a source under the modes that a layer can have.
type tableLayer struct {
	name        string
	argv        bool
	permissions rulvar.AgentProfilePermissions
	readonly    bool
}

func tableLayers() (out []tableLayer) {
	for _, s := range layerSources() {
		for mode := range 8 {
			if strings.HasSuffix(s.name, "panic") && mode != 0 {
				continue // it costs a stack trace each time, and is an error otherwise
			}
			l := tableLayer{name: s.name, argv: s.argv, readonly: mode&4 != 0}
			s.set(&l.permissions)
			if mode&1 != 0 {
				l.permissions.HookAllow = rulvar.HookAllowAdvisory
				l.name += ", advisory"
			}
			if mode&2 != 0 {
				l.permissions.StrictApprovals = true
				l.name += ", strict approvals"
			}
			if l.readonly {
				l.name += ", readonly"
			}
			out = append(out, l)
		}
	}
	return out
}

// chain is the layer's, as a spawn compiles it.
func (l *tableLayer) chain(t testing.TB, engine *rulvar.PermissionConfig, inherit bool, spawner *rulvar.PermissionChain) *rulvar.PermissionChain {
	p := l.permissions
	p.InheritPermissions = inherit
	c, err := rulvar.CompilePermissionChain(engine, &p, spawner)
	require.NoError(t, err)
	if l.readonly {
		c = c.WithReadonly()
	}
	return c
}

// tableCall is a call of the table: every risk, with and without the need of an
// approval, with a command that the argv rules match and one that they do not.
type tableCall struct {
	tool  *rulvar.Tool
	input json.RawMessage
	hit   bool
}

func tableCalls(t testing.TB) (out []tableCall) {
	for _, risk := range []rulvar.Risk{rulvar.RiskUndeclared, rulvar.RiskRead, rulvar.RiskWrite, rulvar.RiskNetwork, rulvar.RiskExecute, rulvar.RiskDestructive} {
		for _, needs := range []bool{false, true} {
			tool := policyTool(t, "t", risk, needs)
			out = append(out, tableCall{tool, json.RawMessage(commandMiss), false}, tableCall{tool, json.RawMessage(commandHit), true})
		}
	}
	return out
}

// engineLayers take turns over the pairs of a parent and a child.
func engineLayers() (out []*rulvar.PermissionConfig) {
	out = append(out, nil)
	for _, s := range layerSources() {
		var p rulvar.AgentProfilePermissions
		if s.set(&p); p.Preset == "" && !strings.HasSuffix(s.name, "panic") {
			out = append(out, &p.PermissionConfig)
		}
	}
	return out
}

// Over every pair of what a parent and a child can say, under every pair of
// modes, for every kind of call: a child that does not opt in has exactly its
// own chain, and one that does is never answered less strictly than by that.
// What an inherited rewrite makes of a call passes the child's own chain too.
func TestInheritanceIsExhaustive(t *testing.T) {
	layers, engines := tableLayers(), engineLayers()
	var cells atomic.Int64
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			alone := &aloneTable{layers: layers, calls: tableCalls(t), said: make(map[[2]int][]rulvar.Evaluation)}
			for i := worker; i < len(layers) && !t.Failed(); i += 2 {
				parent := &layers[i]
				for k := range layers {
					if raceEnabled && (i+k)%5 != 0 {
						continue // the race detector is ten times slower, and looks for something else
					}
					e := (i + k) % len(engines)
					cells.Add(checkPair(t, alone, e, engines[e], parent, k))
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d pairs, %d calls", len(layers)*len(layers), cells.Load())
}

// aloneTable holds what each child's own chain says.
type aloneTable struct {
	layers []tableLayer
	calls  []tableCall
	said   map[[2]int][]rulvar.Evaluation // by engine and child, once they are asked for
}

func (a *aloneTable) of(t testing.TB, engine int, cfg *rulvar.PermissionConfig, child int) []rulvar.Evaluation {
	at := [2]int{engine, child}
	if a.said[at] == nil {
		chain := a.layers[child].chain(t, cfg, false, nil)
		for _, c := range a.calls {
			a.said[at] = append(a.said[at], chain.Evaluate(nil, c.tool, rulvar.Call{Input: c.input}))
		}
	}
	return a.said[at]
}

// checkPair holds one parent and one child against each other.
func checkPair(t testing.TB, alone *aloneTable, e int, engine *rulvar.PermissionConfig, parent *tableLayer, k int) (checked int64) {
	child := &alone.layers[k]
	spawner := parent.chain(t, engine, false, nil)
	out, in := child.chain(t, engine, false, spawner), child.chain(t, engine, true, spawner)
	said := alone.of(t, e, engine, k)
	fail := func(what string, c tableCall, own, got rulvar.Evaluation) {
		t.Errorf("%s: engine %d, parent %q, child %q, risk %q, needs approval %v, %s:\nalone     %s\ninherited %s\n%s",
			what, e, parent.name, child.name, c.tool.Risk(), c.tool.NeedsApproval(), c.input, own, got, in)
	}
	for i, c := range alone.calls {
		if c.hit && !parent.argv && !child.argv && (i+k)%4 != 1 {
			continue // nobody but the engine looks at the command
		}
		checked++
		if (k+i)%97 == 0 { // the dry run takes the same way, with notes
			dry, err := rulvar.EvaluatePermission(t.Context(), in, c.tool, c.input)
			require.NoError(t, err)
			require.Equal(t, in.Evaluate(nil, c.tool, rulvar.Call{Input: c.input}).Verdict, dry.Verdict)
		}
		own, apart, got := said[i], out.Evaluate(nil, c.tool, rulvar.Call{Input: c.input}), in.Evaluate(nil, c.tool, rulvar.Call{Input: c.input})
		switch {
		case own.Verdict != apart.Verdict || own.DecidedBy != apart.DecidedBy || own.Layer != apart.Layer || own.Reason != apart.Reason ||
			own.Rule.String() != apart.Rule.String() || string(own.Input) != string(apart.Input):
			fail("not opting in changes the chain", c, own, apart)
		case severity(got.Verdict) < severity(own.Verdict):
			fail("opting in loosens", c, own, got)
		case strings.Contains(parent.name, " to ") && !child.argv:
			if now := out.Evaluate(nil, c.tool, rulvar.Call{Input: got.Input}); severity(got.Verdict) < severity(now.Verdict) {
				fail("a rewrite loosens", c, now, got)
			}
		}
	}
	return checked
}

// What a parent has itself inherited loosens nothing further down either.
func TestInheritanceOfWhatWasInherited(t *testing.T) {
	layers, calls := tableLayers(), tableCalls(t)
	for n := range 4000 {
		first, parent, child := &layers[n*31%len(layers)], &layers[n*17%len(layers)], &layers[n*7/3%len(layers)]
		spawner := parent.chain(t, nil, true, first.chain(t, nil, false, nil))
		alone, in := child.chain(t, nil, false, nil), child.chain(t, nil, true, spawner)
		c := calls[n%len(calls)]
		own, got := alone.Evaluate(nil, c.tool, rulvar.Call{Input: c.input}), in.Evaluate(nil, c.tool, rulvar.Call{Input: c.input})
		require.GreaterOrEqual(t, severity(got.Verdict), severity(own.Verdict), "%q, %q, %q, %s:\n%s\n%s\n%s", first.name, parent.name, child.name, c.input, own, got, in)
	}
}

// The same through the spawn of the engine, for a sample: what the child's call
// comes to is what the chain says, and never less than without inheritance.
func TestInheritanceThroughASpawn(t *testing.T) {
	layers := tableLayers()
	calls := tableCalls(t)
	for n := range 24 {
		parent, child, c := &layers[n*41%len(layers)], &layers[n*67%len(layers)], calls[n*7%len(calls)]
		var got [2]rulvar.Verdict
		for i, inherit := range []bool{false, true} {
			var spawner *rulvar.PermissionChain
			if inherit {
				spawner = parent.chain(t, nil, false, nil)
			}
			want := child.chain(t, nil, inherit, spawner).Evaluate(nil, c.tool, rulvar.Call{Input: c.input})
			got[i] = spawnedVerdict(t, parent, child, inherit, c)
			require.Equal(t, want.Verdict, got[i], "parent %q, child %q, inherits %v, %s: %s", parent.name, child.name, inherit, c.input, want)
		}
		require.GreaterOrEqual(t, severity(got[1]), severity(got[0]))
	}
}

// spawnedVerdict is what comes of the call of a child that an agent under the
// parent's layer has spawned.
func spawnedVerdict(t *testing.T, parent, child *tableLayer, inherit bool, c tableCall) rulvar.Verdict {
	var ran atomic.Int64
	tool := literalTool(t, rulvar.ToolConfig{Name: "t", Risk: c.tool.Risk(), NeedsApproval: c.tool.NeedsApproval()}, anyObject, &ran, "done")
	profile := func(l *tableLayer, inherit bool, tools ...rulvar.ToolSource) *rulvar.AgentProfile {
		permissions := l.permissions
		permissions.InheritPermissions = inherit
		p := &rulvar.AgentProfile{Permissions: &permissions, Tools: tools}
		if l.readonly {
			isolation := rulvar.Readonly()
			p.Isolation = &isolation
		}
		return p
	}
	f := newFleet(t, rulvar.Config{Profiles: map[string]*rulvar.AgentProfile{"lead": profile(parent, false), "worker": profile(child, inherit, tool)}},
		&rulvar.OrchestrateOptions{AgentOptions: rulvar.AgentOptions{AgentType: "lead"}, Profiles: []string{"worker"}},
		goal(do(spawn("worker", "w")), do(await("await_all", "$1")), do(finish("done"))),
		rulvartest.Script{Prompt: "w", Turns: []rulvartest.Turn{do(rulvartest.Call{Tool: "t", Args: c.input}), {Text: "done"}}})
	out, err := f.run(t)
	require.NoError(t, err)
	switch {
	case len(out.Pending) > 0:
		return rulvar.VerdictAsk
	case ran.Load() > 0:
		return rulvar.VerdictAllow
	}
	return rulvar.VerdictDeny
}
