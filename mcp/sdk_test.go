package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/mcp"
	"github.com/rulvar/rulvar-go/rulvartest"
)

type sumIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

type sumOut struct {
	Sum int `json:"sum"`
}

// official is a server of the official SDK with a tool for each kind of result.
func official() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "official", Version: "2"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "sum", Description: "Adds."}, func(_ context.Context, _ *sdk.CallToolRequest, in sumIn) (*sdk.CallToolResult, sumOut, error) {
		return nil, sumOut{in.A + in.B}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail", Description: "Fails."}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("the disk is full")
	})
	add := func(name string, output any, result *sdk.CallToolResult) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: &jsonschema.Schema{Type: "object"}, OutputSchema: output},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return result, nil })
	}
	text := func(t string) sdk.Content { return &sdk.TextContent{Text: t} }
	add("texts", nil, &sdk.CallToolResult{Content: []sdk.Content{text("one "), text("two")}})
	add("nothing", nil, &sdk.CallToolResult{})
	add("mixed", nil, &sdk.CallToolResult{Content: []sdk.Content{
		text("see"), &sdk.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png"}, &sdk.ResourceLink{URI: "file:///a", Name: "a"},
	}})
	add("lies", json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`),
		&sdk.CallToolResult{StructuredContent: map[string]any{"n": "many"}})
	add("keeps-quiet", json.RawMessage(`{"type":"object"}`), &sdk.CallToolResult{Content: []sdk.Content{text("{}")}})
	return s
}

// What becomes of each kind of result, over each transport.
func checkOfficial(t *testing.T, s *mcp.Source) {
	t.Helper()
	none := map[string]any{}
	got := calls(t, s,
		rulvartest.Call{Tool: "sum", Args: map[string]any{"a": 1, "b": 2}},
		rulvartest.Call{Tool: "sum", Args: map[string]any{"a": "one"}},
		rulvartest.Call{Tool: "fail", Args: none}, rulvartest.Call{Tool: "texts", Args: none}, rulvartest.Call{Tool: "nothing", Args: none},
		rulvartest.Call{Tool: "mixed", Args: none}, rulvartest.Call{Tool: "lies", Args: none}, rulvartest.Call{Tool: "keeps-quiet", Args: none},
	)
	require.JSONEq(t, `{"sum":3}`, string(got[0].result))
	require.Equal(t, "invalid-arguments", got[1].code, "the server never sees what does not fit its schema")
	require.Equal(t, string(mcp.FailureTool), got[2].code)
	require.Equal(t, "the disk is full", got[2].text())
	require.Equal(t, `"one two"`, string(got[3].result))
	require.Equal(t, `""`, string(got[4].result))
	require.JSONEq(t, `[{"type":"text","text":"see"},{"type":"image","data":"AQID","mimeType":"image/png"},{"type":"resource_link","uri":"file:///a","name":"a"}]`, string(got[5].result))
	require.Equal(t, string(mcp.FailureResult), got[6].code)
	require.Contains(t, got[6].text(), "does not fit the output schema")
	require.Equal(t, string(mcp.FailureResult), got[7].code)
	require.Contains(t, got[7].text(), "no structured content")
}

func TestInProcess(t *testing.T) {
	for _, version := range sdk.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			s := open(t, &mcp.InProcess{Server: official()}, mcp.Options{ProtocolVersion: version})
			checkOfficial(t, s)
			l, _ := s.Listing()
			require.Equal(t, version, l.Protocol)
			require.Equal(t, "official", l.Server)
		})
	}
}

// A server in this process that hangs, and that changes its tools.
func TestInProcessHostile(t *testing.T) {
	server := official()
	ended := make(chan error, 1)
	server.AddTool(&sdk.Tool{Name: "hang", InputSchema: &jsonschema.Schema{Type: "object"}}, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	s := open(t, &mcp.InProcess{Server: server}, mcp.Options{Timeouts: short})
	short := mcp.Options{Timeouts: mcp.Timeouts{Call: short.Close}}
	s2 := open(t, &mcp.InProcess{Server: server}, short)
	got := calls(t, s2, rulvartest.Call{Tool: "hang", Args: map[string]any{}})
	require.Equal(t, string(mcp.FailureTimeout), got[0].code)
	require.ErrorIs(t, <-ended, context.Canceled, "the server was told")

	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	server.RemoveTools("hang", "fail")
	require.Eventually(t, func() bool {
		now, err := s.Tools(testCtx(t))
		return err == nil && len(now) == len(tools)-2
	}, waitLong, tick)
}

// Numbers and members that the SDK's own types lose.
func TestExactResults(t *testing.T) {
	for _, row := range []struct{ name, result, want string }{
		{"a large number", `{"content":[],"structuredContent":{"n":12345678901234567890,"f":1.10}}`, `{"n":12345678901234567890,"f":1.10}`},
		{"a block of a new type", `{"content":[{"type":"hologram","depth":3.0}]}`, `[{"type":"hologram","depth":3.0}]`},
		{"new members of a known block", `{"content":[{"type":"image","data":"AA==","mimeType":"image/png","alt":"a"}]}`, `[{"type":"image","data":"AA==","mimeType":"image/png","alt":"a"}]`},
		{"no content", `{}`, `""`},
		{"structured before text", `{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`, `[1]`},
		{"structured null", `{"content":[{"type":"text","text":"t"}],"structuredContent":null}`, `"t"`},
		{"characters of HTML", `{"content":[{"type":"text","text":"<a>&"}]}`, `"<a>&"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := calls(t, open(t, fakeServer("result", row.result), mcp.Options{}), echo(""))[0]
			require.False(t, got.isError)
			require.Equal(t, row.want, string(got.result))
		})
	}
}

// One chain for tools of every origin: the same rules bind an imported tool and
// a native one.
func TestPolicyBindsImportedTools(t *testing.T) {
	s := open(t, &mcp.InProcess{Server: official()}, mcp.Options{Prefix: "calc", Risk: map[string]rulvar.Risk{"sum": rulvar.RiskDestructive}})
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	byName := map[string]*rulvar.Tool{}
	for _, tool := range tools {
		byName[strings.TrimPrefix(tool.Name(), "calc_")] = tool
	}
	chain, err := rulvar.CompilePermissionChain(&rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.RiskRule(rulvar.RiskDestructive)}},
		&rulvar.AgentProfilePermissions{Preset: rulvar.PresetStandard}, nil)
	require.NoError(t, err)
	rulvartest.RequireVerdict(t, chain, byName["sum"], map[string]any{"a": 1, "b": 2}, rulvar.VerdictDeny)
	rulvartest.RequireVerdict(t, chain, byName["texts"], map[string]any{}, rulvar.VerdictAsk)
}
