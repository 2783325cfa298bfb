// Command mcp imports the tools of an MCP server and puts them under a policy:
// one call is allowed, one is denied and one asks.
//
//	go run ./examples/mcp
//	go run ./examples/mcp -server 'npx -y @modelcontextprotocol/server-everything' -read echo -ask get-sum -deny get-env
//
// Without -server it starts itself a second time as the server, so that it
// needs nothing but Go. The model is a small local one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/google/shlex"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mcp:", err)
		os.Exit(1)
	}
}

// policy says what the host thinks of three tools, by the server's names.
type policy struct{ read, ask, deny string }

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(ctx)
	}
	flags := flag.NewFlagSet("mcp", flag.ContinueOnError)
	server := flags.String("server", "", "the command line of an MCP server over stdio; default: this program")
	var p policy
	flags.StringVar(&p.read, "read", "", "a tool that only reads: allowed")
	flags.StringVar(&p.ask, "ask", "", "a tool that a person must approve")
	flags.StringVar(&p.deny, "deny", "", "a tool that destroys: denied by a rule")
	if err := flags.Parse(args); err != nil {
		return err
	}
	transport, names, err := choose(*server)
	if err != nil {
		return err
	}
	p.complete(names)
	// The rest of the server's tools are not imported at all. What it says of
	// their harmlessness is not read: the host decides, here.
	source, err := mcp.New(transport, &mcp.Options{
		Allow:    []string{p.read, p.ask, p.deny},
		Prefix:   "srv",
		Risk:     map[string]rulvar.Risk{p.read: rulvar.RiskRead, p.ask: rulvar.RiskWrite, p.deny: rulvar.RiskDestructive},
		Approval: map[string]bool{p.ask: true},
		Drift:    mcp.DriftRefuse,
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	err = story(ctx, source, p)
	return errors.Join(err, source.Close())
}

// choose returns the way to the server and the names of its three tools.
func choose(server string) (mcp.Transport, policy, error) {
	if server == "" {
		self, err := os.Executable()
		return &mcp.Stdio{Command: self, Args: []string{"serve"}, Stderr: os.Stderr}, policy{"read_notes", "add_note", "delete_notes"}, err
	}
	words, err := shlex.Split(server)
	if err != nil || len(words) == 0 {
		return nil, policy{}, fmt.Errorf("-server is no command line: %q", server)
	}
	return &mcp.Stdio{Command: words[0], Args: words[1:]}, policy{"echo", "get-sum", "get-env"}, nil
}

func (p *policy) complete(def policy) {
	for _, f := range []struct {
		name *string
		def  string
	}{{&p.read, def.read}, {&p.ask, def.ask}, {&p.deny, def.deny}} {
		if *f.name == "" {
			*f.name = f.def
		}
	}
}

// story runs an agent with the tools until it stops at the approval, approves
// and goes on.
func story(ctx context.Context, source *mcp.Source, p policy) error {
	tools, err := source.Tools(ctx)
	if err != nil {
		return err
	}
	listing, _ := source.Listing()
	fmt.Printf("%s %s speaks protocol %s. Imported:\n", listing.Server, listing.ServerVersion, listing.Protocol)
	for _, t := range tools {
		fmt.Printf("  %-22s risk %-12s %s\n", t.Name(), t.Risk(), strings.SplitN(t.Description(), "\n", 2)[0])
	}
	if len(listing.Unmatched) > 0 {
		return fmt.Errorf("the server has no tool %s", strings.Join(listing.Unmatched, ", "))
	}
	engine, err := rulvar.NewEngine(rulvar.Config{
		Store:     rulvar.NewMemoryStore(),
		Providers: []llm.Provider{&localModel{order: []string{"srv_" + p.read, "srv_" + p.deny, "srv_" + p.ask}}},
		Model:     "local:rules",
		Permissions: &rulvar.PermissionConfig{
			Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive)},
			Ask:  []rulvar.Rule{rulvar.RiskRule(rulvar.RiskUndeclared)},
		},
	})
	if err != nil {
		return err
	}
	try := rulvar.DefineWorkflow("try", func(c *rulvar.Ctx, _ string) (string, error) {
		return rulvar.Agent[string](c, "Try each tool.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{source}})
	})
	verdicts := map[string]rulvar.Verdict{}
	onEvent := func(ev rulvar.Event) { show(ev, verdicts) }
	fmt.Println("\nThe agent tries each tool:")
	handle, err := rulvar.Run(ctx, engine, try, "", &rulvar.RunOptions{RunID: "mcp-1", OnEvent: onEvent})
	if err != nil {
		return err
	}
	out, err := handle.Result(ctx)
	if err != nil {
		return err
	}
	for _, waiting := range out.Pending {
		fmt.Printf("\nThe run is suspended at %s: %s wants to run with %s. Approved.\n\n", waiting.Key, waiting.Call.Tool, waiting.Call.Input)
		if _, err := engine.Resolve(ctx, "mcp-1", waiting.Key, rulvar.Approve("looked at it")); err != nil {
			return err
		}
	}
	handle, err = rulvar.Resume(ctx, engine, try, "mcp-1", &rulvar.ResumeOptions[string]{OnEvent: onEvent})
	if err != nil {
		return err
	}
	if out, err = handle.Result(ctx); err != nil {
		return err
	}
	fmt.Printf("\nThe run has finished (%s). The tools answered:\n%s", out.Status, out.Value)
	return p.check(verdicts)
}

// check holds the story to what it is there to show.
func (p *policy) check(verdicts map[string]rulvar.Verdict) error {
	var wrong []string
	for name, want := range map[string]rulvar.Verdict{p.read: rulvar.VerdictAllow, p.ask: rulvar.VerdictAsk, p.deny: rulvar.VerdictDeny} {
		if got := verdicts["srv_"+name]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %s, not %s", name, got, want))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return errors.New("the policy did not do what it should: " + strings.Join(wrong, "; "))
	}
	return nil
}

func show(ev rulvar.Event, verdicts map[string]rulvar.Verdict) {
	switch b := ev.Body.(type) {
	case rulvar.ToolEnded:
		verdicts[b.ToolName] = b.Verdict
		why := string(b.DecidedBy)
		if !b.Rule.IsZero() {
			why += " " + b.Rule.String()
		}
		fmt.Printf("  %-22s %-5s by %-35s -> %s %s\n", b.ToolName, b.Verdict, why, b.Outcome, b.ErrorCode)
	case rulvar.ApprovalPending:
		fmt.Printf("  %-22s ask   waits for an approval\n", b.ToolName)
	}
}
