package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/mcp"
)

// listed makes a source whose server lists the tools.
func listed(t *testing.T, opts mcp.Options, tools ...string) *mcp.Source {
	t.Helper()
	return open(t, fakeServer("list", `{"tools":[`+strings.Join(tools, ",")+`]}`), opts)
}

func named(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func names(tools []*rulvar.Tool) (out []string) {
	for _, t := range tools {
		out = append(out, t.Name())
	}
	return out
}

// A schema reaches the tool as the server wrote it, byte for byte.
func TestSchemaIsExact(t *testing.T) {
	schema := `{ "type":"object", "$defs":{"p":{"type":"integer","maximum":12345678901234567890}},` +
		` "properties":{"z":{"$ref":"#/$defs/p"},"a":{"oneOf":[{"type":"string"},{"type":"null"}],"default":1.50}}, "additionalProperties":false }`
	s := listed(t, mcp.Options{}, `{"name":"t","title":"T","description":"D","inputSchema":`+schema+`,"annotations":{"readOnlyHint":true,"destructiveHint":false},"icons":[]}`)
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	require.Len(t, tools, 1)
	require.Equal(t, schema, string(tools[0].Schema()))
	require.Equal(t, "D", tools[0].Description())
	require.Equal(t, rulvar.RiskUndeclared, tools[0].Risk(), "annotations are not believed")
	require.Empty(t, tools[0].Version())
	again, err := rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "t", Description: "D"}, literal(t, schema),
		func(*rulvar.ToolContext, json.RawMessage) (string, error) { return "", nil })
	require.NoError(t, err)
	require.Equal(t, again.ContractHash(), tools[0].ContractHash(), "the contract is that of a native tool")
}

func literal(t *testing.T, schema string) rulvar.Schema[json.RawMessage] {
	s, err := rulvar.SchemaLiteral(json.RawMessage(schema))
	require.NoError(t, err)
	return s
}

// What the host says of tools, by their server's names.
func TestPolicyByWireName(t *testing.T) {
	s := listed(t, mcp.Options{
		Prefix: "fs", Deny: []string{"c", "gone"}, Risk: map[string]rulvar.Risk{"a": rulvar.RiskRead, "fs_b": rulvar.RiskRead},
		ApproveAll: true, Approval: map[string]bool{"a": false}, Idempotent: map[string]bool{"a": true},
	}, named("a"), named("b"), named("c"))
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	require.Equal(t, []string{"fs_a", "fs_b"}, names(tools))
	require.Equal(t, rulvar.RiskRead, tools[0].Risk())
	require.False(t, tools[0].NeedsApproval())
	require.True(t, tools[0].Idempotent())
	require.Equal(t, rulvar.RiskUndeclared, tools[1].Risk(), "the map is by the server's name")
	require.True(t, tools[1].NeedsApproval())
	l, ok := s.Listing()
	require.True(t, ok)
	require.Equal(t, mcp.Listing{
		Server: "fake", ServerVersion: "1", Protocol: "2025-11-25",
		Imported:  []mcp.ImportedTool{{Wire: "a", Name: "fs_a"}, {Wire: "b", Name: "fs_b"}},
		Unmatched: []string{"fs_b", "gone"},
	}, l)
}

func TestAllow(t *testing.T) {
	s := listed(t, mcp.Options{Allow: []string{"b", "c"}, Deny: []string{"c"}}, named("a"), named("b"), named("c"))
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, names(tools))

	s = listed(t, mcp.Options{Allow: []string{}}, named("a"))
	tools, err = s.Tools(testCtx(t))
	require.NoError(t, err)
	require.Empty(t, tools, "an empty list allows nothing")
}

// Names that no tool may have are refused, or shortened so that they stay apart
// and stay the same.
func TestNames(t *testing.T) {
	long := strings.Repeat("describe_reserved_instance_utilization_", 2)
	for _, row := range []struct {
		name  string
		opts  mcp.Options
		tools []string
		want  []string // nil where the list is refused
	}{
		{name: "a legal name of 64 characters", tools: []string{strings.Repeat("a", 64)}, want: []string{strings.Repeat("a", 64)}},
		{name: "65 characters", tools: []string{strings.Repeat("a", 65)}},
		{name: "a dot", tools: []string{"a.b"}},
		{name: "the prefix makes it too long", opts: mcp.Options{Prefix: "awslabs-billing-cost-management"}, tools: []string{strings.Repeat("a", 40)}},
		{
			name: "equal in their first 60 characters", opts: mcp.Options{Names: mcp.NamesShorten}, tools: []string{long + "a", long + "b"},
			want: []string{long[:55] + "_23b34db2", long[:55] + "_9d83ab30"},
		},
		{
			name: "equal when cleaned", opts: mcp.Options{Names: mcp.NamesShorten}, tools: []string{"a.b", "a_b", "a/b", "ä"},
			want: []string{"a_b_2f3cb8a4", "a_b", "a_b_3f2bd4d2", "__"},
		},
		{name: "no name", tools: []string{""}},
		{name: "one name twice", tools: []string{"a", "a"}},
		{name: "one name twice, shortened", opts: mcp.Options{Names: mcp.NamesShorten}, tools: []string{"a", "a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var defs []string
			for _, n := range row.tools {
				defs = append(defs, named(n))
			}
			s := listed(t, row.opts, defs...)
			tools, err := s.Tools(testCtx(t))
			if row.want == nil {
				require.ErrorIs(t, err, rulvar.ErrConfig)
				require.ErrorContains(t, err, "Options.Lenient")
				return
			}
			require.NoError(t, err)
			got := names(tools)
			require.Len(t, got, len(row.want))
			for i, want := range row.want {
				require.LessOrEqual(t, len(got[i]), 64)
				require.True(t, strings.HasPrefix(got[i], strings.TrimRight(want, "0123456789abcdef")) || got[i] == want, "%s, want %s", got[i], want)
			}
			seen := map[string]bool{}
			for _, n := range got {
				require.False(t, seen[n], "%s stands for two tools", n)
				seen[n] = true
			}
			// The names do not depend on the other tools.
			for i, def := range defs {
				alone, err := listed(t, row.opts, def).Tools(testCtx(t))
				require.NoError(t, err)
				require.Equal(t, got[i], alone[0].Name())
			}
		})
	}
}

// Tools that cannot be imported fail the list, or are left out alone.
func TestBadTools(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 600) + "{}" + strings.Repeat("}", 600)
	for _, row := range []struct{ name, tool, want string }{
		{"no object", `3`, "not a JSON object"},
		{"null", `null`, "not a JSON object"},
		{"no name", `{"inputSchema":{"type":"object"}}`, "no text"},
		{"a name that is a number", `{"name":1,"inputSchema":{"type":"object"}}`, "its name is no text"},
		{"a description that is a list", `{"name":"bad","description":[],"inputSchema":{"type":"object"}}`, "description is no text"},
		{"no schema", `{"name":"bad"}`, "input schema is not a JSON object"},
		{"a schema that is true", `{"name":"bad","inputSchema":true}`, "input schema is not a JSON object"},
		{"a schema that is null", `{"name":"bad","inputSchema":null}`, "input schema is not a JSON object"},
		{"a schema that is wrong", `{"name":"bad","inputSchema":{"type":"objekt"}}`, "its input schema"},
		{"a remote reference", `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://evil/x"}}}}`, "its input schema"},
		{"a reference to a file", `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}}`, "its input schema"},
		{"a schema that contains itself", `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"$ref":"#"}}}}`, "its input schema"},
		{"a pattern of another dialect", `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"(?<=x)"}}}}`, "its input schema"},
		{"a deep schema", `{"name":"bad","inputSchema":` + deep + `}`, "its input schema"},
		{"a large schema", `{"name":"bad","inputSchema":{"description":"` + strings.Repeat("x", 8000) + `"}}`, "Options.MaxSchemaBytes"},
		{"a large description", `{"name":"bad","inputSchema":{},"description":"` + strings.Repeat("x", 8000) + `"}`, "Options.MaxSchemaBytes"},
		{"an output schema that is a list", `{"name":"bad","inputSchema":{"type":"object"},"outputSchema":[]}`, "output schema is not a JSON object"},
		{"an output schema that is wrong", `{"name":"bad","inputSchema":{"type":"object"},"outputSchema":{"type":1}}`, "its output schema"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := listed(t, mcp.Options{MaxSchemaBytes: 7000}, named("good"), row.tool)
			_, err := s.Tools(testCtx(t))
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.want)
			s = listed(t, mcp.Options{MaxSchemaBytes: 7000, Lenient: true}, named("good"), row.tool)
			tools, err := s.Tools(testCtx(t))
			require.NoError(t, err)
			require.Equal(t, []string{"good"}, names(tools))
			l, _ := s.Listing()
			require.Len(t, l.Skipped, 1)
			require.ErrorContains(t, l.Skipped[0].Err, row.want)
		})
	}
	t.Run("denied", func(t *testing.T) {
		s := listed(t, mcp.Options{Deny: []string{"bad"}}, named("good"), `{"name":"bad"}`)
		tools, err := s.Tools(testCtx(t))
		require.NoError(t, err, "a tool that nobody wants need not be good")
		require.Len(t, tools, 1)
	})
}

func TestPages(t *testing.T) {
	s := open(t, fakeServer("paged", ""), mcp.Options{})
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	require.Equal(t, []string{"echo", "second"}, names(tools))
}
