package rulvar_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// What the chain says, and about what.
var policyFaults = []fault{
	{name: "a hook's allow passes a readonly agent by, under advisory", check: faultReadonlyHook, tests: "TestAdvisoryHoldsAllowAndAsk"},
	{name: "a profile loosens the engine's policy, under advisory", tests: "TestAdvisoryHoldsAllowAndAsk"},
	{name: "a closure that fails ends the run", tests: "TestFailingPolicyDenies TestFailingClosuresDeny TestBreakClosures"},
	{name: "a malformed verdict allows", tests: "TestFailingClosuresDeny TestZeroValuesDeny"},
	{name: "the judged arguments are not those that run", tests: "TestJudgedInputIsWhatRuns TestRewrittenInputIsJudgedShownAndRun"},
	{name: "inheritance is a word", tests: "TestInheritance TestInheritanceNeverLoosens"},
	{name: "a rule for a tool that has another name is silent", tests: "TestUnmatchedRules"},
	{name: "a command that is not seen is allowed", check: faultHiddenCommands, tests: "TestShellCases TestArgvRulesInAChain internal/argv/TestDenyFinds"},
	{name: "a command is allowed together with what is not in the pattern", check: faultWiderThanPattern, tests: "TestMatchShellCommand"},
	{name: "a pattern that can never match is taken", tests: "internal/argv/TestCompilePatternErrors"},
}

// What becomes of a call and of the process that it starts.
var callFaults = []fault{
	{name: "a tool never hears that the agent's time is over", tests: "TestAgentTimeoutCancelsARunningTool"},
	{name: "a tool asks to be called again without end", tests: "TestModelRetrySaysWhenItIsExhausted TestModelRetriesSurviveAResume TestLimits"},
	{name: "limits begin anew with each resume", tests: "TestKillMatrix TestPowerCuts"},
	{name: "half a character makes every later request invalid", tests: "TestIntakeRefuses TestLoneSurrogate TestResultsOfAMixedBatch internal/process/TestText internal/process/FuzzText"},
	{name: "bytes that are no text get into the conversation", tests: "internal/process/TestText internal/process/FuzzText"},
	{name: "a failure has no id or no text", tests: "TestResultsOfAMixedBatch"},
	{name: "one failure cancels or drops the other calls", tests: "TestResultsOfAMixedBatch"},
	{name: "a batch that is cancelled hangs", tests: "TestBreakCancelAtEachEvent TestAgentTimeoutCancelsARunningTool TestBreakClosures"},
	{name: "a grandchild holds the pipe and the call hangs", tests: "internal/process/TestRunIsEnded internal/process/TestRunLeavesNothing shell/TestTimedOut"},
	{name: "a background child makes a finished command hang", tests: "shell/TestBackground shell/TestKeepBackground"},
	{name: "a child that ignores the first signal lives on", tests: "internal/process/TestRunIsEnded shell/TestCancelled"},
	{name: "a refusal leaves no trace, or one that looks well", check: faultRefusalTold, tests: "TestReadonlyDenies TestResultsOfAMixedBatch TestEventJSON"},
}

func faultReadonlyHook(t *testing.T) {
	var runs atomic.Int64
	wipe := literalTool(t, rulvar.ToolConfig{Name: "wipe", Risk: rulvar.RiskDestructive}, anyObject, &runs, 1)
	readonly := rulvar.Readonly()
	cfg := rulvar.Config{Permissions: &rulvar.PermissionConfig{Hooks: hooks(rulvar.Allow()), HookAllow: rulvar.HookAllowAdvisory}}
	p := runProbe(t, cfg, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{wipe}, Isolation: &readonly},
		rulvartest.Turn{Calls: []rulvartest.Call{call("wipe", nil)}}, rulvartest.Turn{Text: "x"})
	require.NoError(t, p.err)
	require.Zero(t, runs.Load())
	require.Equal(t, rulvar.ToolDenied, p.ends()[0].Outcome)
}

// In a chain nothing but the deny rule stands between a command and its
// execution: what the rule's readers do not see would run.
func faultHiddenCommands(t *testing.T) {
	chain := mustChain(t, &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ArgvRule("sh", "rm **")}}, nil)
	tool := policyTool(t, "sh", rulvar.RiskExecute, false)
	for _, command := range []string{
		"(rm -rf /)", "{ rm -rf /; }", "if true; then rm -rf /; fi", "! rm -rf /", "r\\\nm -rf /", "$RM -rf /", "${IFS}rm -rf /",
		"$'rm' -rf /", "/bin/rm -rf /", "command rm -rf /", "eval rm -rf /", "exec rm -rf /", "time rm -rf /", ">out rm -rf /",
		"a() { rm -rf /; }; a", "`rm -rf /`", "$(rm -rf /)", "cat <(rm -rf /)", "cat <<x\n$(rm -rf /)\nx", "r{m,} -rf /", "rm -r{f,} /",
		"while true; do rm -rf /; done", "true && rm -rf /", "true | rm -rf /", "true & rm -rf /", "case x in x) rm -rf /;; esac",
	} {
		text, err := json.Marshal(map[string]string{"command": command})
		require.NoError(t, err)
		require.NotEqual(t, rulvar.VerdictAllow, evaluate(t, chain, tool, string(text)).Verdict, command)
	}
}

// Allow patterns cover what they spell and nothing beside it.
func faultWiderThanPattern(t *testing.T) {
	rules := rulvar.ShellRules{Allow: []string{"npm test", "npm test **", "npm run *", "echo **"}}
	for _, command := range []string{
		"LD_PRELOAD=./evil.so npm test", "PATH=/tmp/evil npm test", "npm run $X", "npm run a>b", "npm test > out",
		`npm test "`, "echo hi |& tee x", "npm test; rm -rf /", "npm test\nrm -rf /",
	} {
		require.NotEqual(t, rulvar.VerdictAllow, rulvar.MatchShellCommand(command, rules), command)
	}
	require.Equal(t, rulvar.VerdictAllow, rulvar.MatchShellCommand(`echo "a b"`, rulvar.ShellRules{Allow: []string{`echo "a b"`}}), "a word may hold a space")
}

// Each call that is refused ends with an outcome that says so, who decided and
// by which rule; also one that nobody answered.
func faultRefusalTold(t *testing.T) {
	wipe := literalTool(t, rulvar.ToolConfig{Name: "wipe", Risk: rulvar.RiskDestructive}, anyObject, nil, 1)
	p := runProbe(t, rulvar.Config{Permissions: &rulvar.PermissionConfig{Deny: []rulvar.Rule{rulvar.ToolRule("wipe")}}},
		&rulvar.AgentOptions{Tools: []rulvar.ToolSource{wipe}},
		rulvartest.Turn{Calls: []rulvartest.Call{call("wipe", nil)}}, rulvartest.Turn{Text: "x"})
	end := p.ends()[0]
	require.Equal(t, rulvar.ToolDenied, end.Outcome)
	require.Equal(t, rulvar.VerdictDeny, end.Verdict)
	require.Equal(t, rulvar.DecidedByDenyRule, end.DecidedBy)
	require.Equal(t, `{"tool":"wipe"}`, end.Rule.String())
	require.NotEmpty(t, end.ToolCallID)
	for _, answer := range []rulvar.ApprovalDecision{rulvar.Reject("no"), rulvar.Reject("denied by timeout")} {
		parked := park(t, rulvar.Config{})
		parked.resolve(t, answer)
		var ends []rulvar.ToolEnded
		h, err := rulvar.Resume(parked.ctx, parked.engine, parked.w, "r1", &rulvar.ResumeOptions[string]{OnEvent: func(ev rulvar.Event) {
			if b, ok := ev.Body.(rulvar.ToolEnded); ok {
				ends = append(ends, b)
			}
		}})
		require.NoError(t, err)
		_, err = h.Result(parked.ctx)
		require.NoError(t, err)
		require.Len(t, ends, 1)
		require.Equal(t, rulvar.ToolDenied, ends[0].Outcome, strings.TrimSpace(answer.Reason))
	}
}
