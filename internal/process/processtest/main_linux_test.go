package processtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/process/processtest"
)

// how names, in the environment, how the tests of the inner package end.
const how = "RULVAR_PROCESSTEST_HOW"

func TestMain(m *testing.M) { processtest.Main(m) }

// TestLeave is the inner package's: it leaves a process in a session of its own,
// and ends as it is told.
func TestLeave(t *testing.T) {
	end := os.Getenv(how)
	if end == "" {
		t.Skip("it is for TestMainEndsWhatIsLeft")
	}
	if end != "leaves nothing" {
		out, err := exec.Command("/bin/sh", "-c", "setsid sleep 1800 >/dev/null 2>&1 & echo $!").Output()
		require.NoError(t, err)
		t.Logf("pid=%s", strings.TrimSpace(string(out)))
		require.NoError(t, os.WriteFile(os.Getenv(how+"_PID"), out, 0o600))
	}
	switch end {
	case "is killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "panics":
		panic("the time is over")
	}
}

func TestMainEndsWhatIsLeft(t *testing.T) {
	for _, row := range []struct {
		end    string
		status int
	}{{"leaves nothing", 0}, {"passes", 1}, {"is killed", 2}, {"panics", 2}} {
		t.Run(row.end, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestLeave$")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), how + "=" + row.end, how + "_PID=" + file}
			out, _ := cmd.CombinedOutput()
			require.Equal(t, row.status, cmd.ProcessState.ExitCode(), "%s", out)
			if row.status == 0 {
				return
			}
			require.Contains(t, string(out), "left processes running")
			require.Contains(t, string(out), "sleep 1800")
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
				return err != nil || strings.Contains(string(stat), ") Z ")
			}, 20*time.Second, 5*time.Millisecond, "process %d still runs", pid)
		})
	}
}
