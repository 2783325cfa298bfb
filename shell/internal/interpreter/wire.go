package interpreter

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Messages travel in frames over two pipes, one for each direction:
//
//	+----------------------+-------------------------+
//	| length, 4 bytes, BE  | JSON of Message, length |
//	+----------------------+-------------------------+
//
// Words and paths are bytes in it (base64 in the JSON): an argv need not be
// UTF-8, and what is judged must be exactly what is executed.

// Version is the version of the protocol. Both ends are one program, so it
// only differs where an executable was replaced under a running host.
const Version = "rulvar-shell/1"

// maxFrame bounds a frame; an argv that does not fit is never started.
const maxFrame = 8 << 20

// Kind says what a message is.
type Kind string

// The kinds, in the order in which a command meets them.
const (
	KindReady  Kind = "ready"  // interpreter: it runs and waits
	KindStart  Kind = "start"  // host: run this
	KindAsk    Kind = "ask"    // interpreter: may this be executed, or opened
	KindAnswer Kind = "answer" // host: to the ask with the same id
	KindStop   Kind = "stop"   // host: terminate the command
	KindDone   Kind = "done"   // interpreter: the command has ended
	KindKill   Kind = "kill"   // host: kill what is left of the command
	KindKilled Kind = "killed" // interpreter: so many processes were left
)

// Message is one message; which members it has follows from its kind.
type Message struct {
	Kind  Kind   `json:"kind"`
	Start *Start `json:"start,omitempty"`
	Done  *Done  `json:"done,omitempty"`
	// ID pairs an answer with its ask.
	ID uint64 `json:"id,omitempty"`
	// Argv is asked about, or Op (">", ">>" or "<") and Files: one file, by
	// its names.
	Argv  [][]byte `json:"argv,omitempty"`
	Op    string   `json:"op,omitempty"`
	Files [][]byte `json:"files,omitempty"`
	// Refusal is the answer: empty to go on, or why not, for standard error.
	Refusal string `json:"refusal,omitempty"`
	// Count is how many processes were killed.
	Count int `json:"count,omitempty"`
}

// Start is a command and what it runs with.
type Start struct {
	Command string   `json:"command"`
	Dir     []byte   `json:"dir"`             // absolute
	Env     [][]byte `json:"env"`             // NAME=value
	Temp    []byte   `json:"temp"`            // for named pipes of the interpreter
	Shell   string   `json:"shell,omitempty"` // a real shell to run instead
	// KillDelay is waited between SIGTERM and SIGKILL, WaitDelay for
	// background commands when the command itself has ended.
	KillDelay time.Duration `json:"killDelay"`
	WaitDelay time.Duration `json:"waitDelay"`
	// Keep says that background commands may go on when the command has
	// ended, and the interpreter gone.
	Keep bool `json:"keep,omitempty"`
	// MaxMemory bounds the heap of the interpreter, in bytes.
	MaxMemory uint64 `json:"maxMemory"`
	// MaxStack bounds the stack of each of its goroutines, in bytes: a function
	// that calls itself for ever ends it then, not after a gigabyte.
	MaxStack int `json:"maxStack"`
	// MaxProcesses is how many programs the interpreter may have running at
	// once.
	MaxProcesses int `json:"maxProcesses"`
}

// Done is how a command ended.
type Done struct {
	// Status is its exit status, 128 and the signal's number where one ended
	// it, or -1 where it did not end by itself.
	Status int `json:"status"`
	// Failure says what the interpreter itself could not do.
	Failure string `json:"failure,omitempty"`
	// Background says that a background command was still running.
	Background bool `json:"background,omitempty"`
}

// Conn sends and receives messages. Send may be called by any number of
// goroutines at once, Receive by one.
type Conn struct {
	r  io.Reader
	mu sync.Mutex
	w  io.Writer
}

// NewConn returns a connection that reads from r and writes to w.
func NewConn(r io.Reader, w io.Writer) *Conn { return &Conn{r: r, w: w} }

// Send writes one message. It fails on one that is too long.
func (c *Conn) Send(m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("a message of %d bytes does not fit a frame", len(body))
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.w.Write(frame)
	return err
}

// Receive reads one message. io.EOF means that the other end has gone.
func (c *Conn) Receive() (*Message, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes is longer than any message", n)
	}
	body, err := io.ReadAll(io.LimitReader(c.r, int64(n)))
	if err == nil && len(body) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	m := new(Message)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("a frame holds no message: %w", err)
	}
	return m, nil
}

// Bytes returns words as they travel.
func Bytes(words []string) [][]byte {
	out := make([][]byte, len(words))
	for i, w := range words {
		out[i] = []byte(w)
	}
	return out
}

// Words undoes [Bytes].
func Words(list [][]byte) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
