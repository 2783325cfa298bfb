package process

import "time"

// Spec says what to run, and within which bounds.
type Spec struct {
	// Path is the program and Args its whole argv, the name included.
	Path string
	Args []string
	// Env is its whole environment, NAME=value each; nil is an empty one.
	Env []string
	// Dir is where it starts.
	Dir string
	// Stdin is what it reads. That it does not read it all is no error.
	Stdin []byte
	// MaxStdout ends it when it has written so many bytes; MaxStderr is how
	// many bytes of its standard error are kept, which ends nothing.
	MaxStdout, MaxStderr int
	// KillDelay is waited between SIGTERM and SIGKILL, and WaitDelay for
	// whoever holds the output open when the program has ended.
	KillDelay, WaitDelay time.Duration
	// Kill is called, where it is not nil, when a program that is being ended
	// gets its SIGKILL or has ended before: for what runs elsewhere on its
	// behalf. It has to return in bounded time.
	Kill func()
}

// Result is what became of a program.
type Result struct {
	// ExitCode is its status, -1 where it has none.
	ExitCode int
	// Signal is the name of the signal that ended it, or "".
	Signal string
	// Stopped says that it was ended because of the context, and Overflow that
	// it was because of [Spec.MaxStdout].
	Stopped, Overflow bool
	// Left says that somebody held the output open when the program had ended
	// by itself. That somebody was killed.
	Left bool
	// Lost says that the program did not end although it was killed, which
	// only the kernel can bring about.
	Lost bool
	// Stdout is what it has written, at most MaxStdout bytes.
	Stdout []byte
	// Stderr is what it has written there.
	Stderr *Capture
	// Began is when it was started, and Duration how long it took.
	Began    time.Time
	Duration time.Duration
}
