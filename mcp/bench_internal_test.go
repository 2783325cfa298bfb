//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type benchIn struct {
	Path  string `json:"path"`
	Limit int    `json:"limit"`
}

type benchOut struct {
	Changed int `json:"changed"`
}

var benchArgs = json.RawMessage(`{"path":"internal/journal/segment.go","limit":200}`)

func benchServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "edit"}, func(_ context.Context, _ *sdk.CallToolRequest, in benchIn) (*sdk.CallToolResult, benchOut, error) {
		return nil, benchOut{in.Limit}, nil
	})
	return s
}

// reportCPU reports the processor time of an op; on a machine that others use
// it is steadier than the time on the clock.
func reportCPU(b *testing.B) func() {
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return 0
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := now()
	return func() { b.ReportMetric(float64((now()-start).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}

// BenchmarkRoundTrip is one call of a tool in this process: by the SDK's own
// client, and by the handler that an agent's call runs, its checks of the
// answer included. `go test -bench RoundTrip -count 6` shows that the second
// costs no more than the first.
func BenchmarkRoundTrip(b *testing.B) {
	ctx := context.Background()
	b.Run("sdk", func(b *testing.B) {
		ct, st := sdk.NewInMemoryTransports()
		ss, err := benchServer().Connect(ctx, st, nil)
		if err != nil {
			b.Fatal(err)
		}
		cs, err := sdk.NewClient(&implementation, nil).Connect(ctx, ct, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { cs.Close(); _ = ss.Wait() }()
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			r, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "edit", Arguments: benchArgs})
			if err != nil || r.IsError {
				b.Fatal(err, r)
			}
		}
	})
	b.Run("source", func(b *testing.B) {
		s, err := New(&InProcess{Server: benchServer()}, &Options{Logger: discard})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Tools(ctx); err != nil {
			b.Fatal(err)
		}
		output, err := compileOutput(json.RawMessage(`{"type":"object","properties":{"changed":{"type":"integer"}}}`))
		if err != nil {
			b.Fatal(err)
		}
		c := &caller{source: s, wire: "edit", output: output}
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			out, err := c.call(ctx, benchArgs)
			if err != nil || string(out) != `{"changed":200}` {
				b.Fatal(errors.Join(err, errors.New(string(out))))
			}
		}
	})
}
