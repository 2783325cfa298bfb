package interpreter

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes the process the parent of what its descendants leave behind, also
// of what has left its session, and the kernel's first choice when memory runs
// out. Both are best effort.
func adopt() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
}

// killDescendants kills every process that was started from this one, however
// far it has wandered, and returns how many there were. A process whose parent
// is killed becomes a child of this one, so it goes on until there is none. It
// takes the exit statuses of all of them.
func killDescendants() int {
	killed := make(map[int]bool)
	for range 200 {
		if !reap() {
			break
		}
		for _, pid := range children() {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed[pid] = true
			}
		}
		time.Sleep(time.Millisecond)
	}
	return len(killed)
}

// reap takes the exit status of every child that has ended and reports whether
// there are others.
func reap() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR || pid > 0:
		case err != nil:
			return false
		default:
			return true
		}
	}
}

// children returns the living processes whose parent is this one.
func children() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if state, parent, ok := parseStat(text); ok && parent == self && state != 'Z' && state != 'X' {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parseStat reads the state and the parent of a process from what
// /proc/<pid>/stat says: "pid (name) state parent …", where the name may hold
// anything.
func parseStat(text []byte) (state byte, parent int, ok bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 || len(fields[0]) != 1 || fields[0][0] < 'A' || fields[0][0] > 'z' {
		return 0, 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}
