package rulvar_test

import (
	"context"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// An agent spawns two others, waits for both and finishes with what they found.
// Handles are the places of the spawns in the journal: the orchestrator has
// entry 0, its spawns 1 and 2.
func ExampleOrchestrate() {
	triage := rulvar.DefineWorkflow("triage", func(c *rulvar.Ctx, goal string) (string, error) {
		return rulvar.Orchestrate[string](c, goal, &rulvar.OrchestrateOptions{Profiles: []string{"researcher"}, MaxSpawns: 4})
	})
	spawn := func(prompt string) map[string]string {
		return map[string]string{"agentType": "researcher", "prompt": prompt}
	}
	model := rulvartest.NewProvider("local",
		rulvartest.Script{Prompt: "Why is checkout slow?", Turns: []rulvartest.Turn{
			{Calls: []rulvartest.Call{{Tool: "parallel_agents", Args: map[string]any{"tasks": []any{spawn("Read the traces."), spawn("Read the changes.")}}}}},
			{Calls: []rulvartest.Call{{Tool: "await_all", Args: map[string]any{"handles": []int{1, 2}}}}},
			{Calls: []rulvartest.Call{{Tool: "finish", Args: map[string]string{"result": "The new tax service is called once an item."}}}},
		}},
		rulvartest.Script{Prompt: "Read the traces.", Turns: []rulvartest.Turn{{Text: "tax is called 40 times"}}},
		rulvartest.Script{Prompt: "Read the changes.", Turns: []rulvartest.Turn{{Text: "tax was added on Monday"}}})
	ctx := context.Background()
	engine, err := rulvar.NewEngine(rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "local:any",
		Profiles: map[string]*rulvar.AgentProfile{"researcher": {Description: "Reads and reports."}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := rulvar.Run(ctx, engine, triage, "Why is checkout slow?", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := run.Result(ctx)
	fmt.Println(outcome.Status, outcome.Value, err)
	// Output: ok The new tax service is called once an item. <nil>
}
