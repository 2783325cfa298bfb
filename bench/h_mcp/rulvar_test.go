package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
	"github.com/rulvar/rulvar-go/llm"
	rulvarmcp "github.com/rulvar/rulvar-go/mcp"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// The policy that each call passes: rules that a host may well have, none of
// which applies, so that every table is read to its end.
var policy = rulvar.PermissionConfig{
	Deny: []rulvar.Rule{rulvar.ToolRule("rm_rf", "drop_table"), rulvar.RiskRule(rulvar.RiskDestructive)},
	Ask:  []rulvar.Rule{rulvar.ToolRule("deploy", "git_push"), rulvar.RiskRule(rulvar.RiskExecute)},
}

func editTool(tb testing.TB) *rulvar.Tool {
	t, err := rulvar.NewTool(rulvar.ToolConfig{Name: "edit", Description: "edits a file", Risk: rulvar.RiskWrite},
		func(tc *rulvar.ToolContext, a rulvarArgs) (result, error) { return result{len(a.Edits)}, nil })
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func compile(tb testing.TB) *rulvar.PermissionChain {
	chain, err := rulvar.CompilePermissionChain(&policy, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

// rulvarArgs is args without the other library's tags.
type rulvarArgs struct {
	Path  string `json:"path"`
	Mode  string `json:"mode"`
	Limit int    `json:"limit,omitempty"`
	Force bool   `json:"force,omitempty"`
	Edits []struct {
		Start int    `json:"start"`
		End   int    `json:"end"`
		Text  string `json:"text"`
	} `json:"edits"`
}

// callParts is one call by the parts that the engine makes it of, in its
// order: strict JSON, folded names, defaults, schema, canonical bytes, the
// chain, decoding, the handler, the result as JSON.
func callParts(tb testing.TB) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	tool, chain := editTool(tb), compile(tb)
	tree, err := jcs.Parse(tool.Schema())
	if err != nil {
		tb.Fatal(err)
	}
	v, err := jsonschema.Compile(tree)
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		tree, err := jcs.ParseStrict(in)
		if err != nil {
			return nil, err
		}
		if place, found := v.FoldConflict(tree); found {
			return nil, errors.New(place)
		}
		if tree, err = v.ApplyDefaults(tree); err != nil {
			return nil, err
		}
		if issues := v.Validate(tree); issues != nil {
			return nil, errors.New(issues[0].Message)
		}
		canonical, err := jcs.AppendTree(make([]byte, 0, len(in)), tree)
		if err != nil {
			return nil, err
		}
		if ev := chain.Evaluate(nil, tool, rulvar.Call{ID: "call", Input: canonical}); ev.Verdict != rulvar.VerdictAllow {
			return nil, errors.New(ev.String())
		}
		var a rulvarArgs
		if err := jsonschema.DecodeInto(canonical, tree, &a); err != nil {
			return nil, err
		}
		return jcs.Marshal(result{len(a.Edits)})
	}
}

// callDryRun is the public dry run of the same call: its intake and its way
// through the chain, with a trace, and no handler.
func callDryRun(tb testing.TB) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	tool, chain := editTool(tb), compile(tb)
	out := json.RawMessage(`{"changed":3}`)
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		ev, err := rulvar.EvaluatePermission(ctx, chain, tool, in)
		if err == nil && ev.Verdict != rulvar.VerdictAllow {
			err = errors.New(ev.String())
		}
		return out, err
	}
}

// callsARun is how many calls one turn of the scripted model makes.
const callsARun = 200

// runCalls has an engine run an agent whose model calls the tool many times in
// a turn and then ends, with a store in memory. It returns how many results
// were good.
func runCalls(ctx context.Context, tool rulvar.ToolSource, logger *slog.Logger) (int, error) {
	calls := make([]rulvartest.Call, callsARun)
	for i := range calls {
		calls[i] = rulvartest.Call{Tool: "edit", Args: string(raw)}
	}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Calls: calls}, {Text: "done"}}})
	e, err := rulvar.NewEngine(rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:model", Permissions: &policy, Logger: logger,
	})
	if err != nil {
		return 0, err
	}
	defer e.Close(ctx)
	good := 0
	h, err := rulvar.Run(ctx, e, callWorkflow(tool), "", &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if end, ok := ev.Body.(rulvar.ToolEnded); ok && end.Outcome == rulvar.ToolOK {
			good++
		}
	}})
	if err != nil {
		return 0, err
	}
	out, err := h.Result(ctx)
	if err == nil && out.Status != rulvar.RunOK {
		err = errors.New(string(out.Status))
	}
	return good, err
}

func callWorkflow(tool rulvar.ToolSource) *rulvar.Workflow[string, string] {
	return rulvar.DefineWorkflow("calls", func(c *rulvar.Ctx, _ string) (string, error) {
		return rulvar.Agent[string](c, "edit", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
}

// benchEngine times runCalls of a tool in Go, benchEngineMCP that of the same
// tool behind the MCP SDK's server in this process.
func benchEngine(b *testing.B) { benchCalls(b, editTool(b)) }

func benchEngineMCP(b *testing.B) { benchCalls(b, editSource(b)) }

// editSource is the typed tool of the SDK's own round trip as a tool source.
func editSource(tb testing.TB) *rulvarmcp.Source {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	addTyped(server)
	src, err := rulvarmcp.New(&rulvarmcp.InProcess{Server: server}, &rulvarmcp.Options{Risk: map[string]rulvar.Risk{"edit": rulvar.RiskWrite}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { src.Close() })
	return src
}

// benchCalls times runCalls, as ns a call: all that the engine does for a
// call, its events and its share of the turn's checkpoint included.
func benchCalls(b *testing.B, tool rulvar.ToolSource) {
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	start := cpuTime()
	for b.Loop() {
		if good, err := runCalls(b.Context(), tool, logger); err != nil || good != callsARun {
			b.Fatal(good, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/callsARun, "ns/op")
	reportCPU(b, start, callsARun)
}

// TestRulvar holds the parts, the dry run and the engine to the same answer.
func TestRulvar(t *testing.T) {
	for name, f := range map[string]func(context.Context, json.RawMessage) (json.RawMessage, error){
		"parts": callParts(t), "dry run": callDryRun(t),
	} {
		if out, err := f(t.Context(), raw); err != nil || string(out) != `{"changed":3}` {
			t.Errorf("%s: %s, %v", name, out, err)
		}
		if _, err := f(t.Context(), json.RawMessage(`{"path":"a","mode":"replace"}`)); err == nil {
			t.Errorf("%s: accepts a call without edits", name)
		}
	}
	for name, tool := range map[string]rulvar.ToolSource{"engine": editTool(t), "engine and MCP": editSource(t)} {
		if good, err := runCalls(t.Context(), tool, slog.New(slog.NewTextHandler(io.Discard, nil))); err != nil || good != callsARun {
			t.Errorf("%s: %d good calls, %v", name, good, err)
		}
	}
}
