package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/fetch"
)

// policyFile is the platform's policy. It is data: who reviews it need not read
// Go, and the service that runs agents loads the same file.
//
//go:embed policy.json
var policyFile []byte

// enginePolicy is the layer that stands under every agent.
func enginePolicy() (*rulvar.PermissionConfig, error) {
	var policy rulvar.PermissionConfig
	if err := json.Unmarshal(policyFile, &policy); err != nil {
		return nil, fmt.Errorf("policy.json: %w", err)
	}
	policy.Hooks = []rulvar.PermissionHook{allowOwnIssues}
	return &policy, nil
}

// allowOwnIssues lets agents search the team's own tracker without a question.
// The policy holds what hooks allow against its deny rules (hookAllow advisory).
func allowOwnIssues(_ *rulvar.ToolContext, call rulvar.Call) (rulvar.Decision, error) {
	var in searchInput
	if call.Tool != "search_issues" || json.Unmarshal(call.Input, &in) != nil || !strings.HasPrefix(in.Query, "project:web ") {
		return rulvar.Decision{}, nil
	}
	return rulvar.Allow(), nil
}

// profiles are the kinds of agents that the platform offers.
var profiles = map[string]*rulvar.AgentProfilePermissions{
	"reader":   {Preset: rulvar.PresetStrict},
	"releaser": {Preset: rulvar.PresetOpen},
}

// chains compiles the policy for each profile. Anything wrong in it, such as a
// pattern that could never match, is found here.
func chains() (map[string]*rulvar.PermissionChain, error) {
	engine, err := enginePolicy()
	if err != nil {
		return nil, err
	}
	out := map[string]*rulvar.PermissionChain{}
	for name, profile := range profiles {
		if out[name], err = rulvar.CompilePermissionChain(engine, profile, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type searchInput struct {
	Query string `json:"query" jsonschema:"minLength=1"`
}

type shellInput struct {
	Command string `json:"command" jsonschema:"minLength=1"`
}

type serviceInput struct {
	Service string `json:"service" jsonschema:"minLength=1"`
}

// tools are the contracts that the policy speaks of: names, risks and schemas.
// A policy is judged by those; what the tools do belongs to the services.
func tools() (map[string]*rulvar.Tool, error) {
	web, err := fetch.New(&fetch.Options{Allow: []string{"*.example.com", "partner.example.org", "docs.example.net"}})
	if err != nil {
		return nil, err
	}
	out := map[string]*rulvar.Tool{"fetch": web}
	for _, t := range []func() (*rulvar.Tool, error){
		contract[searchInput](rulvar.ToolConfig{Name: "search_issues", Risk: rulvar.RiskRead}),
		contract[shellInput](rulvar.ToolConfig{Name: "shell", Risk: rulvar.RiskExecute}),
		contract[serviceInput](rulvar.ToolConfig{Name: "deploy_service", Risk: rulvar.RiskExecute, NeedsApproval: true}),
		contract[serviceInput](rulvar.ToolConfig{Name: "delete_service", Risk: rulvar.RiskDestructive}),
		contract[searchInput](rulvar.ToolConfig{Name: "summarize"}),
	} {
		tool, err := t()
		if err != nil {
			return nil, err
		}
		out[tool.Name()] = tool
	}
	return out, nil
}

var errContractOnly = errors.New("this is the contract of a tool, without the tool")

func contract[In any](cfg rulvar.ToolConfig) func() (*rulvar.Tool, error) {
	return func() (*rulvar.Tool, error) {
		return rulvar.NewTool(cfg, func(*rulvar.ToolContext, In) (string, error) { return "", errContractOnly })
	}
}
