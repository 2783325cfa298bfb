package rulvar_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
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

// maxExports is how many types and functions the root package may export: so
// many that somebody can still read "go doc -all" in one sitting. Methods,
// constants and variables do not count.
const maxExports = 150

func TestRootExports(t *testing.T) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	exported := make(map[string]bool) // a name of two systems' files counts once
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					exported[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() {
						exported[s.Name.Name] = true
					}
				}
			}
		}
	}
	n := len(exported)
	t.Logf("the root package exports %d types and functions", n)
	require.LessOrEqual(t, n, maxExports, "the root package exports %d types and functions, %d at most: put the new ones "+
		"into a sub-package, make a function a method, or unexport what nobody outside needs", n, maxExports)
}
