package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// TestMain lets the test binary stand in for the program, which starts itself
// as the second process of the story.
func TestMain(m *testing.M) {
	// The tests are about the stand-in, also where there is a key.
	for _, key := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY"} {
		if err := os.Unsetenv(key); err != nil {
			panic(err)
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "approve-and-resume" {
		main()
		return
	}
	// The checks of the example's repository take seconds; these do not.
	checkCommands = [][]string{{"git", "ls-files", "--"}}
	os.Exit(m.Run())
}

func testCtx(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// The whole of the program: two processes, one deployment, and an account in
// which nothing stands twice.
func TestStory(t *testing.T) {
	require.NoError(t, command(testCtx(t), nil))
}

func TestSubcommands(t *testing.T) {
	ctx, dir := testCtx(t), t.TempDir()
	run := func(args ...string) error {
		return command(ctx, append(args[:1:1], append([]string{"-dir", dir}, args[1:]...)...))
	}
	require.NoError(t, run("run"))
	require.ErrorIs(t, run("run"), rulvar.ErrConfig, "the run exists")
	require.NoError(t, run("pending"))
	require.ErrorContains(t, run("approve"), "name the approval")
	require.ErrorIs(t, run("approve", "approval:99"), rulvar.ErrInvalidResolution)
	require.NoError(t, run("deny", key(t, dir)))
	require.NoError(t, run("approve", keyOfFirst), "too late, and told so")
	require.NoError(t, run("resume"))
	require.NoError(t, run("pending"))
	require.NoFileExists(t, manifest(dir))
	require.ErrorContains(t, run("nothing"), "unknown subcommand")
	require.ErrorContains(t, command(ctx, []string{"run"}), "-dir")
	require.Error(t, command(ctx, []string{"run", "-bad"}))
}

// keyOfFirst is the key of the story's only approval: entry 1, behind the
// agent's own.
const keyOfFirst = "approval:1"

func key(t *testing.T, dir string) string {
	t.Helper()
	engine, err := approver(dir)
	require.NoError(t, err)
	list, err := engine.Pending(testCtx(t))
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, keyOfFirst, list[0].Key)
	return list[0].Key
}

func manifest(dir string) string { return filepath.Join(dir, "release-api.json") }

// A key in the environment chooses a real model.
func TestChooseModel(t *testing.T) {
	for _, row := range []struct{ anthropic, openai, want string }{
		{"", "", "local:rules"},
		{"a-key", "", "anthropic:claude-opus-5-5"},
		{"", "a-key", "openai:gpt-6.2-sol"},
		{"a-key", "a-key", "anthropic:claude-opus-5-5"},
	} {
		t.Setenv("ANTHROPIC_API_KEY", row.anthropic)
		t.Setenv("OPENAI_API_KEY", row.openai)
		provider, model, err := chooseModel(t.TempDir())
		require.NoError(t, err)
		require.Equal(t, row.want, model)
		require.True(t, strings.HasPrefix(model, provider.ID()+":"))
		require.Equal(t, row.want == "local:rules", stoodIn())
	}
}

// What the model says when it had better not deploy.
func TestNoDeployment(t *testing.T) {
	for _, row := range []struct {
		name   string
		checks [][]string
		issues string
		want   string
	}{
		{name: "checks fail", checks: [][]string{{"git", "no-such-command"}}, want: "the checks fail"},
		{name: "a blocking issue", checks: checkCommands, issues: "- #14 data loss (blocker)\n", want: "#14 data loss"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, dir := testCtx(t), t.TempDir()
			require.NoError(t, prepare(ctx, dir))
			if row.issues != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "repo", "ISSUES.md"), []byte(row.issues), 0o600))
			}
			usual := checkCommands
			checkCommands = row.checks
			defer func() { checkCommands = usual }()
			store, err := openStore(dir)
			require.NoError(t, err)
			cfg, err := newConfig(dir, store)
			require.NoError(t, err)
			h, err := rulvar.Run(ctx, rulvartest.NewEngine(t, cfg), release, releaseArgs{Service: "api"}, nil)
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.NoError(t, err)
			require.Contains(t, out.Value, "I do not deploy")
			require.Contains(t, out.Value, row.want)
			require.NoFileExists(t, manifest(dir))
		})
	}
}

// The run of the example is killed at each of its points, and further processes
// finish it. RULVAR_KILL_MATRIX=full takes every point and two second kills for
// each, "pairs" every second kill too.
func TestKillMatrix(t *testing.T) {
	answers := map[string]rulvar.ApprovalDecision{"approve": rulvar.Approve("the checks are green"), "deny": rulvar.Reject("not today")}
	child := rulvartest.NewChild(t, "process", func(args []string) (string, error) {
		noted = func(what string) { rulvartest.Point(strings.ReplaceAll(what, " ", ":")) }
		return process(testCtx(t), args[0], answers[args[1]])
	})
	for answer := range answers {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			m := &rulvartest.KillMatrix{
				Process: child, Args: []string{answer}, Limit: 6, Again: 1,
				Prepare:  func(t testing.TB, dir string) { require.NoError(t, prepare(testCtx(t), dir)) },
				Recorded: func(t testing.TB, dir string) []string { return recorded(t, dir, answer) },
				Check:    func(t testing.TB, dir string, visits []rulvartest.Visit) { check(t, dir, answer, visits) },
			}
			switch os.Getenv("RULVAR_KILL_MATRIX") {
			case "full":
				m.Limit, m.Again = 0, 2
			case "pairs":
				m.Limit, m.Again = 0, -1
			}
			m.Run(t)
		})
	}
}

// process does what is next for the run in dir.
func process(ctx context.Context, dir string, answer rulvar.ApprovalDecision) (string, error) {
	store, err := openStore(dir)
	if err != nil {
		return "", err
	}
	cfg, err := newConfig(dir, rulvartest.CrashStore(store))
	if err != nil {
		return "", err
	}
	cfg.Providers[0] = rulvartest.CrashProvider(cfg.Providers[0])
	engine, err := rulvar.NewEngine(cfg)
	if err != nil {
		return "", err
	}
	meta, _, err := store.Load(ctx, runID, -1)
	if err != nil {
		return "", err
	}
	pending, err := engine.PendingOf(ctx, runID)
	if err != nil {
		return "", err
	}
	var h *rulvar.RunHandle[string]
	switch {
	case meta == nil:
		h, err = rulvar.Run(ctx, engine, release, releaseArgs{Service: "api"}, &rulvar.RunOptions{RunID: runID})
	case len(pending) > 0:
		_, err = engine.Resolve(ctx, runID, pending[0].Key, answer)
		return "", err
	default:
		h, err = rulvar.Resume(ctx, engine, release, runID, &rulvar.ResumeOptions[releaseArgs]{})
	}
	if err != nil {
		return "", err
	}
	out, err := h.Result(ctx)
	return out.Value, err
}

// recorded looks at the state between two processes: at most one manifest,
// none before the approval is marked as used, and work that must not be done
// again.
func recorded(t testing.TB, dir, answer string) []string {
	t.Helper()
	store, err := openStore(dir)
	require.NoError(t, err)
	_, entries, err := store.Load(context.Background(), runID, -1)
	require.NoError(t, err)
	used := false
	for _, en := range entries {
		used = used || strings.Contains(string(en.Value), "approval_consumed")
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "release-*"))
	require.NoError(t, err)
	if used {
		require.Equal(t, "approve", answer)
		require.LessOrEqual(t, len(manifests), 1)
	} else {
		require.Empty(t, manifests, "nothing is deployed before the approval is marked as used")
	}
	points := map[string]string{
		"run_checks": "tool:run_checks:./...", "search_issues": "tool:search_issues:blocker",
		"deploy_service": "tool:deploy_service:api", "delete_branch": "tool:delete_branch:old",
	}
	var done []string
	for _, a := range rulvartest.ReadAgents(t, store, runID) {
		for i := range a.Turns {
			done = append(done, "model:operator:"+string(rune('1'+i))+":before")
		}
		for _, c := range a.Calls {
			done = append(done, points[c.Tool])
		}
	}
	return done
}

// check looks at the finished run.
func check(t testing.TB, dir, answer string, visits []rulvartest.Visit) {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(dir, "release-*"))
	require.NoError(t, err)
	result := visits[len(visits)-1].Result
	var points []string
	for _, v := range visits {
		points = append(points, v.Points...)
	}
	require.NotContains(t, points, "tool:delete_branch:old", "a rule denies it")
	if answer == "approve" {
		require.Equal(t, []string{manifest(dir)}, manifests)
		require.Contains(t, result, "api is deployed")
		return
	}
	require.Empty(t, manifests)
	require.NotContains(t, points, "tool:deploy_service:api")
	require.Contains(t, result, "not today")
}
