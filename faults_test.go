package rulvar_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault is something that has gone wrong in systems like this one. It is kept
// out by a check of this file's neighbours, or by tests elsewhere, which are
// named with the directory where it is not the root.
type fault struct {
	name  string
	check func(t *testing.T)
	tests string
}

// TestFaults is the list. A row that names a test which is gone fails.
func TestFaults(t *testing.T) {
	known := testNames(t)
	for _, list := range [][]fault{durableFaults, suspendedFaults, policyFaults, callFaults, childFaults, isolationFaults} {
		for _, f := range list {
			t.Run(f.name, func(t *testing.T) {
				require.True(t, f.check != nil || f.tests != "", "nothing shows it")
				for name := range strings.FieldsSeq(f.tests) {
					require.Contains(t, known, name)
				}
				if f.check != nil {
					f.check(t)
				}
			})
		}
	}
}

// testNames are the tests of the module, with their directory where it is not
// the root.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	names := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				names[strings.TrimPrefix(filepath.ToSlash(filepath.Join(filepath.Dir(file), m[1])), "./")] = true
			}
		}
	}
	return names
}

// What is written, and what a replay makes of it.
var durableFaults = []fault{
	{name: "work is paid again after an earlier attempt that failed", check: faultPaidAgain, tests: "internal/replay/TestMatchBestAttempt"},
	{name: "an append behind the rest of a failed one", tests: "internal/journal/TestFailedWriteLeavesTheJournal internal/journal/TestAnyFault"},
	{name: "two handles give out one number", tests: "internal/journal/TestConcurrentAppends internal/journal/TestProcessesShareAJournal internal/journal/TestPollReadsNothing"},
	{name: "durable means until the power fails", tests: "TestPowerCuts internal/journal/TestPowerCut internal/journal/TestSyncsEachCallCosts"},
	{name: "a run over one that exists changes its metadata", check: faultExistingRun, tests: "TestRunRefusesExistingID"},
	{name: "metadata that is torn counts as absent", tests: "internal/journal/TestDamagedMeta TestDamageAnywhereInARun FuzzDamagedRun"},
	{name: "the names of two runs' files meet", tests: "internal/journal/TestRunIDs internal/journal/TestDamagedMeta"},
	{name: "a later segment overwrites an earlier one's blobs", check: faultBlobNames, tests: "TestJournals"},
	{name: "a torn last line swallows the next record", tests: "internal/journal/TestEndOfJournal internal/journal/TestTornTailOnDisk TestKillMatrix"},
	{name: "a journal torn within a character takes no more records", tests: "internal/journal/TestEndOfJournal"},
	{name: "two writers mix the parts of their records", tests: "internal/journal/TestProcessesShareAJournal internal/journal/TestConcurrentAppends"},
	{name: "a rename that a power cut undoes", tests: "internal/journal/TestPowerCut internal/journal/TestSyncsEachCallCosts"},
	{name: "a resume after a power cut is empty and says nothing", tests: "TestPowerCuts TestDamageAnywhereInARun"},
	{name: "an answer that was cut off is kept as an empty one", tests: "TestCheckpointRefuses TestBreakProvidersThenResume TestPowerCuts"},
	{name: "an effect is had again because nobody wrote that it was begun", tests: "TestKillMatrix TestPowerCuts"},
	{name: "branches that are matched by the order in which they ran", tests: "TestBreakTrees TestParallelNested internal/replay/TestMatchReorder"},
	{name: "corrupt bytes panic or hang", tests: "TestDamageAnywhereInARun FuzzDamagedRun TestBreakTamperedStore FuzzCheckpoint internal/journal/FuzzLoad internal/journal/FuzzMeta internal/replay/FuzzFold"},
	{name: "values that the writer cannot write are half written", tests: "TestBodiesThatEndBadly TestResultsOfAMixedBatch"},
	{name: "one more than the limit is let in", check: faultOneTooMany, tests: "TestConcurrencyIsBounded"},
	{name: "branches lose the model", check: faultBranchModel},
	{name: "events that nobody reads grow without bound", tests: "TestBusDropsButNotApprovals"},
	{name: "the body of a suspended segment lives on", tests: "TestParkedRuns TestMemoryOfParkedRuns"},
	{name: "a second segment works beside the first", tests: "TestSecondEngineIsRefusedEverywhere TestSecondProcessIsRefused TestTwoProcessesResume"},
}

// Requests for approval and waits: how they are kept, answered and ended.
var suspendedFaults = []fault{
	{name: "an allow serves a later call that is the same", tests: "TestGrantIsForOneCall internal/replay/TestApprovalBinding internal/replay/TestApprovalLaw"},
	{name: "a configuration that allows undoes a recorded deny", tests: "TestAnswersAgainstLaterConfiguration"},
	{name: "who waits for an approval holds a slot", tests: "TestParkedAgentsHoldNoSlot"},
	{name: "a workflow whose part waits never settles", tests: "TestKillMatrix TestPowerCuts TestBreakTrees"},
	{name: "a wait outlives its run's cancellation", tests: "TestCancelWhileParked TestBreakCancelAtEachEvent"},
	{name: "a failure is hidden by a sibling that waits", tests: "TestFailureBesideAParkedBranch TestBreakFailureBesideParkedBranch"},
	{name: "a body that returns while something waits hangs", check: faultBodyReturns},
	{name: "an approval of a settled run cannot be revoked", tests: "TestAnswersAgainstLaterConfiguration TestRevocationRacesUse TestRevocationComesTooLate"},
	{name: "a deadline is not told, or the key is not", check: faultDeadlineTold, tests: "TestDeadlineDeniesAParkedRun"},
	{name: "a wait takes the key of an approval", tests: "TestExternalWait"},
	{name: "a run settles while a branch does plain work", check: faultPlainWork, tests: "TestCtxMisuse"},
	{name: "a listener on a resume misses the first events", check: faultFirstEvents},
	{name: "an answer without a decision runs the tool", check: faultNoDecision, tests: "TestSuspendApproveElsewhereResume internal/replay/TestNormalizeApproval internal/replay/FuzzApproval"},
	{name: "a rejection runs the tool where the policy is gone", check: faultPolicyGone},
	{name: "a resume with options forgets the answer", check: faultResumeOptions},
	{name: "answers that come too late grow the journal without bound", check: faultLateAnswers, tests: "TestApproversRace"},
	{name: "an answer meets a sibling", tests: "TestTwoPendingAnyOrder TestBreakTrees"},
	{name: "several requests share a key", tests: "TestTwoPendingAnyOrder TestParkedAgentsHoldNoSlot"},
	{name: "an answer that names nothing is taken", check: faultNamesNothing},
	{name: "what was done before the request is done again", check: faultDoneAgain, tests: "TestPowerCuts TestKillMatrix"},
	{name: "one answer runs the other calls", tests: "TestTwoPendingAnyOrder"},
	{name: "results of siblings are lost while one waits", check: faultSiblingResults},
	{name: "a request is told of before it is durable", check: faultToldTooEarly, tests: "TestKillMatrix TestPowerCuts"},
	{name: "what waits cannot be found after a restart", check: faultFoundAfterRestart},
	{name: "who approves hands in the input that runs", check: faultForeignInput},
	{name: "what runs is not what was approved", tests: "TestRewrittenInputIsJudgedShownAndRun TestBreakTamperedStore internal/replay/TestApprovalBinding"},
	{name: "the reason of a rejection is lost", tests: "TestAnswersAgainstLaterConfiguration"},
	{name: "a request that cannot be written is asked all the same", check: faultNotWritten, tests: "TestBreakStore"},
	{name: "only some suspensions are written", tests: "TestBreakCancelAtEachEvent TestKillMatrix"},
	{name: "cancelling while a request is open loses it", tests: "TestBreakCancelAtEachEvent"},
	{name: "a request that nobody answers hangs", tests: "TestDeadlineDeniesAParkedRun TestAnswerAfterTheDeadline"},
	{name: "a remembered grant is wider than what was shown", tests: "TestShellSuggestion internal/argv/TestQuotedPatternMatchesItself"},
}
