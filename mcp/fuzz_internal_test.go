package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

func outputSchema(t testing.TB) *jsonschema.Validator {
	v, err := compileOutput(json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`))
	require.NoError(t, err)
	return v
}

// Whatever a server answers, the result is JSON within its bound, or there is
// an error with a kind and a text; an answer that may mean a failure is none.
func FuzzReadResult(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"text","text":"a"}]}`, `{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA=="}],"isError":false}`,
		`{"isError":true,"content":[]}`, `{"isError":"true"}`, `{"isError":null}`, `{"structuredContent":{"n":1}}`, `{"structuredContent":{"n":"\ud800"}}`,
		`{"resultType":"input_required"}`, `{"content":{}}`, `{"content":[null]}`, `{"content":[{"type":"text"}]}`, `[]`, `{`, "{\"content\":[{\"type\":\"x\",\"a\":\"\xff\"}]}",
		`{"structuredContent":1e999}`, `{"isError":true,"isError":false,"IsError":true}`,
	} {
		f.Add([]byte(seed))
	}
	schema := outputSchema(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 1000
		for _, output := range []*jsonschema.Validator{nil, schema} {
			result, failure := readResult(text, output, limit)
			if failure != nil {
				require.Nil(t, result)
				require.NotEmpty(t, failure.Kind)
				require.NotEmpty(t, failure.Error())
				require.True(t, utf8.ValidString(failure.Error()))
				continue
			}
			require.NoError(t, jcs.Check(result), "%q", result)
			require.LessOrEqual(t, len(result), limit)
			var said struct{ IsError any }
			if json.Unmarshal(validText(text), &said) == nil && said.IsError == true {
				var m map[string]any
				require.NoError(t, json.Unmarshal(validText(text), &m))
				require.NotEqual(t, true, m["isError"])
			}
			if output != nil {
				tree, err := jcs.Parse(result)
				require.NoError(t, err)
				require.Empty(t, output.Validate(tree))
			}
		}
	})
}

// Whatever a server lists, each tool is legal, or left out with a reason.
func FuzzBuild(f *testing.F) {
	for _, seed := range []string{
		`{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"x"}`,
		`{"tools":[{"name":"a.b","description":"d","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}}]}`,
		`{"tools":[{"name":"a","inputSchema":{}},{"name":"a","inputSchema":{}}]}`, `{"tools":[null,1,"x",{}]}`, `{"tools":{}}`,
		`{"tools":[{"name":"a","inputSchema":{"$ref":"#"}},{"name":"b","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}`,
		"{\"tools\":[{\"name\":\"\xff\",\"inputSchema\":{}}]}",
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, short bool) {
		opts := Options{Lenient: true, Prefix: "p", Deny: []string{"denied"}, Logger: discard}
		if short {
			opts.Names = NamesShorten
		}
		o, err := resolve(&opts)
		require.NoError(t, err)
		s := &Source{id: "fuzz", opts: o}
		raw, _, err := readPage(text)
		if err != nil {
			return
		}
		l, err := s.build(raw)
		require.NoError(t, err)
		require.Len(t, l.report.Imported, len(l.tools))
		names := map[string]bool{}
		for i, tool := range l.tools {
			require.Regexp(t, `^p_[a-zA-Z0-9_-]{1,62}$`, tool.Name())
			require.False(t, names[tool.Name()])
			names[tool.Name()] = true
			require.NotEqual(t, "denied", l.report.Imported[i].Wire)
		}
		for _, skipped := range l.report.Skipped {
			require.Error(t, skipped.Err)
		}
	})
}

// Whatever a name is, what becomes of it is legal and depends on it alone.
func FuzzToolName(f *testing.F) {
	for _, seed := range [][2]string{{"", "a"}, {"p", "a.b"}, {"p", strings.Repeat("x", 70)}, {"", "ä"}, {"", "\xff"}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, prefix, wire string) {
		if prefix != "" && !prefixPattern.MatchString(prefix) {
			return
		}
		kept, err := toolName(prefix, wire, NamesRefuse)
		short, shortErr := toolName(prefix, wire, NamesShorten)
		if err == nil {
			require.NoError(t, shortErr)
			require.Equal(t, kept, short, "a legal name is not touched")
		}
		if shortErr == nil {
			require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, short)
			if err != nil {
				other, err := toolName(prefix, wire+"x", NamesShorten)
				if err == nil {
					require.NotEqual(t, short, other)
				}
			}
		}
	})
}

// Lines are the same however the bytes come in, and never longer than allowed.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n"), uint8(0))
	f.Add([]byte("\n\r\n  x \nlast"), uint8(1))
	f.Add([]byte(strings.Repeat("y", 100)+"\nz\n"), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, way uint8) {
		const limit = 50
		read := func(r io.Reader) (lines []string, err error) {
			l := newLineReader(r, limit)
			for {
				line, err := l.next()
				if errors.Is(err, iotest.ErrTimeout) {
					continue // a deadline: nothing is lost
				}
				if err != nil {
					return lines, err
				}
				require.LessOrEqual(t, len(line), limit)
				lines = append(lines, string(line))
			}
		}
		want, wantErr := read(bytes.NewReader(text))
		var r io.Reader = bytes.NewReader(text)
		switch way % 4 {
		case 1:
			r = iotest.OneByteReader(r)
		case 2:
			r = iotest.HalfReader(r)
		case 3:
			r = iotest.TimeoutReader(iotest.OneByteReader(r))
		}
		got, err := read(r)
		require.Equal(t, want, got)
		require.Equal(t, wantErr, err)
	})
}

// Events are the same however the bytes come in.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: a\n\ndata: b\ndata: c\n\n"), 1)
	f.Add([]byte("event: message\r\nid: 1\r\ndata:{}\r\n\r\n"), 3)
	f.Add([]byte("data\rdata:  x\r\r: comment\ndatabase: no\n\n"), 2)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		read := func(size int) (events []string, err error) {
			s := &eventScanner{limit: 200, each: func(data []byte) error { events = append(events, string(data)); return nil }}
			for rest := text; len(rest) > 0 && err == nil; {
				n := min(max(size, 1), len(rest))
				err = s.write(rest[:n])
				rest = rest[n:]
			}
			return events, err
		}
		want, wantErr := read(1)
		got, err := read(size)
		require.Equal(t, wantErr == nil, err == nil)
		if err == nil {
			require.Equal(t, want, got)
		}
	})
}

// Whatever a server sends, reading ends, and a request gets at most its own
// answer.
func FuzzConn(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`, `{"jsonrpc":"2.0","id":"1","result":{}}`,
		`[{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}},{"jsonrpc":"2.0","method":"ping","id":7}]`, `log line`, `{"jsonrpc":`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}", `[]`, `null`,
	} {
		f.Add([]byte(seed + "\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ours, theirs := net.Pipe()
		conn := newLineConn(ours, ours, 4096, time.Minute)
		defer conn.Close()
		ctx, capture := withCapture(context.Background())
		id, err := jsonrpc.MakeID(float64(1))
		require.NoError(t, err)
		go func() {
			defer theirs.Close()
			_, _ = newLineReader(theirs, 4096).next()
			_, _ = theirs.Write(text)
		}()
		require.NoError(t, conn.Write(ctx, &jsonrpc.Request{ID: id, Method: methodCall, Params: json.RawMessage(`{}`)}))
		answers := 0
		for {
			msg, err := conn.Read(context.Background())
			if err != nil {
				break
			}
			if resp, ok := msg.(*jsonrpc.Response); ok {
				require.Equal(t, id, resp.ID)
				answers++
			}
		}
		require.LessOrEqual(t, answers, 1)
		result, refused := capture.get()
		require.False(t, len(result) > 0 && refused != nil)
		require.True(t, utf8.Valid(result))
	})
}
