package rulvartest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// childTime bounds the life of a child process. One that lives longer hangs.
const childTime = 2 * time.Minute

// Child is a part of a test that runs in a process of its own, which may be
// killed at a [Point]. Make it with [NewChild].
type Child struct {
	name    string
	pattern string // for -test.run
}

// NewChild makes fn a child of the test. In the test's own process it returns
// a Child, whose methods start processes. Such a process is the same test
// binary, told to run the same test; there NewChild runs fn with the arguments
// that were given, reports what it returned, and ends the process without
// returning. So a test makes its children before it does anything else, each
// with a name of its own:
//
//	func TestDeploy(t *testing.T) {
//		child := rulvartest.NewChild(t, "deploy", func(args []string) (string, error) {
//			return deploy(args[0])
//		})
//		visit := child.RunTo(t, "tool:deploy:before", t.TempDir())
//		…
//
// The process ends without the test's cleanups. On systems where a process
// cannot kill itself NewChild skips the test and says why.
func NewChild(t testing.TB, name string, fn func(args []string) (result string, err error)) *Child {
	t.Helper()
	if canKill != "" {
		t.Skip("rulvartest: " + canKill)
	}
	if r := self(); r != nil && r.child == name {
		r.end(fn(r.args))
	}
	segments := strings.Split(t.Name(), "/")
	for i, s := range segments {
		segments[i] = "^" + regexp.QuoteMeta(s) + "$"
	}
	return &Child{name: name, pattern: strings.Join(segments, "/")}
}

// Visit is what one child process did.
type Visit struct {
	// Points are the points it reached, in order; the n-th time a name is
	// reached, from the second, it stands as "name#n".
	Points []string
	// Killed is the point at which it died; "" where it came to its end.
	Killed string
	// Result is what the child's function returned.
	Result string
	// Output is what the process has printed.
	Output string
}

// StartOptions say what a child process does at a point. Points are written as
// in [Visit]; "name#1" is "name". A point that is never reached changes nothing.
type StartOptions struct {
	// KillAt is where the process kills itself.
	KillAt string
	// HoldAt is where the goroutine that reaches it waits, until
	// [Process.Release].
	HoldAt string
}

// Run runs the child to its end. A child that fails, or dies of something
// else than a point, fails the test.
func (c *Child) Run(t testing.TB, args ...string) Visit {
	t.Helper()
	return c.Start(t, nil, args...).Wait()
}

// RunTo runs the child until it reaches point, and kills it there. A child
// that comes to its end first has an empty Visit.Killed.
func (c *Child) RunTo(t testing.TB, point string, args ...string) Visit {
	t.Helper()
	return c.Start(t, &StartOptions{KillAt: point}, args...).Wait()
}

// Process is a child process that runs. Its methods belong to the test's
// goroutine.
type Process struct {
	t       testing.TB
	cmd     *exec.Cmd
	output  bytes.Buffer
	stdin   io.Closer
	timer   *time.Timer
	told    chan struct{} // closed when the report has ended
	dead    bool          // killed by Kill
	waited  bool
	hasEnd  bool // the child's function has returned
	failure string

	mu      sync.Mutex
	held    bool          // the child waits
	changed chan struct{} // closed and replaced with each line of the report
	visit   Visit
}

// Start starts the child and returns at once; [Process.Wait] must follow. nil
// options are a child that runs to its end.
func (c *Child) Start(t testing.TB, opts *StartOptions, args ...string) *Process {
	t.Helper()
	if r := self(); r != nil {
		t.Fatalf("rulvartest: the child process %q has gone past all children of its test: NewChild must come before anything else", r.child)
	}
	if opts == nil {
		opts = &StartOptions{}
	}
	p := &Process{t: t, told: make(chan struct{}), changed: make(chan struct{})}
	if err := p.start(c, opts, args); err != nil {
		t.Fatalf("rulvartest: the child process %q cannot be started: %v", c.name, err)
	}
	return p
}

func (p *Process) start(c *Child, opts *StartOptions, args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	list, err := json.Marshal(append([]string{}, args...))
	if err != nil {
		return err
	}
	p.cmd = exec.Command(exe, "-test.run="+c.pattern)
	p.cmd.Env = append(os.Environ(),
		envChild+"="+c.name, envArgs+"="+string(list),
		envKill+"="+firstOccurrence(opts.KillAt), envHold+"="+firstOccurrence(opts.HoldAt),
		// The race detector would sleep a second at each exit.
		"GORACE="+strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = 10 * time.Second // for programs of the child that outlive it
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	report, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	p.cmd.ExtraFiles = []*os.File{w}
	if err := p.cmd.Start(); err != nil {
		_ = report.Close()
		return err
	}
	p.timer = time.AfterFunc(childTime, func() { askForStacks(p.cmd) })
	go p.read(report)
	p.t.Cleanup(func() { // a test that has failed does not leave it behind
		if !p.waited {
			p.Kill()
			p.end()
		}
	})
	return nil
}

// read takes in the child's report until its end, which comes with the
// process's.
func (p *Process) read(report *os.File) {
	defer close(p.told)
	defer report.Close()
	lines := bufio.NewScanner(report)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		word, text, _ := strings.Cut(lines.Text(), " ")
		p.mu.Lock()
		switch word {
		case wordPoint:
			p.visit.Points = append(p.visit.Points, text)
		case wordHeld:
			p.held = true
		case wordKilled:
			p.visit.Killed = text
		case wordResult:
			p.hasEnd = json.Unmarshal([]byte(text), &p.visit.Result) == nil
		case wordError:
			p.hasEnd = json.Unmarshal([]byte(text), &p.failure) == nil
		}
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// AwaitHold waits until the child waits at StartOptions.HoldAt. A child that
// ends first fails the test.
func (p *Process) AwaitHold() {
	p.t.Helper()
	p.await(func() bool { return p.held }, "the point where it is held")
}

// AwaitPoint waits until the child has reached a point. A child that ends first
// fails the test.
func (p *Process) AwaitPoint(point string) {
	p.t.Helper()
	p.await(func() bool { return slices.Contains(p.visit.Points, firstOccurrence(point)) }, point)
}

// await waits until ok, which is asked under the lock.
func (p *Process) await(ok func() bool, what string) {
	p.t.Helper()
	for ended := false; ; {
		p.mu.Lock()
		come, changed := ok(), p.changed
		p.mu.Unlock()
		switch {
		case come:
			return
		case ended:
			p.t.Fatalf("rulvartest: the child ended without coming to %s: %+v", what, p.Wait())
		}
		select {
		case <-changed:
		case <-p.told:
			ended = true
		}
	}
}

// Release lets a child that is held go on.
func (p *Process) Release() { _ = p.stdin.Close() }

// Kill kills the child where it stands, at its hold for example.
func (p *Process) Kill() {
	p.dead = true
	_ = p.cmd.Process.Kill()
}

// Wait waits for the end of the child and tells what it did. A child that is
// held is let go.
func (p *Process) Wait() Visit {
	p.t.Helper()
	err := p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.visit
	v.Output = p.output.String()
	killed := wasKilled(p.cmd.ProcessState)
	switch {
	case killed && (p.dead || v.Killed != ""):
		return v
	case err != nil:
		p.t.Fatalf("rulvartest: the child process failed: %v; its last points are %q, its output:\n%s", err, last(v.Points, 5), v.Output)
	case p.failure != "":
		p.t.Fatalf("rulvartest: the child returned an error: %s; its last points are %q, its output:\n%s", p.failure, last(v.Points, 5), v.Output)
	case !p.hasEnd:
		p.t.Fatalf("rulvartest: the child process ended without running the child: NewChild must come before anything else; its output:\n%s", v.Output)
	}
	return v
}

// end waits for the process.
func (p *Process) end() error {
	p.waited = true
	p.Release()
	<-p.told
	err := p.cmd.Wait()
	p.timer.Stop()
	return err
}

func last(list []string, n int) []string { return list[max(0, len(list)-n):] }
