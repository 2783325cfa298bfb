//go:build unix

package process

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported says whether [Run] works here.
const Supported = true

const (
	// directInput is how much an empty pipe takes without a reader, on every
	// system and under every limit.
	directInput = 4096
	// lostDelay is how long a killed program may take to be gone.
	lostDelay = 10 * time.Second
)

// Run starts a program and returns when it has ended, by itself or because ctx
// has, and nothing of its process group is left: at the latest KillDelay, twice
// WaitDelay and what Kill takes after the end of ctx. On Linux a program that
// is being ended is followed beyond its group, as far as the chain of parents
// leads; and it is killed when the host dies. An error means that it was not
// started.
func Run(ctx context.Context, s *Spec) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &running{spec: s, res: &Result{ExitCode: -1, Stderr: NewCapture(s.MaxStderr)},
		overflow: make(chan struct{}), drained: make(chan struct{}), exited: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{})}
	if err := r.start(); err != nil {
		return nil, err
	}
	r.await(ctx)
	r.finish()
	return r.res, nil
}

// running is one program that runs.
type running struct {
	spec *Spec
	res  *Result
	cmd  *exec.Cmd

	closing  [2]*os.File   // the host's ends of the output
	overflow chan struct{} // closed: standard output has reached its bound
	drained  chan struct{} // closed: the output has ended
	exited   chan struct{} // closed: the program has ended
	reap     chan struct{} // closed: its exit status may be taken
	reaped   chan struct{} // closed: it is taken
	copying  sync.WaitGroup
}

// start makes the pipes and starts the program.
func (r *running) start() (err error) {
	var theirs [3]*os.File
	var input *os.File
	defer func() {
		closeAll(theirs[:]...)
		if err != nil {
			closeAll(r.closing[0], r.closing[1], input)
		}
	}()
	if theirs[0], input, err = os.Pipe(); err != nil {
		return err
	}
	for i := range r.closing {
		if r.closing[i], theirs[i+1], err = os.Pipe(); err != nil {
			return err
		}
	}
	rest := r.spec.Stdin
	if len(rest) <= directInput { // the usual case needs no goroutine
		_, _ = input.Write(rest)
		input.Close()
		input, rest = nil, nil
	}
	failed := make(chan error, 1)
	r.res.Began = time.Now()
	go r.lead(theirs, failed)
	if err := <-failed; err != nil {
		return err
	}
	r.copying.Go(func() { r.collect(r.closing[0]) })
	r.copying.Go(func() { copyTo(r.res.Stderr, r.closing[1]) })
	go func() { r.copying.Wait(); close(r.drained) }()
	if input != nil {
		go func() { // ends when nobody can read any more
			_, _ = input.Write(rest)
			input.Close()
		}()
	}
	return nil
}

// lead starts the program and stays with it: on Linux it is killed with the
// thread that has started it.
func (r *running) lead(files [3]*os.File, failed chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := Start(func() *exec.Cmd {
		env := r.spec.Env
		if env == nil {
			env = []string{} // nil would be the host's
		}
		return &exec.Cmd{
			Path: r.spec.Path, Args: r.spec.Args, Env: env, Dir: r.spec.Dir,
			Stdin: files[0], Stdout: files[1], Stderr: files[2], SysProcAttr: attributes(),
		}
	})
	r.cmd = cmd
	failed <- err
	if err != nil {
		return
	}
	awaitExit(cmd)
	close(r.exited)
	<-r.reap
	_ = cmd.Wait() // what it says is in the ProcessState
	close(r.reaped)
}

// collect reads standard output, up to its bound; what comes then is read and
// dropped, so that nobody who is being ended hangs in a write.
func (r *running) collect(f *os.File) {
	limit := r.spec.MaxStdout
	buf := make([]byte, 0, min(limit, 4096))
	for len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := f.Read(buf[len(buf):min(cap(buf), limit)])
		buf = buf[:len(buf)+n]
		if err != nil {
			r.res.Stdout = buf
			return
		}
	}
	r.res.Stdout = buf
	close(r.overflow)
	copyTo(io.Discard, f)
}

// copyTo copies until the end.
func copyTo(w io.Writer, f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		_, _ = w.Write(buf[:n]) // neither of the two can fail
		if err != nil {
			return
		}
	}
}

// await returns when the program has ended, by itself or not.
func (r *running) await(ctx context.Context) {
	select {
	case <-r.exited:
		return
	case <-ctx.Done():
		r.res.Stopped = true
	case <-r.overflow:
		r.res.Overflow = true
	}
	pid := r.cmd.Process.Pid
	known := Descendants(pid)
	signal := func(sig syscall.Signal) {
		_ = syscall.Kill(-pid, sig)
		for _, d := range known {
			d.Signal(sig)
		}
	}
	signal(syscall.SIGTERM)
	within(r.exited, r.spec.KillDelay)
	known = append(known, Descendants(pid)...)
	if r.spec.Kill != nil {
		r.spec.Kill()
	}
	signal(syscall.SIGKILL)
	r.res.Lost = !within(r.exited, lostDelay)
}

// finish ends what is left, and takes the exit status after that, so that the
// process group cannot be mistaken for another.
func (r *running) finish() {
	res, ended := r.res, !r.res.Stopped && !r.res.Overflow
	if ended {
		res.Duration = time.Since(res.Began)
		res.Left = !within(r.drained, r.spec.WaitDelay)
		select {
		case <-r.overflow: // it wrote too much, and ended before that was seen
			res.Overflow = true
		default:
		}
	}
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	close(r.reap)
	if !res.Lost {
		<-r.reaped
		r.status()
	}
	within(r.drained, r.spec.WaitDelay)
	closeAll(r.closing[:]...) // whoever still holds the other end writes to nobody
	<-r.drained
	if !ended {
		res.Duration = time.Since(res.Began)
	}
}

// status takes over how the program has ended. Where somebody else in this
// process has taken it, there is none.
func (r *running) status() {
	state := r.cmd.ProcessState
	if state == nil {
		return
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.res.Signal = signalName(ws.Signal())
		return
	}
	r.res.ExitCode = state.ExitCode()
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return sig.String()
}

// within reports whether done is closed within d.
func within(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
