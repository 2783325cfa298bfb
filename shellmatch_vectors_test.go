package rulvar_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/argv"
)

// shellVectorsDir is where the recorded vectors are, or the directory that
// RULVAR_VECTORS names.
func shellVectorsDir() string {
	if dir := os.Getenv("RULVAR_VECTORS"); dir != "" {
		return dir
	}
	return filepath.Join("testdata", "vectors")
}

func shellVectorFile(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shellVectorsDir(), name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

// TestShellVectors holds MatchShellCommand against the verdicts recorded from
// the reference. A stricter answer passes; a looser one must be covered by a rule
// in differences.json.
func TestShellVectors(t *testing.T) {
	var vectors []shellVector
	shellVectorFile(t, "shell_match.json", &vectors)
	rules := shellDifferences(t)
	same, stricter, refused, used := 0, 0, 0, map[string]int{}
	for _, v := range vectors {
		if _, err := rulvar.CompileShellRules(v.Patterns); err != nil {
			refused++ // stricter than any verdict
			continue
		}
		got := string(rulvar.MatchShellCommand(v.Command, v.Patterns))
		switch a, b := shellStrictness[got], shellStrictness[v.Expect.Verdict]; {
		case a == b:
			same++
		case a > b:
			stricter++
		default:
			if name := v.explained(rules); name != "" {
				used[name]++
				continue
			}
			t.Errorf("%s (%s) %q %+v: %s is looser than the recorded %s", v.ID, v.Group, v.Command, v.Patterns, got, v.Expect.Verdict)
		}
	}
	t.Logf("%d vectors: %d the same, %d stricter, %d refused as rules, looser by rule: %v", len(vectors), same, stricter, refused, used)
}

type shellVector struct {
	ID       string            `json:"id"`
	Group    string            `json:"group"`
	Command  string            `json:"command"`
	Patterns rulvar.ShellRules `json:"patterns"`
	Expect   struct {
		Verdict string `json:"verdict"`
	} `json:"expect"`
}

// shellDifference is one row of differences.json.
type shellDifference struct {
	File      string   `json:"file"`
	IDs       []string `json:"ids"`
	Rule      string   `json:"rule"`
	Direction string   `json:"direction"`
	Reason    string   `json:"reason"`
}

// shellDifferences returns the rows for the shell files. They are always those
// of the repository, also when the vectors are not.
func shellDifferences(t *testing.T) []shellDifference {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", "differences.json"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var all []shellDifference
	require.NoError(t, json.Unmarshal(data, &all))
	return slices.DeleteFunc(all, func(d shellDifference) bool { return d.File != "shell_match.json" })
}

// explained returns the name of the rule or the row that covers a looser answer.
func (v *shellVector) explained(rows []shellDifference) string {
	for _, d := range rows {
		if d.Direction != "looser" {
			continue
		}
		if slices.Contains(d.IDs, v.ID) {
			return v.ID
		}
		if rule := shellRules[d.Rule]; rule != nil && rule(v) {
			return d.Rule
		}
	}
	return ""
}

// shellRules are the rules that rows of differences.json name. Each tells from
// the command and the patterns alone whether it applies.
var shellRules = map[string]func(*shellVector) bool{
	"comment":              (*shellVector).hasComment,
	"harmless-redirection": (*shellVector).hasHarmlessRedirection,
	"pattern-words":        (*shellVector).hasShellPattern,
	"quoted-assignment":    (*shellVector).hasQuotedAssignment,
	"substitution-asks":    (*shellVector).hasSubstitution,
	"expansion-text":       (*shellVector).hasExpansionText,
	"clobber-operator":     func(v *shellVector) bool { return strings.Contains(v.Command, ">|") },
	"backslash-in-quotes":  func(v *shellVector) bool { return shellDoubleEscape.MatchString(v.Command) },
	"not-a-shell-text":     (*shellVector).isNoShellText,
	"line-continuation":    func(v *shellVector) bool { return strings.Contains(v.Command, "\\\n") },
}

var (
	shellComment          = regexp.MustCompile(`(^|[ \t\n;&|()])#[^\n]*`)
	shellHarmless         = regexp.MustCompile(`[0-9]*[<>]&[ \t]*([0-9]+|-)|(&|[0-9]*)>>?[ \t]*/dev/null|<[ \t]*/dev/null`)
	shellQuotedAssignment = regexp.MustCompile(`(^|[;&|\n])[ \t]*["'\\][A-Za-z_"'\\]+=`)
	shellDoubleEscape     = regexp.MustCompile(`"[^"]*\\[^$"\x60\\\n]`)
)

// without answers whether the answer is what the command gets without the parts
// that re matches: they do not matter.
func (v *shellVector) without(re *regexp.Regexp) bool {
	rest := re.ReplaceAllString(v.Command, "$1")
	return rest != v.Command && rulvar.MatchShellCommand(rest, v.Patterns) == rulvar.MatchShellCommand(v.Command, v.Patterns)
}

func (v *shellVector) hasComment() bool { return v.without(shellComment) }

func (v *shellVector) hasHarmlessRedirection() bool {
	rest := shellHarmless.ReplaceAllString(v.Command, "")
	return rest != v.Command && rulvar.MatchShellCommand(rest, v.Patterns) == rulvar.MatchShellCommand(v.Command, v.Patterns)
}

// hasShellPattern: patterns are read as shell words; quotes, tabs and leading
// assignments mean something in them.
func (v *shellVector) hasShellPattern() bool {
	for _, p := range slices.Concat(v.Patterns.Deny, v.Patterns.Ask, v.Patterns.Allow) {
		if strings.ContainsAny(p, "\t\"'\\") || shellAssignment.MatchString(p) {
			return true
		}
	}
	return false
}

var shellAssignment = regexp.MustCompile(`^[ \t]*[A-Za-z_][A-Za-z0-9_]*=`)

func (v *shellVector) hasQuotedAssignment() bool { return shellQuotedAssignment.MatchString(v.Command) }

func (v *shellVector) hasSubstitution() bool {
	return rulvar.MatchShellCommand(v.Command, v.Patterns) == rulvar.VerdictAsk &&
		(strings.Contains(v.Command, "$(") || strings.Contains(v.Command, "`") || strings.Contains(v.Command, "<<") ||
			strings.Contains(v.Command, "<(") || strings.Contains(v.Command, ">("))
}

func (v *shellVector) hasExpansionText() bool {
	return rulvar.MatchShellCommand(v.Command, v.Patterns) == rulvar.VerdictAsk && strings.Contains(v.Command, "${")
}

// isNoShellText: neither dialect of an independent parser takes the text, so no
// shell runs it as a whole, and the answer is to ask.
func (v *shellVector) isNoShellText() bool {
	for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		if _, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(v.Command), ""); err == nil {
			return false
		}
	}
	return rulvar.MatchShellCommand(v.Command, v.Patterns) == rulvar.VerdictAsk
}

// TestShellLexVectors compares how texts are split. It only informs: the strict
// reader refuses most of what the recorded lexer mistakes, and the words of a
// refused segment mean nothing. A split that both take for certain must be equal.
func TestShellLexVectors(t *testing.T) {
	var vectors []struct {
		ID, Command string
		Expect      struct {
			Segments []struct {
				Argv        []string
				Unmatchable bool
			}
		}
	}
	shellVectorFile(t, "shell_lex.json", &vectors)
	same, refused, other := 0, 0, 0
	for _, v := range vectors {
		c := argv.Read(v.Command)
		if _, ok := c.Complete(); !ok {
			refused++
			continue
		}
		var got, want [][]string
		for _, s := range c.Segments() {
			words := []string{}
			for _, w := range s.Words {
				words = append(words, w.Text)
			}
			got = append(got, words)
		}
		for _, s := range v.Expect.Segments {
			want = append(want, s.Argv)
		}
		if slices.EqualFunc(got, want, slices.Equal[[]string]) {
			same++
			continue
		}
		other++
		t.Logf("%s %q: %q, recorded %q", v.ID, v.Command, got, want)
	}
	t.Logf("%d texts: %d split the same, %d refused, %d split otherwise", len(vectors), same, refused, other)
}
