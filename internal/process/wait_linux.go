package process

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes gives a program a process group of its own, and no terminal; and
// has it die with the thread that starts it.
func attributes(pidfd *int) *syscall.SysProcAttr {
	alone := hasTerminal()
	return &syscall.SysProcAttr{Setsid: alone, Setpgid: !alone, Pdeathsig: syscall.SIGKILL, PidFD: pidfd}
}

// lookAgain is how often a wait looks whether it is in vain, in milliseconds.
const lookAgain = 500

// wait returns when the program has ended, or does not end. It does not take
// the exit status: until somebody does, no other process can have the number.
func (r *running) wait() {
	if r.pidfd < 0 { // an old kernel
		gone := make(chan struct{})
		go func() { awaitExit(r.cmd); close(gone) }()
		select {
		case <-gone:
		case <-r.lost:
		}
		return
	}
	defer unix.Close(r.pidfd)
	fds := []unix.PollFd{{Fd: int32(r.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, lookAgain)
		switch {
		case n > 0:
			return
		case err != nil && err != unix.EINTR: // it cannot be; do not spin
			awaitExit(r.cmd)
			return
		}
		select {
		case <-r.lost:
			return
		default:
		}
	}
}

// awaitExit returns when the program has ended.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// reap takes the exit status; what it says is in the ProcessState.
func reap(cmd *exec.Cmd) { _ = cmd.Wait() }
