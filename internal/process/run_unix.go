//go:build unix

package process

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
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
	r := &running{
		spec: s, res: &Result{ExitCode: -1, Stderr: NewCapture(s.MaxStderr)}, pidfd: -1,
		overflow: make(chan struct{}), drained: make(chan struct{}), exited: make(chan struct{}),
		lost: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := r.live(ctx); err != nil {
		return nil, err
	}
	r.finish()
	return r.res, nil
}

// running is one program that runs.
type running struct {
	spec  *Spec
	res   *Result
	cmd   *exec.Cmd
	pidfd int // Linux; -1 where there is none

	closing  [2]*os.File   // the host's ends of the output
	overflow chan struct{} // closed: standard output has reached its bound
	drained  chan struct{} // closed: the output has ended
	copying  atomic.Int32  // streams that have not ended

	exited chan struct{} // closed: the program has ended
	lost   chan struct{} // closed: it does not end
	mu     sync.Mutex
	over   bool          // nobody is to end it any more
	ending bool          // somebody is ending it
	ended  chan struct{} // closed: somebody has
}

// live is the program's life. The thread is this call's alone meanwhile: on
// Linux the program is killed with the thread that has started it. A call that
// must not wait for another thread when the program ends waits in the kernel.
func (r *running) live(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := r.start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { r.end(&r.res.Stopped) })
	defer stop()
	r.wait()
	return nil
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
	r.res.Began = time.Now()
	if r.cmd, err = r.command(theirs); err != nil {
		return err
	}
	r.copying.Store(2)
	go func() { r.collect(r.closing[0]); r.streamEnded() }()
	go func() { copyTo(r.res.Stderr, r.closing[1]); r.streamEnded() }()
	if input != nil {
		go func() { // ends when nobody can read any more
			_, _ = input.Write(rest)
			input.Close()
		}()
	}
	return nil
}

// command starts the program on its ends of the pipes.
func (r *running) command(files [3]*os.File) (*exec.Cmd, error) {
	return Start(func() *exec.Cmd {
		env := r.spec.Env
		if env == nil {
			env = []string{} // nil would be the host's
		}
		return &exec.Cmd{
			Path: r.spec.Path, Args: r.spec.Args, Env: env, Dir: r.spec.Dir,
			Stdin: files[0], Stdout: files[1], Stderr: files[2], SysProcAttr: attributes(&r.pidfd),
		}
	})
}

// hasTerminal reports whether the host has a terminal, which a program in its
// session could read from and type into: it gets a session of its own then.
// Otherwise it does without, because a kernel that shares out its time by
// session, as Linux does, lets a new one wait on a busy machine.
func hasTerminal() bool {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDONLY|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err == nil {
		syscall.Close(fd)
	}
	return err == nil || err != syscall.ENXIO && err != syscall.ENOENT
}

func (r *running) streamEnded() {
	if r.copying.Add(-1) == 0 {
		close(r.drained)
	}
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
	go r.end(&r.res.Overflow)
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

// end ends the program, once, unless it has ended, and notes why.
func (r *running) end(why *bool) {
	r.mu.Lock()
	if r.over || r.ending {
		r.mu.Unlock()
		return
	}
	r.ending, *why = true, true
	r.mu.Unlock()
	defer close(r.ended)
	pid := r.cmd.Process.Pid
	known := Descendants(pid)
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	for _, d := range known {
		d.Signal(syscall.SIGTERM)
	}
	within(r.exited, r.spec.KillDelay)
	if r.spec.Kill != nil {
		r.spec.Kill()
	}
	_ = syscall.Kill(-pid, syscall.SIGSTOP)
	KillDescendants(pid, known)
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	if !within(r.exited, lostDelay) {
		r.res.Lost = true
		close(r.lost)
	}
}

// settle waits for whoever ends the program, and lets nobody begin to.
func (r *running) settle() {
	r.mu.Lock()
	r.over = true
	ending := r.ending
	r.mu.Unlock()
	select {
	case <-r.lost:
	default:
		close(r.exited)
	}
	if ending {
		<-r.ended
	}
}

// finish ends what is left, and takes the exit status after that, so that the
// process group cannot be mistaken for another.
func (r *running) finish() {
	r.settle()
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
	if res.Lost {
		go func() { awaitExit(r.cmd); reap(r.cmd) }()
	} else {
		reap(r.cmd)
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
