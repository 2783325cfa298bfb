//go:build unix

package rulvar_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shellNobody is the user that generated commands run as where the test may
// choose one.
const shellNobody = 65534

// shellGiveAway lets the unprivileged user in.
func shellGiveAway(t *testing.T, paths ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	// The directory of a test is closed to other users.
	require.NoError(t, os.Chmod(filepath.Dir(paths[0]), 0o755))
	for _, p := range paths {
		require.NoError(t, os.Chown(p, shellNobody, shellNobody))
	}
}

// shellConfine puts a command into a process group of its own, without
// privileges.
func shellConfine(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: shellNobody, Gid: shellNobody}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// shellEnd waits a little for what a command left running in the background,
// then ends it.
func shellEnd(cmd *exec.Cmd) {
	if cmd.Process == nil {
		return
	}
	for range 100 {
		if syscall.Kill(-cmd.Process.Pid, 0) != nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
