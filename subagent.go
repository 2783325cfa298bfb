package rulvar

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// OrchestrateOptions refine [Orchestrate]. The embedded options are those of
// the orchestrating agent itself: its profile, its model, its layer of the
// permission chain, and the tools it has beside those that spawn.
type OrchestrateOptions struct {
	AgentOptions
	// Profiles are the agent types that may be spawned. Default: every
	// registered profile but AgentType's own; an empty, non-nil list is none.
	Profiles []string
	// Toolsets are the registered toolsets that a spawn may give to its child
	// in place of the profile's tools. Default: none.
	Toolsets []string
	// Schemas are JSON Schemas that a spawn may ask an answer in, by name.
	Schemas map[string]json.RawMessage
	// MaxSpawns is how many agents may be admitted. Default 16.
	MaxSpawns int
	// ChildBudgetUSD is the most that one child may spend; a spawn can ask for
	// less. It sees priced models alone. Default 0: no bound of its own.
	ChildBudgetUSD float64
	// ParallelAdmission says what becomes of a batch in which one task is
	// refused. Default: the tasks before it are spawned, those behind it not.
	ParallelAdmission ParallelAdmission
	// ReadResults gives the agent the tools get_child_result and
	// read_child_artifact, with which it reads the whole answers of children
	// that have ended, and their patches, a page at a time: 4000 characters
	// where it does not say, 20000 at most. They are part of its identity.
	// Default false: what it learns of an answer is the first 400 characters.
	ReadResults bool
}

// ParallelAdmission is how parallel_agents treats a batch.
type ParallelAdmission string

// The ways: stop at the first refusal, spawn all that can be, or spawn all or
// none. None of the last works before all are on record: where a process dies
// in between, the next one admits the rest or withdraws what there is.
const (
	AdmitFailFast  ParallelAdmission = ""
	AdmitTryAll    ParallelAdmission = "try-all"
	AdmitAllOrNone ParallelAdmission = "all-or-none"
)

// Orchestrate gives a goal to an agent that reaches it by spawning others. Its
// tools are spawn_agent, parallel_agents, await_any, await_all, cancel_agent
// and finish, whose result is what Orchestrate returns. A string T takes a
// text; another T has the model give a result of the type's schema.
//
// Children are agents of the registered profiles. They run at the same time, in
// a scope of their own, and have no tools to spawn. Each spawn is admitted or
// refused, by depth, number and budget, before it has any effect, and the
// decision is journaled: a resume goes on with the children that were there and
// spawns none again. Children that are still at work when the agent finishes
// are cancelled.
//
// A child's chain is the engine's layer and its own profile's; where that sets
// InheritPermissions the spawning agent's layer counts too, and can only make
// it stricter. The approvals of children surface in the run like any other. An
// agent that waits for children that all wait for approvals is parked itself.
//
// Everything else is as for [Agent].
func Orchestrate[T any](c *Ctx, goal string, opts *OrchestrateOptions) (T, error) {
	if opts == nil {
		opts = &OrchestrateOptions{}
	}
	own := opts.AgentOptions
	var err error
	if own.spawn, err = opts.check(c.seg.e); err != nil {
		var zero T
		return zero, err
	}
	return Agent[T](c, goal, &own)
}

// spawning is what an orchestrating agent may spawn.
type spawning struct {
	profiles, toolsets []string
	schemas            map[string]*compiledSchema
	max                int
	childUSD           float64
	admission          ParallelAdmission
	reads              bool
}

const defaultMaxSpawns = 16

// check refuses, before anything is written, what no spawn could use.
func (o *OrchestrateOptions) check(e *Engine) (*spawning, error) {
	refuse := func(path, msg string) (*spawning, error) {
		return nil, errs.New(errs.Config, "Orchestrate", path, msg)
	}
	sp := &spawning{profiles: o.Profiles, toolsets: o.Toolsets, schemas: make(map[string]*compiledSchema), max: o.MaxSpawns, childUSD: o.ChildBudgetUSD, admission: o.ParallelAdmission, reads: o.ReadResults}
	if sp.profiles == nil {
		for name := range e.cfg.Profiles {
			if name != o.AgentType {
				sp.profiles = append(sp.profiles, name)
			}
		}
	}
	sp.profiles = slices.Compact(slices.Sorted(slices.Values(sp.profiles)))
	for _, name := range sp.profiles {
		if e.cfg.Profiles[name] == nil {
			return refuse("Profiles", fmt.Sprintf("there is no agent profile %q: registered are %s", name, listNames(e.cfg.Profiles)))
		}
	}
	for _, name := range sp.toolsets {
		if _, ok := e.cfg.Toolsets[name]; !ok {
			return refuse("Toolsets", fmt.Sprintf("there is no toolset %q: registered are %s", name, listNames(e.cfg.Toolsets)))
		}
	}
	for name, text := range o.Schemas {
		s, err := parseSchema(text)
		if err != nil {
			return nil, errs.Wrap(errs.Config, "Orchestrate", fmt.Sprintf("Schemas[%q]", name), "", err)
		}
		sp.schemas[name] = &s
	}
	if sp.max == 0 {
		sp.max = defaultMaxSpawns
	}
	if sp.max < 0 || !(sp.childUSD >= 0) || math.IsInf(sp.childUSD, 1) {
		return refuse("MaxSpawns, ChildBudgetUSD", "a bound is a number that is not negative")
	}
	switch sp.admission {
	case AdmitFailFast, AdmitTryAll, AdmitAllOrNone:
	default:
		return refuse("ParallelAdmission", fmt.Sprintf("unknown way %q: use try-all or all-or-none, or leave it empty", string(sp.admission)))
	}
	return sp, nil
}

// roster tells the model what it can spawn. It is in the request alone: a new
// profile must not make another agent of one that is at work.
func (sp *spawning) roster(e *Engine) string {
	var b strings.Builder
	b.WriteString("\nAgent types:")
	for _, name := range sp.profiles {
		fmt.Fprintf(&b, "\n- %s", name)
		if d := e.cfg.Profiles[name].Description; d != "" {
			b.WriteString(": " + d)
		}
	}
	if len(sp.profiles) == 0 {
		b.WriteString(" none")
	}
	if len(sp.schemas) > 0 {
		b.WriteString("\noutputSchemaRef:")
		for _, name := range slices.Sorted(maps.Keys(sp.schemas)) {
			fmt.Fprintf(&b, "\n- %s: %s", name, sp.schemas[name].declared)
		}
	}
	if len(sp.toolsets) > 0 {
		b.WriteString("\ntoolsetRef: " + strings.Join(sp.toolsets, ", "))
	}
	return b.String()
}

// orchestrate makes an orchestrating agent of a resolved one: its answer is
// what it finishes with, not what it says.
func (a *agentRun) orchestrate(c *Ctx, sp *spawning) {
	a.orch = &orchestrator{a: a, c: c, sp: sp, schema: a.schema, children: make(map[int64]*spawned), told: make(map[int64]bool)}
	a.schema, a.extract, a.finalize = nil, nil, nil
	a.loop.role = roleOrchestrate
	roster := sp.roster(a.seg.e)
	for i := range a.declared {
		d := &a.declared[i]
		switch {
		case !a.byName[d.Name].control:
		case d.Name == toolSpawn || d.Name == toolParallel:
			d.Description += roster
		case d.Name == toolFinish && a.orch.schema != nil:
			d.Description += "\nThe result fits this JSON Schema: " + string(a.orch.schema.declared)
		case d.Name == toolFinish:
			d.Description += "\nThe result is a text."
		}
	}
}

const roleOrchestrate = "orchestrate"

// answers is the schema of what the agent returns; nil is text.
func (a *agentRun) answers() *compiledSchema {
	if a.orch != nil {
		return a.orch.schema
	}
	return a.schema
}

// ends reports whether a call ends the agent.
func (a *agentRun) ends(call pendingCall) bool {
	t := a.byName[call.Name]
	return t != nil && t.control && (call.Name == toolFinish || call.Name == toolEscalate)
}
