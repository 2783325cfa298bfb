package mcp_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/mcp"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// published is a server of the protocol's own project, at a version that these
// tests were written for.
const published = "@modelcontextprotocol/server-everything@2026.8.31"

// install installs the published server, or skips the test with a reason. A
// directory in RULVAR_MCP_EVERYTHING that has it already saves the time.
func install(t *testing.T) (node, script string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: installing the published server takes a while")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed: ", err)
	}
	dir := os.Getenv("RULVAR_MCP_EVERYTHING")
	if dir == "" {
		npm, err := exec.LookPath("npm")
		if err != nil {
			t.Skip("npm is not installed: ", err)
		}
		dir = t.TempDir()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--loglevel=error", "--prefix", dir, published)
		cmd.Dir, cmd.WaitDelay = dir, time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("the npm registry could not be reached: %v: %s", err, out)
		}
	}
	return node, filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
}

// A server that others wrote, in another language, over stdio: every tool that
// it lists is imported or left out with a reason, and calls of several kinds
// come back.
func TestPublishedServer(t *testing.T) {
	node, script := install(t)
	s := open(t, &mcp.Stdio{Command: node, Args: []string{script, "stdio"}}, mcp.Options{
		Prefix: "every", Lenient: true, Risk: map[string]rulvar.Risk{"echo": rulvar.RiskRead},
	})
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	l, _ := s.Listing()
	t.Logf("%s %s, protocol %s: %d tools, left out: %v", l.Server, l.ServerVersion, l.Protocol, len(tools), l.Skipped)
	require.GreaterOrEqual(t, len(tools), 8)
	got := calls(t, s,
		rulvartest.Call{Tool: "every_echo", Args: map[string]any{"message": "hällo"}},
		rulvartest.Call{Tool: "every_echo", Args: map[string]any{"message": 1}},
		rulvartest.Call{Tool: "every_get-sum", Args: map[string]any{"a": 2, "b": 40}},
		rulvartest.Call{Tool: "every_get-tiny-image", Args: map[string]any{}},
		rulvartest.Call{Tool: "every_get-structured-content", Args: map[string]any{"location": "Chicago"}},
		rulvartest.Call{Tool: "every_get-env", Args: map[string]any{}},
	)
	require.Equal(t, "Echo: hällo", got[0].text())
	require.Equal(t, string(rulvar.ErrInvalidArguments), got[1].code)
	require.Contains(t, got[2].text(), "42")
	require.Contains(t, string(got[3].result), `"type":"image"`)
	require.Contains(t, string(got[4].result), `"temperature"`)
	require.NotContains(t, got[5].text(), "RULVAR", "the environment is not the host's")
	for _, a := range []answer{got[0], got[2], got[3], got[4], got[5]} {
		require.False(t, a.isError, "%s", a.result)
	}
}
