package executor

import (
	"encoding/json"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/process"
)

// SubprocessOptions say how programs are run. The zero SubprocessOptions are
// good defaults, without a ledger and without a sandbox.
type SubprocessOptions struct {
	// Program is what tools without a spec run; its arguments come before
	// those of a spec. Default: none.
	Program *Program
	// AllowEnv names the variables of the host that programs find in their
	// environment, if the host has them. Default: none, not even PATH.
	AllowEnv []string
	// Credentials adds variables of the call. Default: none.
	Credentials Credentials
	// Timeout ends a program. Default: 30 s.
	Timeout time.Duration
	// KillDelay is waited between SIGTERM and SIGKILL when a program is ended.
	// Default: 2 s.
	KillDelay time.Duration
	// WaitDelay is waited for whoever holds the output open when a program has
	// ended. Default: 500 ms.
	WaitDelay time.Duration
	// MaxOutput is how many bytes a program may not write: as many end it. So
	// many bytes of its standard error are kept; more of that ends nothing.
	// Default: 1 MiB.
	MaxOutput int
	// WorkDir is where the directories of programs are made. Default: the
	// system's directory of temporary files.
	WorkDir string
	// Sandbox contains programs. Default: none, they have the host's rights.
	Sandbox *Sandbox
	// Ledger accounts for effects. Default: none.
	Ledger Ledger
	// KeepResults writes results to the ledger, in plain text, so that a call
	// that was executed and whose host then died has its result at the next
	// try. Default: the next try of such a call is an [ErrLedger].
	KeepResults bool
}

// defaultKillDelay is for a program.
const defaultKillDelay = 2 * time.Second

// Subprocess runs tools as programs. It is made by [NewSubprocess], is a
// [rulvar.ToolExecutor], and is safe for concurrent use.
type Subprocess struct {
	d        dispatcher
	allowEnv []string
	sandbox  *Sandbox
}

// NewSubprocess makes one. nil options are the defaults. Wrong options, and a
// system without Unix processes, are an [rulvar.ErrConfig].
func NewSubprocess(opts *SubprocessOptions) (*Subprocess, error) {
	const op = "NewSubprocess"
	if opts == nil {
		opts = &SubprocessOptions{}
	}
	o := *opts
	if o.KillDelay == 0 {
		o.KillDelay = defaultKillDelay
	}
	x := &Subprocess{
		d: dispatcher{
			op: "subprocess", kind: rulvar.ExecutorSubprocess, prefix: "rulvar-exec-", program: copyOf(o.Program),
			timeout: o.Timeout, killDelay: o.KillDelay, waitDelay: o.WaitDelay, maxOutput: o.MaxOutput, workdir: o.WorkDir,
			credentials: o.Credentials, ledger: o.Ledger, keepResults: o.KeepResults,
		},
		allowEnv: append([]string(nil), o.AllowEnv...), sandbox: o.Sandbox,
	}
	x.d.launch = x.launch
	if err := x.d.check(op); err != nil {
		return nil, err
	}
	if err := checkNames(op, "AllowEnv", x.allowEnv); err != nil {
		return nil, err
	}
	if o.KeepResults && o.Ledger == nil {
		return nil, configError(op, "Options.KeepResults", "there is no ledger to keep results in")
	}
	if err := x.sandbox.usable(); err != nil {
		return nil, configError(op, "Options.Sandbox", err.Error())
	}
	return x, nil
}

func copyOf(p *Program) *Program {
	if p == nil {
		return nil
	}
	return &Program{Command: p.Command, Args: append([]string(nil), p.Args...), InTree: p.InTree}
}

// CheckTool refuses a tool that no call of could be run: the engine asks when
// the tool is registered. The error is an [rulvar.ErrConfig].
func (x *Subprocess) CheckTool(t *rulvar.Tool) error { return x.d.checkTool(t) }

// Execute implements [rulvar.ToolExecutor].
func (x *Subprocess) Execute(tc *rulvar.ToolContext, call rulvar.ExecutorCall) (json.RawMessage, error) {
	return x.d.execute(tc, call)
}

// launch makes the environment and finds the program.
func (x *Subprocess) launch(a *attempt) (*process.Spec, func(*process.Result) error, error) {
	env := hostValues(x.allowEnv)
	if _, err := a.addCredentials(env); err != nil {
		return nil, nil, err
	}
	a.addOwn(env)
	path, hasPath := env["PATH"]
	file, msg := lookup(a.program.Command, path, hasPath)
	if msg != "" {
		return nil, nil, a.fail(ErrSpawn, msg, nil, nil)
	}
	spec := &process.Spec{Path: file, Args: append([]string{a.program.Command}, a.program.Args...), Env: list(env), Dir: a.work}
	if x.sandbox != nil {
		if err := x.sandbox.wrap(spec, a.dir); err != nil {
			return nil, nil, a.fail(ErrSpawn, "it cannot be started in its sandbox", nil, err)
		}
	}
	return spec, nil, nil
}
