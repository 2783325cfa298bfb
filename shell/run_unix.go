//go:build unix

package shell

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rulvar/rulvar-go/internal/process"
	"github.com/rulvar/rulvar-go/shell/internal/interpreter"
)

const supported = true

const (
	// startTimeout is how long an interpreter may take to begin; it is a
	// process of the host's own program on a machine that may be busy.
	startTimeout = 30 * time.Second
	// sendTimeout is how long an interpreter may take to read a message.
	sendTimeout = 10 * time.Second
	// stopSlack is added to the kill delay before an interpreter that does not
	// end its command is killed with it.
	stopSlack = 2 * time.Second
	// killTimeout is how long an interpreter may take to kill what is left.
	killTimeout = time.Second
	// maxLog is how much is kept of what an interpreter says of itself.
	maxLog = 4 << 10
)

// started is a started interpreter.
type started struct {
	cmd      *exec.Cmd
	conn     *interpreter.Conn
	toShell  *os.File
	closing  []*os.File // what the host reads
	stdout   *process.Capture
	stderr   *process.Capture
	log      *process.Capture
	temp     string
	messages chan *interpreter.Message // closed when the interpreter has gone
	drained  chan struct{}             // closed when nobody can write output any more
	wg       sync.WaitGroup
}

// run starts an interpreter, lets it run the command and returns when nothing
// of the command is left, or only what may be: at the latest a few seconds
// after the time-out.
func (r *runner) run(ctx context.Context, j *job) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := r.start(j.judge)
	if err != nil {
		return nil, fmt.Errorf("the shell could not be started: %w", err)
	}
	res := &Result{}
	w := &watch{r: r, p: p, j: j, res: res}
	d := w.wait(ctx)
	w.finish(&d)
	p.wg.Wait()
	w.describe(&d)
	return res, nil
}

// start starts an interpreter with its pipes.
func (r *runner) start(j *judge) (_ *started, err error) {
	var theirs, ours [5]*os.File // from host, to host, stdout, stderr, log
	closeAll := func(files []*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	defer func() {
		closeAll(theirs[:])
		if err != nil {
			closeAll(ours[:])
		}
	}()
	for i := range ours {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if ours[i], theirs[i] = read, write; i == 0 {
			ours[i], theirs[i] = write, read
		}
	}
	cmd, err := interpreter.Command(theirs[0], theirs[1], theirs[2], theirs[3])
	if err != nil {
		return nil, err
	}
	cmd.Stderr = theirs[4]
	temp, err := os.MkdirTemp("", "rulvar-shell-")
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		os.Remove(temp)
		return nil, err
	}
	p := &started{
		cmd: cmd, toShell: ours[0], closing: ours[1:], temp: temp,
		stdout: process.NewCapture(r.opts.MaxOutput), stderr: process.NewCapture(r.opts.MaxOutput), log: process.NewCapture(maxLog),
		messages: make(chan *interpreter.Message, 8), drained: make(chan struct{}),
	}
	p.conn = interpreter.NewConn(ours[1], deadlineWriter{ours[0]})
	var output sync.WaitGroup
	output.Go(func() { _, _ = io.Copy(p.stdout, ours[2]) })
	output.Go(func() { _, _ = io.Copy(p.stderr, ours[3]) })
	p.wg.Go(func() { output.Wait(); close(p.drained) })
	p.wg.Go(func() { _, _ = io.Copy(p.log, ours[4]) })
	p.wg.Go(func() { p.listen(j) })
	return p, nil
}

// deadlineWriter writes to an interpreter that may have stopped reading.
type deadlineWriter struct{ f *os.File }

// Write implements io.Writer.
func (w deadlineWriter) Write(b []byte) (int, error) {
	if err := w.f.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return 0, err
	}
	return w.f.Write(b)
}

// listen answers what the interpreter asks and hands on the rest.
func (p *started) listen(j *judge) {
	defer close(p.messages)
	for {
		m, err := p.conn.Receive()
		if err != nil {
			return
		}
		if m.Kind != interpreter.KindAsk {
			select {
			case p.messages <- m:
			default: // more than an interpreter has to say
			}
			continue
		}
		answer := &interpreter.Message{Kind: interpreter.KindAnswer, ID: m.ID}
		if m.Op != "" {
			answer.Refusal = j.file(m.Op, interpreter.Words(m.Files))
		} else {
			answer.Refusal = j.argv(interpreter.Words(m.Argv))
		}
		_ = p.conn.Send(answer) // one that does not read is noticed elsewhere
	}
}

// watch follows one command.
type watch struct {
	r     *runner
	p     *started
	j     *job
	res   *Result
	began time.Time
	ended bool // the command ended by itself
}

// wait returns when the command has ended, by itself or not, or the interpreter
// has gone.
func (w *watch) wait(ctx context.Context) interpreter.Done {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	cancelled := ctx.Done()
	stopping := false
	stop := func() {
		stopping, cancelled = true, nil
		_ = w.p.conn.Send(&interpreter.Message{Kind: interpreter.KindStop})
		timer.Reset(w.r.opts.KillDelay + stopSlack)
	}
	for {
		select {
		case m, ok := <-w.p.messages:
			switch {
			case !ok:
				return interpreter.Done{Status: -1, Failure: "the interpreter ended unexpectedly"}
			case m.Kind == interpreter.KindReady && w.began.IsZero():
				w.began = time.Now()
				timer.Reset(w.j.timeout)
				if err := w.p.conn.Send(w.r.startMessage(w.j, w.p.temp)); err != nil {
					return interpreter.Done{Status: -1, Failure: "the interpreter takes no command: " + err.Error()}
				}
			case m.Kind == interpreter.KindDone && m.Done != nil:
				w.ended = !stopping
				return *m.Done
			}
		case <-cancelled:
			w.res.Cancelled = true
			stop()
		case <-timer.C:
			switch {
			case w.began.IsZero():
				return interpreter.Done{Status: -1, Failure: "the interpreter did not start"}
			case stopping:
				return interpreter.Done{Status: -1}
			}
			w.res.TimedOut = true
			stop()
		}
	}
}

func (r *runner) startMessage(j *job, temp string) *interpreter.Message {
	return &interpreter.Message{Kind: interpreter.KindStart, Start: &interpreter.Start{
		Command: j.command, Dir: []byte(j.dir), Env: interpreter.Bytes(r.env), Temp: []byte(temp), Shell: r.opts.Shell,
		KillDelay: r.opts.KillDelay, WaitDelay: r.opts.WaitDelay, Keep: r.opts.KeepBackground,
		MaxMemory: r.limits.memory, MaxStack: r.limits.stack, MaxProcesses: r.limits.processes,
	}}
}

// finish ends what is left: it waits for output, kills the rest, and takes the
// interpreter's exit status last, so that its process group cannot be mistaken
// for another.
func (w *watch) finish(d *interpreter.Done) {
	p, o := w.p, &w.r.opts
	if !w.began.IsZero() {
		w.res.DurationMs = time.Since(w.began).Milliseconds()
	}
	left := d.Background
	if w.ended && !left {
		left = !p.waitDrained(o.WaitDelay)
	}
	if !w.ended || !o.KeepBackground {
		if p.killRest() > 0 && w.ended {
			left = true
		}
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	w.res.Background = w.ended && left
	p.toShell.Close()
	p.waitDrained(o.WaitDelay)
	timer := time.AfterFunc(stopSlack, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	timer.Stop()
	for _, f := range p.closing {
		f.Close() // whoever still holds the other end writes to nobody
	}
	os.RemoveAll(p.temp)
}

// waitDrained reports whether the output ends within d.
func (p *started) waitDrained(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.drained:
		return true
	case <-timer.C:
		return false
	}
}

// killRest has the interpreter kill what it still has and returns how many
// processes that were.
func (p *started) killRest() int {
	if p.conn.Send(&interpreter.Message{Kind: interpreter.KindKill}) != nil {
		return 0
	}
	timer := time.NewTimer(killTimeout)
	defer timer.Stop()
	for {
		select {
		case m, ok := <-p.messages:
			if !ok {
				return 0
			}
			if m.Kind == interpreter.KindKilled {
				return m.Count
			}
		case <-timer.C:
			return 0
		}
	}
}

// describe fills in the result.
func (w *watch) describe(d *interpreter.Done) {
	res := w.res
	res.ExitCode = d.Status
	switch {
	case res.TimedOut:
		res.Error = fmt.Sprintf("it had not ended after %v and was ended", w.j.timeout)
	case res.Cancelled:
		res.Error = "it was ended because the run was cancelled or reached a limit"
	case d.Failure != "":
		res.Error = d.Failure
	case d.Status < 0:
		res.Error = "it was ended by a signal to all its processes"
	}
	for _, s := range []struct {
		name string
		from *process.Capture
		to   *string
	}{{"stdout", w.p.stdout, &res.Stdout}, {"stderr", w.p.stderr, &res.Stderr}} {
		text, note, cut := s.from.Text()
		*s.to = text
		res.Truncated = res.Truncated || cut
		if note != "" {
			res.Notes = append(res.Notes, s.name+" "+note)
		}
	}
	w.j.judge.report(res)
	if text, _, _ := w.p.log.Text(); text != "" {
		level := slog.LevelDebug
		if d.Failure != "" {
			level = slog.LevelError
		}
		w.j.judge.log(level, "the shell interpreter said something", "text", text)
	}
}
