// Package interpreter is the process in which the shell tool runs a command:
// the program that imports this package, started once more for each command,
// and taken over before its main function by an init function here.
//
// A shell interpreter inside the host's own process could not be bounded. Its
// pipelines and background commands are goroutines whose panics nobody can
// recover; a function that calls itself overflows the stack, and a variable
// that doubles eats the memory, of the whole service. In a process of its own
// all of that ends with the process:
//
//	host                              interpreter (leader of a session)
//	 |-- start, with pipes ------------>|
//	 |<------------------------- ready  |
//	 |  start{command, dir, env} ------>|  parse, expand
//	 |<--------------- ask{argv, ...}   |    before every call and every file
//	 |  answer{"" or a refusal} ------->|      |-- exec: git, go, ...
//	 |<--------------- done{status}     |
//	 |  kill -------------------------->|    what is left of the command
//	 |<--------------- killed{count}    |
//	 |  (closes the pipe) ------------->|  exits
//
// The host judges: this package knows no rule. It asks for each argv as it
// reaches the shell's own commands, functions and builtins, and again as it
// reaches exec, unless the answer is known. The host's end of the pipe is also
// its pulse: when it closes, because the host is gone, the interpreter kills
// what it has started and itself, so that no command outlives the host that
// judged it.
//
// Everything the command starts stays in the session and the process group of
// the interpreter, unless it leaves them on purpose; on Linux the interpreter
// adopts what leaves, and finds it.
package interpreter
