package rulvar_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

func read(handle any, more ...any) rulvartest.Call {
	args := map[string]any{"handle": handle}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	if args["id"] != nil {
		return call("read_child_artifact", args)
	}
	return call("get_child_result", args)
}

type readPage struct {
	Handle           int64
	Status, ID, Kind string
	Format, Text     string
	Offset, Total    int
	NextOffset       *int
	Error, Code      string
}

// pages are the results of the calls of a reading tool, in order.
func (f *fleet) pages(t *testing.T, tool string) (out []readPage) {
	t.Helper()
	for _, text := range f.results(t, tool) {
		var p readPage
		require.NoError(t, json.Unmarshal([]byte(text), &p), text)
		out = append(out, p)
	}
	return out
}

var reads = &rulvar.OrchestrateOptions{ReadResults: true}

func TestReadResultsAreOfferedByChoice(t *testing.T) {
	for _, opts := range []*rulvar.OrchestrateOptions{nil, reads} {
		f := newFleet(t, rulvar.Config{}, opts, goal(do(read(1)), do(finish("done"))))
		out, err := f.run(t)
		require.NoError(t, err)
		require.Equal(t, "done", out.Value)
		var names []string
		for _, d := range f.model.Requests()[0].Tools {
			names = append(names, d.Name)
		}
		require.Equal(t, opts != nil, strings.Contains(strings.Join(names, " "), "get_child_result"), "%v", names)
		require.Equal(t, opts != nil, strings.Contains(strings.Join(names, " "), "read_child_artifact"), "%v", names)
		require.Contains(t, f.results(t, "get_child_result")[0], "error")
	}
}

func TestReadChildResults(t *testing.T) {
	long := strings.Repeat("aü€😀", 2500) // 10000 characters of 1 to 4 bytes
	f := newFleet(t, rulvar.Config{}, &rulvar.OrchestrateOptions{ReadResults: true, Schemas: map[string]json.RawMessage{
		"city": json.RawMessage(`{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}`)}},
		goal(
			do(spawn("thinker", "short"), spawn("thinker", "long"), call("spawn_agent", map[string]any{"agentType": "thinker", "prompt": "json", "outputSchemaRef": "city"}), spawn("thinker", "fails"), spawn("thinker", "hangs")),
			do(await("await_all", "$1", "$2", "$3", "$4")),
			do(read("$1"), read("$2"), read("$2", "offset", 4000), read("$2", "offset", 8000), read("$2", "offset", 3999, "limit", 3),
				read("$2", "limit", 20000), read("$2", "offset", 10000), read("$2", "offset", 10001), read("$3"), read("$4")),
			do(read("$5"), read(99), read("$1", "limit", 20001), read("$1", "limit", 0), read("$1", "offset", -1), read("$1", "bytes", 4), read("$1", "id", "worktree-patch")),
			do(finish("done"))),
		says("short", "brief <answer>"), says("long", long), says("json", `{"city":"Lyon"}`),
		rulvartest.Script{Prompt: "fails", Turns: []rulvartest.Turn{{Errs: []error{&llm.Error{Kind: llm.KindTerminal, Message: "no"}}}}},
		rulvartest.Script{Prompt: "hangs", Turns: []rulvartest.Turn{{Hang: true}}})
	out, err := f.run(t)
	require.NoError(t, err)
	require.Equal(t, "done", out.Value)
	p := f.pages(t, "get_child_result")
	require.Equal(t, "ok text brief <answer>", p[0].Status+" "+p[0].Format+" "+p[0].Text)
	require.Nil(t, p[0].NextOffset)
	require.Equal(t, long, p[1].Text+p[2].Text+p[3].Text, "no character is split")
	require.Equal(t, []int{0, 4000, 8000}, []int{p[1].Offset, p[2].Offset, p[3].Offset})
	require.Equal(t, []int{4000, 8000, 10000}, []int{*p[1].NextOffset, *p[2].NextOffset, p[3].Total})
	require.Nil(t, p[3].NextOffset)
	require.Equal(t, "😀aü", p[4].Text)
	require.Equal(t, 4002, *p[4].NextOffset)
	require.Equal(t, long, p[5].Text)
	require.Nil(t, p[5].NextOffset)
	require.Equal(t, "", p[6].Text)
	require.Nil(t, p[6].NextOffset)
	require.Equal(t, "offset-out-of-range", p[7].Code)
	require.Equal(t, `json {"city":"Lyon"}`, p[8].Format+" "+p[8].Text)
	require.Equal(t, "error", p[9].Status)
	require.NotEmpty(t, p[9].Error)
	require.Empty(t, p[9].Text+p[9].Format)
	require.Equal(t, []string{"unsettled", "unknown-handle"}, []string{p[10].Code, p[11].Code})
	for _, refused := range p[12:] {
		require.Contains(t, refused.Error, "schema")
	}
	require.Equal(t, "unknown-artifact", f.pages(t, "read_child_artifact")[0].Code)
}

// A parked child has no result. After a resume in another engine the results of
// children that ended in the first are read from the journal, and the page that
// was read before is the same.
func TestReadChildResultsAfterAResume(t *testing.T) {
	store := fileStore(t)
	scripts := []rulvartest.Script{
		goal(do(spawn("deployer", "ship"), spawn("thinker", "think")), do(await("await_any", "$2")), do(read("$1"), read("$2")),
			do(await("await_all", "$1", "$2")), do(read("$1"), read("$2")), do(finish("done"))),
		{Prompt: "ship", Turns: []rulvartest.Turn{do(call("deploy", map[string]string{"service": "api"})), {Text: "shipped"}}},
		says("think", "<thought> "+strings.Repeat("é", 500)),
	}
	f := newFleet(t, rulvar.Config{Store: store, Concurrency: 1}, reads, scripts...)
	out, err := f.run(t)
	require.NoError(t, err)
	require.Len(t, out.Pending, 1)
	g := newFleet(t, rulvar.Config{Store: store}, reads, scripts...)
	_, err = g.engine.Resolve(testCtx(t), "r1", out.Pending[0].Key, rulvar.Approve("fine"))
	require.NoError(t, err)
	out, err = g.resume(t)
	require.NoError(t, err)
	require.Equal(t, "done", out.Value)
	require.Zero(t, g.asked("think"))
	p, texts := g.pages(t, "get_child_result"), g.results(t, "get_child_result")
	require.Equal(t, "unsettled", p[0].Code)
	require.Equal(t, "shipped", p[2].Text)
	require.Equal(t, texts[1], texts[3])
	require.Equal(t, 510, p[3].Total)
}

// The tools are judged like the other tools of the engine: by name, and by no
// risk.
func TestReadingIsJudged(t *testing.T) {
	f := newFleet(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{
		Deny: []rulvar.Rule{rulvar.ToolRule("read_child_artifact"), rulvar.RiskRule(rulvar.RiskUndeclared, rulvar.RiskRead)}}}, reads,
		goal(do(spawn("thinker", "a")), do(await("await_all", "$1")), do(read("$1"), read("$1", "id", "x")), do(finish("done"))), says("a", "thought"))
	_, err := f.run(t)
	require.NoError(t, err)
	require.Equal(t, "thought", f.pages(t, "get_child_result")[0].Text)
	require.Contains(t, f.results(t, "read_child_artifact")[0], "denied")
}

// A patch is read whole, also one that holds bytes that are no UTF-8.
func TestReadChildArtifact(t *testing.T) {
	trees := newFixtureTrees(t, json.RawMessage(`{"files":{"a.txt":"one\n"},"message":"base"}`))
	write := toolWithHandler(t, "write", func(tc *rulvar.ToolContext) error {
		return os.WriteFile(filepath.Join(tc.Cwd(), "b.txt"), []byte("caf\xe9 é\n"), 0o600)
	})
	tree := rulvar.Worktree()
	f := newFleet(t, rulvar.Config{Isolation: trees, Profiles: map[string]*rulvar.AgentProfile{
		"writer": {Tools: []rulvar.ToolSource{write}, Isolation: &tree}}}, reads,
		goal(do(spawn("writer", "w")), do(await("await_all", "$1")), do(read("$1", "id", "worktree-patch"), read("$1", "id", "worktree-patch", "offset", 10, "limit", 5)), do(finish("done"))),
		rulvartest.Script{Prompt: "w", Turns: []rulvartest.Turn{do(call("write", map[string]any{})), {Text: "written"}}})
	out, err := f.run(t)
	require.NoError(t, err)
	require.Equal(t, "done", out.Value)
	p := f.pages(t, "read_child_artifact")
	require.Equal(t, []string{"ok", "worktree-patch", "patch"}, []string{p[0].Status, p[0].ID, p[0].Kind})
	require.Contains(t, p[0].Text, "+caf\uFFFD é\n")
	require.Equal(t, string([]rune(p[0].Text)[10:15]), p[1].Text)
	require.Equal(t, 15, *p[1].NextOffset)
	require.Equal(t, len([]rune(p[0].Text)), p[0].Total)
}

// toolWithHandler is a tool that takes anything.
func toolWithHandler(t *testing.T, name string, do func(*rulvar.ToolContext) error) *rulvar.Tool {
	t.Helper()
	s, err := rulvar.SchemaLiteral(json.RawMessage(anyObject))
	require.NoError(t, err)
	tool, err := rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: name, Description: "d", Risk: rulvar.RiskWrite}, s,
		func(tc *rulvar.ToolContext, _ json.RawMessage) (any, error) { return "done", do(tc) })
	require.NoError(t, err)
	return tool
}
