//go:build unix

package interpreter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeper runs one command and keeps hold of what it starts.
type keeper struct {
	conn           *Conn
	stdout, stderr *os.File
	start          *Start
	host           int // the process that started this one

	ctx    context.Context // of the command; cancelled when it is to end
	cancel context.CancelFunc
	ended  chan Done // the command has ended by itself

	stop  chan struct{} // closed: somebody wants the command terminated
	kill  chan struct{} // the host wants what is left killed
	close sync.Once     // of stop
	done  atomic.Bool   // done was sent

	refused, outside string // words that no command can know; see call
	settling         atomic.Bool
	live             atomic.Int32 // processes that run

	mu       sync.Mutex
	asks     uint64
	waiting  map[uint64]chan string
	verdicts map[string]string // by argv
}

func newKeeper(conn *Conn, stdout, stderr *os.File) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	return &keeper{
		conn: conn, stdout: stdout, stderr: stderr, host: os.Getppid(), ctx: ctx, cancel: cancel,
		ended: make(chan Done, 1), stop: make(chan struct{}), kill: make(chan struct{}, 1),
		refused: rand.Text(), outside: rand.Text(),
		waiting: make(map[uint64]chan string), verdicts: make(map[string]string),
	}
}

// serve runs the one command that the host sends, and returns only where it
// cannot: otherwise the process ends when the host closes its pipe.
func (k *keeper) serve() error {
	if err := k.conn.Send(&Message{Kind: KindReady}); err != nil {
		return err
	}
	m, err := k.conn.Receive()
	if err != nil {
		return err
	}
	if m.Kind != KindStart || m.Start == nil {
		return fmt.Errorf("the host began with a message of kind %q", m.Kind)
	}
	k.start = m.Start
	if k.start.MaxStack > 0 {
		debug.SetMaxStack(k.start.MaxStack)
	}
	adopt()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for range signals {
			k.terminate()
		}
	}()
	go k.receive()
	go k.watchMemory()
	go k.execute()

	var d Done
	select {
	case d = <-k.ended:
	case <-k.stop:
		d = k.terminated()
	}
	k.report(d)
	<-k.kill
	if err := k.conn.Send(&Message{Kind: KindKilled, Count: killDescendants()}); err != nil {
		return err
	}
	select {} // until the host closes its pipe; see receive
}

// terminate asks for the end of the command.
func (k *keeper) terminate() { k.close.Do(func() { close(k.stop) }) }

// terminated ends the command: SIGTERM for everything it has started, SIGKILL
// for what remains.
func (k *keeper) terminated() Done {
	k.cancel()
	_ = syscall.Kill(0, syscall.SIGTERM)
	select {
	case <-k.ended:
	case <-time.After(k.start.KillDelay):
	}
	killDescendants()
	return Done{Status: -1}
}

// report tells the host how the command ended, once. The pipes of the output
// are let go first, so that the host sees their end unless a background command
// holds them.
func (k *keeper) report(d Done) {
	if k.done.Swap(true) {
		return
	}
	letGo(fdStdout)
	letGo(fdStderr)
	_ = k.conn.Send(&Message{Kind: KindDone, Done: &d})
}

// letGo leads a descriptor to the null device. It is not closed, because what
// the interpreter has running in the background may be about to use its number,
// which must not come to mean something else.
func letGo(fd int) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		err = unix.Dup2(int(null.Fd()), fd)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // the host waits for the delay and goes on
		return
	}
	syscall.CloseOnExec(fd)
}

// receive reads what the host says, for as long as there is a host. Without one
// nothing may go on; only what the host agreed to leave running does.
func (k *keeper) receive() {
	for {
		m, err := k.conn.Receive()
		if err != nil {
			if k.start.Keep && k.done.Load() {
				syscall.Exit(0)
			}
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, err)
			}
			k.perish()
		}
		switch m.Kind {
		case KindAnswer:
			k.mu.Lock()
			if ch := k.waiting[m.ID]; ch != nil {
				delete(k.waiting, m.ID)
				ch <- m.Refusal
			}
			k.mu.Unlock()
		case KindStop:
			k.terminate()
		case KindKill:
			select {
			case k.kill <- struct{}{}:
			default: // asked twice
			}
		default:
			fmt.Fprintf(os.Stderr, "the host sent a message of kind %q\n", m.Kind)
			k.perish()
		}
	}
}

// perish kills everything that was started, and this process. The host may not
// be there to clean up.
func (k *keeper) perish() {
	killDescendants()
	os.RemoveAll(string(k.start.Temp))
	_ = syscall.Kill(0, syscall.SIGKILL)
	syscall.Exit(1)
}

// execute runs the command and says how it ended.
func (k *keeper) execute() {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "panic: %v\n\n%s", p, debug.Stack())
			k.ended <- Done{Status: -1, Failure: "the interpreter failed unexpectedly"}
		}
	}()
	if k.start.Shell != "" {
		k.ended <- k.runShell()
		return
	}
	k.ended <- k.interpret()
}
