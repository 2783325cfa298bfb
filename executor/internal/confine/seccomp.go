//go:build linux && (amd64 || arm64)

package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where a filter finds what it looks at, in the kernel's struct seccomp_data.
// The first argument is a 32-bit number here, in the lower half, on machines
// that have it first.
const (
	dataNumber = 0
	dataArch   = 4
	dataFirst  = 16
)

// otherNumbers is the bit of system calls of the x32 kind, on amd64.
const otherNumbers = 0x40000000

// denySockets takes the network from this thread, and from what it becomes: of
// all sockets only those of Unix can be made. io_uring, which could make
// sockets without a system call that a filter sees, is denied whole.
//
//	another architecture        kill
//	socket(AF_UNIX, …)          allow
//	socket(…), io_uring_setup   EACCES
//	everything else             allow
func denySockets() error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atMost = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: dataArch},
		{Code: equal, K: arch, Jt: 1},
		{Code: answer, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: load, K: dataNumber},
		{Code: atMost, K: otherNumbers, Jt: 4},
		{Code: equal, K: unix.SYS_IO_URING_SETUP, Jt: 3},
		{Code: equal, K: unix.SYS_SOCKET, Jf: 3},
		{Code: load, K: dataFirst},
		{Code: equal, K: unix.AF_UNIX, Jt: 1},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
