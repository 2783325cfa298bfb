package rulvar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// keyVector is a case of content_key.json: identities, keys and scopes.
type keyVector struct {
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

	text json.RawMessage // the whole case
	err  error           // the refusal here
}

// UnmarshalJSON keeps the text, which shows escapes that no Go string holds.
func (v *keyVector) UnmarshalJSON(text []byte) error {
	type plain keyVector
	if err := json.Unmarshal(text, (*plain)(v)); err != nil {
		return err
	}
	v.text = append(json.RawMessage(nil), text...)
	return nil
}

var keyVectors = func() vectorSuite {
	s := newVectorSuite("content_key", (*keyVector).compare, map[string]func(*keyVector) bool{
		"lone-surrogate": func(v *keyVector) bool { return loneSurrogate(v.text) },
		"out-of-scope":   func(v *keyVector) bool { return keysLeftOut[v.Kind] != "" },
		"scope-integers": (*keyVector).roundedScope,
	})
	s.exact, s.unmarked = true, s.rules
	return s
}()

// keysLeftOut are the kinds of cases about parts of the reference that the
// library does not have.
var keysLeftOut = map[string]string{
	"node-link":        "links between plan nodes",
	"profile-snapshot": "model ladders of profiles",
}

var digits = regexp.MustCompile(`[0-9]+`)

// roundedScope: the number in a scope is one that double precision rounds.
func (v *keyVector) roundedScope() bool {
	for _, number := range digits.FindAllString(v.Path, -1) {
		if n, err := strconv.ParseInt(number, 10, 64); err != nil || n > 1<<53-1 {
			return v.Kind == "scope" && v.err != nil
		}
	}
	return false
}

func (v *keyVector) compare(t *testing.T) (direction, string) {
	if left := keysLeftOut[v.Kind]; left != "" {
		return other, left + " are left out"
	}
	here, recorded, err := v.run(t)
	v.err = err
	detail := fmt.Sprintf("here %+v %v\nrecorded %+v", here, err, v.Expect)
	switch refused := v.Expect.Error != ""; {
	case refused && err != nil:
		return same, ""
	case refused:
		return looser, detail
	case err != nil:
		return stricter, detail
	case !reflect.DeepEqual(here, recorded):
		return other, detail
	}
	return same, ""
}

// run returns what came of the case here, and what was recorded in the same form.
func (v *keyVector) run(t *testing.T) (here, recorded any, err error) {
	e := v.Expect
	if v.Kind != "identity" && loneSurrogate(v.text) {
		_, err := jcs.Parse(v.text) // the texts among the fields hold a replacement
		return nil, nil, err
	}
	switch v.Kind {
	case "identity":
		here, err = v.identity(t)
		return here, replay.Canonical{Text: e.Canonical, Key: e.Key, TextV1: e.CanonicalV1, KeyV1: e.KeyV1}, err
	case "scope":
		segments, err := replay.ParseScope(v.Path)
		return []any{recordedSegments(segments), replay.Format(segments)}, []any{e.Segments, e.Formatted}, err
	case "scope-build":
		return v.build(t), e.Path, nil
	case "approach":
		a := v.Approach
		here, err = replay.Approach{AgentType: a.AgentType, ToolsetHash: a.ToolsetHash, SchemaHash: a.SchemaHash,
			Isolation: a.Isolation, Tag: a.ApproachTag}.Signature()
		return here, replay.ApproachSignature{Tag: e.NormalizedTag, IsolationTag: e.IsolationTag,
			Coarse: e.Coarse, Signature: e.ApproachSig}, err
	case "approach-tag":
		return replay.ApproachTag(v.Raw), e.NormalizedTag, nil
	case "exec-key":
		x := v.Exec
		here, err = replay.ExecCall{Genesis: x.Genesis, RunID: x.RunID, AgentSeq: x.AgentSeq, Ordinal: x.Ordinal,
			Tool: x.Tool, Args: x.Args}.Key(x.Version)
		return here, e.Key, err
	}
	require.Fail(t, "unknown kind", v.Kind)
	return nil, nil, nil
}

// identity hashes a whole record, and holds to it what the engine calls, which
// takes the members apart.
func (v *keyVector) identity(t *testing.T) (replay.Canonical, error) {
	whole, err := replay.CanonicalIdentity(v.Identity)
	if err != nil {
		require.ErrorIs(t, err, errs.NonSerializable)
		return whole, err
	}
	var r identityRecord
	require.NoError(t, json.Unmarshal(v.Identity, &r))
	switch key, err := r.key(); {
	case r.Kind == "agent":
		keys, err := r.agent().Keys()
		require.NoError(t, err)
		require.Equal(t, []string{"", whole.KeyV1, whole.Key, ""}, []string{keys(0), keys(1), keys(2), keys(3)})
	case memberNames(t, v.Identity) == identityMembers[r.Kind]:
		require.NoError(t, err)
		require.Equal(t, whole.Key, key)
	}
	return whole, nil
}

// identityMembers are the members of a record that the engine makes. The
// recording also hashes records with other members beside them.
var identityMembers = map[string]string{
	"step": "deps key kind", "child": "args kind workflow", "external": "key kind",
	"approval": "input kind toolName", "rand": "kind subtype",
}

func memberNames(t *testing.T, object json.RawMessage) string {
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &members))
	names := slices.Sorted(maps.Keys(members))
	if members["subtype"] != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "key" }) // may be absent
	}
	return strings.Join(names, " ")
}

// identityRecord is a record with the members of all kinds.
type identityRecord struct {
	Kind, AgentType, Prompt, SchemaHash, ToolsetHash, Workflow, ToolName, Subtype string
	Key                                                                           *string
	ModelSpec, Isolation, Args, Deps, Input                                       json.RawMessage
}

func (r *identityRecord) agent() replay.AgentIdentity {
	return replay.AgentIdentity{AgentType: r.AgentType, ModelSpec: r.ModelSpec, Prompt: r.Prompt,
		SchemaHash: r.SchemaHash, ToolsetHash: r.ToolsetHash, Isolation: r.Isolation}
}

// key is the key as the engine makes it.
func (r *identityRecord) key() (string, error) {
	key := ""
	if r.Key != nil {
		key = *r.Key
	}
	switch r.Kind {
	case "agent":
		return r.agent().Key()
	case "step":
		return replay.StepKey(key, r.Deps)
	case "child":
		return replay.ChildKey(r.Workflow, r.Args)
	case "external":
		return replay.ExternalKey(key)
	case "approval":
		return replay.ApprovalKey(r.ToolName, r.Input)
	}
	return replay.RandKey(r.Subtype, r.Key)
}

// recordedSegments are segments in the form of the recording.
func recordedSegments(segments []replay.Segment) []map[string]any {
	out := []map[string]any{}
	for _, s := range segments {
		switch s := s.(type) {
		case replay.BranchSegment:
			out = append(out, map[string]any{"kind": "parallel", "site": float64(s.Site), "branch": float64(s.Branch)})
		case replay.StageSegment:
			out = append(out, map[string]any{"kind": "pipeline", "stage": float64(s.Stage), "item": float64(s.Item)})
		case replay.ChildSegment:
			out = append(out, map[string]any{"kind": "workflow", "name": s.Name, "ordinal": float64(s.Ordinal)})
		case replay.AgentSegment:
			out = append(out, map[string]any{"kind": "agent", "seq": float64(s.Seq)})
		case replay.PlanSegment:
			out = append(out, map[string]any{"kind": "plan-node", "nodeId": s.NodeID})
		}
	}
	return out
}

// build makes a scope of a parent and the arguments of the builder.
func (v *keyVector) build(t *testing.T) string {
	text := func(i int) (s string) {
		require.Less(t, i, len(v.Args))
		require.NoError(t, json.Unmarshal(v.Args[i], &s))
		return s
	}
	number := func(i int) (n int64) {
		require.Less(t, i, len(v.Args))
		require.NoError(t, json.Unmarshal(v.Args[i], &n))
		return n
	}
	switch v.Builder {
	case "parallel":
		return replay.Branch(text(0), number(1), number(2))
	case "pipeline":
		return replay.Stage(text(0), number(1), number(2))
	case "workflow":
		return replay.Child(text(0), text(1), number(2))
	case "agent":
		return replay.AgentScope(text(0), number(1))
	}
	require.Fail(t, "unknown builder", v.Builder)
	return ""
}
