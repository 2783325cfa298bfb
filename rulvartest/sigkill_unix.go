//go:build unix

package rulvartest

import (
	"os"
	"os/exec"
	"syscall"
)

// canKill says why children cannot be killed on this system; "" where they can.
const canKill = ""

// killSelf ends the process at once.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// wasKilled reports whether a process ended by the signal that cannot be
// caught.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// askForStacks makes a process that hangs print its goroutines and end.
func askForStacks(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGQUIT) }

// reportFile is where a child reports. Programs that the child starts must not
// inherit it: the test would wait for them too.
func reportFile() *os.File {
	syscall.CloseOnExec(3)
	return os.NewFile(3, "report")
}
