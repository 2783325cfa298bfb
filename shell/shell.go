package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
)

// The defaults of [Options].
const (
	DefaultName       = "shell"
	DefaultTimeout    = 2 * time.Minute
	DefaultMaxTimeout = 10 * time.Minute
	DefaultMaxOutput  = 64 << 10
	DefaultKillDelay  = time.Second
	DefaultWaitDelay  = 500 * time.Millisecond
)

// limits is what one command may use.
type limits struct {
	memory    uint64 // of the interpreter, in bytes
	stack     int    // of a goroutine of it, in bytes
	processes int    // programs that the interpreter has running at once
}

var defaultLimits = limits{memory: 512 << 20, stack: 16 << 20, processes: 256}

// Options says how commands are run. The zero Options are good defaults.
type Options struct {
	// Name is the tool's name, which rules match. Default: "shell".
	Name string
	// Description is what the model reads. Default: a text that says what the
	// tool does and what it does not. It is part of the tool's contract.
	Description string
	// NeedsApproval makes every call ask where no rule and no closure decides.
	NeedsApproval bool
	// Dir is the directory commands start in. Default: the agent's,
	// [rulvar.ToolContext.Cwd].
	Dir string
	// Env is what commands find in their environment: NAME passes the host's
	// variable on if it has one, NAME=value sets it. Default: PATH, HOME, USER,
	// LOGNAME, LANG, LC_ALL, LC_CTYPE, TZ and TMPDIR of the host, so that keys
	// and tokens of the host stay with it. An empty list that is not nil passes
	// nothing.
	Env []string
	// Timeout ends a command for which the model names none; MaxTimeout bounds
	// what the model may name. Defaults: 2 and 10 minutes.
	Timeout, MaxTimeout time.Duration
	// KillDelay is waited between SIGTERM and SIGKILL when a command is ended.
	// Default: 1 s.
	KillDelay time.Duration
	// WaitDelay is waited for background commands, and for whoever holds the
	// output open, when the command itself has ended. Default: 500 ms.
	WaitDelay time.Duration
	// MaxOutput is how many bytes of each of standard output and standard error
	// are kept: its first half and its last. Default: 64 KiB.
	MaxOutput int
	// KeepBackground leaves background commands running when their command has
	// ended: a server that a later call speaks to. By default they are killed,
	// so that nothing runs on that no call accounts for. They keep running when
	// the run, and the host, have ended.
	KeepBackground bool
	// Shell is the absolute path of a real shell, such as /bin/bash, to run
	// commands with in place of the interpreter; see the package documentation
	// for what is no longer judged then. Default: the interpreter.
	Shell string
}

// Input is what the model calls the tool with.
type Input struct {
	// Command is the text to run.
	Command string `json:"command" jsonschema:"minLength=1,maxLength=1000000" jsonschema_description:"The command, in the syntax of bash. It starts in the working directory each time; nothing but files lasts from one call to the next."`
	// TimeoutMs is when it is ended, in milliseconds; zero is
	// [Options.Timeout], and more than [Options.MaxTimeout] is that.
	TimeoutMs int `json:"timeout_ms,omitempty" jsonschema:"minimum=1,maximum=86400000" jsonschema_description:"Milliseconds after which the command is ended, within what the host allows. Leave it out for the host's default."`
}

// Result is what the model sees of a command that was run.
type Result struct {
	// ExitCode is the command's status, 128 and the number of the signal where
	// one ended it, or -1 where it did not end by itself: then Error says why.
	ExitCode int `json:"exitCode"`
	// Error says why the command did not end by itself.
	Error string `json:"error,omitempty"`
	// Stdout and Stderr are what it wrote: valid UTF-8 without NUL, of each at
	// most [Options.MaxOutput] bytes and a line that says what was cut.
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Truncated says that either of them was cut.
	Truncated bool `json:"truncated"`
	// Notes say what else is not as it was written, such as replaced bytes.
	Notes []string `json:"notes,omitempty"`
	// TimedOut and Cancelled say that the command was ended, by its time-out or
	// with the run.
	TimedOut  bool `json:"timedOut"`
	Cancelled bool `json:"cancelled,omitempty"`
	// Background says that a background command was left when the command
	// ended. It was killed, or kept as [Options.KeepBackground] says.
	Background bool `json:"background,omitempty"`
	// Refused is what policy did not let the command execute or open.
	Refused []Refusal `json:"refused,omitempty"`
	// DurationMs is how long it ran, in milliseconds.
	DurationMs int64 `json:"durationMs"`
}

// Refusal is one argv that was not executed, or one file that was not opened.
type Refusal struct {
	// Argv is what the command wanted to execute.
	Argv []string `json:"argv,omitempty"`
	// Redirect is the redirection it wanted, such as "> out.txt".
	Redirect string `json:"redirect,omitempty"`
	// Verdict is deny, or ask where somebody would have had to approve it.
	Verdict rulvar.Verdict `json:"verdict"`
	// Rule is the rule that matched, if one did.
	Rule rulvar.Rule `json:"rule,omitzero"`
}

// What the model reads. It depends on nothing but the choice of the shell,
// because it is part of the tool's contract.
const (
	description = "Run a shell command and return its exit status, standard output and standard error. " +
		"The syntax is bash's (pipes, && and ||, redirections, variables, loops, functions); standard input is empty and there is no terminal. " +
		"Every program is checked against policy at the moment it would start: exit status 126 and a message on standard error mean that it was refused, and trying again changes nothing. " +
		"Background commands end with the call unless the host says otherwise."
	descriptionReal = "Run a shell command and return its exit status, standard output and standard error. " +
		"Standard input is empty and there is no terminal. " +
		"Background commands end with the call unless the host says otherwise."
)

// New makes a tool that runs shell commands, of risk execute. Wrong options are
// an [rulvar.ErrConfig], as is a system that has no Unix processes. The tool may
// be used by any number of agents at once.
func New(opts Options) (*rulvar.Tool, error) {
	r, err := newRunner(opts)
	if err != nil {
		return nil, err
	}
	o := &r.opts
	return rulvar.NewTool(rulvar.ToolConfig{
		Name: o.Name, Description: o.Description, Risk: rulvar.RiskExecute, NeedsApproval: o.NeedsApproval,
	}, func(tc *rulvar.ToolContext, in Input) (*Result, error) {
		return r.handle(tc, in)
	})
}

// runner runs the commands of one tool.
type runner struct {
	opts   Options
	env    []string // NAME=value
	limits limits
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// newRunner checks the options and fills in the defaults.
func newRunner(o Options) (*runner, error) {
	if !supported {
		return nil, configError("", "the shell tool needs a Unix system: there are no process groups and no signals here to end a command with")
	}
	setDefault(&o.Name, DefaultName)
	if o.Shell == "" {
		setDefault(&o.Description, description)
	}
	setDefault(&o.Description, descriptionReal)
	setDefault(&o.Timeout, DefaultTimeout)
	setDefault(&o.MaxTimeout, max(DefaultMaxTimeout, o.Timeout))
	setDefault(&o.KillDelay, DefaultKillDelay)
	setDefault(&o.WaitDelay, DefaultWaitDelay)
	setDefault(&o.MaxOutput, DefaultMaxOutput)
	switch {
	case o.Timeout < 0 || o.MaxTimeout < 0 || o.KillDelay < 0 || o.WaitDelay < 0:
		return nil, configError("", "a time is negative; zero means the default")
	case o.Timeout > o.MaxTimeout:
		return nil, configError("Timeout", fmt.Sprintf("the time-out of %v is longer than MaxTimeout, %v", o.Timeout, o.MaxTimeout))
	case o.MaxOutput < 64:
		return nil, configError("MaxOutput", fmt.Sprintf("%d bytes of output are too few to say anything; use 64 or more", o.MaxOutput))
	case o.Shell != "" && !filepath.IsAbs(o.Shell):
		return nil, configError("Shell", fmt.Sprintf("%q is no absolute path; name the shell as /bin/sh or /bin/bash", o.Shell))
	case o.Dir != "" && !filepath.IsAbs(o.Dir):
		return nil, configError("Dir", fmt.Sprintf("%q is no absolute path", o.Dir))
	}
	if o.Shell != "" {
		if info, err := os.Stat(o.Shell); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return nil, configError("Shell", fmt.Sprintf("%q is no program", o.Shell))
		}
	}
	env, err := environment(o.Env)
	if err != nil {
		return nil, err
	}
	return &runner{opts: o, env: env, limits: defaultLimits}, nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func configError(option, msg string) error {
	if option != "" {
		option = "Options." + option
	}
	return &rulvar.Error{Code: rulvar.ErrConfig, Op: "shell.New", Path: option, Msg: msg}
}

// passed is the default of [Options.Env].
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}

// environment makes the commands' environment of an allow-list, of which a
// later entry beats an earlier one.
func environment(allowed []string) ([]string, error) {
	if allowed == nil {
		allowed = passed
	}
	var env []string
	for i, entry := range allowed {
		name, value, set := strings.Cut(entry, "=")
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			return nil, configError(fmt.Sprintf("Env[%d]", i), fmt.Sprintf("%q is no NAME and no NAME=value", entry))
		}
		if !set {
			if value, set = os.LookupEnv(name); !set {
				continue
			}
		}
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, name+"="+value)
	}
	return env, nil
}

// handle runs one call.
func (r *runner) handle(tc *rulvar.ToolContext, in Input) (*Result, error) {
	dir := r.opts.Dir
	if dir == "" {
		dir = tc.Cwd()
	}
	if dir == "" {
		return nil, fmt.Errorf("the command has no directory to run in: set Options.Dir")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the working directory %s is not there", dir)
	}
	timeout := r.opts.Timeout
	if in.TimeoutMs > 0 {
		timeout = min(time.Duration(in.TimeoutMs)*time.Millisecond, r.opts.MaxTimeout)
	}
	return r.run(tc, &job{command: in.Command, dir: dir, timeout: timeout, judge: &judge{by: tc, log: tc.Log}})
}

// job is one command to run.
type job struct {
	command string
	dir     string // absolute
	timeout time.Duration
	judge   *judge
}
