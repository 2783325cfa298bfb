package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// stat is what is asked of a process.
type stat struct {
	pid, parent int
	start       string // when it began, in clock ticks: with the pid, its identity
}

// Children returns the living processes whose parent is the process.
func Children(parent int) []int {
	var pids []int
	for _, p := range living() {
		if p.parent == parent {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// Descendant is a process that has another, however far up, as its ancestor.
type Descendant struct{ is stat }

// Descendants returns the living processes that a process has started, and
// those have, as far as every process between them still lives.
func Descendants(of int) []Descendant {
	byParent := make(map[int][]stat)
	for _, p := range living() {
		byParent[p.parent] = append(byParent[p.parent], p)
	}
	var all []Descendant
	for queue := []int{of}; len(queue) > 0; queue = queue[1:] {
		for _, p := range byParent[queue[0]] {
			all = append(all, Descendant{p})
			queue = append(queue, p.pid)
		}
		delete(byParent, queue[0]) // whatever the table says, there is no circle
	}
	return all
}

// String names the process by its number and its command line.
func (d Descendant) String() string {
	pid := strconv.Itoa(d.is.pid)
	args, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	return pid + " " + string(bytes.TrimSpace(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
}

// Signal sends a signal to the process, unless another has its number by now.
func (d Descendant) Signal(sig syscall.Signal) {
	if d.lives() {
		_ = syscall.Kill(d.is.pid, sig)
	}
}

func (d Descendant) lives() bool {
	now, ok := read(strconv.Itoa(d.is.pid))
	return ok && now.start == d.is.start
}

// killRounds bounds how often somebody new is looked for, and stopTries how
// often a process is asked whether it has stopped, a millisecond apart.
const (
	killRounds = 10
	stopTries  = 100
)

// awaitStop returns when the process runs no more. The signal alone is not
// enough: on another processor a process goes on for a moment, and may be
// starting somebody who is not listed yet.
func (d Descendant) awaitStop() {
	for range stopTries {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(d.is.pid) + "/stat")
		if err != nil || parseStart(text) != d.is.start {
			return
		}
		if state, _, ok := parseStat(text); !ok || bytes.IndexByte([]byte("TtZX"), state) >= 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// KillDescendants kills what a process has started, and known, who were found
// earlier, with what those have started: their chain to the process may be
// broken by now. All are stopped before any is killed, because whose parent is
// killed is not found any more, and who is stopped starts nobody.
func KillDescendants(of int, known []Descendant) {
	stopped := make(map[Descendant]bool)
	for range killRounds {
		found := append(Descendants(of), known...)
		for d := range stopped {
			found = append(found, Descendants(d.is.pid)...)
		}
		var fresh []Descendant
		for _, d := range found {
			d.is.parent = 0 // which changes, while it stays the same process
			if !stopped[d] && d.lives() {
				stopped[d] = true
				fresh = append(fresh, d)
				_ = syscall.Kill(d.is.pid, syscall.SIGSTOP)
			}
		}
		if len(fresh) == 0 {
			break
		}
		for _, d := range fresh {
			d.awaitStop()
		}
	}
	for d := range stopped {
		d.Signal(syscall.SIGKILL)
	}
}

// living lists the processes of the machine that run.
func living() []stat {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var all []stat
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if p, ok := read(name); ok {
			all = append(all, p)
		}
	}
	return all
}

// read asks for one process, which must be living.
func read(pid string) (stat, bool) {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return stat{}, false
	}
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return stat{}, false
	}
	state, parent, ok := parseStat(text)
	if !ok || state == 'Z' || state == 'X' {
		return stat{}, false
	}
	return stat{pid: n, parent: parent, start: parseStart(text)}, true
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

// parseStart reads when a process began, or "".
func parseStart(text []byte) string {
	const field = 22 - 3 // of /proc/<pid>/stat, behind the name
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= field {
		return ""
	}
	return string(fields[field])
}
