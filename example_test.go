package rulvar_test

import (
	"context"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// The program of the package's documentation, with a scripted model in the
// place of a real one.
func Example() {
	greet := rulvar.MustTool(rulvar.NewTool(
		rulvar.ToolConfig{Name: "greet", Description: "Greet somebody.", Risk: rulvar.RiskRead},
		func(tc *rulvar.ToolContext, in struct {
			Name string `json:"name"`
		}) (string, error) {
			return "hello, " + in.Name, nil
		}))
	hello := rulvar.DefineWorkflow("hello", func(c *rulvar.Ctx, name string) (string, error) {
		return rulvar.Agent[string](c, "Greet "+name+".", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{greet}})
	})

	model := rulvartest.NewProvider("local", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "greet", Args: map[string]string{"name": "Ada"}}}},
		{Text: "I said hello to Ada."},
	}})
	ctx := context.Background()
	engine, err := rulvar.NewEngine(rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "local:any"})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := rulvar.Run(ctx, engine, hello, "Ada", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := run.Result(ctx)
	fmt.Println(outcome.Status, outcome.Value, err)
	// Output: ok I said hello to Ada. <nil>
}

// A tool that needs an approval suspends the run. Somebody decides, in any
// process that has the store, and the run goes on where it stopped.
func ExampleEngine_Resolve() {
	deploy := rulvar.MustTool(rulvar.NewTool(
		rulvar.ToolConfig{Name: "deploy", Description: "Deploy a service.", Risk: rulvar.RiskExecute, NeedsApproval: true},
		func(_ *rulvar.ToolContext, in struct {
			Service string `json:"service"`
		}) (string, error) {
			fmt.Println("deploying", in.Service)
			return "done", nil
		}))
	ship := rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, service string) (string, error) {
		return rulvar.Agent[string](c, "Deploy "+service+".", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
	})
	model := rulvartest.NewProvider("local", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "deploy", Args: map[string]string{"service": "api"}}}},
		{Text: "api is live"},
	}})
	ctx := context.Background()
	store := rulvar.NewMemoryStore()
	engine, _ := rulvar.NewEngine(rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "local:any"})
	run, _ := rulvar.Run(ctx, engine, ship, "api", &rulvar.RunOptions{RunID: "r1"})
	outcome, _ := run.Result(ctx)
	fmt.Println(outcome.Status)

	approver, _ := rulvar.NewEngine(rulvar.Config{Store: store}) // no tools, no model
	pending, _ := approver.Pending(ctx)
	fmt.Println(pending[0].Call.Tool, string(pending[0].Call.Input), "because", pending[0].Call.Reason)
	_, _ = approver.Resolve(ctx, "r1", pending[0].Key, rulvar.Approve("reviewed"))

	run, _ = rulvar.Resume(ctx, engine, ship, "r1", nil)
	outcome, _ = run.Result(ctx)
	fmt.Println(outcome.Status, outcome.Value)
	// Output:
	// suspended
	// deploy {"service":"api"} because the tool needs approval
	// deploying api
	// ok api is live
}

// Shell commands are judged by what a shell would run.
func ExampleMatchShellCommand() {
	rules := rulvar.ShellRules{Deny: []string{"rm **"}, Allow: []string{"go test **", "echo **"}}
	for _, command := range []string{"go test ./...", "go test ./... && rm -rf /", "(rm -rf /)", "echo $(date)"} {
		fmt.Println(rulvar.MatchShellCommand(command, rules), command)
	}
	// Output:
	// allow go test ./...
	// deny go test ./... && rm -rf /
	// deny (rm -rf /)
	// ask echo $(date)
}
