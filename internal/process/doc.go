// Package process runs programs that are not trusted to end, to stop writing,
// or to leave nothing behind. It is what the shell tool and the executors share:
//
//	Run       one program, in a process group of its own and without a
//	          terminal, from start to end, in bounded time, with all that it
//	          started
//	Capture   the two ends of a stream of any length, as text
//	Children, Descendants
//	          who has been started by whom
//	Self      this program, to be started once more
//
// It works on Unix systems. Elsewhere it compiles, and [Run] is an error.
package process
