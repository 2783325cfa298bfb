// Command policytest shows how a platform keeps a policy: a JSON file that is
// reviewed like code, and tests that say what it means (policy_test.go).
//
//	go run  ./examples/policytest    what the policy says of some calls, and why
//	go test ./examples/policytest    that it says what it should
//
// Nothing is ever run: a policy is judged by the contracts of the tools alone.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	rulvar "github.com/rulvar/rulvar-go"
)

func main() {
	if err := table(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "policytest:", err)
		os.Exit(1)
	}
}

// shownCalls are calls that people ask about.
var shownCalls = []struct{ tool, input string }{
	{"search_issues", `{"query":"project:web is:blocking"}`},
	{"search_issues", `{"query":"everything"}`},
	{"shell", `{"command":"go test ./... && git status"}`},
	{"shell", `{"command":"git push origin main"}`},
	{"shell", `{"command":"git push --force origin main"}`},
	{"shell", `{"command":"X=rm; $X -rf build"}`},
	{"fetch", `{"url":"https://docs.example.net/guide"}`},
	{"fetch", `{"url":"https://partner.example.org/api"}`},
	{"fetch", `{"url":"https://vault.internal.example.com/"}`},
	{"fetch", `{"url":"https://169.254.169.254/latest/meta-data/"}`},
	{"deploy_service", `{"service":"api"}`},
	{"delete_service", `{"service":"api"}`},
}

// table prints what each profile may do.
func table(w io.Writer) error {
	all, err := chains()
	if err != nil {
		return err
	}
	known, err := tools()
	if err != nil {
		return err
	}
	for _, profile := range []string{"reader", "releaser"} {
		fmt.Fprintf(w, "%s\n", profile)
		for _, c := range shownCalls {
			got, err := rulvar.EvaluatePermission(context.Background(), all[profile], known[c.tool], json.RawMessage(c.input))
			if err != nil {
				return err
			}
			why := got.Reason
			if why == "" {
				why = string(got.DecidedBy)
			}
			fmt.Fprintf(w, "  %-5s  %-14s %-52s %s\n", got.Verdict, c.tool, c.input, why)
		}
	}
	return nil
}
