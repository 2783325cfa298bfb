//go:build unix

package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// The tests below start the test binary again, as another process that shares
// the directory.
const (
	roleVar = "RULVAR_JOURNAL_ROLE"
	dirVar  = "RULVAR_JOURNAL_DIR"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := play(role, os.Getenv(dirVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const resolutions = 40

// play is what the other process does.
func play(role, dir string) error {
	ctx := context.Background()
	opts := &journal.FileOptions{SyncEvery: -1} // a killed process loses nothing that it wrote
	if role == "append" {
		opts = nil
	}
	s, err := journal.Open(dir, opts)
	if err != nil {
		return err
	}
	switch role {
	case "resolve": // beside the holder of the lock
		for i := range resolutions {
			if err := s.Append(ctx, "r1", resolution(0, fmt.Sprintf(`"%d.%d"`, os.Getpid(), i)), nil); err != nil {
				return err
			}
		}
	case "hold":
		l, err := s.Lock(ctx, "r1", "the other")
		if err != nil {
			return err
		}
		fmt.Println(l.Epoch())
		select {}
	case "append": // until it is killed; a number is printed once it is acknowledged
		l, err := s.Lock(ctx, "r1", "the other")
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			e := step(`"` + strings.Repeat("x", i%5*9_000) + `"`)
			if err := s.Append(ctx, "r1", e, l); err != nil {
				return err
			}
			if _, err := fmt.Println(e.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// child starts another process in a role.
func child(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVar+"="+role, dirVar+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// TestProcessesShareAJournal: several processes append at once; no number is
// given twice or left out, and no line is broken.
func TestProcessesShareAJournal(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := started(t, s, "r1", 1)
	var others []*exec.Cmd
	for range 3 {
		cmd, _ := child(t, "resolve", dir)
		others = append(others, cmd)
	}
	ended := make(chan error)
	go func() {
		var err error
		for _, cmd := range others {
			err = errors.Join(err, cmd.Wait())
		}
		ended <- err
	}()
	mine := 0
	for running := true; running; mine++ {
		select {
		case err := <-ended:
			require.NoError(t, err)
			running = false
		default:
		}
		require.NoError(t, s.Append(t.Context(), "r1", step(`"mine"`), l))
	}
	_, entries, err := s.Load(t.Context(), "r1", -1)
	require.NoError(t, err)
	require.Len(t, entries, 1+mine+3*resolutions)
	seen := make(map[string]bool)
	for i, e := range entries {
		require.EqualValues(t, i, e.Seq)
		if e.Kind == journal.KindResolution {
			seen[string(e.Resolution)] = true
		}
	}
	require.Len(t, seen, 3*resolutions, "each is there once")
	require.NoError(t, l.Release())
}

// TestLockEndsWithItsProcess: the kernel gives back the lock of a process that
// was killed.
func TestLockEndsWithItsProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cmd, out := child(t, "hold", dir)
	require.True(t, out.Scan())
	epoch, err := strconv.ParseInt(out.Text(), 10, 64)
	require.NoError(t, err)

	_, err = s.Lock(t.Context(), "r1", "me")
	require.ErrorIs(t, err, errs.LeaseHeld)
	require.ErrorContains(t, err, fmt.Sprintf("the other (process %d", cmd.Process.Pid))
	require.ErrorIs(t, s.Append(t.Context(), "r1", step(`1`), nil), errs.LeaseHeld)
	require.NoError(t, cmd.Process.Kill())
	var status *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &status))

	l, err := s.Lock(t.Context(), "r1", "me")
	require.NoError(t, err)
	require.Greater(t, l.Epoch(), epoch)
	require.NoError(t, l.Release())
}

// TestKilledWhileAppending kills a process in the middle of its appends, again
// and again: every entry that it reported is there, and the next process goes
// on behind it.
func TestKilledWhileAppending(t *testing.T) {
	dir := t.TempDir()
	acked := int64(-1)
	for round := range 6 {
		cmd, out := child(t, "append", dir)
		for range 3 + 2*round {
			require.True(t, out.Scan())
			seq, err := strconv.ParseInt(out.Text(), 10, 64)
			require.NoError(t, err)
			require.Equal(t, acked+1, seq, "round %d", round)
			acked = seq
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		for out.Scan() { // what it had reported when it died
			seq, err := strconv.ParseInt(out.Text(), 10, 64)
			require.NoError(t, err)
			acked = seq
		}
		require.Error(t, cmd.Wait())
		got := loaded(t, open(t, dir, nil), "r1", -1)
		require.Greater(t, int64(len(got)), acked)
		for i, seq := range got {
			require.EqualValues(t, i, seq)
		}
		acked = got[len(got)-1]
	}
}

// TestTornTailOnDisk: the same on a real file that a write was cut off in.
func TestTornTailOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	require.NoError(t, started(t, s, "r1", 2).Release())
	path := filepath.Join(dir, "r1.jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(text, line9+line9b+line9[:30]...), 0o600))
	require.Equal(t, []int64{0, 1, 9, 10}, loaded(t, s, "r1", -1))
	other := open(t, dir, nil) // has the old file in hand when it is replaced
	held := lock(t, other, "r1")
	require.NoError(t, s.Append(t.Context(), "r1", resolution(0, `1`), nil))
	require.NoError(t, other.Append(t.Context(), "r1", step(`1`), held))
	require.Equal(t, []int64{0, 1, 9, 10, 11, 12}, loaded(t, s, "r1", -1))
	require.NoError(t, held.Release())
}
