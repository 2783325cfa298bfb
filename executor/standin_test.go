//go:build unix

package executor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/process/processtest"
)

// The tests' own binary, under the name of docker, stands in for an engine: it
// writes down what it is asked, and runs the program in a session of its own,
// where killing the command does not reach it. So does a real engine.
//
//	DIR/docker           the command: a link to the test binary
//	DIR/log              a JSON line for each call
//	DIR/rulvar-<id>      a container: the process that runs
//	DIR/fail-<word>      makes that command fail, with the file's text

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "docker" {
		syscall.Exit(standIn(filepath.Dir(os.Args[0]), os.Args[1:])) // the race detector would wait a second at os.Exit
	}
	processtest.Main(m)
}

// engineCall is a line of the log.
type engineCall struct {
	Args, Env []string
}

// newStandIn makes an engine and returns its directory.
func newStandIn(t testing.TB) string {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "docker")))
	return dir
}

func engineLog(t testing.TB, dir string) (list []engineCall) {
	text, err := os.ReadFile(dir + "/log")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var c engineCall
		require.NoError(t, json.Unmarshal([]byte(line), &c))
		list = append(list, c)
	}
	return list
}

func standIn(dir string, args []string) int {
	line, _ := json.Marshal(engineCall{args, os.Environ()})
	if f, err := os.OpenFile(dir+"/log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_, _ = f.Write(append(line, '\n'))
		f.Close()
	}
	if text, err := os.ReadFile(dir + "/fail-" + args[0]); err == nil {
		fmt.Fprint(os.Stderr, string(text))
		return 125
	}
	switch args[0] {
	case "run":
		return standInRun(dir, args[1:])
	case "rm":
		name := args[len(args)-1]
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			fmt.Fprintln(os.Stderr, "Error response from daemon: No such container: "+name)
			return 1
		}
		pid, _ := strconv.Atoi(string(text))
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		os.Remove(filepath.Join(dir, name))
	}
	return 0
}

func standInRun(dir string, args []string) int {
	var name, mount string
	var env []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option, value, _ := strings.Cut(args[0], "=")
		switch option {
		case "--name":
			name = value
		case "--volume":
			mount, _, _ = strings.Cut(value, ":")
		case "--cidfile":
			_ = os.WriteFile(value, []byte("cid"), 0o600)
		case "--env":
			env = append(env, value+"="+os.Getenv(value))
		}
		args = args[1:]
	}
	cmd := &exec.Cmd{Path: args[1], Args: args[1:], Env: env, Dir: mount, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	file := filepath.Join(dir, name)
	_ = os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	go func() {
		for range signals {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}()
	_ = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // a container ends with its first process
	os.Remove(file)
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
