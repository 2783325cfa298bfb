//go:build unix

package executor_test

import (
	"context"
	"encoding/json"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// A tool that is a program, in an engine that accounts for what it does.
func Example() {
	count, err := executor.NewTool[struct {
		Text string `json:"text"`
	}](
		rulvar.ToolConfig{Name: "count", Description: "Count the bytes of a text.", Risk: rulvar.RiskRead},
		executor.Program{Command: "/bin/sh", Args: []string{"-c", "cat > request; wc -c < request"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger := executor.NewMemoryLedger() // OpenFileLedger outlives the process
	programs, err := executor.NewSubprocess(&executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Ledger: ledger})
	if err != nil {
		fmt.Println(err)
		return
	}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "count", Args: map[string]any{"text": "hello"}}}},
		{Text: "counted"},
	}})
	engine, err := rulvar.NewEngine(rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:model",
		Executors: map[rulvar.ExecutorKind]rulvar.ToolExecutor{rulvar.ExecutorSubprocess: programs},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	workflow := rulvar.DefineWorkflow("count", func(c *rulvar.Ctx, _ string) (string, error) {
		return rulvar.Agent[string](c, "Count.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{count}})
	})
	run, err := rulvar.Run(context.Background(), engine, workflow, "", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := run.Result(context.Background())
	fmt.Println(outcome.Value, err)
	var n int
	last := model.Requests()[1].Messages
	_ = json.Unmarshal(last[len(last)-1].Parts[0].Result, &n)
	fmt.Println("the program read its request:", n > 100)
	fmt.Println("outcomes:", len(ledger.Outcomes()), "open:", len(ledger.Open()))
	// Output:
	// counted <nil>
	// the program read its request: true
	// outcomes: 1 open: 0
}
