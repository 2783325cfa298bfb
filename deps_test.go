package rulvar_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a program pays for importing the root package: these modules and no
// others. A new line here needs a sentence on why it beats writing the thing.
var allowedModules = []string{
	"github.com/bahlo/generic-list-go",         // of invopop/jsonschema
	"github.com/buger/jsonparser",              // of invopop/jsonschema
	"github.com/google/shlex",                  // splits shell patterns
	"github.com/invopop/jsonschema",            // reflects Go types into schemas
	"github.com/oklog/ulid/v2",                 // run ids
	"github.com/pb33f/ordered-map/v2",          // of invopop/jsonschema
	"github.com/rulvar/rulvar-go",              // this one
	"github.com/santhosh-tekuri/jsonschema/v6", // validates arguments
	"go.yaml.in/yaml/v4",                       // of invopop/jsonschema
	"golang.org/x/sys",                         // file locks
	"golang.org/x/text",                        // of santhosh-tekuri/jsonschema
	"mvdan.cc/sh/v3",                           // shell grammar
}

func TestRootDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	for _, m := range slices.Compact(modules) {
		require.Contains(t, allowedModules, m, "the root package pulls in %s: move what needs it into a sub-package", m)
	}
}
