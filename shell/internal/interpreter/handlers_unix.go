//go:build unix

package interpreter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/interp"
)

// Statuses that a shell gives a command which it does not start.
const (
	statusRefused    = 126
	statusUnknown    = 127
	statusBrokenPipe = "141" // of a writer whose reader has gone: 128 + SIGPIPE
)

const (
	// maxArgv bounds an argv. A kernel takes less for a program; a builtin
	// would take anything.
	maxArgv = 4 << 20
	// maxVerdicts is how many answers are kept.
	maxVerdicts = 4096
)

// call sees every call after all expansion: of programs, functions and
// builtins, wherever its text came from (the command, eval, a trap, a file that
// was sourced, an alias). What it returns is called instead.
//
// A refused call becomes a call of a word that no text can know, because
// exec gives that one the status of a refusal: an error from here would end the
// whole shell.
func (k *keeper) call(ctx context.Context, args []string) ([]string, error) {
	if len(args) == 1 && args[0] == "wait" && k.settling.Load() {
		return []string{"builtin", "wait"}, nil // our own; see settle
	}
	hc := interp.HandlerCtx(ctx)
	if refusal := k.judge(args); refusal != "" {
		fmt.Fprintln(hc.Stderr, refusal)
		return []string{k.refused}, nil
	}
	switch args[0] {
	case "echo", "printf":
		// A builtin gets no signal when nobody reads its pipe any more.
		if k.readerGone(hc.Stdout) {
			return []string{"exit", statusBrokenPipe}, nil
		}
	case "kill":
		// The interpreter has the name but not the builtin.
		if _, err := interp.LookPathDir(hc.Dir, hc.Env, "kill"); err == nil {
			return append([]string{k.outside}, args...), nil
		}
	}
	return args, nil
}

// readerGone reports whether w is a pipe without a reader.
func (k *keeper) readerGone(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || f == k.stdout || f == k.stderr {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		if n, err := unix.Poll(fds, 0); err == nil && n == 1 {
			gone = fds[0].Revents&unix.POLLERR != 0
		}
	})
	return err == nil && gone
}

// judge asks the host whether an argv may be executed and returns its refusal,
// or "". The answer depends on the argv alone.
func (k *keeper) judge(args []string) string {
	size := 0
	for _, a := range args {
		size += len(a) + 1
	}
	if size > maxArgv {
		return "shell: " + args[0][:min(len(args[0]), 200)] + ": the arguments are too long"
	}
	key := strings.Join(args, "\x00")
	k.mu.Lock()
	refusal, known := k.verdicts[key]
	k.mu.Unlock()
	if known {
		return refusal
	}
	refusal, final := k.ask(&Message{Kind: KindAsk, Argv: Bytes(args)})
	if final {
		k.mu.Lock()
		if len(k.verdicts) < maxVerdicts && len(key) < 4096 {
			k.verdicts[key] = refusal
		}
		k.mu.Unlock()
	}
	return refusal
}

// ask sends a question and waits for its answer. What cannot be asked is
// refused; final says that the host has answered.
func (k *keeper) ask(m *Message) (refusal string, final bool) {
	answer := make(chan string, 1)
	k.mu.Lock()
	k.asks++
	m.ID = k.asks
	k.waiting[m.ID] = answer
	k.mu.Unlock()
	if err := k.conn.Send(m); err != nil {
		k.mu.Lock()
		delete(k.waiting, m.ID)
		k.mu.Unlock()
		return "shell: nothing can be judged: " + err.Error(), false
	}
	select {
	case refusal = <-answer:
		return refusal, true
	case <-k.ctx.Done():
		return "shell: the command is being terminated", false
	}
}

// open opens the files of redirections and of source. The host is asked about
// each by all the names it has: the one in the command, the absolute one, the
// one behind symbolic links.
func (k *keeper) open(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	if path == "" {
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	}
	absolute := path
	if !filepath.IsAbs(path) {
		absolute = filepath.Join(interp.HandlerCtx(ctx).Dir, path)
	}
	op := "<"
	switch {
	case flag&os.O_APPEND != 0:
		op = ">>"
	case flag&(os.O_WRONLY|os.O_RDWR) != 0:
		op = ">"
	}
	refusal, _ := k.ask(&Message{Kind: KindAsk, Op: op, Files: Bytes(names(path, absolute))})
	if refusal != "" {
		return nil, &os.PathError{Op: "open", Path: path, Err: errors.New(refusal)}
	}
	return os.OpenFile(absolute, flag, perm)
}

// names returns the names of a file: as written, absolute, and where symbolic
// links lead.
func names(written, absolute string) []string {
	list := []string{written}
	if clean := filepath.Clean(absolute); clean != written {
		list = append(list, clean)
	}
	target, err := filepath.EvalSymlinks(absolute)
	if err != nil { // it may be about to be made
		dir, err := filepath.EvalSymlinks(filepath.Dir(absolute))
		if err != nil {
			return list
		}
		target = filepath.Join(dir, filepath.Base(absolute))
	}
	if target != list[len(list)-1] {
		list = append(list, target)
	}
	return list
}
