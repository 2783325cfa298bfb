package rulvartest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

func TestShip(t *testing.T) { testShip(t) }

// A process that is killed leaves what it had written, and runs nothing more.
func TestChild(t *testing.T) {
	child := rulvartest.NewChild(t, "writer", func(args []string) (string, error) {
		defer os.WriteFile(filepath.Join(args[0], "deferred"), nil, 0o600)
		for i := range 3 {
			rulvartest.Point("write")
			if err := os.WriteFile(filepath.Join(args[0], fmt.Sprint(i)), nil, 0o600); err != nil {
				return "", err
			}
		}
		rulvartest.Point("odd#name\nhere")
		return strings.Join(args[1:], ","), nil
	})
	rows := []struct {
		name, point, killed string
		points              []string
		files               []string
	}{
		{name: "no kill", points: []string{"write", "write#2", "write#3", "odd_name_here"}, files: []string{"0", "1", "2", "deferred"}},
		{name: "first occurrence", point: "write", killed: "write", points: []string{"write"}},
		{name: "first occurrence, counted", point: "write#1", killed: "write", points: []string{"write"}},
		{name: "third occurrence", point: "write#3", killed: "write#3", points: []string{"write", "write#2", "write#3"}, files: []string{"0", "1"}},
		{name: "never reached", point: "write#4", points: []string{"write", "write#2", "write#3", "odd_name_here"}, files: []string{"0", "1", "2", "deferred"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			v := child.RunTo(t, row.point, dir, "a b", "c")
			require.Equal(t, row.killed, v.Killed)
			require.Equal(t, row.points, v.Points)
			if row.killed == "" {
				require.Equal(t, "a b,c", v.Result)
			} else {
				require.Empty(t, v.Result)
			}
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			var files []string
			for _, e := range entries {
				files = append(files, e.Name())
			}
			require.Equal(t, row.files, files)
		})
	}
}

// A goroutine that is held waits; the others go on.
func TestChildHeld(t *testing.T) {
	child := rulvartest.NewChild(t, "held", func(args []string) (string, error) {
		var wg sync.WaitGroup
		wg.Go(func() { rulvartest.Point("held") })
		err := os.WriteFile(args[0], nil, 0o600)
		wg.Wait()
		return "over", err
	})
	rulvartest.Point("outside") // does nothing in a process that is no child
	start := func(t *testing.T) (*rulvartest.Process, string) {
		file := filepath.Join(t.TempDir(), "file")
		p := child.Start(t, &rulvartest.StartOptions{HoldAt: "held"}, file)
		p.AwaitHold()
		require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, 30*time.Second, time.Millisecond)
		return p, file
	}
	t.Run("released", func(t *testing.T) {
		p, _ := start(t)
		p.Release()
		require.Equal(t, "over", p.Wait().Result)
	})
	t.Run("killed", func(t *testing.T) {
		p, _ := start(t)
		p.Kill()
		v := p.Wait()
		require.Empty(t, v.Result)
		require.Empty(t, v.Killed, "the test has killed it, not a point")
	})
	t.Run("left behind", func(t *testing.T) { start(t) })
}

// failing is a test that fails without failing this one.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns what fn says when it fails its test.
func failure(t *testing.T, fn func(testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(f)
	}()
	<-done
	return f.text
}

// What is wrong with a child fails the test and says where it was.
func TestChildFailures(t *testing.T) {
	child := rulvartest.NewChild(t, "bad", func(args []string) (string, error) {
		rulvartest.Point("start")
		fmt.Println("about to", args[0])
		switch args[0] {
		case "return an error":
			return "", errors.New("no luck")
		case "panic":
			panic("at the disco")
		case "exit":
			os.Exit(3)
		case "kill itself":
			p, err := os.FindProcess(os.Getpid())
			if err != nil {
				return "", err
			}
			if err := p.Kill(); err != nil {
				return "", err
			}
			select {} // the signal is on its way
		}
		return "", nil
	})
	for _, row := range []struct{ what, want string }{
		{"return an error", "no luck"},
		{"panic", "at the disco"},
		{"exit", "exit status 3"},
		{"kill itself", "signal: killed"},
	} {
		t.Run(row.what, func(t *testing.T) {
			text := failure(t, func(t testing.TB) { child.Run(t, row.what) })
			require.Contains(t, text, row.want)
			require.Contains(t, text, "about to "+row.what)
			require.Contains(t, text, `"start"`)
		})
	}
	t.Run("never held", func(t *testing.T) {
		text := failure(t, func(t testing.TB) { child.Start(t, &rulvartest.StartOptions{HoldAt: "nowhere"}, "end").AwaitHold() })
		require.Contains(t, text, "without coming to the point")
	})
}

// A child that is not made again in its process would start the test in itself.
func TestChildMadeTooLate(t *testing.T) {
	if os.Getenv("RULVAR_TEST_CHILD") != "" {
		return
	}
	child := rulvartest.NewChild(t, "late", func([]string) (string, error) { return "", nil })
	require.Contains(t, failure(t, func(t testing.TB) { child.Run(t) }), "ended without running the child")
}

// A matrix finds what it is there to find: the tests that it must fail run in
// a process of their own.
func TestKillMatrixFinds(t *testing.T) {
	for _, row := range []struct{ fault, want string }{
		{"none", "PASS"},
		{"forgets", `the result is "1", without a kill it is "2"`},
		{"repeats", `has come to "effect" again, although that work was recorded`},
		{"never ends", "processes have not finished the run"},
		{"wanders", "did not come to the point this time"},
	} {
		t.Run(row.fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestFaultyRun$")
			cmd.Env = append(os.Environ(), faultVariable+"="+row.fault)
			out, err := cmd.CombinedOutput()
			require.Contains(t, string(out), row.want)
			require.Equal(t, row.fault == "none", err == nil)
		})
	}
}

const faultVariable = "RULVARTEST_FAULT"

// TestFaultyRun kills a run of two processes, each of which writes a file after
// an effect. The fault says what is wrong with it.
func TestFaultyRun(t *testing.T) {
	fault := os.Getenv(faultVariable)
	child := rulvartest.NewChild(t, "faulty", func(args []string) (string, error) { return faulty(args[0], fault) })
	if fault == "" {
		t.Skip("TestKillMatrixFinds runs it")
	}
	m := &rulvartest.KillMatrix{
		Process: child, Again: 1, Limit: 3,
		Recorded: func(_ testing.TB, dir string) []string {
			if _, err := os.Stat(filepath.Join(dir, "1")); err == nil {
				return []string{"effect"}
			}
			return nil
		},
	}
	m.Run(t)
}

func faulty(dir, fault string) (string, error) {
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	write := func(name string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }
	again := exists("began")
	if err := write("began"); err != nil {
		return "", err
	}
	if fault == "wanders" {
		rulvartest.Point(fmt.Sprintf("process %d", os.Getpid()))
	}
	if !exists("1") || fault == "repeats" && again {
		rulvartest.Point("effect")
		if err := write("1"); err != nil {
			return "", err
		}
		rulvartest.Point("written")
		return "", nil
	}
	rulvartest.Point("end")
	switch {
	case fault == "never ends":
		return "", nil
	case fault == "forgets" && exists("2"):
		return "1", nil
	}
	err := write("2")
	rulvartest.Point("ended")
	return "2", err
}

// Every write of a run has its points, in the order of the run.
func TestCrashStorePoints(t *testing.T) {
	child := rulvartest.NewChild(t, "run", func(args []string) (string, error) { return shipIn(args[0]) })
	dir := t.TempDir()
	pair := func(name string) []string { return []string{name + ":before", name + ":after"} }
	begin := child.Run(t, dir)
	require.Equal(t, concat(
		pair("lock"), pair("meta:running"), pair("append:agent:running"), pair("model:agent:1"), pair("put:ckpt"),
		pair("append:approval:suspended"), pair("append:decision:run_settle"), pair("meta:suspended"),
	), begin.Points)
	require.Equal(t, pair("append:resolution:ok"), child.Run(t, dir).Points)
	end := child.Run(t, dir)
	require.Equal(t, "it is shipped", end.Result)
	require.Equal(t, concat(
		pair("lock"), pair("meta:running"), pair("append:decision:approval_consumed"), pair("tool:ship"), pair("put:ckpt"),
		pair("model:agent:2"), pair("put:tr"), pair("append:agent:ok"), pair("append:decision:run_settle"), pair("meta:ok"),
	), end.Points)
}

func concat(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// Outside a child the wrapped store is as it was, and refusals come through.
func TestCrashStoreOutside(t *testing.T) {
	ctx := context.Background()
	inner := rulvar.NewMemoryStore()
	store := rulvartest.CrashStore(inner)
	lock, err := store.Lock(ctx, "r", "me")
	require.NoError(t, err)
	_, err = store.Lock(ctx, "r", "you")
	require.ErrorIs(t, err, rulvar.ErrLeaseHeld)
	require.NoError(t, store.PutMeta(ctx, &rulvar.RunMeta{RunID: "r", Status: "running"}, lock))
	require.NoError(t, store.Put(ctx, "r/ckpt/0", []byte("x")))
	require.NoError(t, store.DeleteBlob(ctx, "r/ckpt/0"))
	require.Error(t, store.Put(ctx, "", nil))
	blob, err := inner.Get(ctx, "r/ckpt/0")
	require.NoError(t, err)
	require.Nil(t, blob)
}
