package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	rulvar "github.com/rulvar/rulvar-go"
)

type noInput struct{}

type readInput struct {
	Path string `json:"path" jsonschema:"description=A path from the root of the repository."`
}

type writeInput struct {
	Path string `json:"path" jsonschema:"description=A path from the root of the repository."`
	Text string `json:"text" jsonschema:"description=The whole new text of the file."`
}

// newTools makes the agent's tools. They work where the ToolContext says, and
// os.Root keeps their files there.
func newTools() ([]rulvar.ToolSource, error) {
	read, err := rulvar.NewTool(rulvar.ToolConfig{Name: "read_file", Description: "Read a file.", Risk: rulvar.RiskRead},
		func(tc *rulvar.ToolContext, in readInput) (string, error) {
			root, err := os.OpenRoot(tc.Cwd())
			if err != nil {
				return "", err
			}
			defer func() { _ = root.Close() }()
			text, err := root.ReadFile(in.Path)
			return string(text), err
		})
	if err != nil {
		return nil, err
	}
	write, err := rulvar.NewTool(rulvar.ToolConfig{Name: "write_file", Description: "Write a file.", Risk: rulvar.RiskWrite, Idempotent: true},
		func(tc *rulvar.ToolContext, in writeInput) (string, error) {
			root, err := os.OpenRoot(tc.Cwd())
			if err != nil {
				return "", err
			}
			defer func() { _ = root.Close() }()
			return "written", root.WriteFile(in.Path, []byte(in.Text), 0o666)
		})
	if err != nil {
		return nil, err
	}
	test, err := rulvar.NewTool(rulvar.ToolConfig{Name: "run_tests", Description: "Run the tests.", Risk: rulvar.RiskExecute, Idempotent: true},
		func(tc *rulvar.ToolContext, _ noInput) (testResult, error) {
			out, passed := runTests(tc, tc.Cwd())
			return testResult{Passed: passed, Output: out}, nil
		})
	return []rulvar.ToolSource{read, write, test}, err
}

type testResult struct {
	Passed bool   `json:"passed"`
	Output string `json:"output"`
}

// runTests runs the tests of the module in dir.
func runTests(ctx context.Context, dir string) (output string, passed bool) {
	cmd := exec.CommandContext(ctx, "go", "test", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

const (
	faulty = "package median\n\n// Of returns the middle of three numbers.\nfunc Of(a, b, c int) int {\n\treturn max(a, min(b, c))\n}\n"
	fixed  = "package median\n\n// Of returns the middle of three numbers.\nfunc Of(a, b, c int) int {\n\treturn max(min(a, b), min(max(a, b), c))\n}\n"
)

// makeRepo makes the repository of a small module whose test fails.
func makeRepo(ctx context.Context, dir string) error {
	for name, text := range map[string]string{
		"go.mod":         "module example.com/median\n\ngo 1.26\n",
		"median.go":      faulty,
		"median_test.go": "package median\n\nimport \"testing\"\n\nfunc TestOf(t *testing.T) {\n\tif got := Of(3, 1, 2); got != 2 {\n\t\tt.Errorf(\"the median of 3, 1, 2 is %d\", got)\n\t}\n}\n",
	} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"-c", "user.name=example", "-c", "user.email=example@example.com", "-c", "commit.gpgSign=false", "commit", "-qm", "A module"},
	} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return nil
}
