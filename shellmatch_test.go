package rulvar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/argv"
	"github.com/rulvar/rulvar-go/internal/errs"
)

func TestMatchShellCommand(t *testing.T) {
	for name, row := range map[string]struct {
		command string
		rules   rulvar.ShellRules
		want    rulvar.Verdict
	}{
		"allowed":                        {"npm test", rulvar.ShellRules{Allow: []string{"npm test", "npm run *"}}, "allow"},
		"one segment is not":             {"npm test; rm -rf /", rulvar.ShellRules{Allow: []string{"npm test"}}, "ask"},
		"denied":                         {"git push --force", rulvar.ShellRules{Deny: []string{"git push --force"}}, "deny"},
		"no rule":                        {"ls", rulvar.ShellRules{}, "ask"},
		"empty":                          {"", rulvar.ShellRules{Allow: []string{"**"}}, "ask"},
		"rules that do not compile":      {"ls", rulvar.ShellRules{Deny: []string{"** ls"}, Allow: []string{"ls"}}, "ask"},
		"deny behind an ask":             {"$(x); rm x", rulvar.ShellRules{Deny: []string{"rm **"}}, "deny"},
		"deny before allow":              {"rm x", rulvar.ShellRules{Deny: []string{"rm **"}, Allow: []string{"**"}}, "deny"},
		"ask before allow":               {"git push", rulvar.ShellRules{Ask: []string{"git push **"}, Allow: []string{"**"}}, "ask"},
		"wrapped deny asks":              {"env rm x", rulvar.ShellRules{Deny: []string{"rm **"}, Allow: []string{"**"}}, "ask"},
		"wrapped ask asks":               {"sudo git push", rulvar.ShellRules{Ask: []string{"git push **"}, Allow: []string{"**"}}, "ask"},
		"hidden command, allow alone":    {"bash", rulvar.ShellRules{Allow: []string{"bash"}}, "allow"},
		"hidden command, beside a deny":  {"bash", rulvar.ShellRules{Deny: []string{"rm **"}, Allow: []string{"bash"}}, "ask"},
		"allow does not unwrap":          {"env git status", rulvar.ShellRules{Allow: []string{"git status"}}, "ask"},
		"allow knows no path":            {"/tmp/git status", rulvar.ShellRules{Allow: []string{"git status"}}, "ask"},
		"allow in a group":               {"(ls)", rulvar.ShellRules{Allow: []string{"ls"}}, "ask"},
		"star and a quoted expansion":    {`cat "$X"`, rulvar.ShellRules{Allow: []string{"cat *"}}, "allow"},
		"star and an expansion":          {"cat $X", rulvar.ShellRules{Allow: []string{"cat *"}}, "ask"},
		"two stars and an expansion":     {"cat $X", rulvar.ShellRules{Allow: []string{"cat **"}}, "allow"},
		"star and all parameters":        {`cat "$@"`, rulvar.ShellRules{Allow: []string{"cat *"}}, "ask"},
		"star and braces":                {"cat {a,b}", rulvar.ShellRules{Allow: []string{"cat *"}}, "ask"},
		"star and a glob":                {"cat *.go", rulvar.ShellRules{Allow: []string{"cat *"}}, "allow"},
		"quoted star and a glob":         {"rm *", rulvar.ShellRules{Allow: []string{"rm '*'"}}, "ask"},
		"quoted star and a quoted star":  {"rm '*'", rulvar.ShellRules{Allow: []string{`rm "*"`}}, "allow"},
		"literal star is no wildcard":    {`grep "a.EVIL.b" f`, rulvar.ShellRules{Allow: []string{`grep "a.*b" f`}}, "ask"},
		"literal and an expansion":       {`cat "$X"`, rulvar.ShellRules{Allow: []string{"cat '$X'"}}, "ask"},
		"duplication":                    {"npm test 2>&1", rulvar.ShellRules{Allow: []string{"npm test"}}, "allow"},
		"closing":                        {"npm test 2>&-", rulvar.ShellRules{Allow: []string{"npm test"}}, "allow"},
		"null device":                    {"npm test &>/dev/null </dev/null", rulvar.ShellRules{Allow: []string{"npm test"}}, "allow"},
		"null device and a word behind":  {"npm test &>/dev/null x", rulvar.ShellRules{Allow: []string{"npm test **"}}, "ask"},
		"file":                           {"npm test > out", rulvar.ShellRules{Allow: []string{"npm test **"}}, "ask"},
		"file that is read":              {"npm test < in", rulvar.ShellRules{Allow: []string{"npm test **"}}, "ask"},
		"file that is spelled":           {"go test ./... > out.txt 2>&1", rulvar.ShellRules{Allow: []string{"go test ** > *"}}, "allow"},
		"file that is named":             {"go test > out.txt", rulvar.ShellRules{Allow: []string{"go test ** > out.txt"}}, "allow"},
		"file of another name":           {"go test > other.txt", rulvar.ShellRules{Allow: []string{"go test ** > out.txt"}}, "ask"},
		"spelled, but not there":         {"go test", rulvar.ShellRules{Allow: []string{"go test ** > *"}}, "ask"},
		"another operator":               {"go test >> out.txt", rulvar.ShellRules{Allow: []string{"go test ** > *"}}, "ask"},
		"another descriptor":             {"go test 2> out.txt", rulvar.ShellRules{Allow: []string{"go test ** > *"}}, "ask"},
		"spelled descriptor":             {"go test 2> err > out", rulvar.ShellRules{Allow: []string{"go test ** > * 2> *"}}, "allow"},
		"file of an expansion":           {"go test > $X", rulvar.ShellRules{Allow: []string{"go test ** > *"}}, "ask"},
		"deny sees past the file":        {"rm x > f", rulvar.ShellRules{Deny: []string{"rm *"}}, "deny"},
		"deny of a redirection":          {"ls > /etc/passwd", rulvar.ShellRules{Deny: []string{"** > /etc/passwd"}, Allow: []string{"ls > *"}}, "deny"},
		"deny of it on a group":          {"{ ls; } > /etc/passwd", rulvar.ShellRules{Deny: []string{"** > /etc/passwd"}}, "deny"},
		"deny of it by another way":      {"ls >| /etc/../etc/passwd", rulvar.ShellRules{Deny: []string{"** > /etc/passwd"}}, "ask"},
		"assignment":                     {"CI=1 npm test", rulvar.ShellRules{Allow: []string{"npm test"}}, "ask"},
		"assignment by name":             {"CI=1 npm test", rulvar.ShellRules{Allow: []string{"npm test"}, AllowEnv: []string{"CI"}}, "allow"},
		"assignment of another":          {"CI=1 PATH=. npm test", rulvar.ShellRules{Allow: []string{"npm test"}, AllowEnv: []string{"CI"}}, "ask"},
		"assignment spelled":             {"CI=1 npm test", rulvar.ShellRules{Allow: []string{"CI=1 npm test"}}, "allow"},
		"assignment spelled otherwise":   {"CI=2 npm test", rulvar.ShellRules{Allow: []string{"CI=1 npm test"}}, "ask"},
		"assignment spelled and missing": {"npm test", rulvar.ShellRules{Allow: []string{"CI=1 npm test"}}, "ask"},
		"assignment with a substitution": {"CI=$(x) npm test", rulvar.ShellRules{Allow: []string{"npm test"}, AllowEnv: []string{"CI"}}, "ask"},
		"assignment that appends":        {"CI+=1 npm test", rulvar.ShellRules{Allow: []string{"npm test"}, AllowEnv: []string{"CI"}}, "ask"},
		"assignment alone":               {"CI=1", rulvar.ShellRules{Allow: []string{"**"}, AllowEnv: []string{"CI"}}, "ask"},
		"deny passes over it":            {"CI=1 rm x", rulvar.ShellRules{Deny: []string{"rm **"}}, "deny"},
		"deny spells it":                 {"LD_PRELOAD=x ls", rulvar.ShellRules{Deny: []string{"LD_PRELOAD=x **"}, Allow: []string{"**"}, AllowEnv: []string{"LD_PRELOAD"}}, "deny"},
		"history mark":                   {"echo !!", rulvar.ShellRules{Allow: []string{"echo **"}}, "ask"},
		"exclamation in quotes":          {`echo "done!"`, rulvar.ShellRules{Allow: []string{"echo **"}}, "allow"},
		"bang as a word":                 {"find . ! -name x", rulvar.ShellRules{Allow: []string{"find **"}}, "allow"},
		"escape in double quotes":        {`printf "hi!\n"`, rulvar.ShellRules{Allow: []string{`printf 'hi!\n'`}}, "allow"},
		"long and denied at the end":     {strings.Repeat("true; ", 50000) + "rm x", rulvar.ShellRules{Deny: []string{"rm **"}, Allow: []string{"true"}}, "deny"},
		"long and allowed":               {strings.Repeat("true; ", 50000) + "true", rulvar.ShellRules{Deny: []string{"rm **"}, Allow: []string{"true"}}, "allow"},
		"deep":                           {strings.Repeat("(", 5000) + "rm x", rulvar.ShellRules{Deny: []string{"rm **"}}, "deny"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, rulvar.MatchShellCommand(row.command, row.rules))
			require.Equal(t, row.want, rulvar.ExplainShellCommand(row.command, row.rules).Verdict)
		})
	}
}

func TestShellRulesCompileErrors(t *testing.T) {
	for name, row := range map[string]struct {
		rules rulvar.ShellRules
		path  string
	}{
		"deny":      {rulvar.ShellRules{Deny: []string{"rm **", "** x"}}, "deny[1]"},
		"ask":       {rulvar.ShellRules{Ask: []string{""}}, "ask[0]"},
		"allow":     {rulvar.ShellRules{Allow: []string{"ls; rm"}}, "allow[0]"},
		"allow env": {rulvar.ShellRules{AllowEnv: []string{"CI", "A=1"}}, "allowEnv[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rulvar.CompileShellRules(row.rules)
			require.ErrorIs(t, err, errs.Config)
			require.Contains(t, err.Error(), row.path)
		})
	}
}

func TestShellRulesAreAFile(t *testing.T) {
	const text = `{"deny":["rm **"],"allow":["ls **"],"allowEnv":["CI"]}`
	var rules rulvar.ShellRules
	require.NoError(t, json.Unmarshal([]byte(text), &rules))
	out, err := json.Marshal(rules)
	require.NoError(t, err)
	require.Equal(t, text, string(out))
}

func TestExplainShellCommand(t *testing.T) {
	rules := rulvar.ShellRules{
		Deny:  []string{"rm **"},
		Ask:   []string{"git push **"},
		Allow: []string{"ls **", "go test **"},
	}
	for name, row := range map[string]struct {
		command, want string
	}{
		"allowed":          {"ls -l", "allow: every command is covered by an allow pattern\n  ls -l: allow by allow ls **"},
		"denied":           {"ls && (rm x)", "deny: denied by rm **\n  ls: allow by allow ls **\n  rm x: deny by deny rm **"},
		"behind a wrapper": {"env rm x", "ask: may be denied by rm ** behind env\n  env rm x: ask by deny rm ** via env"},
		"deep behind one":  {"sh -c 'env rm x'", "ask: may be denied by rm ** behind sh -c env\n  sh -c 'env rm x': ask by deny rm ** via sh -c env"},
		"asked":            {"git push", "ask: asked about by git push **\n  git push: ask by ask git push **"},
		"no pattern":       {"make -j4", "ask: no allow pattern covers it\n  make -j4: ask, suggest make -j4"},
		"redirection":      {"go test > out", "ask: go test ** covers its words, but not the redirection > out\n  go test > out: ask, suggest go test > out"},
		"assignment":       {"CI=1 go test", "ask: go test ** covers its words, but not the assignment of CI\n  CI=1 go test: ask, suggest CI=1 go test"},
		"wildcards":        {`grep 'a.*b' *.go "$X"`, "ask: no allow pattern covers it\n  grep 'a.*b' *.go \"$X\": ask, suggest grep 'a.*b' *.go *"},
		"any number":       {"make $X", "ask: no allow pattern covers it\n  make $X: ask"},
		"substitution":     {"ls $(pwd)", "ask: a command or process substitution runs another command\n  pwd: ask\n  ls $(pwd): ask"},
		"compound":         {"for f in a; do ls; done", "ask: a compound command, a function or a reserved word\n  ls: allow by allow ls **"},
		"input of a shell": {"ls | sh", "ask: it runs commands read from its input\n  ls: allow by allow ls **\n  sh: ask"},
		"nothing":          {"# x", "ask: there is no command"},
		"no shell text":    {"ls 'x", "ask: it is no complete shell command\n  ls 'x: ask"},
		"quoted name":      {"'A=1' x", "ask: no allow pattern covers it\n  'A=1' x: ask, suggest 'A=1' x"},
		"star alone":       {"make *", "ask: no allow pattern covers it\n  make *: ask"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, shellRender(rulvar.ExplainShellCommand(row.command, rules)))
		})
	}
	broken := rulvar.ExplainShellCommand("ls", rulvar.ShellRules{Deny: []string{""}})
	require.Equal(t, rulvar.VerdictAsk, broken.Verdict)
	require.Contains(t, broken.Why, "deny[0]")
}

func shellRender(e rulvar.ShellExplanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Verdict, e.Why)
	for _, s := range e.Segments {
		fmt.Fprintf(&b, "\n  %s: %s", s.Text, s.Verdict)
		if s.Table != "" {
			fmt.Fprintf(&b, " by %s %s", s.Table, s.Pattern)
		}
		if s.Via != "" {
			fmt.Fprintf(&b, " via %s", s.Via)
		}
		if s.Suggest != "" {
			fmt.Fprintf(&b, ", suggest %s", s.Suggest)
		}
	}
	return b.String()
}

func TestShellRulesLint(t *testing.T) {
	clean := rulvar.ShellRules{
		Deny: []string{"rm **", "** > /etc/passwd"}, Ask: []string{"git push **"}, Allow: []string{"ls **", "git status **", "bash ok.sh", "go test ** > *", "sh -c 'echo x'"}, AllowEnv: []string{"CI"},
	}
	require.Empty(t, clean.Lint())
	var got []string
	mistaken := rulvar.ShellRules{
		Deny:     []string{"rm -rf", "** x", "rm **", "rm -f **"},
		Ask:      []string{"rm -r **", "sudo *"},
		Allow:    []string{"**", "env **", "sh -c *", "git **", "git -C * status", "python3 *", "find **", "ls *", "ls **", "rm x", "ls x", "sh"},
		AllowEnv: []string{"PATH", "LD_PRELOAD", "A-B", "CI"},
	}
	for _, l := range mistaken.Lint() {
		got = append(got, fmt.Sprintf("%s[%d] %s: %s", l.Table, l.Index, l.Pattern, l.Kind))
		require.NotEmpty(t, l.Message)
	}
	require.ElementsMatch(t, []string{
		"deny[0] rm -rf: misses-arguments", "deny[1] ** x: error", "deny[3] rm -f **: covered",
		"ask[0] rm -r **: covered", "ask[1] sudo *: misses-arguments",
		"allow[0] **: open-ended", "allow[1] env **: open-ended", "allow[1] env **: covered", "allow[2] sh -c *: open-ended", "allow[2] sh -c *: covered",
		"allow[3] git **: open-ended", "allow[3] git **: covered", "allow[4] git -C * status: open-ended", "allow[4] git -C * status: covered",
		"allow[5] python3 *: open-ended", "allow[5] python3 *: covered", "allow[6] find **: open-ended", "allow[6] find **: covered",
		"allow[7] ls *: covered", "allow[8] ls **: covered", "allow[9] rm x: covered", "allow[9] rm x: covered", "allow[10] ls x: covered", "allow[11] sh: open-ended", "allow[11] sh: covered",
		"allowEnv[0] PATH: risky-name", "allowEnv[1] LD_PRELOAD: risky-name", "allowEnv[2] A-B: error",
	}, got)
}

// TestShellSuggestion holds that what is suggested covers the segment that it was
// suggested for, and nothing with another word in it.
func TestShellSuggestion(t *testing.T) {
	suggested := 0
	rapid.Check(t, func(t *rapid.T) {
		text := shellDraw(t)
		for _, s := range rulvar.ExplainShellCommand(text, rulvar.ShellRules{}).Segments {
			if s.Suggest == "" {
				continue
			}
			suggested++
			p, err := argv.CompilePattern(s.Suggest)
			require.NoError(t, err, s.Suggest)
			require.False(t, p.Open(), s.Suggest)
			if c := argv.Read(text); len(c.Segments()) == 1 && c.Judged() && !strings.Contains(text, "#") {
				if _, ok := c.Complete(); ok {
					require.Equal(t, rulvar.VerdictAllow, rulvar.MatchShellCommand(text, rulvar.ShellRules{Allow: []string{s.Suggest}}), "%q for %q", s.Suggest, text)
					require.NotEqual(t, rulvar.VerdictAllow, rulvar.MatchShellCommand(text+" another", rulvar.ShellRules{Allow: []string{s.Suggest}}), text)
				}
			}
		}
	})
	require.NotZero(t, suggested)
}

// shellDraw draws a command from the generator of the differential test.
func shellDraw(t *rapid.T) string {
	seed := rapid.Uint64().Draw(t, "seed")
	text := (&shellGen{rand: rand.New(rand.NewPCG(seed, 3))}).command()
	t.Logf("command %q", text)
	return text
}

var shellLawPatterns = []string{"rm **", "ls **", "ls *", "ls", "echo **", "cat *", "* x", "**", "*", "git status", "git log > *", "** > f", "V=1 ls **", "cp * x", ": **", "mv **", "test **"}

func shellDrawTable(t *rapid.T, name string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(shellLawPatterns), 0, 4).Draw(t, name)
}

func shellDrawRules(t *rapid.T) rulvar.ShellRules {
	return rulvar.ShellRules{Deny: shellDrawTable(t, "deny"), Ask: shellDrawTable(t, "ask"), Allow: shellDrawTable(t, "allow")}
}

// TestShellLaws are the laws of the tables: a deny or an ask more never loosens,
// an allow more never beats a deny, and order never matters.
func TestShellLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, rules := shellDraw(t), shellDrawRules(t)
		before := rulvar.MatchShellCommand(text, rules)
		more := rapid.SampledFrom(shellLawPatterns).Draw(t, "more")

		denied := rules
		denied.Deny = append(slices.Clone(rules.Deny), more)
		require.GreaterOrEqual(t, shellStrictness[string(rulvar.MatchShellCommand(text, denied))], shellStrictness[string(before)], "a deny more")
		asked := rules
		asked.Ask = append(slices.Clone(rules.Ask), more)
		require.GreaterOrEqual(t, shellStrictness[string(rulvar.MatchShellCommand(text, asked))], shellStrictness[string(before)], "an ask more")
		allowed := rules
		allowed.Allow = append(slices.Clone(rules.Allow), more)
		after := rulvar.MatchShellCommand(text, allowed)
		require.LessOrEqual(t, shellStrictness[string(after)], shellStrictness[string(before)], "an allow more")
		require.Equal(t, before == rulvar.VerdictDeny, after == rulvar.VerdictDeny, "an allow more")

		turned := rulvar.ShellRules{Deny: shellReverse(rules.Deny), Ask: shellReverse(rules.Ask), Allow: shellReverse(rules.Allow)}
		require.Equal(t, before, rulvar.MatchShellCommand(text, turned), "another order")
		require.Equal(t, before, rulvar.ExplainShellCommand(text, rules).Verdict, "explained")
	})
}

func shellReverse(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// TestShellQuotingLaw: quoting a plain static word changes nothing.
func TestShellQuotingLaw(t *testing.T) {
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"ls", "rm", "cat", "env", "sh", "-c", "x", "a.b", "-rf", "find", "-exec", "{}", "+", "xargs", "git", "status", "log", "1"}), 1, 6)
	rapid.Check(t, func(t *rapid.T) {
		line, rules := words.Draw(t, "words"), shellDrawRules(t)
		i := rapid.IntRange(0, len(line)-1).Draw(t, "quoted")
		turned := slices.Clone(line)
		w := turned[i]
		turned[i] = rapid.SampledFrom([]string{"'" + w + "'", `"` + w + `"`, `\` + w, w[:1] + "''" + w[1:], w[:len(w)-1] + `"` + w[len(w)-1:] + `"`}).Draw(t, "spelling")
		require.Equal(t, rulvar.MatchShellCommand(strings.Join(line, " "), rules), rulvar.MatchShellCommand(strings.Join(turned, " "), rules), turned)
	})
}

// TestShellAppendLaw: appending a segment to a complete, non-empty command never
// loosens.
func TestShellAppendLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, more, rules := shellDraw(t), shellDraw(t), shellDrawRules(t)
		if _, ok := argv.Read(text).Complete(); !ok {
			return
		}
		before, after := rulvar.MatchShellCommand(text, rules), rulvar.MatchShellCommand(text+"\n"+more, rules)
		require.GreaterOrEqual(t, shellStrictness[string(after)], shellStrictness[string(before)], "%q behind %q", more, text)
	})
}

func FuzzMatchShellCommand(f *testing.F) {
	gen := &shellGen{rand: rand.New(rand.NewPCG(9, 9))}
	for range 40 {
		f.Add(gen.command(), "rm **", "ls **")
	}
	for _, s := range shellDiffRows {
		f.Add(s, "rm **", "echo **")
	}
	f.Fuzz(func(t *testing.T, text, deny, allow string) {
		rules := rulvar.ShellRules{Deny: []string{deny}, Allow: []string{allow}}
		verdict := rulvar.MatchShellCommand(text, rules)
		require.Equal(t, verdict, rulvar.ExplainShellCommand(text, rules).Verdict)
		if _, err := rulvar.CompileShellRules(rules); err != nil {
			require.Equal(t, rulvar.VerdictAsk, verdict)
		}
	})
}

// BenchmarkShellMatch times the whole judgement of a plain command.
func BenchmarkShellMatch(b *testing.B) {
	for _, c := range []struct{ name, command string }{
		{"npm", "npm test"},
		{"git", `git commit -m "fix; a && b"`},
		{"chain", "cd a && npm run build 2>&1 | tee out.log; echo done"},
	} {
		for _, r := range []struct {
			name  string
			rules rulvar.ShellRules
		}{
			{"allow", rulvar.ShellRules{Allow: []string{"npm test", "npm run **", "git commit **", "cd *", "tee *", "echo **"}}},
			{"all", rulvar.ShellRules{Deny: []string{"rm **", "git push --force **"}, Ask: []string{"git push **"}, Allow: []string{"npm test", "npm run **", "git commit **", "cd *", "tee *", "echo **"}}},
		} {
			b.Run(c.name+"/"+r.name, func(b *testing.B) {
				m, err := rulvar.CompileShellRules(r.rules)
				require.NoError(b, err)
				b.ReportAllocs()
				for b.Loop() {
					if m.Match(c.command) != rulvar.VerdictAllow {
						b.Fatal("not allowed")
					}
				}
			})
		}
	}
}
