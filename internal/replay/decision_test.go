package replay_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

func TestNormalizeApproval(t *testing.T) {
	deny := replay.ApprovalDecision{Decision: "deny"}
	tests := []struct {
		name, value string
		want        replay.ApprovalDecision
	}{
		{"nothing", ``, deny},
		{"not JSON", `{"decision":"allow"`, deny},
		{"two values", `{"decision":"allow"} {}`, deny},
		{"null", `null`, deny},
		{"other case", `{"DECISION":"allow","decisioN":"allow"}`, deny},
		{"escaped word", `{"decision":"\u0061llow"}`, replay.ApprovalDecision{Decision: "allow"}},
		{"edited", `{"decision":"allow-edited","input":{"a":1},"reason":"smaller"}`,
			replay.ApprovalDecision{Decision: "allow", Input: json.RawMessage(`{"a":1}`), Reason: "smaller"}},
		{"edited to null", `{"decision":"allow-edited","input":null}`,
			replay.ApprovalDecision{Decision: "allow", Input: json.RawMessage(`null`)}},
		{"edited without input", `{"decision":"allow-edited"}`, deny},
		{"an input beside a plain allow is not run", `{"decision":"allow","input":{"a":1}}`,
			replay.ApprovalDecision{Decision: "allow"}},
		{"null expiry", `{"decision":"allow","expiresAt":null}`,
			replay.ApprovalDecision{Decision: "allow", HasExpiry: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, replay.NormalizeApproval(json.RawMessage(tt.value)))
		})
	}
	require.False(t, replay.ApprovalDecision{}.Allows(time.Time{}), "the zero value allows nothing")
}

func TestCheckApproval(t *testing.T) {
	tests := []struct{ name, value, path string }{
		{"edited", `{"decision":"allow-edited","input":[1]}`, ""},
		{"edited without input", `{"decision":"allow-edited"}`, "input"},
		{"no decision", `{}`, "missing"},
		{"expiry on an edited allow", `{"decision":"allow-edited","input":1,"expiresAt":"soon"}`, "expiresAt"},
		{"one-digit hour", `{"decision":"allow","expiresAt":"2030-01-01T1:00:00Z"}`, "expiresAt"},
		{"comma", `{"decision":"allow","expiresAt":"2030-01-01T01:00:00,5Z"}`, "expiresAt"},
		{"offset of a day", `{"decision":"allow","expiresAt":"2030-01-01T01:00:00+24:00"}`, "expiresAt"},
		{"fraction and offset", `{"decision":"allow","expiresAt":"2030-01-01T01:00:00.123456-23:59"}`, ""},
		{"no zone", `{"decision":"allow","expiresAt":"2030-01-01T01:00:00"}`, "expiresAt"},
		{"null expiry", `{"decision":"allow","expiresAt":null}`, "expiresAt"},
		{"array", `["allow"]`, "object"},
		{"null", `null`, "object"},
		{"empty", ``, "object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := replay.CheckApproval(json.RawMessage(tt.value))
			if tt.path == "" {
				require.NoError(t, err)
				return
			}
			check(t, err, errs.InvalidResolution, tt.path)
		})
	}
}

func TestExpired(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	d := replay.NormalizeApproval(json.RawMessage(`{"decision":"allow","expiresAt":"2030-01-01T02:00:00+02:00"}`))
	require.True(t, d.Allows(at.Add(-time.Second)))
	require.True(t, d.Allows(at), "the instant itself still counts")
	require.False(t, d.Allows(at.Add(time.Nanosecond)))
	require.True(t, replay.ApprovalDecision{Decision: "allow"}.Allows(at))
}

// FuzzApproval holds the reader of foreign values to one law: nothing allows
// that a resolver surface would have refused.
func FuzzApproval(f *testing.F) {
	for _, seed := range []string{
		`{"decision":"allow"}`, `{"decision":"deny","reason":"no"}`, `{"decision":"allow","expiresAt":"2030-01-01T00:00:00Z"}`,
		`{"decision":"allow-edited","input":{}}`, `{"decision":"allow","expiresAt":0}`, `true`, `"allow"`, `[]`, ``, `{"decision":"allow","decision":"deny"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d := replay.NormalizeApproval(src)
		err := replay.CheckApproval(src)
		if d.Allows(time.Time{}) && err != nil {
			t.Fatalf("%q allows, but is refused: %v", src, err)
		}
		if d.Decision != replay.DecisionAllow && d.Decision != replay.DecisionDeny {
			t.Fatalf("%q gives decision %q", src, d.Decision)
		}
	})
}
