// Package shell is a tool that runs shell commands under the permission chain
// of package rulvar, to the end: what the chain could not know when it judged
// the text of a command is judged when it is known.
//
//	tool, err := shell.New(shell.Options{})
//	…
//	rulvar.Agent[string](c, prompt, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
//
// with rules for the tool's name, as in
//
//	rulvar.PermissionConfig{
//		Deny: []rulvar.Rule{rulvar.ArgvRule("shell", "rm **", "** > /etc/passwd")},
//		Ask:  []rulvar.Rule{rulvar.ArgvRule("shell", "git push **", "curl **")},
//	}
//
// # What is judged when
//
// The chain judges the text of a command before the tool is called; a text that
// hides what it runs asks a person. The tool then runs the text with a shell
// interpreter of its own and judges again, by the deny and ask rules of the
// chain that admitted the call ([rulvar.ToolContext.JudgeArgv]):
//
//   - every argv, after all expansion, of every program, function and builtin,
//     wherever its text comes from: the command, a substitution, eval, a trap, a
//     file that is sourced, an alias. And every argv that is about to be executed
//     once more, however it came there, as behind command and exec.
//   - every file that a redirection writes, by its name, its absolute name, and
//     the name behind symbolic links. A file that is only read is held against
//     the deny rules alone.
//
// A denied argv is not executed: it has status 126 and a message on standard
// error, and the command goes on, as it does in a shell where something may not
// be executed. A redirection that is refused has status 1. An argv that an ask
// rule matches is refused in the same way, unless somebody approved the call and
// the text that was approved shows just this argv: an approval covers what
// could be read, not what a variable turned out to hold. A hook that allows a
// call is no approval: it has read the text, and the rules read what runs. What
// was refused is in the [Result] and in the log of the run.
//
// What an executed program does is its own affair: what xargs, find -exec, env,
// make or a script start is not judged when they start it. A rule sees them as
// far as their argv shows it: "rm **" in a deny table makes env rm, sh -c 'rm x'
// and find -exec rm ask, which at execution means that they are refused. Files
// that a program opens, as tee does, are its own affair too. This is policy, not
// containment: a program that runs has the rights of the host.
//
// # The interpreter
//
// The interpreter is mvdan.cc/sh/v3/interp: bash as scripts use it, without job
// control, coprocesses, descriptors above 2, and a few builtins (umask, ulimit,
// jobs). It runs in a process of its own: the host's program, started again for
// each command and taken over before its main function. A host need do nothing
// for that, but the init functions of packages that do not depend on this one
// may run once more; a program that is a plug-in or a C library cannot be
// started again, and the tool says so. What goes wrong in the interpreter ends
// that process and not the host: a panic, a function that calls itself for ever,
// variables of more than 512 MiB.
//
// With [Options.Shell] the text goes to a real shell instead. Then nothing is
// judged at execution: only the text is, before. X=rm; $X -rf y asks, because the
// text hides what it runs; when it is approved, it runs.
//
// # Ending
//
// A command gets a session and a process group of its own, no terminal, and an
// empty standard input. When it times out or the run is cancelled, all its
// processes get SIGTERM, and after [Options.KillDelay] SIGKILL; what it wrote
// until then is kept. When it has ended, its background commands have
// [Options.WaitDelay] to end too, and are then killed, unless
// [Options.KeepBackground] says otherwise. On Linux that includes what has left
// the session; elsewhere a process that calls setsid is not found. Nothing that
// holds the output open can hold up the call. When the host dies, so do its
// commands, and a resumed run that calls the tool again does not meet them.
//
// The tool works on Unix systems. Elsewhere this package compiles, and [New] is
// an error.
package shell
