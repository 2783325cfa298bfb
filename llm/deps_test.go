package llm_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The root package imports this one, so nothing of it may come back; and an
// adapter shall not pay for the engine.
func TestDependencies(t *testing.T) {
	const module = "github.com/rulvar/rulvar-go"
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{.ImportPath}}{{end}}", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, path := range strings.Fields(string(out)) {
		if path != module+"/llm" {
			require.True(t, strings.HasPrefix(path, module+"/internal/"), "package llm pulls in %s", path)
		}
	}
}
