// Package executor runs tools outside the host's process: as programs, or as
// programs in containers.
//
//	tool, err := executor.NewTool[Input](
//		rulvar.ToolConfig{Name: "lint", Description: "Lint a text.", Risk: rulvar.RiskRead},
//		executor.Program{Command: "/usr/local/bin/lint", Args: []string{"--json"}})
//
//	programs, err := executor.NewSubprocess(&executor.SubprocessOptions{Timeout: time.Minute, Ledger: ledger})
//
//	engine, err := rulvar.NewEngine(rulvar.Config{
//		Executors: map[rulvar.ExecutorKind]rulvar.ToolExecutor{rulvar.ExecutorSubprocess: programs},
//		…
//
// # What a program sees
//
// One JSON object on standard input, and then its end; its standard output,
// trimmed, is the result as JSON, where nothing at all means null. Standard
// error is for people. A status other than 0 is a failure.
//
//	host                                                     program
//	 | {"tool":"lint","args":{…},"idempotencyKey":"9f86…"} ---->|
//	 |<------------------------------------------- {"ok":true}  |
//
// It starts in an empty directory of its own, which is removed afterwards, or,
// where [Program.InTree] says so, in the git worktree of the agent that calls it:
// then that tree is the one further directory that a sandbox or a container
// gives it. What a worktree's .git names lies outside and is not given. It
// finds in its environment what the host names and nothing else, and always
// RULVAR_TOOL, RULVAR_RUN_ID and RULVAR_IDEMPOTENCY_KEY.
//
// # What goes wrong
//
// Every failure is an error that the model sees, a [rulvar.Error] with one of
// the codes of this package. Where the program was started, its Data holds what
// is known: "stdout" and "stderr" (text, as far as it was written), "exitCode"
// or "signal". The values of credentials, and what looks like a secret, are
// masked in all of them. A program that takes too long, writes too much or whose
// run is cancelled gets SIGTERM and then SIGKILL, with its whole process group;
// what it leaves behind when it ends by itself is killed. Nothing that holds
// its output open can hold up the call. On Linux a program is also killed when
// the host dies. A process that makes itself a session of its own and outlives
// its parent is found by nobody but a sandbox with bubblewrap, or a container.
//
// # Effects
//
// A [Ledger] is written twice for each call: the intent is durable before the
// program is started, the outcome before the result is told. When the host dies
// between the two, the effect of the call is open: nobody knows whether it has
// happened. The next try of the same call, which has the same idempotency key,
// sees that and fails with [ErrLedger], unless the tool is idempotent; so does
// the next try of a call whose outcome is recorded, because what a program has
// done once it is not asked to do again. [Reconcile] settles such a call, once
// somebody has found out what happened. Without a ledger such a call runs again.
//
// # What contains a program
//
// A process has the rights of the host's user. A [Sandbox] (Linux) takes away
// the network and all files but the named ones; [Container] adds limits, and an
// image of its own. A sandbox that is asked for and does not work here is an
// error of its constructor: there is no silent run without one.
//
// Subprocess and Container work on Unix systems. Elsewhere the package compiles
// and their constructors are errors.
package executor
