package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// prepare makes the small repository that the agent works on, unless dir holds
// one already.
func prepare(ctx context.Context, dir string) error {
	repo := filepath.Join(dir, "repo")
	if _, err := os.Stat(repo); err == nil {
		return nil
	}
	if err := os.MkdirAll(repo, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"go.mod":      "module example.com/api\n\ngo 1.26\n",
		"api.go":      "// Package api greets.\npackage api\n\n// Greet greets name.\nfunc Greet(name string) string { return \"hello, \" + name }\n",
		"api_test.go": "package api\n\nimport \"testing\"\n\nfunc TestGreet(t *testing.T) {\n\tif got := Greet(\"you\"); got != \"hello, you\" {\n\t\tt.Fatal(got)\n\t}\n}\n",
		"ISSUES.md":   "- #12 typo in the greeting (minor)\n- #13 greet in other languages (wish)\n",
	} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "."},
		{"-c", "user.name=example", "-c", "user.email=example@example.invalid", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "Say hello"},
		{"branch", "old"},
	} {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", repo}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return nil
}
