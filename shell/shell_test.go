//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/shell"
)

// called is what became of one call of the shell tool in a run.
type called struct {
	result  shell.Result
	failure string // the error that the model saw instead of a result
	asked   bool   // somebody had to approve it
}

// callShell has an agent call the tool once under a policy. Where the chain
// asks, the answer is given to the suspended run, which is then resumed.
func callShell(t *testing.T, dir string, opts shell.Options, policy *rulvar.PermissionConfig, input shell.Input, answer *rulvar.ApprovalDecision) called {
	t.Helper()
	opts.Env = []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")}
	opts.KillDelay, opts.WaitDelay = 200*time.Millisecond, 200*time.Millisecond
	tool, err := shell.New(opts)
	require.NoError(t, err)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: tool.Name(), Args: input}}},
		{Text: "done"},
	}})
	e := rulvartest.NewEngine(t, rulvar.Config{
		Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:any", Permissions: policy, Cwd: dir,
	})
	w := rulvar.DefineWorkflow("shell", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
	ctx := t.Context()
	run, err := rulvar.Run(ctx, e, w, struct{}{}, &rulvar.RunOptions{RunID: "r"})
	require.NoError(t, err)
	outcome, err := run.Result(ctx)
	require.NoError(t, err)
	var c called
	if outcome.Status == rulvar.RunSuspended {
		require.NotNil(t, answer, "the call asks")
		c.asked = true
		pending, err := e.Pending(ctx)
		require.NoError(t, err)
		require.Len(t, pending, 1)
		_, err = e.Resolve(ctx, "r", pending[0].Key, *answer)
		require.NoError(t, err)
		run, err = rulvar.Resume(ctx, e, w, "r", nil)
		require.NoError(t, err)
		outcome, err = run.Result(ctx)
		require.NoError(t, err)
	}
	require.Equal(t, rulvar.RunOK, outcome.Status)
	requests := model.Requests()
	messages := requests[len(requests)-1].Messages
	part := messages[len(messages)-1].Parts[0]
	require.Equal(t, llm.PartToolResult, part.Type)
	if part.IsError {
		var body struct{ Error string }
		require.NoError(t, json.Unmarshal(part.Result, &body))
		c.failure = body.Error
		return c
	}
	require.NoError(t, json.Unmarshal(part.Result, &c.result), "%s", part.Result)
	return c
}

// deployDir is a directory with a program "deploy" that leaves its arguments in
// a file.
func deployDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deploy"), []byte("#!/bin/sh\necho \"$@\" > '"+dir+"/deployed'\n"), 0o755))
	return dir
}

func deployed(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "deployed"))
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
		return "-"
	}
	return string(text)
}

// The chain judges the text; the tool judges what the text turns out to be, by
// the same rules, and an approval covers what the approver could read.
func TestUnderPolicy(t *testing.T) {
	yes := rulvar.Approve("read it")
	edited := rulvar.ApproveEdited(json.RawMessage(`{"command":"deploy test"}`), "")
	editedTo := rulvar.ApproveEdited(json.RawMessage(`{"command":"X=prod; deploy $X"}`), "")
	deny := &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("shell", "deploy **")}}
	ask := &rulvar.PermissionConfig{Ask: []rulvar.Rule{rulvar.ArgvRule("shell", "deploy **")}}
	hook := &rulvar.PermissionConfig{Deny: deny.Deny, Hooks: []rulvar.PermissionHook{
		func(*rulvar.ToolContext, rulvar.Call) (rulvar.Decision, error) { return rulvar.Allow(), nil },
	}}
	for _, row := range []struct {
		name    string
		policy  *rulvar.PermissionConfig
		command string
		answer  *rulvar.ApprovalDecision
		asked   bool
		failed  string // the call was not executed
		refused string // the verdict on what it wanted to execute
		want    string // what was deployed
	}{
		{name: "no policy", command: "deploy prod", want: "prod\n"},
		{name: "denied as text", policy: deny, command: "echo x && deploy prod", failed: "denied by policy", want: "-"},
		{name: "denied after expansion", policy: deny, command: "X=deploy; $X prod", answer: &yes, asked: true, refused: "deny", want: "-"},
		{name: "denied in a substitution", policy: deny, command: "echo $(deploy prod)", answer: &yes, asked: true, refused: "deny", want: "-"},
		{name: "denied in a file", policy: deny, command: ". ./script", refused: "deny", want: "-"},
		{name: "denied in a file that a shell runs", policy: deny, command: "sh ./script", want: "prod\n"}, // its children are its own
		{name: "denied behind a wrapper that expansion makes", policy: deny, command: "X='env deploy'; $X prod", answer: &yes, asked: true, refused: "ask", want: "-"},
		{name: "denied although a hook allowed the text", policy: hook, command: "deploy prod", refused: "deny", want: "-"},
		{name: "asked and rejected", policy: ask, command: "deploy prod", answer: ptr(rulvar.Reject("no")), asked: true, failed: "denied: no", want: "-"},
		{name: "approved as it runs", policy: ask, command: "deploy prod", answer: &yes, asked: true, want: "prod\n"},
		{name: "approved among others", policy: ask, command: "cd / && { deploy 'prod'; } | cat", answer: &yes, asked: true, want: "prod\n"},
		{name: "approved behind a wrapper", policy: ask, command: "env A=b deploy prod", answer: &yes, asked: true, want: "prod\n"},
		{name: "approved, other words after expansion", policy: ask, command: "X=prod; deploy $X", answer: &yes, asked: true, refused: "ask", want: "-"},
		{name: "approved, another command after expansion", policy: ask, command: "deploy --help; X=deploy; $X prod", answer: &yes, asked: true, refused: "ask", want: "--help\n"},
		{name: "approved, in a file", policy: ask, command: ". ./script", refused: "ask", want: "-"},
		{name: "approved with an edit", policy: ask, command: "deploy prod", answer: &edited, asked: true, want: "test\n"},
		{name: "approved with an edit that hides", policy: ask, command: "deploy test", answer: &editedTo, asked: true, refused: "ask", want: "-"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := deployDir(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "script"), []byte("deploy prod\n"), 0o644))
			c := callShell(t, dir, shell.Options{}, row.policy, shell.Input{Command: row.command}, row.answer)
			require.Equal(t, row.asked, c.asked)
			require.Equal(t, row.want, deployed(t, dir), "%+v", c.result)
			if row.failed != "" {
				require.Contains(t, c.failure, row.failed)
				return
			}
			require.Empty(t, c.failure)
			if row.refused == "" {
				require.Empty(t, c.result.Refused)
				require.Zero(t, c.result.ExitCode, "%+v", c.result)
				return
			}
			require.Len(t, c.result.Refused, 1)
			require.EqualValues(t, row.refused, c.result.Refused[0].Verdict)
			if row.name != "denied in a substitution" {
				require.Equal(t, 126, c.result.ExitCode)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// Files that redirections write are judged as they turn out to be.
func TestRedirectionsUnderPolicy(t *testing.T) {
	yes := rulvar.Approve("read it")
	for _, row := range []struct {
		name, pattern, command string
		ask                    bool // the rule is an ask rule
		asked                  bool
		want                   string
	}{
		{"denied after expansion", "** > kept", `F=kept; echo new > "$F"`, false, true, "old"},
		{"denied by its absolute name", "** > $KEPT", "mkdir d; cd d; echo new > ../kept", false, false, "old"},
		{"denied behind a link", "** > $KEPT", "ln -s kept l; echo new > l", false, false, "old"},
		{"approved as it runs", "** > kept", "echo new > kept", true, true, "new\n"},
		{"approved, another file after expansion", "** > kept", `F=kept; echo new > "$F"`, true, true, "old"},
		{"the rule is about another command", "curl ** > *", `for f in kept; do echo new > $f; done`, false, false, "new\n"},
		{"another descriptor", "** 2> kept", `F=kept; ls nope 2> "$F"`, false, true, "old"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			kept := filepath.Join(dir, "kept")
			require.NoError(t, os.WriteFile(kept, []byte("old"), 0o600))
			rule := rulvar.ArgvRule("shell", os.Expand(row.pattern, func(string) string { return kept }))
			policy := &rulvar.PermissionConfig{Deny: []rulvar.Rule{rule}}
			if row.ask {
				policy = &rulvar.PermissionConfig{Ask: []rulvar.Rule{rule}}
			}
			c := callShell(t, dir, shell.Options{}, policy, shell.Input{Command: row.command}, &yes)
			require.Empty(t, c.failure)
			require.Equal(t, row.asked, c.asked, "%+v", c)
			text, err := os.ReadFile(kept)
			require.NoError(t, err)
			require.Equal(t, row.want, string(text), "%+v", c.result)
			require.Equal(t, row.want == "old", len(c.result.Refused) == 1)
		})
	}
}

// A tool of another name is judged by the rules for that name.
func TestOtherName(t *testing.T) {
	dir := deployDir(t)
	policy := &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("shell", "deploy **")}}
	c := callShell(t, dir, shell.Options{Name: "bash"}, policy, shell.Input{Command: ". ./deploy; deploy prod"}, nil)
	require.Empty(t, c.result.Refused)
	require.Equal(t, "prod\n", deployed(t, dir))
}

// A call may name a time-out, within the host's.
func TestTimeouts(t *testing.T) {
	const command = "echo begun; sleep 3600"
	for _, row := range []struct {
		name  string
		opts  shell.Options
		input shell.Input
	}{
		{"of the call", shell.Options{}, shell.Input{Command: command, TimeoutMs: 300}},
		{"of the host", shell.Options{Timeout: 300 * time.Millisecond}, shell.Input{Command: command}},
		{"no longer than the host's", shell.Options{Timeout: time.Millisecond, MaxTimeout: 300 * time.Millisecond}, shell.Input{Command: command, TimeoutMs: 3_600_000}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := callShell(t, t.TempDir(), row.opts, nil, row.input, nil)
			require.True(t, c.result.TimedOut, "%+v", c)
			require.Equal(t, -1, c.result.ExitCode)
			require.Contains(t, c.result.Error, "300ms")
		})
	}
}

// A run that is cancelled does not wait for its command.
func TestRunIsCancelled(t *testing.T) {
	dir := t.TempDir()
	tool, err := shell.New(shell.Options{KillDelay: 200 * time.Millisecond})
	require.NoError(t, err)
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "shell", Args: shell.Input{Command: "touch begun; sleep 3600"}}}},
	}})
	e := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore(), Providers: []llm.Provider{model}, Model: "test:any", Cwd: dir})
	w := rulvar.DefineWorkflow("shell", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
	run, err := rulvar.Run(context.Background(), e, w, struct{}{}, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	}, 20*time.Second, 5*time.Millisecond)
	run.Cancel("enough")
	outcome, err := run.Result(context.Background())
	require.ErrorContains(t, err, "enough")
	require.Equal(t, rulvar.RunCancelled, outcome.Status)
}
