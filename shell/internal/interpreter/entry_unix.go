//go:build unix

package interpreter

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/rulvar/rulvar-go/internal/process"
)

// name is the first word of the interpreter's own argv, by which an executable
// knows that it has been started to be one.
const name = "rulvar-shell"

// The descriptors that the host passes on beside the standard ones.
const (
	fdFromHost = 3 + iota
	fdToHost
	fdStdout
	fdStderr
	fdEnd
)

// libraryPaths are the variables by which a program may find its libraries. The
// interpreter needs them to start; commands get their own environment.
var libraryPaths = []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}

// init takes the process over where it was started as an interpreter. It runs
// before the program's main function and before the init functions of all that
// imports this package.
func init() {
	if len(os.Args) == 2 && os.Args[0] == name && strings.HasPrefix(os.Args[1], name+"/") {
		// Without the exit hooks, which would report on a program that was
		// never meant to run.
		syscall.Exit(takeOver(os.Args[1]))
	}
}

// takeOver is the life of an interpreter. It returns the exit status of the
// process, which nobody reads.
func takeOver(version string) int {
	if version != Version {
		return 2 // the host is another build of the program
	}
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return 2 // whoever started it has not the rights it would have
	}
	for fd := fdFromHost; fd < fdEnd; fd++ {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return 2
		}
		syscall.CloseOnExec(fd)
	}
	conn := NewConn(os.NewFile(fdFromHost, "from host"), os.NewFile(fdToHost, "to host"))
	k := newKeeper(conn, os.NewFile(fdStdout, "stdout"), os.NewFile(fdStderr, "stderr"))
	fmt.Fprintln(os.Stderr, k.serve())
	return 1
}

// Command returns the command that starts an interpreter, without its pipes:
// fromHost and toHost carry the messages, stdout and stderr are the command's.
// The interpreter leads a session, and so a process group, of its own, and has
// no controlling terminal: a command that wants to ask for a password fails.
func Command(fromHost, toHost, stdout, stderr *os.File) (*exec.Cmd, error) {
	path, err := process.Self()
	if err != nil {
		return nil, err
	}
	env := []string{"GOMAXPROCS=2", "GOTRACEBACK=single"}
	for _, name := range libraryPaths {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return &exec.Cmd{
		Path:        path,
		Args:        []string{name, Version},
		Env:         env,
		ExtraFiles:  []*os.File{fromHost, toHost, stdout, stderr},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}, nil
}
