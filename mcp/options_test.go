package mcp_test

import (
	"net/http"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/mcp"
)

// What cannot work is refused before anything is started.
func TestRefused(t *testing.T) {
	good := &mcp.Stdio{Command: "true"}
	for _, row := range []struct {
		name      string
		transport mcp.Transport
		opts      *mcp.Options
		want      string
	}{
		{"no transport", nil, nil, "the transport is nil"},
		{"a nil transport", (*mcp.Stdio)(nil), nil, "Stdio.Command"},
		{"no command", &mcp.Stdio{}, nil, "Stdio.Command"},
		{"a variable with a sign", &mcp.Stdio{Command: "x", Env: map[string]string{"A=B": ""}}, nil, "Stdio.Env"},
		{"no URL", &mcp.HTTP{}, nil, "HTTP.URL"},
		{"another scheme", &mcp.HTTP{URL: "file:///etc/passwd"}, nil, "HTTP.URL"},
		{"no host", &mcp.HTTP{URL: "http:///x"}, nil, "HTTP.URL"},
		{"a header of the protocol", &mcp.HTTP{URL: "http://h", Headers: http.Header{"mcp-session-id": {"x"}}}, nil, "HTTP.Headers"},
		{"no server", &mcp.InProcess{}, nil, "InProcess.Server"},
		{"a prefix with a dot", good, &mcp.Options{Prefix: "a.b"}, "Options.Prefix"},
		{"an unknown risk", good, &mcp.Options{Risk: map[string]rulvar.Risk{"a": "reed"}}, `Options.Risk["a"]`},
		{"an unknown drift", good, &mcp.Options{Drift: "ignore"}, "Options.Drift"},
		{"an unknown name mode", good, &mcp.Options{Names: "cut"}, "Options.Names"},
		{"an unknown protocol", good, &mcp.Options{ProtocolVersion: "2031-01-01"}, "Options.ProtocolVersion"},
		{"a negative bound", good, &mcp.Options{MaxTools: -1}, "Options.MaxTools"},
		{"a negative time", good, &mcp.Options{Timeouts: mcp.Timeouts{Call: -1}}, "Options.Timeouts.Call"},
		{"an endless time", good, &mcp.Options{Timeouts: mcp.Timeouts{List: 100 * time.Hour}}, "Options.Timeouts.List"},
		{"missing bounds", good, &mcp.Options{RequireBounds: true, MaxTools: 1}, "set MaxPages, MaxSchemaBytes, Timeouts.Discovery"},
		{"a bad pin", good, &mcp.Options{Attestation: &rulvar.ToolsetAttestation{Hash: "x"}}, "Options.Attestation"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := mcp.New(row.transport, row.opts)
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.want)
			require.Nil(t, s)
		})
	}
	_, err := mcp.New(good, &mcp.Options{RequireBounds: true, MaxTools: 1, MaxPages: 1, MaxSchemaBytes: 1, Timeouts: mcp.Timeouts{Discovery: 1}})
	require.NoError(t, err)
}

// The name of a source holds no secret.
func TestID(t *testing.T) {
	for _, row := range []struct {
		transport mcp.Transport
		want      string
	}{
		{&mcp.Stdio{Command: "npx", Args: []string{"--token=s3cret"}}, "mcp:stdio:npx"},
		{&mcp.HTTP{URL: "https://user:s3cret@h.example:8443/mcp?key=s3cret#s3cret"}, "mcp:http:https://h.example:8443/mcp"},
		{&mcp.InProcess{Server: sdk.NewServer(&sdk.Implementation{}, nil)}, "mcp:inprocess"},
	} {
		s, err := mcp.New(row.transport, nil)
		require.NoError(t, err)
		require.Equal(t, row.want, s.ID())
		require.NoError(t, s.Close())
	}
	s, err := mcp.New(&mcp.Stdio{Command: "x"}, &mcp.Options{ID: "mine"})
	require.NoError(t, err)
	require.Equal(t, "mine", s.ID())
}

func TestCommandNotFound(t *testing.T) {
	s := open(t, &mcp.Stdio{Command: "no-such-program-anywhere"}, mcp.Options{})
	_, err := s.Tools(testCtx(t))
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "the server could not be started")
}
