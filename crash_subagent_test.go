package rulvar_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// orchestratedCrashRun is killed at its durable writes like the others: two
// children at once, one of which needs an approval, then a third, then one that
// is called off.
func orchestratedCrashRun() crashRun {
	named := func(id string, c rulvartest.Call) rulvartest.Call {
		c.ID = id
		return c
	}
	lead := goal(
		do(named("g1", spawnAll(task("writer", "left"), task("deployer", "right")))),
		do(named("g2", await("await_all", "$1", "$2"))),
		do(named("g3", spawn("writer", "third")), named("g4", spawn("thinker", "never"))),
		do(named("g5", call("cancel_agent", map[string]any{"handle": "$4"})), named("g6", await("await_all", "$3")), named("g8", read("$1")), named("g9", read("$3"))),
		do(named("g7", finish("goal is done"))))
	left := script("left", []string{"write:l1"})
	right := script("right", []string{"deploy:r1"}, []string{"look:r2"})
	third := script("third", []string{"write:t1"})
	for _, s := range []*rulvartest.Script{&left, &right, &third} {
		s.Label, s.Prompt = "", s.Label
	}
	never := rulvartest.Script{Prompt: "never", Turns: []rulvartest.Turn{{Hang: true}}}
	return crashRun{
		name: "an agent that spawns others",
		config: func(dir string) rulvar.Config {
			cfg := crashConfig(lead, right)(dir)
			cfg.Providers = []llm.Provider{rulvartest.CrashProvider(newHandleModel(lead, left, right, third, never))}
			cfg.Profiles = map[string]*rulvar.AgentProfile{
				"writer":   {Tools: []rulvar.ToolSource{crashTool(dir, writeConfig)}},
				"deployer": {Tools: []rulvar.ToolSource{crashTool(dir, deployConfig), crashTool(dir, lookConfig)}},
				"thinker":  {},
			}
			return cfg
		},
		workflow: func(string) *rulvar.Workflow[string, string] {
			return rulvar.DefineWorkflow("orchestrated", func(c *rulvar.Ctx, _ string) (string, error) {
				return rulvar.Orchestrate[string](c, "goal", &rulvar.OrchestrateOptions{ParallelAdmission: rulvar.AdmitAllOrNone, ReadResults: true})
			})
		},
		answer: approve, loose: true,
		check: func(t testing.TB, e crashEnd) {
			require.Equal(t, 4, e.count("decision", "spawn-admission"), "no child is spawned twice")
			require.Equal(t, 1, e.count("decision", "spawn-cancelled"))
			require.Equal(t, 1, e.count("approval", "suspended"))
			require.Equal(t, 1, e.count("decision", "approval_consumed"))
			require.Equal(t, 4, e.count("agent", "ok"), "the agent and three of its children")
			require.Contains(t, strings.Join(e.effects, "\n"), "deploy")
			require.Positive(t, e.reached("tool:look:r2:before"))
		},
	}
}
