package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
)

type releaseArgs struct {
	Service string `json:"service"`
}

// release is the workflow: one agent does it all.
var release = rulvar.DefineWorkflow("release", func(c *rulvar.Ctx, args releaseArgs) (string, error) {
	return rulvar.Agent[string](c, "Check the repository, look for blocking issues and deploy "+args.Service+".",
		&rulvar.AgentOptions{AgentType: "operator"})
})

func newEngine(dir string, store rulvar.Store) (*rulvar.Engine, error) {
	cfg, err := newConfig(dir, store)
	if err != nil {
		return nil, err
	}
	return rulvar.NewEngine(cfg)
}

// newConfig puts the tools under a policy: destructive tools are denied by a
// rule of the engine, deploying asks because the tool says so, everything else
// falls through to allow.
func newConfig(dir string, store rulvar.Store) (rulvar.Config, error) {
	tools, err := newTools(dir)
	if err != nil {
		return rulvar.Config{}, err
	}
	provider, model, err := chooseModel(dir)
	if err != nil {
		return rulvar.Config{}, err
	}
	return rulvar.Config{
		Store:     store,
		Providers: []llm.Provider{provider},
		Model:     model,
		Permissions: &rulvar.PermissionConfig{
			Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive)},
			Ask:  []rulvar.Rule{rulvar.RiskRule(rulvar.RiskUndeclared)},
		},
		Profiles: map[string]*rulvar.AgentProfile{
			"operator": {Description: "checks and deploys", Tools: tools},
		},
	}, nil
}

type checkInput struct {
	Packages string `json:"packages" jsonschema:"description=packages to check,default=./..."`
}

type checkResult struct {
	OK     bool   `json:"ok"`
	Output string `json:"output"`
}

type searchInput struct {
	Query string `json:"query" jsonschema:"description=plain keywords,minLength=1"`
	Limit int    `json:"limit" jsonschema:"minimum=1,maximum=50,default=10"`
}

type deployInput struct {
	Service string `json:"service" jsonschema:"minLength=1"`
	Commit  string `json:"commit" jsonschema:"pattern=^[0-9a-f]{7\\,40}$"`
}

type branchInput struct {
	Branch string `json:"branch"`
}

// checkCommands are what run_checks runs, each with the packages behind it.
var checkCommands = [][]string{{"go", "vet"}, {"go", "test"}}

func newTools(dir string) ([]rulvar.ToolSource, error) {
	repo := filepath.Join(dir, "repo")
	checks, err1 := rulvar.NewTool(rulvar.ToolConfig{
		Name: "run_checks", Description: "Run go vet and go test.", Risk: rulvar.RiskExecute, Idempotent: true,
	}, func(tc *rulvar.ToolContext, in checkInput) (checkResult, error) {
		note(dir, "tool run_checks "+in.Packages)
		for _, check := range checkCommands {
			out, err := runIn(tc, repo, check[0], append(check[1:], in.Packages)...)
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				return checkResult{Output: out}, nil
			} else if err != nil {
				return checkResult{}, err
			}
		}
		return checkResult{OK: true, Output: "vet and test pass at commit " + head(tc, dir)}, nil
	})
	search, err2 := rulvar.NewTool(rulvar.ToolConfig{
		Name: "search_issues", Description: "Search the issue file of the repository.", Version: "2", Risk: rulvar.RiskRead,
	}, func(_ *rulvar.ToolContext, in searchInput) ([]string, error) {
		note(dir, "tool search_issues "+in.Query)
		if strings.ContainsAny(in.Query, `"*():`) {
			return nil, rulvar.ModelRetry("Use plain keywords, no operators.", nil)
		}
		text, err := os.ReadFile(filepath.Join(repo, "ISSUES.md"))
		if err != nil {
			return nil, err
		}
		hits := []string{}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(strings.ToLower(line), strings.ToLower(in.Query)) && len(hits) < in.Limit {
				hits = append(hits, strings.TrimSpace(line))
			}
		}
		return hits, nil
	})
	deploy, err3 := rulvar.NewTool(rulvar.ToolConfig{
		Name: "deploy_service", Description: "Write the release manifest of a service.", Risk: rulvar.RiskExecute, NeedsApproval: true,
	}, func(_ *rulvar.ToolContext, in deployInput) (map[string]string, error) {
		note(dir, "tool deploy_service "+in.Service)
		manifest, err := json.MarshalIndent(in, "", "  ")
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "release-"+filepath.Base(in.Service)+".json")
		return map[string]string{"deployed": in.Service, "manifest": filepath.Base(path)}, os.WriteFile(path, manifest, 0o644)
	})
	remove, err4 := rulvar.NewTool(rulvar.ToolConfig{
		Name: "delete_branch", Description: "Delete a branch.", Risk: rulvar.RiskDestructive,
	}, func(tc *rulvar.ToolContext, in branchInput) (string, error) {
		note(dir, "tool delete_branch "+in.Branch)
		return runIn(tc, repo, "git", "branch", "-D", "--", in.Branch)
	})
	return []rulvar.ToolSource{checks, search, deploy, remove}, errors.Join(err1, err2, err3, err4)
}

func runIn(tc *rulvar.ToolContext, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(tc, name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.ToValidUTF8(out.String(), "?"), err
}

// The ledger is what the tools and the model write down themselves, beside the
// journal, so that a reader can check the journal's promise against it.

func note(dir, what string) {
	f, err := os.OpenFile(filepath.Join(dir, "ledger.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "[%d] %s\n", os.Getpid(), what)
	noted(what)
}

// noted hears what was noted. The tests kill the process here.
var noted = func(string) {}

func readLedger(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "ledger.txt"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}
