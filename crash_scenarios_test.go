package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

const (
	effectsFile = "effects.txt"
	flakyFault  = "the service was not there"
)

// note appends a line to the file of effects, which is what the world outside
// has seen of a tool.
func note(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, effectsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// watchers are told of the points of runs in this process, by directory.
var watchers sync.Map

// reach says that a run has come to a place: to the test that has started this
// process, and to the one that watches the run from within it.
func reach(dir, point string) {
	rulvartest.Point(point)
	if tell, ok := watchers.Load(dir); ok {
		tell.(func(string))(point)
	}
}

// crashTool makes a tool that has an effect, with a point before and after it.
func crashTool(dir string, cfg rulvar.ToolConfig) *rulvar.Tool {
	cfg.Description = "Have an effect."
	schema, err := rulvar.SchemaLiteral(json.RawMessage(`{"type":"object","properties":{"service":{"type":"string"}},"required":["service"]}`))
	return rulvar.MustTool(rulvar.NewToolWithSchema(cfg, must(schema, err), func(tc *rulvar.ToolContext, in json.RawMessage) (string, error) {
		point := "tool:" + cfg.Name + ":" + tc.CallID()
		reach(dir, point+":before")
		err := note(dir, cfg.Name+" "+string(in))
		reach(dir, point+":after")
		return "done", err
	}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// crashConfig is an engine over scripts. Its limits are exactly what the
// largest script needs: a turn or a call that a resume counts twice breaks them.
func crashConfig(scripts ...rulvartest.Script) func(string) rulvar.Config {
	turns, calls := 1, 0
	for _, s := range scripts {
		n := 0
		for _, t := range s.Turns {
			n += len(t.Calls)
		}
		turns, calls = max(turns, len(s.Turns)), max(calls, n)
	}
	return func(string) rulvar.Config {
		model := rulvartest.NewProvider("test", scripts...)
		return rulvar.Config{
			Providers: []llm.Provider{rulvartest.CrashProvider(model)}, Model: "test:m",
			Limits: &rulvar.UsageLimits{MaxTurns: turns, MaxToolCalls: &calls},
		}
	}
}

// script is an agent that makes each list of calls in a turn and then says it
// is done. Calls are named "tool:id".
func script(label string, turns ...[]string) rulvartest.Script {
	s := rulvartest.Script{Label: label}
	for _, calls := range turns {
		turn := rulvartest.Turn{}
		for _, c := range calls {
			name, id, _ := strings.Cut(c, ":")
			turn.Calls = append(turn.Calls, rulvartest.Call{ID: id, Tool: name, Args: map[string]string{"service": label}})
		}
		s.Turns = append(s.Turns, turn)
	}
	s.Turns = append(s.Turns, rulvartest.Turn{Text: label + " is done"})
	return s
}

// oneAgent is a workflow of one agent.
func oneAgent(label string, tools ...rulvar.ToolConfig) func(string) *rulvar.Workflow[string, string] {
	return func(dir string) *rulvar.Workflow[string, string] {
		return rulvar.DefineWorkflow(label, func(c *rulvar.Ctx, _ string) (string, error) {
			return crashAgent(c, dir, label, tools...)
		})
	}
}

func crashAgent(c *rulvar.Ctx, dir, label string, tools ...rulvar.ToolConfig) (string, error) {
	var sources []rulvar.ToolSource
	for _, cfg := range tools {
		sources = append(sources, crashTool(dir, cfg))
	}
	return rulvar.Agent[string](c, label, &rulvar.AgentOptions{Label: label, Tools: sources})
}

var (
	deployConfig = rulvar.ToolConfig{Name: "deploy", Risk: rulvar.RiskExecute, NeedsApproval: true}
	writeConfig  = rulvar.ToolConfig{Name: "write", Risk: rulvar.RiskWrite}
	lookConfig   = rulvar.ToolConfig{Name: "look", Risk: rulvar.RiskRead}
)

func approve(rulvar.Pending) any { return rulvar.Approve("fine") }
func reject(rulvar.Pending) any  { return rulvar.Reject("no") }
func unasked(rulvar.Pending) any { return nil }

func crashRuns() []crashRun {
	return append(approvalCrashRuns(), append(append(interruptedCrashRuns(), workflowCrashRuns()...), orchestratedCrashRun())...)
}

func approvalCrashRuns() []crashRun {
	middle := script("middle", []string{"write:c1", "deploy:c2", "write:c3"}, []string{"deploy:c4"})
	return []crashRun{
		{
			name: "several calls, one approval in the middle", config: crashConfig(middle),
			workflow: oneAgent("middle", deployConfig, writeConfig), answer: approve,
			check: func(t testing.TB, e crashEnd) {
				e.usedBefore(t, "deploy")
				require.Equal(t, 2, e.count("decision", "approval_consumed"), "one grant, one mark")
				require.Equal(t, 2, e.count("approval", "suspended"))
				require.Equal(t, 2, e.count("resolution", "ok"))
				for _, call := range []string{"write:c1", "deploy:c2", "write:c3", "deploy:c4"} {
					require.Positive(t, e.reached("tool:"+call+":before"), call)
				}
			},
		},
		{
			name: "denied", config: crashConfig(middle),
			workflow: oneAgent("middle", deployConfig, writeConfig), answer: reject,
			check: func(t testing.TB, e crashEnd) {
				require.NotContains(t, strings.Join(e.effects, "\n"), "deploy")
				require.Zero(t, e.count("decision", "approval_consumed"))
				require.Positive(t, e.reached("tool:write:c3:before"), "the calls behind the denied one run")
			},
		},
		{
			name: "approved with edits", config: crashConfig(script("edited", []string{"deploy:c1"})),
			workflow: oneAgent("edited", deployConfig),
			answer:   func(rulvar.Pending) any { return rulvar.ApproveEdited(json.RawMessage(`{"service":"other"}`), "") },
			check: func(t testing.TB, e crashEnd) {
				e.usedBefore(t, "deploy")
				for _, line := range e.effects {
					require.Equal(t, `deploy {"service":"other"}`, line)
				}
			},
		},
		{
			name: "deadline", config: func(dir string) rulvar.Config {
				cfg := crashConfig(script("late", []string{"deploy:c1"}))(dir)
				cfg.Permissions = &rulvar.PermissionConfig{ApprovalDeadline: time.Millisecond}
				return cfg
			},
			workflow: oneAgent("late", deployConfig), answer: unasked, loose: true,
			check: func(t testing.TB, e crashEnd) {
				require.Empty(t, e.effects)
				require.Equal(t, 1, e.count("approval", "suspended"))
				require.Positive(t, e.count("resolution", "ok"))
			},
		},
	}
}

func interruptedCrashRuns() []crashRun {
	interrupted := func(answer rulvar.OnInterrupted) func(string) rulvar.Config {
		return func(dir string) rulvar.Config {
			cfg := crashConfig(script("once", []string{"look:c0", "write:c1", "deploy:c2"}))(dir)
			cfg.OnInterrupted = answer
			return cfg
		}
	}
	atMostOnce := func(t testing.TB, e crashEnd) {
		require.LessOrEqual(t, e.reached("tool:write:c1:before"), 1)
		require.LessOrEqual(t, e.reached("tool:deploy:c2:before"), 1)
	}
	workflow := oneAgent("once", lookConfig, writeConfig, deployConfig)
	return []crashRun{
		{
			name: "interrupted calls are reported", config: interrupted(rulvar.InterruptedReport),
			workflow: workflow, answer: approve, check: atMostOnce,
		},
		{
			name: "interrupted calls are asked about", config: interrupted(rulvar.InterruptedAsk), workflow: workflow,
			answer: func(p rulvar.Pending) any {
				if p.Call.Tool == "deploy" {
					return rulvar.Approve("fine")
				}
				return rulvar.Reject("once is enough")
			},
			check: atMostOnce,
		},
	}
}

func workflowCrashRuns() []crashRun {
	return []crashRun{
		{
			name: "steps that fail and are tried again", config: crashConfig(),
			workflow: func(dir string) *rulvar.Workflow[string, string] {
				return rulvar.DefineWorkflow("steps", func(c *rulvar.Ctx, _ string) (string, error) { return crashSteps(c, dir) })
			},
			answer: unasked,
			check: func(t testing.TB, e crashEnd) {
				require.Equal(t, 3, e.count("step", "ok"))
				require.LessOrEqual(t, e.count("step", "error"), 1)
				require.Equal(t, 1, e.count("rand", "ok"), "what was drawn is drawn once")
			},
		},
		{
			name: "two agents at once", config: crashConfig(script("left", []string{"deploy:l1"}), script("right", []string{"look:r1"}, []string{"deploy:r2"})),
			workflow: func(dir string) *rulvar.Workflow[string, string] {
				return rulvar.DefineWorkflow("parallel", func(c *rulvar.Ctx, _ string) (string, error) {
					texts, err := rulvar.Parallel(c,
						func(c *rulvar.Ctx) (string, error) { return crashAgent(c, dir, "left", deployConfig) },
						func(c *rulvar.Ctx) (string, error) { return crashAgent(c, dir, "right", deployConfig, lookConfig) })
					return strings.Join(texts, ", "), err
				})
			},
			answer: approve, loose: true,
			check: func(t testing.TB, e crashEnd) {
				require.Equal(t, 2, e.count("decision", "approval_consumed"))
				require.Equal(t, 2, e.count("approval", "suspended"))
				require.Positive(t, e.reached("tool:deploy:l1:before"))
				require.Positive(t, e.reached("tool:deploy:r2:before"))
			},
		},
		{
			name: "a workflow within", config: crashConfig(script("inner", []string{"write:c1"}, []string{"deploy:c2"})),
			workflow: func(dir string) *rulvar.Workflow[string, string] {
				inner := oneAgent("inner", writeConfig, deployConfig)(dir)
				return rulvar.DefineWorkflow("outer", func(c *rulvar.Ctx, _ string) (string, error) {
					first, err := rulvar.CallWorkflow(c, inner, "api", "")
					if err != nil {
						return "", err
					}
					again, err := rulvar.Step(c, "again", func(context.Context) (string, error) { return "again", nil }, nil)
					return first + " " + again, err
				})
			},
			answer: approve,
			check: func(t testing.TB, e crashEnd) {
				e.usedBefore(t, "deploy")
				require.Equal(t, 1, e.count("child", "running"))
				require.Equal(t, 1, e.count("child", "ok"))
				require.Equal(t, 1, e.count("approval", "suspended"))
			},
		},
		{
			name: "a value from outside", config: crashConfig(script("after", []string{"write:c1"})),
			workflow: func(dir string) *rulvar.Workflow[string, string] {
				return rulvar.DefineWorkflow("external", func(c *rulvar.Ctx, _ string) (string, error) {
					color, err := rulvar.AwaitExternal[string](c, "color", "Which color?", json.RawMessage(`{"type":"string"}`))
					if err != nil {
						return "", err
					}
					text, err := crashAgent(c, dir, "after", writeConfig)
					return color + ": " + text, err
				})
			},
			answer: func(rulvar.Pending) any { return "green" },
			check: func(t testing.TB, e crashEnd) {
				require.Equal(t, 1, e.count("external", "suspended"))
				require.Equal(t, 1, e.count("resolution", "ok"))
			},
		},
	}
}

// crashSteps has a step that fails the first time, and steps whose identity
// holds a drawn value: one that changed would make them other steps.
func crashSteps(c *rulvar.Ctx, dir string) (string, error) {
	id, err := c.UUID()
	if err != nil {
		return "", err
	}
	step := func(label string, fn func() error) error {
		got, err := rulvar.Step(c, label, func(context.Context) (string, error) {
			reach(dir, "step:"+label+":before")
			err := fn()
			reach(dir, "step:"+label+":after")
			return label, err
		}, &rulvar.StepOptions{Deps: []any{id}})
		if err == nil && got != label {
			err = fmt.Errorf("the step %s returned %q", label, got)
		}
		return err
	}
	flaky := func() error {
		if _, err := os.Stat(filepath.Join(dir, effectsFile)); err == nil {
			return nil
		}
		return errors.Join(note(dir, "tried"), errors.New(flakyFault))
	}
	nothing := func() error { return nil }
	err = step("first", nothing)
	if err == nil {
		err = step("flaky", flaky)
	}
	if err == nil {
		err = step("last", nothing)
	}
	return "all steps are done", err
}
