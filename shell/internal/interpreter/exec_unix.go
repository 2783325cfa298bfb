//go:build unix

package interpreter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rulvar/rulvar-go/internal/process"
)

// interpret runs the command in the interpreter.
func (k *keeper) interpret() Done {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(k.start.Command), "shell")
	if err != nil {
		fmt.Fprintln(k.stderr, err)
		return Done{Status: 2}
	}
	null, err := os.Open(os.DevNull) // and never closed: background commands may use it
	if err != nil {
		return Done{Status: -1, Failure: err.Error()}
	}
	env := &environ{Environ: expand.ListEnviron(Words(k.start.Env)...), temp: string(k.start.Temp)}
	r, err := interp.New(
		interp.Env(env), interp.Dir(string(k.start.Dir)), interp.StdIO(null, k.stdout, k.stderr),
		interp.CallHandler(k.call), interp.OpenHandler(k.open),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return k.exec }),
	)
	if err != nil {
		return Done{Status: -1, Failure: err.Error()}
	}
	r.Reset()
	env.settled = true
	d := status(r.Run(k.ctx, file))
	d.Background = k.settle(r)
	return d
}

// environ is the command's environment. The interpreter takes the directory of
// its named pipes from TMPDIR when it is reset, and opens files there by their
// names without asking; so for that moment it is a directory of its own. A
// command can learn which, from the name of a process substitution, and lead a
// link out of it: that text always asks, and ln is judged.
type environ struct {
	expand.Environ
	temp    string
	settled bool
}

// Get returns a variable.
func (e *environ) Get(name string) expand.Variable {
	if name == "TMPDIR" && !e.settled {
		return expand.Variable{Set: true, Kind: expand.String, Str: e.temp}
	}
	return e.Environ.Get(name)
}

// status reads what a run of the interpreter returns.
func status(err error) Done {
	if err == nil {
		return Done{}
	}
	if s, ok := errors.AsType[interp.ExitStatus](err); ok {
		return Done{Status: int(s)}
	}
	if errors.Is(err, context.Canceled) {
		return Done{Status: -1}
	}
	return Done{Status: 1, Failure: err.Error()}
}

// settle waits for background commands, within the wait delay, and reports
// whether some are left. Without it a command such as "touch x &" might end
// before it has begun.
func (k *keeper) settle(r *interp.Runner) bool {
	k.settling.Store(true)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		defer func() { _ = recover() }()
		_ = r.Run(k.ctx, &syntax.CallExpr{Args: []*syntax.Word{{Parts: []syntax.WordPart{&syntax.Lit{Value: "wait"}}}}})
	}()
	timer := time.NewTimer(k.start.WaitDelay)
	defer timer.Stop()
	select {
	case <-waited:
		return false
	case <-timer.C:
	case <-k.ctx.Done():
	}
	return true
}

// exec starts a program. Everything that the interpreter executes comes through
// here, also what exec and command were given, so here it is judged.
func (k *keeper) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	switch args[0] {
	case k.refused:
		return interp.ExitStatus(statusRefused)
	case k.outside:
		args = args[1:]
	}
	refuse := func(status int, text string) error {
		fmt.Fprintln(hc.Stderr, text)
		return interp.ExitStatus(status)
	}
	if refusal := k.judge(args); refusal != "" {
		return refuse(statusRefused, refusal)
	}
	if filepath.Base(args[0]) == "kill" && k.names(args[1:]) {
		return refuse(statusRefused, "shell: kill: that is the process that runs this agent")
	}
	path, why, missing := lookup(hc, args[0])
	switch {
	case missing:
		return refuse(statusUnknown, "shell: "+args[0]+": "+why)
	case why != "":
		return refuse(statusRefused, "shell: "+args[0]+": "+why)
	}
	if k.live.Add(1) > int32(k.start.MaxProcesses) {
		k.live.Add(-1)
		return refuse(statusRefused, fmt.Sprintf("shell: %s: %d processes of this command are running already", args[0], k.start.MaxProcesses))
	}
	defer k.live.Add(-1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := run(func() *exec.Cmd {
		return &exec.Cmd{Path: path, Args: args, Env: exported(hc.Env), Dir: hc.Dir, Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr}
	})
	code, started := exitStatus(err)
	if !started {
		return refuse(code, "shell: "+args[0]+": "+startFailure(err))
	}
	if code == 0 {
		return nil
	}
	return interp.ExitStatus(code)
}

// names reports whether a kill would name the host, which is what $PPID is.
// It is against mistakes: a program can find the host in many ways.
func (k *keeper) names(args []string) bool {
	for _, a := range args {
		if pid, err := strconv.Atoi(strings.TrimPrefix(a, "-")); err == nil && pid == k.host {
			return true
		}
	}
	return false
}

// lookup finds a program. why says why it cannot be started; missing, that
// there is none.
func lookup(hc interp.HandlerContext, name string) (path, why string, missing bool) {
	path, err := interp.LookPathDir(hc.Dir, hc.Env, name)
	switch {
	case err == nil:
		return path, "", false
	case !strings.Contains(name, "/"):
		return "", "command not found", true
	case errors.Is(err, fs.ErrNotExist):
		return "", "no such file", true
	}
	return "", err.Error(), false
}

// run starts a program and waits for it.
func run(make func() *exec.Cmd) error {
	cmd, err := process.Start(make)
	if err != nil {
		return &startError{err}
	}
	return cmd.Wait()
}

// startError says that a program was not started.
type startError struct{ error }

// Unwrap returns why.
func (e *startError) Unwrap() error { return e.error }

// startFailure says it in the words of a shell.
func startFailure(err error) string {
	if errors.Is(err, syscall.ENOEXEC) {
		return "it is no program and names none that reads it; begin it with #! or give it to a shell"
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// exitStatus turns what [run] returns into a status. started is false where
// there was no program to have one.
func exitStatus(err error) (code int, started bool) {
	if err == nil {
		return 0, true
	}
	if _, ok := errors.AsType[*startError](err); ok {
		return statusRefused, false
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), true
		}
		return e.ExitCode(), true
	}
	return 1, true // its output could not be copied, or its status was taken
}

// exported returns the environment of a program.
func exported(env expand.Environ) []string {
	values := make(map[string]string)
	var order []string
	for name, v := range env.Each {
		if !v.IsSet() || !v.Exported || v.Kind != expand.String {
			delete(values, name)
			continue
		}
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = v.String()
	}
	list := make([]string, 0, len(values))
	for _, name := range order {
		if v, ok := values[name]; ok {
			list = append(list, name+"="+v)
			delete(values, name)
		}
	}
	return list
}

// runShell gives the command to a real shell.
func (k *keeper) runShell() Done {
	shell := k.start.Shell
	err := run(func() *exec.Cmd {
		var null io.Reader // the null device
		return &exec.Cmd{
			Path: shell, Args: []string{filepath.Base(shell), "-c", k.start.Command},
			Env: Words(k.start.Env), Dir: string(k.start.Dir), Stdin: null, Stdout: k.stdout, Stderr: k.stderr,
		}
	})
	code, started := exitStatus(err)
	if !started {
		return Done{Status: -1, Failure: startFailure(err)}
	}
	return Done{Status: code}
}
