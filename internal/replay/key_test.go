package replay_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

const (
	noSchema = "b5bea41b6c623f7c09f1bf24dcae58ebab3c0cdd90ad966bc43a45b44867e12b"
	oneTool  = "c7fd8e479e570a6cb78df67d0e713136b5f3a37d8fd77cea2a7d76097bf58846"
)

func TestGoldenKeys(t *testing.T) {
	agent := replay.AgentIdentity{ModelSpec: replay.ModelSpec("fake:fake-model", ""), Prompt: "go",
		SchemaHash: noSchema, ToolsetHash: oneTool}
	tests := []struct {
		name string
		key  func() (string, error)
		want string
	}{
		{"agent", agent.Key, "8e24b3b3516e84721456582304dd2f3c3026ae4906d834fb8bdfd692826afe77"},
		{"approval", func() (string, error) { return replay.ApprovalKey("deploy", json.RawMessage(`{ "s": "api" }`)) },
			"d104d15e426b695540d314f3a635c95b88755abd0d47a9fcc1e91f405cf8ca4f"},
		{"step", func() (string, error) { return replay.StepKey("fetch", nil) },
			"aeacb2558f9b554434640e6b306bd98b66b203345abccfb0c0bc1113ee862ff3"},
		{"external", func() (string, error) { return replay.ExternalKey("gate") },
			"a5b5fea1443e7c5aa8a3a29246ebbbe9f6db6c77a4d4ecbe0a43b7f3b0e09c18"},
		{"child", func() (string, error) { return replay.ChildKey("w", json.RawMessage(`{"a":1}`)) },
			"fa29bac783fb39e887120f6891a937defb5dd2a79f646b51dd499ca4d0e82504"},
		{"settle", func() (string, error) { return jcs.Sum([]byte(`{"kind":"run-settle"}`)), nil }, replay.SettleKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.key()
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	now, err := replay.RandKey("now", nil)
	require.NoError(t, err)
	require.Regexp(t, "^6c60111d.*464e$", now)
	args, err := replay.ChildKey("w", nil)
	require.NoError(t, err)
	null, err := replay.ChildKey("w", json.RawMessage("null"))
	require.NoError(t, err)
	require.Equal(t, null, args)
}

func TestModelSpecEffort(t *testing.T) {
	plain := replay.AgentIdentity{ModelSpec: replay.ModelSpec("a:b", "")}
	low := replay.AgentIdentity{ModelSpec: replay.ModelSpec("a:b", "low")}
	bare := replay.AgentIdentity{ModelSpec: json.RawMessage(`{"model":"a:b"}`)}
	p, err := plain.Keys()
	require.NoError(t, err)
	l, err := low.Keys()
	require.NoError(t, err)
	b, err := bare.Keys()
	require.NoError(t, err)
	require.NotEqual(t, p(2), l(2))
	require.Equal(t, p(1), l(1), "version 1 left the effort out")
	require.Equal(t, p(2), b(2))
	require.Equal(t, p(2), p(1))
}

func TestKeysFailClosed(t *testing.T) {
	agent := func(a replay.AgentIdentity) func() error {
		return func() error { _, err := a.Keys(); return err }
	}
	model := replay.ModelSpec("a:b", "")
	record := func(s string) func() error {
		return func() error { _, err := replay.CanonicalIdentity(json.RawMessage(s)); return err }
	}
	approval := func(name, input string) func() error {
		return func() error { _, err := replay.ApprovalKey(name, json.RawMessage(input)); return err }
	}
	tests := []struct {
		name string
		do   func() error
		code errs.Code
		word string
	}{
		{"prompt is not UTF-8", agent(replay.AgentIdentity{ModelSpec: model, Prompt: "a\xff"}), errs.NonSerializable, "prompt"},
		{"no model", agent(replay.AgentIdentity{}), errs.Config, "modelSpec"},
		{"model of unknown kind", agent(replay.AgentIdentity{ModelSpec: json.RawMessage(`{"kind":"auction","model":"a:b"}`)}), errs.Config, "modelSpec"},
		{"model kind is no text", agent(replay.AgentIdentity{ModelSpec: json.RawMessage(`{"kind":1,"model":"a:b"}`)}), errs.Config, "modelSpec"},
		{"ladder without rungs", agent(replay.AgentIdentity{ModelSpec: json.RawMessage(`{"kind":"ladder"}`)}), errs.Config, "modelSpec"},
		{"isolation is no JSON", agent(replay.AgentIdentity{ModelSpec: model, Isolation: json.RawMessage(`none`)}), errs.NonSerializable, "isolation"},
		{"input with a lone surrogate", approval("t", `{"a":"\ud800"}`), errs.NonSerializable, "input"},
		{"input is missing", approval("t", ``), errs.NonSerializable, "input"},
		{"input overflows", approval("t", `1e999`), errs.NonSerializable, "input"},
		{"tool name is not UTF-8", approval("t\xff", `1`), errs.NonSerializable, "toolName"},
		{"record of unknown kind", record(`{"kind":"node.link"}`), errs.Config, "identity.kind"},
		{"record without kind", record(`{}`), errs.Config, "identity.kind"},
		{"record is an array", record(`[]`), errs.Config, "identity"},
		{"record is null", record(`null`), errs.Config, "identity"},
		{"agent record without a prompt", record(`{"kind":"agent","agentType":"","modelSpec":{"model":"a:b"}}`), errs.Config, "prompt"},
		{"derivation 3", func() error { _, err := replay.ExecCall{}.Key(3); return err }, errs.Config, "derivation"},
		{"approach with odd isolation", func() error {
			_, err := replay.Approach{Isolation: json.RawMessage(`{"kind":"chroot"}`)}.Signature()
			return err
		}, errs.Config, "isolation.kind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { check(t, tt.do(), tt.code, tt.word) })
	}
	require.Empty(t, replay.SameKey("k")(0))
	require.Empty(t, replay.SameKey("k")(3))
	require.Equal(t, "k", replay.SameKey("k")(1))
}

func TestApproachTagTraps(t *testing.T) {
	for raw, want := range map[string]string{
		"e\u0301": "-", "\u0130x": "i-x", "I\u0307x": "i-x", "K\u212a": "kk", "a\xffb": "a-b", "--a--": "-a-",
	} {
		require.Equal(t, want, replay.ApproachTag(raw), "%q", raw)
	}
}

// Segments survive the trip through their text, in any nesting.
func TestScopeRoundTrip(t *testing.T) {
	natural := rapid.Int64Range(0, 1<<53-1)
	segment := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) replay.Segment {
			return replay.BranchSegment{Site: natural.Draw(t, "site"), Branch: natural.Draw(t, "branch")}
		}),
		rapid.Custom(func(t *rapid.T) replay.Segment {
			return replay.StageSegment{Stage: natural.Draw(t, "stage"), Item: natural.Draw(t, "item")}
		}),
		rapid.Custom(func(t *rapid.T) replay.Segment {
			return replay.ChildSegment{Name: rapid.StringMatching(`[^/]+`).Draw(t, "name"), Ordinal: natural.Draw(t, "ordinal")}
		}),
		rapid.Custom(func(t *rapid.T) replay.Segment { return replay.AgentSegment{Seq: natural.Draw(t, "seq")} }),
		rapid.Custom(func(t *rapid.T) replay.Segment {
			return replay.PlanSegment{NodeID: rapid.StringMatching(`[0-9A-Z]{26}`).Draw(t, "id")}
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		segs := rapid.SliceOf(segment).Draw(t, "segments")
		got, err := replay.ParseScope(replay.Format(segs))
		require.NoError(t, err)
		require.Equal(t, len(segs), len(got))
		for i := range segs {
			require.Equal(t, segs[i], got[i])
		}
	})
	for path, segment := range map[string]string{"par:0:0/par:1": `"par:1"`, "wf::0": `"wf::0"`, "agent:9007199254740992": "agent", "plan": `"plan"`} {
		_, err := replay.ParseScope(path)
		check(t, err, errs.JournalOrder, segment)
	}
}
