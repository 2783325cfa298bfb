package mcp

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a server that was started as a child. It leads a process group of
// its own, which ends with it.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *tail
	done   chan struct{} // closed when the child is gone and its group was killed

	mu     sync.Mutex
	reaped bool // the child's number may be another process's by now
}

// outputDelay is how long the last output of a server is waited for after its
// end; a process that left the group may hold the pipe.
const outputDelay = time.Second

// startProcess starts the server.
func startProcess(t *Stdio) (_ *process, err error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer theirOut.Close()
	p := &process{stdin: in, stdout: out, stderr: &tail{also: t.Stderr}, done: make(chan struct{})}
	cmd := exec.Command(t.Command, t.Args...)
	cmd.Dir, cmd.Env = t.Dir, t.environment(os.LookupEnv)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, p.stderr
	cmd.WaitDelay = outputDelay
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	p.cmd = cmd
	go func() {
		defer close(p.done)
		p.reap()
	}()
	return p, nil
}

// signal sends the group a signal, unless the child's number is free.
func (p *process) signal(send func(*os.Process)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		send(p.cmd.Process)
	}
}

// end ends the server: its input is closed, then it is told to end, then it is
// killed, each after the grace. It returns when nothing of the group is left.
func (p *process) end(grace time.Duration) {
	p.stdin.Close()
	if !p.gone(grace) {
		p.signal(terminateGroup)
		if !p.gone(grace) {
			p.signal(killGroup)
			p.gone(10 * time.Second) // a process that the kernel holds
		}
	}
	p.stdout.Close()
}

func (p *process) gone(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// tail keeps the last that a server says on its standard error.
type tail struct {
	also io.Writer

	mu   sync.Mutex
	text []byte
}

const maxTail = 2 << 10

// Write implements io.Writer. It takes everything, whatever becomes of it.
func (t *tail) Write(b []byte) (int, error) {
	if t.also != nil {
		_, _ = t.also.Write(b)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > maxTail {
		t.text = append(t.text[:0], t.text[len(t.text)-maxTail:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\uFFFD"))
}
