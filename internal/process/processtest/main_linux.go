package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/rulvar/rulvar-go/internal/process"
)

// guarded is the variable that marks the child, and what that starts.
const guarded = "RULVAR_TEST_GUARDED"

// grace is for processes that were killed and are not gone yet.
const grace = 2 * time.Second

// Main runs a package's tests, is called by its TestMain and does not return.
// Goroutines and processes that are left when they have ended fail the package.
func Main(m *testing.M) {
	if os.Getenv(guarded) != "" || fuzzes(os.Args) {
		goleak.VerifyTestMain(m) // which exits
		return
	}
	os.Exit(guard())
}

// fuzzes reports whether the binary was started for fuzzing, in which it starts
// others of itself with files that only it can give them.
func fuzzes(args []string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, "-test.fuzz=") || strings.HasPrefix(a, "-test.fuzzworker") {
			return true
		}
	}
	return false
}

// guard runs the tests in a child and returns the status of the package.
func guard() int {
	runtime.LockOSThread() // the child dies with the thread that starts it
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "processtest: orphans cannot be adopted:", err)
		return 2
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), guarded+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "processtest: the tests cannot be started:", err)
		return 2
	}
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig)
		}
	}()
	_ = cmd.Wait()
	status := cmd.ProcessState.ExitCode()
	if status < 0 {
		fmt.Fprintln(os.Stderr, "processtest: the tests were ended:", cmd.ProcessState)
		status = 2
	}
	if left := endLeft(os.Getpid()); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processtest: the tests have left processes running, which were killed:\n\t%s\n", strings.Join(left, "\n\t"))
		status = max(status, 1)
	}
	return status
}

// endLeft kills what still runs below a process after a while, and names it.
func endLeft(of int) (names []string) {
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if len(process.Descendants(of)) == 0 {
			return nil
		}
	}
	left := process.Descendants(of)
	for _, d := range left {
		names = append(names, d.String())
	}
	process.KillDescendants(of, left)
	return names
}
