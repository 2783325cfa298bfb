package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.json")
	require.NoError(t, os.WriteFile(policy, []byte(`{"deny":["rm **"],"allow":["ls **"]}`), 0o600))
	misspelt := filepath.Join(dir, "misspelt.json")
	require.NoError(t, os.WriteFile(misspelt, []byte(`{"denied":["rm **"]}`), 0o600))
	wrong := filepath.Join(dir, "wrong.json")
	require.NoError(t, os.WriteFile(wrong, []byte(`{"deny":["** rm"]}`), 0o600))
	for name, row := range map[string]struct {
		args   []string
		in     string
		status int
		says   string
	}{
		"allowed":          {[]string{"git", "status"}, "", 0, "ALLOW  git status"},
		"asked":            {[]string{"make"}, "", 1, "to allow exactly this: make"},
		"denied":           {[]string{"(rm x)"}, "", 2, "denied by rm **"},
		"lines":            {nil, "ls\nrm x\n", 2, "ALLOW  ls"},
		"a policy":         {[]string{"-rules", policy, "git status"}, "", 1, "no allow pattern covers it"},
		"a missing policy": {[]string{"-rules", policy + ".no", "ls"}, "", 3, "no such file"},
		"a misspelt table": {[]string{"-rules", misspelt, "ls"}, "", 3, "denied"},
		"a wrong pattern":  {[]string{"-rules", wrong, "ls"}, "", 3, "deny[0]"},
		"lint":             {[]string{"-lint", "-rules", wrong}, "", 1, "deny[0] ** rm: error"},
		"JSON":             {[]string{"-json", "ls"}, "", 0, `"verdict": "allow"`},
		"hidden text":      {[]string{"ls \u202e"}, "", 1, `\u202e`},
		"an unknown flag":  {[]string{"-x"}, "", 3, "-x"},
		"help":             {[]string{"-help"}, "", 0, "rules"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			require.Equal(t, row.status, run(row.args, strings.NewReader(row.in), &out, &out), out.String())
			require.Contains(t, out.String(), row.says)
		})
	}
}
