package mcp_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/mcp"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// Under rekey a change of the tools gives the next list another hash, and the
// tools that were given out go on.
func TestDriftRekey(t *testing.T) {
	s := open(t, fakeServer("change", ""), mcp.Options{})
	before, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	require.Equal(t, "x", calls(t, s, echo("x"))[0].text())
	var after []*rulvar.Tool
	require.Eventually(t, func() bool {
		after, err = s.Tools(testCtx(t))
		return err == nil && rulvar.ToolsetHash(after) != rulvar.ToolsetHash(before)
	}, waitLong, tick, "the server said that its tools have changed")
	require.Equal(t, "y", calls(t, before[0], echo("y"))[0].text())
}

// Under refuse nothing is listed and nothing is called once the tools differ,
// by whatever way that came to light.
func TestDriftRefuse(t *testing.T) {
	t.Run("the server says so", func(t *testing.T) {
		s := open(t, fakeServer("change", ""), mcp.Options{Drift: mcp.DriftRefuse})
		before, err := s.Tools(testCtx(t))
		require.NoError(t, err)
		got := calls(t, before[0], echo("one"))
		require.Equal(t, "one", got[0].text())
		require.Eventually(t, func() bool { _, err = s.Tools(testCtx(t)); return err != nil }, waitLong, tick)
		require.ErrorIs(t, err, rulvar.ErrConfig)
		require.ErrorContains(t, err, "changed: echo")
		got = calls(t, before[0], echo("two"))
		require.Equal(t, string(mcp.FailureDrift), got[0].code)
	})
	t.Run("the server comes back with other tools", func(t *testing.T) {
		s := open(t, fakeServer("two-faced", filepath.Join(t.TempDir(), "died")), mcp.Options{Drift: mcp.DriftRefuse})
		got := calls(t, s, echo("one"), echo("two"), echo("three"))
		require.Equal(t, string(mcp.FailureConnection), got[0].code, "it died in the first call")
		require.Equal(t, string(mcp.FailureDrift), got[1].code)
		require.Equal(t, string(mcp.FailureDrift), got[2].code)
		require.Contains(t, got[1].text(), "have changed since the first list")
	})
	t.Run("the server comes back as it was", func(t *testing.T) {
		s := open(t, fakeServer("die-once", filepath.Join(t.TempDir(), "died")), mcp.Options{Drift: mcp.DriftRefuse})
		got := calls(t, s, echo("one"), echo("two"))
		require.Equal(t, string(mcp.FailureConnection), got[0].code)
		require.Equal(t, "two", got[1].text())
	})
}

// An attestation pins the first list too, and what the host says of the tools.
func TestAttestation(t *testing.T) {
	s := open(t, fakeServer("ok", ""), mcp.Options{})
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	pin := rulvar.AttestToolset(tools)

	same := open(t, fakeServer("ok", ""), mcp.Options{Attestation: &pin})
	require.Equal(t, "x", calls(t, same, echo("x"))[0].text())

	file := filepath.Join(t.TempDir(), "died")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	other := open(t, fakeServer("two-faced", file), mcp.Options{Attestation: &pin})
	_, err = other.Tools(testCtx(t))
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "changed: echo")

	looser := open(t, fakeServer("ok", ""), mcp.Options{Attestation: &pin, Risk: map[string]rulvar.Risk{"echo": rulvar.RiskRead}})
	_, err = looser.Tools(testCtx(t))
	require.ErrorContains(t, err, "echo (risk)")
}

// The journal sees an imported tool as any other. A resume lists the tools
// again: unchanged they are the ones of the parked agent, which goes on;
// changed, the agent is another and begins anew, or the pin refuses.
func TestResume(t *testing.T) {
	for _, row := range []struct {
		name    string
		changed bool
		pinned  bool
		want    rulvar.RunStatus
		asked   int // requests to the model in the second segment
	}{
		{name: "unchanged", want: rulvar.RunOK, asked: 1},
		{name: "unchanged and pinned", pinned: true, want: rulvar.RunOK, asked: 1},
		{name: "changed", changed: true, want: rulvar.RunSuspended, asked: 1},
		{name: "changed and pinned", changed: true, pinned: true, want: rulvar.RunError},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "changed")
			store := rulvar.NewMemoryStore()
			wf := func(src rulvar.ToolSource) *rulvar.Workflow[string, string] {
				return rulvar.DefineWorkflow("w", func(c *rulvar.Ctx, _ string) (string, error) {
					return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{src}})
				})
			}
			engine := func() (*rulvar.Engine, *rulvartest.Provider) {
				model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Calls: []rulvartest.Call{echo("x")}}, {Text: "done"}}})
				return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:m", Logger: quiet}), model
			}
			opts := mcp.Options{Approval: map[string]bool{"echo": true}}
			first := open(t, fakeServer("resumed", file), opts)
			e, _ := engine()
			h, err := rulvar.Run(testCtx(t), e, wf(first), "", &rulvar.RunOptions{RunID: "r"})
			require.NoError(t, err)
			out, err := h.Result(testCtx(t))
			require.NoError(t, err)
			require.Equal(t, rulvar.RunSuspended, out.Status)
			_, err = e.Resolve(testCtx(t), "r", out.Pending[0].Key, rulvar.Approve(""))
			require.NoError(t, err)

			if row.pinned {
				tools, err := first.Tools(testCtx(t))
				require.NoError(t, err)
				pin := rulvar.AttestToolset(tools)
				opts.Attestation = &pin
			}
			if row.changed {
				require.NoError(t, os.WriteFile(file, nil, 0o600))
			}
			e, model := engine()
			h, err = rulvar.Resume(testCtx(t), e, wf(open(t, fakeServer("resumed", file), opts)), "r", nil)
			require.NoError(t, err)
			out, err = h.Result(testCtx(t))
			if row.want == rulvar.RunError {
				require.ErrorIs(t, err, rulvar.ErrConfig)
				require.ErrorContains(t, err, "not the attested ones")
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, row.want, out.Status)
			require.Len(t, model.Requests(), row.asked)
		})
	}
}
