//go:build unix

package process

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// Start starts a program that make describes. A program that was written a
// moment ago may be busy, because another process that is being started still
// holds it open; it is tried again, with a fresh description.
func Start(make func() *exec.Cmd) (*exec.Cmd, error) {
	cmd := make()
	err := cmd.Start()
	for delay := time.Millisecond; errors.Is(err, syscall.ETXTBSY) && delay < 300*time.Millisecond; delay *= 2 {
		time.Sleep(delay)
		cmd = make()
		err = cmd.Start()
	}
	return cmd, err
}
