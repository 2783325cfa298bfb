//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// attributes gives a program a session of its own, without a terminal, and so
// a process group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitExit returns when the program has ended, and has taken its exit status:
// a signal to its group comes a moment later, in which a system that hands out
// numbers in turn gives this one to nobody else.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
