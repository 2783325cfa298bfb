package process

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes gives a program a session of its own, without a terminal, and so
// a process group; and has it die with the thread that starts it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the program has ended. It does not take the exit
// status: until somebody does, no other process can have the number.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}
