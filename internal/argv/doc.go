// Package argv turns the text of a shell command into the simple commands it
// runs and matches them against patterns, for permission rules. It is pure: no
// clock, no files, no goroutines, and nothing is ever executed or expanded.
//
// A deny and an allow need opposite strictness, so there are two readers over
// one text:
//
//   - the strict reader is a small POSIX lexer of our own that accepts only
//     what it understands completely. An allow can come from nowhere else, so a
//     gap in its grammar is a question to a person, never a pass;
//   - the see-through reader walks the syntax trees that mvdan.cc/sh builds in
//     its Bash and its POSIX dialect, and finds every simple command wherever
//     it stands: in groups, loops, functions and substitutions, behind wrappers
//     such as env and xargs, in the text given to sh -c.
//
// What a deny or ask rule is matched against is the union of what both find.
// Where the two disagree about a text, [Command.Unjudgeable] says so.
//
// A [Word] is static text or dynamic: one unknown word (a quoted expansion), or
// any number of them (an unquoted one). A [Pattern] therefore answers a
// [Match]: no, maybe or yes. A denying table takes yes as a match and maybe as
// a reason to ask; an allowing table takes only yes.
//
// In front of both readers stands a scanner for plain lines (see plain.go),
// which reads the common case, such as "git commit -m 'x' && git push", without
// allocating. It is an optimisation only: whatever it accepts, the strict
// reader reads the same way, which a fuzz target holds.
package argv
