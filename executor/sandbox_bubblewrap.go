package executor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/rulvar/rulvar-go/internal/process"
)

// newBubblewrap makes a sandbox of the program bwrap.
func newBubblewrap(o *SandboxOptions) (*Sandbox, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("bubblewrap is a program for Linux")
	}
	name := o.Bubblewrap
	if name == "" {
		name = "bwrap"
	}
	file, err := exec.LookPath(name)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return nil, fmt.Errorf("the program is not here: %w", err)
	}
	start := func(spec *process.Spec, _ string) error {
		args := append([]string{file}, bubblewrapArgs(o, spec.Dir, spec.Path)...)
		args = append(append(args, "--", spec.Path), spec.Args[1:]...)
		spec.Path, spec.Args = file, args
		return nil
	}
	err = probing(func(dir, canary string) error {
		const check = `[ ! -e "$1" ] || { echo "a file outside can be seen" >&2; exit 1; }; : > probe`
		spec := &process.Spec{Path: "/bin/sh", Args: []string{"sh", "-c", check, "sh", canary}, Dir: dir}
		if err := start(spec, dir); err != nil {
			return err
		}
		if err := tryRun(spec); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "probe")); err != nil {
			return fmt.Errorf("what a program in it writes is not there: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Sandbox{kind: SandboxBubblewrap, start: start}, nil
}

// bubblewrapArgs are bwrap's own: a file system of what may be used, and
// nothing shared with the host but, where it is allowed, the network. The
// program's environment is the one that bwrap is started with.
func bubblewrapArgs(o *SandboxOptions, dir, program string) []string {
	args := []string{"--unshare-all", "--die-with-parent"}
	if o.Network {
		args = append(args, "--share-net")
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
	for _, path := range systemRead {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range o.Read {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args, "--ro-bind", program, program)
	for _, path := range o.Write {
		args = append(args, "--bind", path, path)
	}
	return append(args, "--bind", dir, dir, "--chdir", dir)
}
