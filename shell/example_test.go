//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/shell"
)

// An agent with a shell, under a policy: what the text of a command does not
// show is judged when the command comes to it. The model is a script.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	tool, err := shell.New(shell.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	model := rulvartest.NewProvider("local", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "shell", Args: shell.Input{Command: "echo data > file; wc -c < file"}}}},
		{Calls: []rulvartest.Call{{Tool: "shell", Args: shell.Input{Command: "echo 'rm file' > script; . ./script; echo status $?; cat file"}}}},
		{Text: "The file is still there."},
	}})
	engine, err := rulvar.NewEngine(rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "local:any", Cwd: dir, Logger: slog.New(slog.DiscardHandler),
		Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("shell", "rm **")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	clean := rulvar.DefineWorkflow("clean", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		return rulvar.Agent[string](c, "Clean up.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
	ctx := context.Background()
	run, err := rulvar.Run(ctx, engine, clean, struct{}{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Result(ctx); err != nil {
		fmt.Println(err)
		return
	}
	requests := model.Requests()
	for _, m := range requests[len(requests)-1].Messages {
		for _, p := range m.Parts {
			var res shell.Result
			if p.Type == llm.PartToolResult && json.Unmarshal(p.Result, &res) == nil {
				fmt.Printf("%d %q %q\n", res.ExitCode, res.Stdout, res.Stderr)
			}
		}
	}
	// Output:
	// 0 "5\n" ""
	// 0 "status 126\ndata\n" "shell: rm: denied by policy (deny rule {\"tool\":\"shell\",\"argv\":\"rm **\"})\n"
}
