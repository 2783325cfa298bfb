// Package confine starts a program with fewer rights than its host has. The
// kernel's means for that, Landlock and seccomp, restrict the process that
// asks for them, for good, with all that it becomes and starts. So the host
// starts itself once more, an init function here takes that process over before
// its main function, restricts it, and turns it into the program:
//
//	host                          the host's program again            the program
//	 |-- exec: name, version, ------>| no new privileges
//	     policy, path, argv          | Landlock: files, TCP, signals
//	                                 | seccomp: no sockets but of Unix
//	                                 |-- exec: path, argv --------------->|
//
// Each step that fails ends the process with [StatusFailed] and a message on
// standard error: the program never runs with more rights than the policy says.
package confine

// Policy is what the program keeps.
type Policy struct {
	// Read are files and directories, with what is below, that may be read and
	// executed; Write, that may be written too. ReadIfPresent and WriteIfPresent
	// may be missing.
	Read, ReadIfPresent, Write, WriteIfPresent []string
	// Network leaves it the network.
	Network bool
	// Probe makes the process try what the policy denies and end, in place of
	// becoming a program; it names a file that it must not be able to read.
	// Its working directory must be in Write.
	Probe string
}

const (
	// Name is the first word of the argv by which the program knows that it
	// was started for this, and Version the second.
	Name    = "rulvar-confine"
	Version = Name + "/1"
	// StatusFailed is the exit status of a process that could not be
	// restricted.
	StatusFailed = 125
	// MinABI is the least version of Landlock that is accepted: 4, which can
	// take TCP away.
	MinABI = 4
)
