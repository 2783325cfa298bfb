package rulvar

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// admitted is the context of a call of "sh" with this command.
func admitted(c *PermissionChain, command string, approved bool) *ToolContext {
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		panic(err)
	}
	return &ToolContext{Context: context.Background(), tool: "sh", chain: c, input: input, approved: approved}
}

// What a shell is about to execute is judged by the chain that admitted the
// call; an approval covers what the approver could read, and no more.
func TestToolContextJudgeArgv(t *testing.T) {
	c := mustCompile(t, &PermissionConfig{
		Deny: []Rule{ArgvRule("sh", "rm **")},
		Ask:  []Rule{ArgvRule("sh", "git push **", "curl **")},
	}, nil, nil)
	for _, row := range []struct {
		name     string
		command  string
		approved bool
		argv     []string
		want     Verdict
		rule     string
	}{
		{"nothing against it", "ls", false, []string{"ls"}, VerdictPass, ""},
		{"deny", "X=rm; $X -rf y", false, []string{"rm", "-rf", "y"}, VerdictDeny, `{"tool":"sh","argv":"rm **"}`},
		{"an approval never covers a deny", "rm -rf y", true, []string{"rm", "-rf", "y"}, VerdictDeny, `{"tool":"sh","argv":"rm **"}`},
		{"ask, not approved", "git push", false, []string{"git", "push"}, VerdictAsk, `{"tool":"sh","argv":["git push **","curl **"]}`},
		{"approved and shown", "git push", true, []string{"git", "push"}, VerdictPass, ""},
		{"shown among others", "cd x && git push origin || true", true, []string{"git", "push", "origin"}, VerdictPass, ""},
		{"shown in a loop", "for i in 1 2; do git push; done", true, []string{"git", "push"}, VerdictPass, ""},
		{"shown behind a wrapper", "env A=b git push", true, []string{"git", "push"}, VerdictPass, ""},
		{"shown with quotes", `git push "or"igin`, true, []string{"git", "push", "origin"}, VerdictPass, ""},
		{"other words than shown", "git push", true, []string{"git", "push", "--force"}, VerdictAsk, `{"tool":"sh","argv":["git push **","curl **"]}`},
		{"only after expansion", "git push $X", true, []string{"git", "push", "origin"}, VerdictAsk, `{"tool":"sh","argv":["git push **","curl **"]}`},
		{"a glob is an expansion", "curl *", true, []string{"curl", "a"}, VerdictAsk, `{"tool":"sh","argv":["git push **","curl **"]}`},
		{"the argument of another command", "echo git push", true, []string{"git", "push"}, VerdictAsk, `{"tool":"sh","argv":["git push **","curl **"]}`},
		{"in another directory", "/usr/bin/git push", false, []string{"/usr/bin/git", "push"}, VerdictAsk, ""},
		{"a wrapped deny is a maybe", "x", false, []string{"env", "rm", "x"}, VerdictAsk, ""},
		{"text for a shell", "x", false, []string{"bash", "-c", "rm x"}, VerdictAsk, ""},
		{"what is read from the input", "x", false, []string{"bash"}, VerdictAsk, ""},
		{"approved and shown, though it may be denied", "echo ls | bash", true, []string{"bash"}, VerdictPass, ""},
		{"an assignment is a name like any other", "x", false, []string{"A=b", "rm", "x"}, VerdictPass, ""},
		{"a reserved word is a name like any other", "x", false, []string{"if"}, VerdictPass, ""},
		{"bytes that are no text", "x", false, []string{"rm", "\xff\xfe"}, VerdictDeny, `{"tool":"sh","argv":"rm **"}`},
		{"empty argv", "ls", false, nil, VerdictDeny, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, rule := admitted(c, row.command, row.approved).JudgeArgv(row.argv)
			require.Equal(t, row.want, v)
			requireRule(t, row.rule, rule)
		})
	}
}

func requireRule(t *testing.T, want string, rule Rule) {
	t.Helper()
	if want == "" {
		require.True(t, rule.IsZero())
		return
	}
	require.Equal(t, want, rule.String())
}

func TestToolContextJudgeRedirect(t *testing.T) {
	c := mustCompile(t, &PermissionConfig{
		Deny: []Rule{ArgvRule("sh", "** > /etc/passwd", "** < /etc/shadow"), ArgvRule("sh", "curl ** > *")},
		Ask:  []Rule{ArgvRule("sh", "** >> log"), ArgvRule("sh", "** > asked", "** 2> errors")},
	}, nil, nil)
	for _, row := range []struct {
		name     string
		command  string
		approved bool
		op       string
		target   []string
		want     Verdict
		rule     string
	}{
		{"nothing against it", "echo x > out", false, ">", []string{"out"}, VerdictPass, ""},
		{"deny after expansion", `echo x > "$F"`, false, ">", []string{"/etc/passwd"}, VerdictDeny, `{"tool":"sh","argv":["** > /etc/passwd","** < /etc/shadow"]}`},
		{"deny by another name", "cd /etc && echo x > passwd", false, ">", []string{"passwd", "/etc/passwd"}, VerdictDeny, `{"tool":"sh","argv":["** > /etc/passwd","** < /etc/shadow"]}`},
		{"an approval never covers a deny", "echo x > /etc/passwd", true, ">", []string{"/etc/passwd"}, VerdictDeny, `{"tool":"sh","argv":["** > /etc/passwd","** < /etc/shadow"]}`},
		{"reading", "cat < $F", false, "<", []string{"/etc/shadow"}, VerdictDeny, `{"tool":"sh","argv":["** > /etc/passwd","** < /etc/shadow"]}`},
		{"reading is not writing", "cat < $F", false, "<", []string{"/etc/passwd"}, VerdictPass, ""},
		{"ask, not approved", "echo x >> log", false, ">>", []string{"log"}, VerdictAsk, `{"tool":"sh","argv":"** >> log"}`},
		{"approved and shown", "echo x >> log", true, ">>", []string{"log"}, VerdictPass, ""},
		{"approved and shown, by another name too", "echo x > asked", true, ">", []string{"asked", "/w/asked"}, VerdictPass, ""},
		{"approved, only after expansion", "echo x >> $L", true, ">>", []string{"log"}, VerdictAsk, `{"tool":"sh","argv":"** >> log"}`},
		{"shown as another operator", "echo x > log", true, ">>", []string{"log"}, VerdictAsk, `{"tool":"sh","argv":"** >> log"}`},
		{"any descriptor", "make 2> $E", false, ">", []string{"errors"}, VerdictAsk, `{"tool":"sh","argv":["** > asked","** 2> errors"]}`},
		{"the rule's command is not the one shown", "for f in a b; do echo x > $f; done", false, ">", []string{"a"}, VerdictPass, ""},
		{"the rule's command may be the one shown", "$X u > $f", false, ">", []string{"a"}, VerdictAsk, ""},
		{"the text does not show it", ". ./script", false, ">", []string{"a"}, VerdictAsk, ""},
		{"both at once", "echo x &> /etc/passwd", false, ">", []string{"/etc/passwd"}, VerdictDeny, `{"tool":"sh","argv":["** > /etc/passwd","** < /etc/shadow"]}`},
		{"the null device", "$X > /dev/null", false, ">", []string{"/dev/null"}, VerdictPass, ""},
		{"no name", "x", true, ">", []string{""}, VerdictDeny, ""},
		{"no such operator", "x", true, ">&", []string{"a"}, VerdictDeny, ""},
		{"no such operator to the null device", "x", true, "|", []string{"/dev/null"}, VerdictDeny, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, rule := admitted(c, row.command, row.approved).JudgeRedirect(row.op, row.target[0], row.target[1:]...)
			require.Equal(t, row.want, v)
			requireRule(t, row.rule, rule)
		})
	}
}

// Without a chain there is nothing to judge by, and nothing may run.
func TestToolContextJudgeWithoutChain(t *testing.T) {
	for _, row := range []struct {
		name string
		tc   *ToolContext
	}{
		{"nil", nil},
		{"made by hand", &ToolContext{Context: context.Background()}},
		{"zero chain", admitted(&PermissionChain{}, "ls", true)},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, rule := row.tc.JudgeArgv([]string{"ls"})
			require.Equal(t, VerdictDeny, v)
			require.True(t, rule.IsZero())
			v, rule = row.tc.JudgeRedirect(">", "/dev/null")
			require.Equal(t, VerdictDeny, v)
			require.True(t, rule.IsZero())
		})
	}
	c := mustCompile(t, &PermissionConfig{Ask: []Rule{ArgvRule("sh", "ls")}}, nil, nil)
	for _, input := range []string{"", "{", `{}`, `{"command":1}`, `[]`} {
		tc := &ToolContext{Context: context.Background(), tool: "sh", chain: c, input: json.RawMessage(input), approved: true}
		v, _ := tc.JudgeArgv([]string{"ls"})
		require.Equal(t, VerdictAsk, v, "input %q shows nothing", input)
	}
	v, _ := admitted(mustCompile(t, nil, nil, nil), "anything", false).JudgeArgv([]string{"rm", "-rf", "/"})
	require.Equal(t, VerdictPass, v, "a chain without argv rules has nothing against any argv")
}

// An approval never turns a deny into anything else, and never makes an answer
// stricter; a deny rule more never loosens one.
func TestJudgeArgvLaws(t *testing.T) {
	word := rapid.SampledFrom([]string{"rm", "git", "push", "ls", "env", "-rf", "sh", "-c", "rm x", "/bin/rm", "$X", "a*", "'"})
	rank := map[Verdict]int{VerdictPass: 0, VerdictAsk: 1, VerdictDeny: 2}
	rapid.Check(t, func(t *rapid.T) {
		rules := func(label string) []Rule {
			var out []Rule
			for _, p := range rapid.SliceOfN(rapid.SampledFrom([]string{"rm **", "git push **", "ls", "sh **", "* x", "env **"}), 0, 3).Draw(t, label) {
				out = append(out, ArgvRule("sh", p))
			}
			return out
		}
		cfg := PermissionConfig{Deny: rules("deny"), Ask: rules("ask")}
		c, err := CompilePermissionChain(&cfg, nil, nil)
		require.NoError(t, err)
		more := PermissionConfig{Deny: append(rules("more"), cfg.Deny...), Ask: cfg.Ask}
		stricter, err := CompilePermissionChain(&more, nil, nil)
		require.NoError(t, err)
		argv := rapid.SliceOfN(word, 1, 4).Draw(t, "argv")
		text := rapid.SampledFrom([]string{"git push", "rm x", "ls", "$X", quoteArgv(argv)}).Draw(t, "text")

		plain, _ := admitted(c, text, false).JudgeArgv(argv)
		approved, _ := admitted(c, text, true).JudgeArgv(argv)
		require.LessOrEqual(t, rank[approved], rank[plain])
		require.Equal(t, plain == VerdictDeny, approved == VerdictDeny)
		if text == quoteArgv(argv) && plain == VerdictAsk {
			require.Equal(t, VerdictPass, approved, "%q shows %q", text, argv)
		}
		harder, _ := admitted(stricter, text, false).JudgeArgv(argv)
		require.GreaterOrEqual(t, rank[harder], rank[plain])
	})
}

// quoteArgv writes an argv as a shell would have to read it.
func quoteArgv(argv []string) string {
	text := ""
	for _, w := range argv {
		q := "'"
		for _, r := range w {
			if r == '\'' {
				q += `'\''`
			} else {
				q += string(r)
			}
		}
		text += q + "' "
	}
	return text
}

// What a tool is about to connect to is judged by the chain that admitted the
// call; an approval covers the hosts that the approved input names.
func TestToolContextJudgeHost(t *testing.T) {
	c := mustCompile(t, &PermissionConfig{
		Deny: []Rule{DomainRule("fetch", "evil.test")},
		Ask:  []Rule{DomainRule("fetch", "*.pay.test")},
	}, nil, nil)
	hosts := func(input json.RawMessage, judge func(string) Verdict) Decision {
		var host string
		if json.Unmarshal(input, &host) != nil {
			panic("no host")
		}
		judge(host)
		return Pass()
	}
	for _, row := range []struct {
		name, input string
		approved    bool
		host        string
		want        Verdict
	}{
		{"nothing against it", `"a.test:443"`, false, "a.test:443", VerdictPass},
		{"deny", `"a.test:443"`, false, "evil.test:443", VerdictDeny},
		{"an approval never covers a deny", `"evil.test:443"`, true, "evil.test:443", VerdictDeny},
		{"ask, not approved", `"a.pay.test:443"`, false, "a.pay.test:443", VerdictAsk},
		{"approved and named", `"a.pay.test:443"`, true, "A.pay.test.:443", VerdictPass},
		{"another host than named", `"a.pay.test:443"`, true, "b.pay.test:443", VerdictAsk},
		{"another port than named", `"a.pay.test:443"`, true, "a.pay.test:8443", VerdictAsk},
		{"the tool cannot say", `1`, true, "a.pay.test:443", VerdictAsk},
		{"no host", `"a.test"`, false, "https://a.test", VerdictDeny},
	} {
		t.Run(row.name, func(t *testing.T) {
			tc := &ToolContext{Context: context.Background(), tool: "fetch", chain: c, input: json.RawMessage(row.input), approved: row.approved, hosts: hosts}
			v, rule := tc.JudgeHost(row.host)
			require.Equal(t, row.want, v)
			require.Equal(t, row.approved, tc.Approved())
			if v == VerdictAsk {
				require.False(t, rule.IsZero())
			}
			tc.hosts = nil
			if v, _ = tc.JudgeHost(row.host); row.want == VerdictPass && row.approved {
				require.Equal(t, VerdictAsk, v, "without Hosts an approval covers no host")
			}
		})
	}
	v, rule := (*ToolContext)(nil).JudgeHost("a.test")
	require.Equal(t, VerdictDeny, v)
	require.True(t, rule.IsZero())
	require.False(t, (*ToolContext)(nil).Approved())
	v, _ = (&ToolContext{}).JudgeHost("a.test")
	require.Equal(t, VerdictDeny, v)
}

// A recorded grant yields to a host that is denied now.
func TestDeniesReadsHosts(t *testing.T) {
	c := mustCompile(t, &PermissionConfig{Deny: []Rule{DomainRule("fetch", "evil.test")}, Ask: []Rule{DomainRule("fetch", "*")}}, nil, nil)
	tool := MustTool(NewTool(ToolConfig{
		Name: "fetch",
		Hosts: func(input json.RawMessage, judge func(string) Verdict) Decision {
			var in struct{ Host string }
			if json.Unmarshal(input, &in) == nil {
				judge(in.Host)
			}
			return Pass()
		},
	}, func(*ToolContext, struct{}) (int, error) { return 0, nil }))
	ev, denied := c.denies(tool, json.RawMessage(`{"host":"evil.test"}`))
	require.True(t, denied)
	require.Equal(t, `{"tool":"fetch","domains":["evil.test"]}`, ev.Rule.String())
	_, denied = c.denies(tool, json.RawMessage(`{"host":"a.test"}`))
	require.False(t, denied, "an ask is what was approved")
	_, denied = c.denies(tool, json.RawMessage(`{"host":1}`))
	require.True(t, denied)
}
