package replay_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// loadVectors reads a file of recorded cases. RULVAR_VECTORS names another
// directory with files of the same shape.
func loadVectors[T any](t *testing.T, name string) []T {
	t.Helper()
	dir := os.Getenv("RULVAR_VECTORS")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "vectors")
	}
	src, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	var cases []T
	require.NoError(t, json.Unmarshal(src, &cases))
	require.NotEmpty(t, cases)
	return cases
}

type keyCase struct {
	ID       string
	Kind     string
	Identity json.RawMessage
	Path     string
	Builder  string
	Args     []json.RawMessage
	Raw      string
	Approach struct {
		AgentType, ToolsetHash, SchemaHash, ApproachTag string
		Isolation                                       json.RawMessage
	}
	Exec struct {
		Version              int
		Genesis, RunID, Tool string
		AgentSeq, Ordinal    int64
		Args                 json.RawMessage
	}
	Expect struct {
		Canonical, Key, CanonicalV1, KeyV1               string
		Segments                                         []map[string]any
		Formatted, Error, Path                           string
		NormalizedTag, IsolationTag, Coarse, ApproachSig string
	}
}

// outOfScope are kinds of cases about features that are left out.
var outOfScope = map[string]string{
	"node-link":        "links between plan nodes",
	"profile-snapshot": "model ladders of profiles",
}

// keyDifferences are the cases we answer otherwise on purpose.
var keyDifferences = map[string]string{
	"key-0181": "an integer that double precision rounds is refused, not rounded",
}

var surrogateEscape = regexp.MustCompile(`(^|[^\\])(\\\\)*\\ud[89a-f]`)

// loneSurrogate is the rule "lone-surrogate": text that has no UTF-8 is refused
// where the reference hashes an escape. The canonical text it expects then
// holds that escape, which no other canonical text does.
func loneSurrogate(c keyCase) bool {
	return surrogateEscape.MatchString(c.Expect.Canonical)
}

func TestVectorsContentKey(t *testing.T) {
	for _, c := range loadVectors[keyCase](t, "content_key.json") {
		if outOfScope[c.Kind] != "" {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			if why := keyDifferences[c.ID]; why != "" {
				_, err := replay.ParseScope(c.Path)
				require.Error(t, err, why)
				return
			}
			checkKeyCase(t, c)
		})
	}
}

func checkKeyCase(t *testing.T, c keyCase) {
	switch c.Kind {
	case "identity":
		got, err := replay.CanonicalIdentity(c.Identity)
		if loneSurrogate(c) {
			check(t, err, errs.NonSerializable)
			return
		}
		require.NoError(t, err)
		want := replay.Canonical{Text: c.Expect.Canonical, Key: c.Expect.Key, TextV1: c.Expect.CanonicalV1, KeyV1: c.Expect.KeyV1}
		require.Equal(t, want, got)
		checkTypedKey(t, c)
	case "scope":
		checkScope(t, c)
	case "scope-build":
		require.Equal(t, c.Expect.Path, buildScope(t, c))
	case "approach":
		a := c.Approach
		got, err := replay.Approach{AgentType: a.AgentType, ToolsetHash: a.ToolsetHash, SchemaHash: a.SchemaHash,
			Isolation: a.Isolation, Tag: a.ApproachTag}.Signature()
		require.NoError(t, err)
		require.Equal(t, replay.ApproachSignature{Tag: c.Expect.NormalizedTag, IsolationTag: c.Expect.IsolationTag,
			Coarse: c.Expect.Coarse, Signature: c.Expect.ApproachSig}, got)
	case "approach-tag":
		require.Equal(t, c.Expect.NormalizedTag, replay.ApproachTag(c.Raw))
	case "exec-key":
		e := c.Exec
		got, err := replay.ExecCall{Genesis: e.Genesis, RunID: e.RunID, AgentSeq: e.AgentSeq, Ordinal: e.Ordinal,
			Tool: e.Tool, Args: e.Args}.Key(e.Version)
		require.NoError(t, err)
		require.Equal(t, c.Expect.Key, got)
	default:
		t.Fatalf("unknown kind %q", c.Kind)
	}
}

// checkTypedKey holds the functions that the engine calls against the record.
func checkTypedKey(t *testing.T, c keyCase) {
	var r struct {
		Kind, AgentType, Prompt, SchemaHash, ToolsetHash, Workflow, ToolName, Subtype string
		Key                                                                           *string
		ModelSpec, Isolation, Args, Deps, Input                                       json.RawMessage
	}
	require.NoError(t, json.Unmarshal(c.Identity, &r))
	var got string
	var err error
	switch r.Kind {
	case "agent":
		a := replay.AgentIdentity{AgentType: r.AgentType, ModelSpec: r.ModelSpec, Prompt: r.Prompt,
			SchemaHash: r.SchemaHash, ToolsetHash: r.ToolsetHash, Isolation: r.Isolation}
		keys, kerr := a.Keys()
		require.NoError(t, kerr)
		require.Equal(t, c.Expect.KeyV1, keys(1))
		require.Equal(t, c.Expect.Key, keys(2))
		require.Empty(t, keys(0))
		require.Empty(t, keys(3))
		got, err = a.Key()
	case "step":
		got, err = replay.StepKey(*r.Key, r.Deps)
	case "child":
		got, err = replay.ChildKey(r.Workflow, r.Args)
	case "external":
		got, err = replay.ExternalKey(*r.Key)
	case "approval":
		got, err = replay.ApprovalKey(r.ToolName, r.Input)
	case "rand":
		got, err = replay.RandKey(r.Subtype, r.Key)
	}
	require.NoError(t, err)
	require.Equal(t, c.Expect.Key, got)
}

func checkScope(t *testing.T, c keyCase) {
	segs, err := replay.ParseScope(c.Path)
	if c.Expect.Error != "" {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	got := []map[string]any{}
	for _, s := range segs {
		switch s := s.(type) {
		case replay.BranchSegment:
			got = append(got, map[string]any{"kind": "parallel", "site": float64(s.Site), "branch": float64(s.Branch)})
		case replay.StageSegment:
			got = append(got, map[string]any{"kind": "pipeline", "stage": float64(s.Stage), "item": float64(s.Item)})
		case replay.ChildSegment:
			got = append(got, map[string]any{"kind": "workflow", "name": s.Name, "ordinal": float64(s.Ordinal)})
		case replay.AgentSegment:
			got = append(got, map[string]any{"kind": "agent", "seq": float64(s.Seq)})
		case replay.PlanSegment:
			got = append(got, map[string]any{"kind": "plan-node", "nodeId": s.NodeID})
		}
	}
	require.Equal(t, c.Expect.Segments, got)
	require.Equal(t, c.Expect.Formatted, replay.Format(segs))
}

func buildScope(t *testing.T, c keyCase) string {
	arg := func(i int, into any) { require.NoError(t, json.Unmarshal(c.Args[i], into)) }
	var parent, name string
	var a, b int64
	arg(0, &parent)
	switch c.Builder {
	case "parallel", "pipeline":
		arg(1, &a)
		arg(2, &b)
		if c.Builder == "parallel" {
			return replay.Branch(parent, a, b)
		}
		return replay.Stage(parent, a, b)
	case "workflow":
		arg(1, &name)
		arg(2, &b)
		return replay.Child(parent, name, b)
	case "agent":
		arg(1, &a)
		return replay.AgentScope(parent, a)
	}
	t.Fatalf("unknown builder %q", c.Builder)
	return ""
}
