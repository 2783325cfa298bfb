// Package mcp times the dispatch of one tool call: through the MCP SDK's
// in-memory transport, a client and a server in one process, and by the
// straight ways that a runtime in the same process has.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type edit struct {
	Start int    `json:"start" jsonschema:"first line"`
	End   int    `json:"end" jsonschema:"line after the last"`
	Text  string `json:"text" jsonschema:"the new text"`
}

type args struct {
	Path  string `json:"path" jsonschema:"file to change"`
	Mode  string `json:"mode" jsonschema:"create, replace or append"`
	Limit int    `json:"limit,omitempty" jsonschema:"most lines to touch"`
	Force bool   `json:"force,omitempty" jsonschema:"overwrite"`
	Edits []edit `json:"edits" jsonschema:"the edits"`
}

type result struct {
	Changed int `json:"changed"`
}

var raw = json.RawMessage(`{"path":"internal/journal/segment.go","mode":"replace","limit":200,"force":false,"edits":[{"start":10,"end":14,"text":"func (s *Segment) Close() error {\n"},{"start":20,"end":20,"text":"}\n"},{"start":31,"end":40,"text":"return s.f.Sync()"}]}`)

func handle(_ context.Context, a args) (result, error) { return result{len(a.Edits)}, nil }

func connect(b *testing.B, add func(*mcp.Server)) *mcp.ClientSession {
	ctx := context.Background()
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	add(s)
	ct, st := mcp.NewInMemoryTransports()
	ss, err := s.Connect(ctx, st, nil)
	if err != nil {
		b.Fatal(err)
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, ct, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cs.Close(); ss.Wait() })
	return cs
}

func addTyped(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "edit", Description: "edits a file"},
		func(ctx context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, result, error) {
			r, err := handle(ctx, a)
			return nil, r, err
		})
}

func BenchmarkCall(b *testing.B) {
	ctx := context.Background()
	roundTrip := func(b *testing.B, cs *mcp.ClientSession) {
		b.ReportAllocs()
		p := &mcp.CallToolParams{Name: "edit", Arguments: raw}
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			r, err := cs.CallTool(ctx, p)
			if err != nil || r.IsError {
				b.Fatal(err, r)
			}
		}
	}
	b.Run("mcp-typed-in-memory", func(b *testing.B) { roundTrip(b, connect(b, addTyped)) })
	b.Run("rulvar-engine-mcp", benchEngineMCP)
	b.Run("mcp-raw-in-memory", func(b *testing.B) {
		roundTrip(b, connect(b, func(s *mcp.Server) {
			s.AddTool(&mcp.Tool{Name: "edit", Description: "edits a file", InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: `{"changed":3}`}}}, nil
				})
		}))
	})
	b.Run("mcp-ping", func(b *testing.B) {
		cs := connect(b, func(*mcp.Server) {})
		b.ReportAllocs()
		for b.Loop() {
			if err := cs.Ping(ctx, nil); err != nil {
				b.Fatal(err)
			}
		}
	})

	b.Run("rulvar-parts", func(b *testing.B) {
		dispatch(b, map[string]func(context.Context, json.RawMessage) (json.RawMessage, error){"edit": callParts(b)})
	})
	b.Run("rulvar-dry-run", func(b *testing.B) {
		dispatch(b, map[string]func(context.Context, json.RawMessage) (json.RawMessage, error){"edit": callDryRun(b)})
	})
	b.Run("rulvar-engine-memory", benchEngine)

	// What a runtime without a wire does: find the tool, check, decode, call,
	// encode.
	b.Run("direct-validated", func(b *testing.B) {
		s, err := jsonschema.For[args](nil)
		if err != nil {
			b.Fatal(err)
		}
		rs, err := s.Resolve(nil)
		if err != nil {
			b.Fatal(err)
		}
		tools := map[string]func(context.Context, json.RawMessage) (json.RawMessage, error){
			"edit": func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
				var v any
				if err := json.Unmarshal(in, &v); err != nil {
					return nil, err
				}
				if err := rs.Validate(v); err != nil {
					return nil, err
				}
				return typed(ctx, in)
			},
		}
		dispatch(b, tools)
	})
	b.Run("direct-typed-bound", func(b *testing.B) {
		dispatch(b, map[string]func(context.Context, json.RawMessage) (json.RawMessage, error){"edit": typed})
	})
	b.Run("direct-raw", func(b *testing.B) {
		out := json.RawMessage(`{"changed":3}`)
		dispatch(b, map[string]func(context.Context, json.RawMessage) (json.RawMessage, error){
			"edit": func(context.Context, json.RawMessage) (json.RawMessage, error) { return out, nil },
		})
	})
	b.Run("channel-ping-pong", func(b *testing.B) {
		in, out := make(chan int), make(chan int)
		go func() {
			for v := range in {
				out <- v
			}
			close(out)
		}()
		for b.Loop() {
			in <- 1
			<-out
		}
		close(in)
	})
}

func typed(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
	var a args
	d := json.NewDecoder(bytes.NewReader(in))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, err
	}
	r, err := handle(ctx, a)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

func dispatch(b *testing.B, tools map[string]func(context.Context, json.RawMessage) (json.RawMessage, error)) {
	ctx := context.Background()
	b.ReportAllocs()
	start := cpuTime()
	defer func() { reportCPU(b, start, 1) }()
	for b.Loop() {
		out, err := tools["edit"](ctx, raw)
		if err != nil || string(out) != `{"changed":3}` {
			b.Fatal(err, string(out))
		}
	}
}
