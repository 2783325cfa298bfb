//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// attributes gives a program a process group of its own, and no terminal.
func attributes(*int) *syscall.SysProcAttr {
	alone := hasTerminal()
	return &syscall.SysProcAttr{Setsid: alone, Setpgid: !alone}
}

// wait returns when the program has ended, or does not end.
func (r *running) wait() {
	gone := make(chan struct{})
	go func() { awaitExit(r.cmd); close(gone) }()
	select {
	case <-gone:
	case <-r.lost:
	}
}

// awaitExit returns when the program has ended, and has taken its exit status:
// a signal to its group comes a moment later, in which a system that hands out
// numbers in turn gives this one to nobody else.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

// reap has nothing left to do.
func reap(*exec.Cmd) {}
