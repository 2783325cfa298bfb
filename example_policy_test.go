package rulvar_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rulvar/rulvar-go"
)

// A policy is a file, and a test of it is a dry run: nothing is executed, and
// the evaluation says which line decided.
func ExampleEvaluatePermission() {
	var policy rulvar.PermissionConfig
	err := json.Unmarshal([]byte(`{
		"deny": [{"risk": "destructive"}, {"tool": "shell", "argv": "rm **"}],
		"ask":  [{"tool": ["deploy_service", "send_email"]}]
	}`), &policy)
	if err != nil {
		fmt.Println(err)
		return
	}
	chain, err := rulvar.CompilePermissionChain(&policy, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	type command struct {
		Command string `json:"command"`
	}
	shell := rulvar.MustTool(rulvar.NewTool(
		rulvar.ToolConfig{Name: "shell", Description: "Run a command.", Risk: rulvar.RiskExecute},
		func(*rulvar.ToolContext, command) (string, error) { return "", nil },
	))
	for _, c := range []string{"go test ./...", "cd build && rm -rf ./out"} {
		got, err := rulvar.EvaluatePermission(context.Background(), chain, shell, command{c})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(got)
	}
	// Output:
	// allow by default
	//   1. deny-rule engine[0]: no match: {"risk":"destructive"}
	//   2. deny-rule engine[1]: no match: {"tool":"shell","argv":"rm **"}
	//   3. ask-rule engine[0]: no match: {"tool":["deploy_service","send_email"]}
	//   4. default: allow
	// deny by deny-rule {"tool":"shell","argv":"rm **"} (engine): engine.deny[1] matches
	//   1. deny-rule engine[0]: no match: {"risk":"destructive"}
	//   2. deny-rule engine[1]: deny: {"tool":"shell","argv":"rm **"} by the pattern "rm **" on "rm -rf ./out"
}
