package rulvar_test

// childFaults are those of agents that spawn agents.
var childFaults = []fault{
	{name: "a spawned agent waits for an approval, and the run of its parent never settles", tests: "TestParkedChildSuspendsTheRun TestParkedChildIsWokenLive"},
	{name: "a policy meant for work stops an agent from ending", tests: "TestPresetsDoNotGateControlTools"},
	{name: "what a child is said to inherit does nothing", tests: "TestInheritanceTable TestChildrenInheritByChoice TestInheritedRewriteIsJudged"},
	{name: "what a child inherits loosens its own chain", tests: "TestInheritanceTable TestInheritedClosuresOnlyTighten"},
	{name: "a cancel does not reach agents that wait", tests: "TestCancelWhileChildrenAreParked"},
	{name: "a child that waits hides another that has failed", tests: "TestFailingSiblingIsNotHidden"},
	{name: "agents spawn agents without bound", tests: "TestSpawnDepth TestMaxSpawns TestParallelAdmission TestChildBudget"},
	{name: "children run on when nobody needs them", tests: "TestUnneededChildrenAreCancelled"},
	{name: "an agent is spawned that can do nothing", tests: "TestSpawnsAreRefusedWithTheReason"},
}

// isolationFaults are those of agents with a tree of their own.
var isolationFaults = []fault{
	{name: "commits of an agent are lost with its tree", tests: "worktree/TestPatchIsTheTree worktree/TestAgentInWorktree"},
	{name: "bytes that are no UTF-8 are changed in a patch", tests: "worktree/TestPatchIsTheTree"},
	{name: "a patch depends on the user's configuration of git", tests: "worktree/TestNothingOfTheRepositoryIsRun"},
	{name: "a repository runs programs through its configuration", tests: "worktree/TestNothingOfTheRepositoryIsRun"},
	{name: "a ref is taken for an option", tests: "worktree/TestRefused"},
	{name: "a tree is removed though its changes could not be read, or are too large", tests: "worktree/TestReleaseNeedsProof worktree/TestTreesThatAreKept worktree/TestPatchBound"},
	{name: "a resumed agent goes on in a fresh tree", tests: "worktree/TestParkedAgentGoesOnInItsTree worktree/TestParkedAgentWhoseTreeIsGoneBeginsAgain worktree/TestReattachRefuses"},
	{name: "trees are left behind, and pins are forgotten with the process", tests: "worktree/TestPins worktree/TestManyAtOnce worktree/TestKilledAtEveryStep"},
	{name: "ignored files an agent needs are missing", tests: "worktree/TestSetUpAndCopyIgnored"},
	{name: "an agent sees what another has left", tests: "worktree/TestPoolShowsNothingOfAnother worktree/TestPoolIsNotShared"},
}
