package executor

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
)

// ContainerOptions say how programs are run in containers. Image is needed; the
// rest has defaults that take everything away which a program can do without.
type ContainerOptions struct {
	// Image is what containers are made of.
	Image string
	// RequireDigest refuses an Image that is not pinned by its digest
	// (name@sha256:…), so that nobody can put another in its place. Default:
	// false.
	RequireDigest bool
	// Pull is when the engine may fetch the image: never, missing or always.
	// Default: never.
	Pull string
	// Engine is the engine's command, docker or podman or what takes the same
	// arguments: a name, or an absolute path. Default: docker.
	Engine string
	// EngineEnv names the variables of the host that the engine's command
	// finds in its environment. Containers do not see them. Default: PATH,
	// HOME, XDG_RUNTIME_DIR, DOCKER_HOST, DOCKER_CONTEXT, DOCKER_CONFIG,
	// DOCKER_TLS_VERIFY, DOCKER_CERT_PATH, CONTAINER_HOST.
	EngineEnv []string

	// Network is the engine's network. Default: none.
	Network string
	// Memory, CPUs and PIDs bound a container; Memory bounds the swap too.
	// Defaults: 256m, 1.0, 128.
	Memory, CPUs string
	PIDs         int
	// WritableRoot leaves the root file system writable. Default: read-only,
	// with TmpSize of memory as /tmp. Default of that: 64m.
	WritableRoot bool
	TmpSize      string
	// CapAdd are the capabilities that containers have. Default: none.
	CapAdd []string
	// User is who the program runs as. Default: the host's user and group,
	// or, where that is root, 65534:65534. A rootless docker needs "0:0", which
	// is the host's user there.
	User string
	// WorkMount is where the program's own directory is, or the agent's tree
	// where [Program.InTree] asks for that. The tree belongs to the host's user:
	// where that is root, name a User who may write there. Default: /work.
	WorkMount string
	// ExtraArgs are further arguments of the engine's run command, in front of
	// the image. Default: none.
	ExtraArgs []string

	// Program is what tools without a spec run; its arguments come before
	// those of a spec. Default: none.
	Program *Program
	// ForwardEnv names the variables of the host that programs find in their
	// environment, if the host has them. Default: none.
	ForwardEnv []string
	// Credentials adds variables of the call. Default: none.
	Credentials Credentials
	// Timeout ends a program. Default: 30 s.
	Timeout time.Duration
	// KillDelay is waited between SIGTERM and the end of the container when a
	// program is ended. Default: 5 s.
	KillDelay time.Duration
	// WaitDelay is waited for whoever holds the output open when a program has
	// ended. Default: 500 ms.
	WaitDelay time.Duration
	// MaxOutput is how many bytes a program may not write: as many end it.
	// Default: 1 MiB.
	MaxOutput int
	// WorkDir is where the directories of programs are made; the engine must
	// be able to mount it. Default: the system's directory of temporary files.
	WorkDir string
	// Ledger accounts for effects. Default: none.
	Ledger Ledger
	// KeepResults writes results to the ledger; see [SubprocessOptions].
	KeepResults bool
}

var defaultEngineEnv = []string{
	"PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST",
}

// Container runs tools as programs in containers: each call in one of its own,
// which is gone when the call has ended. It is made by [NewContainer], is a
// [rulvar.ToolExecutor], and is safe for concurrent use.
//
// When the host dies, a container runs on until its program ends: its standard
// input has ended, but nobody kills it. The next try of the call does, where a
// ledger knows of it.
type Container struct {
	d      dispatcher
	o      ContainerOptions
	engine string // its file
}

var (
	digest    = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	attemptID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// NewContainer makes one. Wrong options, an engine whose command is not here,
// and a system without Unix processes are an [rulvar.ErrConfig]. Whether the
// engine works is asked by [Container.Probe].
func NewContainer(opts *ContainerOptions) (*Container, error) {
	const op = "NewContainer"
	if opts == nil {
		opts = &ContainerOptions{}
	}
	o := opts.withDefaults()
	x := &Container{o: o}
	x.d = dispatcher{
		op: "container", kind: rulvar.ExecutorContainer, prefix: "rulvar-cexec-", program: copyOf(o.Program),
		timeout: o.Timeout, killDelay: o.KillDelay, waitDelay: o.WaitDelay, maxOutput: o.MaxOutput, workdir: o.WorkDir,
		credentials: o.Credentials, ledger: o.Ledger, keepResults: o.KeepResults, launch: x.launch, again: x.again,
	}
	if err := x.d.check(op); err != nil {
		return nil, err
	}
	if err := o.check(op); err != nil {
		return nil, err
	}
	var err error
	if x.d.workdir, err = filepath.Abs(x.d.workdir); err != nil {
		return nil, configError(op, "Options.WorkDir", err.Error())
	}
	if strings.Contains(x.d.workdir, ":") {
		return nil, configError(op, "Options.WorkDir", fmt.Sprintf("%q holds a colon, which ends the name of a mount", x.d.workdir))
	}
	file, err := exec.LookPath(o.Engine)
	if err != nil || !filepath.IsAbs(file) {
		return nil, configError(op, "Options.Engine", fmt.Sprintf("the command %q is not here: install docker or podman, or name its file", o.Engine))
	}
	x.engine = file
	return x, nil
}

// withDefaults returns a copy with the defaults filled in.
func (opts *ContainerOptions) withDefaults() ContainerOptions {
	o := *opts
	for _, v := range []struct {
		at        *string
		byDefault string
	}{
		{&o.Engine, "docker"}, {&o.Pull, "never"}, {&o.Network, "none"}, {&o.Memory, "256m"}, {&o.CPUs, "1.0"}, {&o.TmpSize, "64m"}, {&o.WorkMount, "/work"},
	} {
		if *v.at == "" {
			*v.at = v.byDefault
		}
	}
	if o.PIDs == 0 {
		o.PIDs = 128
	}
	if o.KillDelay == 0 {
		o.KillDelay = 5 * time.Second
	}
	if o.EngineEnv == nil {
		o.EngineEnv = defaultEngineEnv
	}
	o.EngineEnv, o.ForwardEnv = slices.Clone(o.EngineEnv), slices.Clone(o.ForwardEnv)
	o.CapAdd, o.ExtraArgs = slices.Clone(o.CapAdd), slices.Clone(o.ExtraArgs)
	return o
}

// check holds the options to what they may be.
func (o *ContainerOptions) check(op string) error {
	switch {
	case o.Image == "" || strings.HasPrefix(o.Image, "-") || strings.ContainsAny(o.Image, " \t\n\x00"):
		return configError(op, "Options.Image", fmt.Sprintf("%q is no image", o.Image))
	case o.RequireDigest && !digest.MatchString(o.Image):
		return configError(op, "Options.Image", fmt.Sprintf("%q is not pinned: name it as name@sha256:…", o.Image))
	case !slices.Contains([]string{"never", "missing", "always"}, o.Pull):
		return configError(op, "Options.Pull", fmt.Sprintf("%q is none of never, missing, always", o.Pull))
	case o.PIDs < 0:
		return configError(op, "Options.PIDs", "a bound is not negative; zero means the default")
	case !strings.HasPrefix(o.WorkMount, "/") || strings.ContainsAny(o.WorkMount, ":,\x00"):
		return configError(op, "Options.WorkMount", fmt.Sprintf("%q is no absolute path that a mount can have", o.WorkMount))
	case o.KeepResults && o.Ledger == nil:
		return configError(op, "Options.KeepResults", "there is no ledger to keep results in")
	}
	if err := checkNames(op, "EngineEnv", o.EngineEnv); err != nil {
		return err
	}
	if err := checkNames(op, "ForwardEnv", o.ForwardEnv); err != nil {
		return err
	}
	for i, name := range o.ForwardEnv {
		if o.steers(name) {
			return configError(op, fmt.Sprintf("Options.ForwardEnv[%d]", i), fmt.Sprintf("%s would change what the engine's command does", name))
		}
	}
	return nil
}

// steers reports whether a variable would change what the engine's command
// does, in whose environment the values for containers travel.
func (o *ContainerOptions) steers(name string) bool {
	if slices.Contains(o.EngineEnv, name) || slices.Contains(defaultEngineEnv, name) {
		return true
	}
	for _, prefix := range []string{"DOCKER_", "CONTAINER_", "CONTAINERS_", "BUILDAH_", "PODMAN_", "LD_", "DYLD_", "XDG_", "SSL_CERT_", "GO"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch strings.ToUpper(name) {
	case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "TMPDIR", "SSH_AUTH_SOCK":
		return true
	}
	return false
}

// CheckTool refuses a tool that no call of could be run: the engine asks when
// the tool is registered. The error is an [rulvar.ErrConfig].
func (x *Container) CheckTool(t *rulvar.Tool) error { return x.d.checkTool(t) }

// Execute implements [rulvar.ToolExecutor].
func (x *Container) Execute(tc *rulvar.ToolContext, call rulvar.ExecutorCall) (json.RawMessage, error) {
	return x.d.execute(tc, call)
}
