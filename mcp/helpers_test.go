package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/mcp"
	"github.com/rulvar/rulvar-go/rulvartest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// waitLong is for what happens soon, but not at once.
const (
	waitLong = 20 * time.Second
	tick     = 2 * time.Millisecond
)

func testCtx(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// open makes a source that is closed with the test.
func open(t testing.TB, transport mcp.Transport, opts mcp.Options) *mcp.Source {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = quiet
	}
	if opts.Timeouts.Close == 0 {
		opts.Timeouts.Close = 200 * time.Millisecond
	}
	s, err := mcp.New(transport, &opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// answer is what a model is told of a call.
type answer struct {
	result  json.RawMessage
	isError bool
	code    string
}

func (a answer) text() string {
	var s string
	if json.Unmarshal(a.result, &s) == nil {
		return s
	}
	var e struct{ Error string }
	if json.Unmarshal(a.result, &e) == nil && e.Error != "" {
		return e.Error
	}
	return string(a.result)
}

// calls has an engine run an agent whose model makes the calls, one a turn, and
// returns what it was told. The run must end well.
func calls(t testing.TB, src rulvar.ToolSource, want ...rulvartest.Call) []answer {
	t.Helper()
	var turns []rulvartest.Turn
	for _, c := range want {
		turns = append(turns, rulvartest.Turn{Calls: []rulvartest.Call{c}})
	}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: append(turns, rulvartest.Turn{Text: "done"})})
	e := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m", Logger: quiet})
	wf := rulvar.DefineWorkflow("calls", func(c *rulvar.Ctx, _ string) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{src}})
	})
	var codes []string
	h, err := rulvar.Run(testCtx(t), e, wf, "", &rulvar.RunOptions{OnEvent: func(ev rulvar.Event) {
		if end, ok := ev.Body.(rulvar.ToolEnded); ok {
			codes = append(codes, end.ErrorCode)
		}
	}})
	require.NoError(t, err)
	out, err := h.Result(testCtx(t))
	require.NoError(t, err)
	require.Equal(t, rulvar.RunOK, out.Status, "%+v", out)
	requests := model.Requests()
	var got []answer
	for _, m := range requests[len(requests)-1].Messages {
		for _, p := range m.Parts {
			if p.Type == llm.PartToolResult {
				got = append(got, answer{p.Result, p.IsError, ""})
			}
		}
	}
	require.Len(t, got, len(want))
	for i := range got {
		got[i].code = codes[i]
	}
	return got
}

func echo(text string) rulvartest.Call {
	return rulvartest.Call{Tool: "echo", Args: map[string]any{"text": text}}
}

func call(tool string) rulvartest.Call {
	return rulvartest.Call{Tool: tool, Args: map[string]any{}}
}
