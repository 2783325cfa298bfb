package interpreter

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rulvar/rulvar-go/internal/process"
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
		for _, pid := range process.Children(os.Getpid()) {
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
