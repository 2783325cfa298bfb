package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioLink is a connection to a child process.
type stdioLink struct {
	proc *process
	conn *lineConn
}

// probeTime is how long a server may be silent on the newest greeting before it
// is taken for one that does not know it.
const probeTime = 5 * time.Second

// probe returns probeTime as it is for these options. Who names a version means
// it.
func (o *Options) probe() time.Duration {
	if o.ProtocolVersion != "" {
		return o.Timeouts.Connect
	}
	return min(probeTime, o.Timeouts.Connect/3)
}

func (t *Stdio) open(s *Source) (link, error) {
	proc, err := startProcess(t)
	if err != nil {
		return nil, err
	}
	return &stdioLink{proc: proc, conn: newLineConn(proc.stdout, proc.stdin, s.opts.MaxMessageBytes, s.opts.probe())}, nil
}

// Connect implements the SDK's Transport.
func (l *stdioLink) Connect(context.Context) (sdk.Connection, error) { return l.conn, nil }

func (l *stdioLink) cut(err error) {
	if err != nil {
		_ = l.conn.fail(err)
	}
	l.conn.Close()
}

func (l *stdioLink) finish(grace time.Duration) { l.proc.end(grace) }

func (l *stdioLink) why() error { return l.conn.broke() }

func (l *stdioLink) hint() string { return l.proc.stderr.String() }
