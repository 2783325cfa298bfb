package executor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/process"
)

// nobody is who programs run as where the host is root.
const nobody = 65534

// engineFailed is the exit status of docker and podman for a container that they
// could not start. A program may have the same.
const engineFailed = 125

// engineTimeout is how long the engine may take to kill and to remove.
const engineTimeout = 15 * time.Second

// launch makes the engine's command line.
func (x *Container) launch(a *attempt) (*process.Spec, func(*process.Result) error, error) {
	env := hostValues(x.o.ForwardEnv)
	given, err := a.addCredentials(env)
	if err != nil {
		return nil, nil, err
	}
	for name := range given {
		if x.o.steers(name) {
			return nil, nil, a.fail(rulvar.ErrConfig, fmt.Sprintf("the credential %s would change what the engine's command does", name), nil, nil)
		}
	}
	a.addOwn(env)
	var names []string
	for _, v := range list(env) {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	for name, value := range hostValues(x.o.EngineEnv) {
		env[name] = value
	}
	if strings.Contains(a.work, ":") {
		return nil, nil, a.fail(rulvar.ErrConfig, fmt.Sprintf("the agent's tree %q holds a colon, which ends the name of a mount", a.work), nil, nil)
	}
	user, err := x.user(a.dir)
	if err != nil {
		return nil, nil, a.fail(ErrSpawn, "its directory could not be given to its user", nil, err)
	}
	// Not in the program's directory, where the program could write it.
	cidfile := a.dir + ".cid"
	args := append([]string{x.engine}, x.args(a, user, cidfile, names)...)
	name := containerName(a.id)
	spec := &process.Spec{Path: x.engine, Args: args, Env: list(env), Dir: a.dir, Kill: func() { _ = x.remove(name) }}
	return spec, func(res *process.Result) error { return x.ended(a, name, cidfile, res) }, nil
}

// args are the arguments of the engine for one call. Values of variables are
// not among them: everybody on the machine can read an argv.
func (x *Container) args(a *attempt, user, cidfile string, names []string) []string {
	o := &x.o
	args := []string{
		"run", "--rm", "-i", "--init", "--name=" + containerName(a.id), "--cidfile=" + cidfile, "--pull=" + o.Pull,
		"--network=" + o.Network, "--memory=" + o.Memory, "--memory-swap=" + o.Memory, "--cpus=" + o.CPUs, "--pids-limit=" + strconv.Itoa(o.PIDs),
	}
	if !o.WritableRoot {
		args = append(args, "--read-only", "--tmpfs=/tmp:rw,nosuid,nodev,size="+o.TmpSize)
	}
	args = append(args, "--cap-drop=ALL")
	for _, c := range o.CapAdd {
		args = append(args, "--cap-add="+c)
	}
	args = append(args, "--security-opt=no-new-privileges", "--user="+user)
	if strings.Contains(filepath.Base(x.engine), "podman") && os.Getuid() != 0 && o.User == "" {
		args = append(args, "--userns=keep-id") // the same number inside as outside
	}
	args = append(args, "--label=rulvar.tool="+a.call.Tool, "--label=rulvar.key="+a.call.IdempotencyKey)
	for _, name := range names {
		args = append(args, "--env="+name)
	}
	args = append(args, "--volume="+a.work+":"+o.WorkMount, "--workdir="+o.WorkMount)
	args = append(append(args, o.ExtraArgs...), o.Image, a.program.Command)
	return append(args, a.program.Args...)
}

// user says who the program runs as, and gives that user the directory.
func (x *Container) user(dir string) (string, error) {
	if x.o.User == "" && os.Getuid() != 0 {
		return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), nil
	}
	user := x.o.User
	if user == "" {
		user = fmt.Sprintf("%d:%d", nobody, nobody)
	}
	if os.Getuid() != 0 {
		return user, nil
	}
	uid, gid, _ := strings.Cut(user, ":")
	u, err := strconv.Atoi(uid)
	if err != nil {
		return user, nil // a name that only the image knows
	}
	g, err := strconv.Atoi(gid)
	if err != nil {
		g = u
	}
	return user, os.Chown(dir, u, g)
}

// ended looks at what became of the engine's command. Where that did not end by
// itself, its container may run on, and is removed. Where it says that it has
// failed and no container was made, the program was not started.
func (x *Container) ended(a *attempt, name, cidfile string, res *process.Result) error {
	_, err := os.Stat(cidfile)
	made := err == nil
	_ = os.Remove(cidfile)
	if res.Stopped || res.Overflow || res.ExitCode < 0 {
		if err := x.remove(name); err != nil {
			a.tc.Log(slog.LevelError, "a container could not be removed and may still run", "container", name, "error", err.Error())
		}
		return nil
	}
	if res.ExitCode == engineFailed && !made {
		return a.fail(ErrSpawn, "the engine has made no container: "+first(a.mask(strings.TrimSpace(captured(res.Stderr))), quoted), nil, nil)
	}
	return nil
}

// remove kills a container, if there is one, and removes it.
func (x *Container) remove(name string) error {
	res, err := x.ask("rm", "--force", "--volumes", name)
	if err != nil {
		return err
	}
	if text := captured(res.Stderr); res.ExitCode != 0 && !strings.Contains(strings.ToLower(text), "no such container") && !strings.Contains(text, "no container with name") {
		return fmt.Errorf("%s rm ended with the status %d: %s", x.o.Engine, res.ExitCode, last(strings.TrimSpace(text), quoted))
	}
	return nil
}

// ask runs a command of the engine that does not run a container.
func (x *Container) ask(args ...string) (*process.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	res, err := process.Run(ctx, &process.Spec{
		Path: x.engine, Args: append([]string{x.engine}, args...), Env: list(hostValues(x.o.EngineEnv)), Dir: x.d.workdir,
		MaxStdout: 1 << 20, MaxStderr: 1 << 12, KillDelay: time.Second, WaitDelay: x.d.waitDelay,
	})
	if err == nil && res.Stopped {
		err = fmt.Errorf("%s %s had not ended after %v", x.o.Engine, args[0], engineTimeout)
	}
	return res, err
}

// again ends the containers of earlier attempts whose host has died.
func (x *Container) again(a *attempt, open []Attempt) {
	for _, e := range open {
		if e.Intent.Executor != rulvar.ExecutorContainer || !attemptID.MatchString(e.Intent.AttemptID) {
			continue
		}
		if err := x.remove(containerName(e.Intent.AttemptID)); err != nil {
			a.tc.Log(slog.LevelError, "the container of an earlier attempt may still run", "container", containerName(e.Intent.AttemptID), "error", err.Error())
		}
	}
}

func containerName(attempt string) string { return "rulvar-" + attempt }

// Probe asks the engine whether it works and has the image, or may fetch it. An
// error is an [rulvar.ErrConfig].
func (x *Container) Probe(ctx context.Context) error {
	args := []string{"image", "inspect", x.o.Image}
	if x.o.Pull != "never" {
		args = []string{"version"}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	res, err := x.ask(args...)
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s ended with the status %d: %s", strings.Join(slices.Insert(args, 0, x.o.Engine), " "), res.ExitCode, last(strings.TrimSpace(captured(res.Stderr)), quoted))
	}
	if err != nil {
		return &rulvar.Error{Code: rulvar.ErrConfig, Op: "executor.Probe", Path: x.o.Image, Msg: "the engine does not run, or has no such image", Err: err}
	}
	return nil
}
