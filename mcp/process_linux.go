package mcp

import "golang.org/x/sys/unix"

// reap waits for the child's end, kills what is left of its group while the
// group's number is still its own, and takes the exit status.
func (p *process) reap() {
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	killGroup(p.cmd.Process)
	_ = p.cmd.Wait()
	p.reaped = true
}
