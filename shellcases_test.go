package rulvar_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go"
)

// shellCase is one command from public reports, with the verdicts that would be
// a bug. The file's own "meta" explains the members.
type shellCase struct {
	ID          string            `json:"id"`
	Category    string            `json:"category"`
	Command     string            `json:"command"`
	Rules       rulvar.ShellRules `json:"rules"`
	Expect      string            `json:"expect"`
	MustNot     []string          `json:"must_not"`
	Nuisance    []string          `json:"nuisance"`
	Acceptable  []string          `json:"acceptable"`
	NeedsPolicy bool              `json:"needs_policy"`
	FalseAlarm  bool              `json:"false_alarm"`
	Why         string            `json:"why"`
}

// shellCasesFile is the corpus, or the file that RULVAR_SHELL_CASES names.
func shellCasesFile() string {
	if name := os.Getenv("RULVAR_SHELL_CASES"); name != "" {
		return name
	}
	return filepath.Join("testdata", "shell", "cases.json")
}

func shellCases(t testing.TB) []shellCase {
	t.Helper()
	data, err := os.ReadFile(shellCasesFile())
	require.NoError(t, err)
	var file struct {
		Cases []shellCase `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(data, &file))
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

// shellStrictness orders verdicts.
var shellStrictness = map[string]int{"allow": 0, "ask": 1, "deny": 2}

// mustAsk tells whether only a wrapper or a path stands in front of a command
// that a deny or ask rule names, so that an allow would be a hole once somebody
// relies on the rule.
func (c *shellCase) mustAsk() bool {
	return c.NeedsPolicy && c.Category == "wrap" && len(c.Rules.Deny)+len(c.Rules.Ask) > 0
}

func TestShellCases(t *testing.T) {
	alarms, nuisances := 0, 0
	for _, c := range shellCases(t) {
		got := string(rulvar.MatchShellCommand(c.Command, c.Rules))
		if slices.Contains(c.MustNot, got) {
			t.Errorf("%s %q: %s is a hole (%s)", c.ID, c.Command, got, c.Why)
		}
		if c.NeedsPolicy && shellStrictness[got] < shellStrictness[c.Expect] {
			t.Errorf("%s %q: %s is looser than %s", c.ID, c.Command, got, c.Expect)
		}
		if c.mustAsk() && got == "allow" && !shellUnknownWrapper[c.ID] {
			t.Errorf("%s %q: allowed, although a wrapper or a path only hides a denied command", c.ID, c.Command)
		}
		if c.FalseAlarm {
			alarms++
			if slices.Contains(c.Nuisance, got) {
				nuisances++
				t.Logf("%s %q: %s is a nuisance", c.ID, c.Command, got)
			}
		}
		if len(c.MustNot) == 0 && !slices.Contains(c.Acceptable, got) && !c.FalseAlarm {
			t.Logf("%s %q: %s, acceptable %v", c.ID, c.Command, got, c.Acceptable)
		}
	}
	t.Logf("%d of %d harmless commands answered with a nuisance", nuisances, alarms)
	require.LessOrEqual(t, nuisances*100, alarms*3, "more than 3 %% of the harmless commands are a nuisance")
}

// shellUnknownWrapper are wrappers that nobody can know: a user's own program.
var shellUnknownWrapper = map[string]bool{"WR023": true}
