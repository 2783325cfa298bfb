package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rulvar/rulvar-go/internal/process"
)

// SandboxKind says what a [Sandbox] is made of.
type SandboxKind string

// The kinds. Bubblewrap is the program bwrap; Landlock is the kernel's, with
// seccomp for the network; a launcher is the host's own.
const (
	SandboxBubblewrap SandboxKind = "bubblewrap"
	SandboxLandlock   SandboxKind = "landlock"
	SandboxLauncher   SandboxKind = "launcher"
)

// SandboxOptions say what a program keeps in a sandbox of [NewSandbox]: its
// own directory, and the agent's tree where [Program.InTree] asks for that, to
// write; what programs need to run (/usr, /bin, the linker's
// cache, certificates, time zones, names of users and hosts), to read; the null
// device and its kin; and no network.
type SandboxOptions struct {
	// Kind is what it is made of. Default: bubblewrap where the program is
	// found and works, else Landlock.
	Kind SandboxKind
	// Read are further files and directories that may be read and executed,
	// Write those that may be written too. They are absolute, and are there.
	Read, Write []string
	// Network leaves programs the network. Default: none but Unix sockets. (Of
	// Unix sockets Landlock denies those of the rest of the machine as far as
	// the kernel can: abstract ones since Linux 6.12, files since 7.1.)
	Network bool
	// Bubblewrap is the program. Default: bwrap in the host's PATH.
	Bubblewrap string
}

// Sandbox contains the programs of a [Subprocess]. It is made by [NewSandbox] or
// [NewLauncher] and may be used by any number of calls at once.
//
// With bubblewrap a program has its own processes, so that nothing of it
// outlives it, and sees no file but those it may use. With Landlock it sees
// names and sizes of other files and no content, cannot signal other processes
// (Linux 6.12), and finds TMPDIR set to its own directory; what leaves its
// session on purpose may outlive it, as restricted as before.
type Sandbox struct {
	kind SandboxKind
	// start changes how a program is started, which spec says. own is the
	// program's own directory, where spec.Dir is another.
	start func(spec *process.Spec, own string) error
}

// Kind returns what the sandbox is made of.
func (s *Sandbox) Kind() SandboxKind { return s.kind }

// usable refuses a Sandbox that no constructor has made. A nil one is none.
func (s *Sandbox) usable() error {
	if s != nil && s.start == nil {
		return errors.New("the sandbox is the zero Sandbox: make it with NewSandbox or NewLauncher")
	}
	return nil
}

func (s *Sandbox) wrap(spec *process.Spec, own string) error { return s.start(spec, own) }

// probeTimeout is how long a sandbox may take to show that it works.
const probeTimeout = 30 * time.Second

// NewSandbox makes a sandbox and tries it: a program in it must not be able to
// read a file outside, nor to make a socket, and must be able to write where it
// may. A sandbox that cannot be had here, or does not hold, is an
// [rulvar.ErrConfig] that says why; there is never less than was asked for. nil
// options are the defaults.
func NewSandbox(opts *SandboxOptions) (*Sandbox, error) {
	const op = "NewSandbox"
	if opts == nil {
		opts = &SandboxOptions{}
	}
	o := *opts
	o.Read, o.Write = slices.Clone(o.Read), slices.Clone(o.Write)
	for _, path := range slices.Concat(o.Read, o.Write) {
		if !filepath.IsAbs(path) {
			return nil, configError(op, "Options", fmt.Sprintf("%q is no absolute path", path))
		}
		if _, err := os.Stat(path); err != nil {
			return nil, configError(op, "Options", err.Error())
		}
	}
	switch o.Kind {
	case SandboxBubblewrap:
		s, err := newBubblewrap(&o)
		if err != nil {
			return nil, configError(op, string(o.Kind), err.Error())
		}
		return s, nil
	case SandboxLandlock:
		s, err := newLandlock(&o)
		if err != nil {
			return nil, configError(op, string(o.Kind), err.Error())
		}
		return s, nil
	case "":
		s, first := newBubblewrap(&o)
		if first == nil {
			return s, nil
		}
		s, second := newLandlock(&o)
		if second == nil {
			return s, nil
		}
		return nil, configError(op, "", fmt.Sprintf("no sandbox works here: bubblewrap: %v; Landlock: %v", first, second))
	}
	return nil, configError(op, "Options.Kind", fmt.Sprintf("%q is neither bubblewrap nor landlock", o.Kind))
}

// NewLauncher makes a sandbox of a program of the host's, such as nsjail or
// sandbox-exec: argv returns what starts the given program, which is named by
// its absolute path, in the given directory, which is the agent's tree where
// [Program.InTree] asks for that. It is called for each call, by
// several goroutines at once. What such a sandbox holds is not tried.
func NewLauncher(argv func(dir string, program []string) ([]string, error)) (*Sandbox, error) {
	if argv == nil {
		return nil, configError("NewLauncher", "", "the function is nil")
	}
	return &Sandbox{kind: SandboxLauncher, start: func(spec *process.Spec, _ string) error {
		words, err := argv(spec.Dir, append([]string{spec.Path}, spec.Args[1:]...))
		if err != nil {
			return err
		}
		if len(words) == 0 || !filepath.IsAbs(words[0]) {
			return errors.New("the launcher's argv does not begin with an absolute path")
		}
		spec.Path, spec.Args = words[0], words
		return nil
	}}, nil
}

// What programs need to run, where it is there. Of /etc only what tells no
// secrets.
var (
	systemRead = []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/timezone",
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust",
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/mime.types",
	}
	systemWrite = []string{"/dev/null", "/dev/zero", "/dev/full"}
	systemDraw  = []string{"/dev/urandom", "/dev/random"}
)

// probing is a directory and a file outside it, for trying a sandbox.
func probing(try func(dir, canary string) error) error {
	base, err := os.MkdirTemp("", "rulvar-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	dir, canary := filepath.Join(base, "own"), filepath.Join(base, "canary")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(canary, []byte("x"), 0o600)); err != nil {
		return err
	}
	return try(dir, canary)
}

// tryRun runs a probe, which must end well.
func tryRun(spec *process.Spec) error {
	spec.MaxStdout, spec.MaxStderr, spec.KillDelay, spec.WaitDelay = 1<<12, 1<<12, time.Second, time.Second
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	res, err := process.Run(ctx, spec)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("a program in it ended with the status %d%s: %s", res.ExitCode, res.Signal, last(captured(res.Stderr), quoted))
	}
	return nil
}
