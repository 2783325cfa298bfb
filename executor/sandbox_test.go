//go:build linux

package executor_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/executor"
)

// landlock makes a sandbox, or skips where the kernel has none.
func landlock(t *testing.T, o executor.SandboxOptions) *executor.Sandbox {
	t.Helper()
	o.Kind = executor.SandboxLandlock
	s, err := executor.NewSandbox(&o)
	if err != nil {
		require.ErrorIs(t, err, rulvar.ErrConfig)
		t.Skip(err)
	}
	require.Equal(t, executor.SandboxLandlock, s.Kind())
	return s
}

func TestLandlock(t *testing.T) {
	outside, readable, writable := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{outside, readable, writable} {
		require.NoError(t, os.WriteFile(dir+"/f", []byte("text"), 0o644))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	opts := executor.SandboxOptions{Read: []string{readable}, Write: []string{writable}}
	closed := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Sandbox: landlock(t, opts)})
	opts.Network = true
	open := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Sandbox: landlock(t, opts)})
	bash := "true"
	if _, err := os.Stat("/bin/bash"); err == nil {
		bash = fmt.Sprintf("/bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'", port)
	}
	for _, row := range []struct {
		name, script string
		x            *executor.Subprocess
		allowed      bool
	}{
		{"its own directory", "echo x > f && cat f && mkdir a && mv f a/g && rm -r a", closed, true},
		{"TMPDIR is its own", `test "$TMPDIR" = "$PWD" && f=$(mktemp) && echo x > "$f"`, closed, true},
		{"the null device", "echo x > /dev/null && head -c 1 /dev/urandom", closed, true},
		{"programs", "ls /usr | head -1 | grep -q .", closed, true},
		{"a readable file", "cat " + readable + "/f", closed, true},
		{"writing a readable file", "echo x > " + readable + "/f", closed, false},
		{"a writable file", "echo x >> " + writable + "/f", closed, true},
		{"a file outside", "cat " + outside + "/f", closed, false},
		{"a list outside", "ls " + outside, closed, false},
		{"writing outside", "echo x > " + outside + "/f", closed, false},
		{"making outside", "echo x > " + outside + "/g", closed, false},
		{"removing outside", "rm -f " + outside + "/f", closed, false},
		{"a link outside", "ln -s " + outside + "/f l && cat l", closed, false},
		{"the host's secrets", "cat /etc/shadow", closed, false},
		{"the host's environment", fmt.Sprintf("cat /proc/%d/environ", os.Getpid()), closed, false},
		{"killing the host", fmt.Sprintf("kill -0 %d", os.Getpid()), closed, false},
		{"a program of its own", `cp /bin/echo e && ./e hi`, closed, true},
		{"the network", bash, closed, bash == "true"},
		{"the network, allowed", bash, open, true},
		{"a file outside, with the network", "cat " + outside + "/f", open, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if abi, err := ll.LandlockGetABIVersion(); row.name == "killing the host" && (err != nil || abi < 6) {
				t.Skip("this kernel cannot deny it")
			}
			_, err := run(t, row.x, scriptCall(t, "("+row.script+") >&2 && echo true"))
			if row.allowed {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, executor.ErrExit)
			if row.name != "killing the host" {
				require.Regexp(t, "ermission denied|not permitted|cannot", err.Error())
			}
		})
	}
	text, err := os.ReadFile(outside + "/f")
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}

// A program outside the system's directories runs, and its neighbours stay
// unread.
func TestLandlockOwnProgram(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/tool", []byte("#!/bin/sh\ncat \""+dir+"/secret\" 2>/dev/null || echo '\"hidden\"'\n"), 0o755))
	require.NoError(t, os.WriteFile(dir+"/secret", []byte(`"seen"`), 0o644))
	x := subprocess(t, executor.SubprocessOptions{AllowEnv: []string{"PATH"}, Sandbox: landlock(t, executor.SandboxOptions{}), Program: &executor.Program{Command: dir + "/tool"}})
	call := scriptCall(t, "")
	call.Spec = nil
	out, err := run(t, x, call)
	require.NoError(t, err)
	require.Equal(t, `"hidden"`, out)
	call.Spec = []byte(`{"command":"/nosuch/tool"}`)
	_, err = run(t, x, call)
	require.Error(t, err)
}

// standInBwrap is a program that writes down its arguments and does what the
// real one does at the end: run the program.
func standInBwrap(t *testing.T, body string) string {
	file := filepath.Join(t.TempDir(), "bwrap")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+body), 0o755))
	return file
}

func TestBubblewrapArguments(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	// Without the kernel's help the canary is there; the stand-in removes it.
	bwrap := standInBwrap(t, `printf '%s\n' "$@" > `+log+`
while [ "$1" != -- ]; do shift; done; shift
for last; do :; done
case "$last" in *canary) rm -f "$last";; esac
exec "$@"
`)
	read := t.TempDir()
	s, err := executor.NewSandbox(&executor.SandboxOptions{Bubblewrap: bwrap, Read: []string{read}})
	require.NoError(t, err)
	require.Equal(t, executor.SandboxBubblewrap, s.Kind())
	x := subprocess(t, executor.SubprocessOptions{Sandbox: s})
	out, err := run(t, x, scriptCall(t, "echo '\"'$PWD'\"'"))
	require.NoError(t, err)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	args := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Equal(t, []string{"--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}, args[:8])
	dir := strings.Trim(out, `"`)
	require.Equal(t, []string{
		"--ro-bind", read, read, "--ro-bind", "/bin/sh", "/bin/sh", "--bind", dir, dir, "--chdir", dir, "--", "/bin/sh", "-c", "echo '\"'$PWD'\"'",
	}, args[len(args)-15:])
	require.NotContains(t, args, "--share-net")
}

// A sandbox that does not hold, or is not here, is an error and never less.
func TestSandboxRefused(t *testing.T) {
	for _, row := range []struct {
		name string
		o    executor.SandboxOptions
		text string
	}{
		{"not installed", executor.SandboxOptions{Kind: executor.SandboxBubblewrap, Bubblewrap: "/nosuch/bwrap"}, "not here"},
		{"it fails", executor.SandboxOptions{Kind: executor.SandboxBubblewrap, Bubblewrap: standInBwrap(t, "echo 'No permissions to create new namespace' >&2; exit 1")}, "No permissions"},
		{"it does nothing", executor.SandboxOptions{Kind: executor.SandboxBubblewrap, Bubblewrap: standInBwrap(t, "exit 0")}, "is not there"},
		{"it contains nothing", executor.SandboxOptions{Kind: executor.SandboxBubblewrap, Bubblewrap: standInBwrap(t, `while [ "$1" != -- ]; do shift; done; shift; exec "$@"`)}, "can be seen"},
		{"unknown", executor.SandboxOptions{Kind: "jail"}, "neither"},
		{"a launcher is not asked for like this", executor.SandboxOptions{Kind: executor.SandboxLauncher}, "neither"},
		{"a relative path", executor.SandboxOptions{Read: []string{"a"}}, "absolute"},
		{"a path that is not there", executor.SandboxOptions{Write: []string{"/nosuch"}}, "nosuch"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := executor.NewSandbox(&row.o)
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.text)
		})
	}
	_, err := executor.NewLauncher(nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
}

func TestLauncher(t *testing.T) {
	s, err := executor.NewLauncher(func(dir string, program []string) ([]string, error) {
		if program[2] == "refuse" {
			return nil, fmt.Errorf("not this one")
		}
		return append([]string{"/usr/bin/env", "IN=" + dir}, program...), nil
	})
	require.NoError(t, err)
	x := subprocess(t, executor.SubprocessOptions{Sandbox: s})
	out, err := run(t, x, scriptCall(t, `test "$IN" = "$PWD" && echo true`))
	require.NoError(t, err)
	require.Equal(t, "true", out)
	_, err = run(t, x, scriptCall(t, "refuse"))
	require.ErrorIs(t, err, executor.ErrSpawn)
	bad, err := executor.NewLauncher(func(string, []string) ([]string, error) { return []string{"relative"}, nil })
	require.NoError(t, err)
	_, err = run(t, subprocess(t, executor.SubprocessOptions{Sandbox: bad}), scriptCall(t, ":"))
	require.ErrorIs(t, err, executor.ErrSpawn)
}
