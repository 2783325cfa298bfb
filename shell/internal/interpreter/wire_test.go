package interpreter_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/shell/internal/interpreter"
)

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// What is sent is received, byte for byte.
func TestMessagesTravel(t *testing.T) {
	for _, m := range []*interpreter.Message{
		{Kind: interpreter.KindReady},
		{Kind: interpreter.KindStart, Start: &interpreter.Start{Command: "echo 'x'\n€", Dir: []byte("/a\xff"), Env: interpreter.Bytes([]string{"A=\xfe", "B="}), KillDelay: 1, MaxMemory: 1 << 40}},
		{Kind: interpreter.KindAsk, ID: 7, Argv: interpreter.Bytes([]string{"a", "", "\xff\x00", "\n"})},
		{Kind: interpreter.KindAsk, ID: 8, Op: ">>", Files: interpreter.Bytes([]string{"x"})},
		{Kind: interpreter.KindAnswer, ID: 8, Refusal: "no"},
		{Kind: interpreter.KindDone, Done: &interpreter.Done{Status: -1, Failure: "x", Background: true}},
		{Kind: interpreter.KindKilled, Count: 3},
	} {
		t.Run(string(m.Kind), func(t *testing.T) {
			var pipe bytes.Buffer
			require.NoError(t, interpreter.NewConn(nil, &pipe).Send(m))
			got, err := interpreter.NewConn(&pipe, nil).Receive()
			require.NoError(t, err)
			require.Equal(t, m, got)
			require.Equal(t, interpreter.Words(m.Argv), interpreter.Words(got.Argv))
			require.Zero(t, pipe.Len())
		})
	}
}

func TestDamagedFrames(t *testing.T) {
	for _, row := range []struct {
		name string
		in   []byte
		want string
	}{
		{"nothing", nil, "EOF"},
		{"half a length", []byte{0, 0}, "unexpected EOF"},
		{"half a frame", frame(`{"kind":"ready"}`)[:9], "unexpected EOF"},
		{"a length without a body", []byte{0, 0, 0, 9}, "unexpected EOF"},
		{"too long", []byte{0xff, 0xff, 0xff, 0xff}, "longer than any message"},
		{"no JSON", frame("x"), "holds no message"},
		{"no object", frame("[]"), "holds no message"},
		{"no base64", frame(`{"kind":"ask","argv":["*"]}`), "holds no message"},
		{"empty", frame(""), "holds no message"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, err := interpreter.NewConn(bytes.NewReader(row.in), nil).Receive()
			require.ErrorContains(t, err, row.want)
			require.Nil(t, m)
		})
	}
	err := interpreter.NewConn(nil, io.Discard).Send(&interpreter.Message{Refusal: strings.Repeat("x", 9<<20)})
	require.ErrorContains(t, err, "does not fit")
}

// FuzzReceive: bytes from the other end are messages or an error, and what is
// received is sent again as something that is received alike.
func FuzzReceive(f *testing.F) {
	f.Add(frame(`{"kind":"ready"}`))
	f.Add(frame(`{"kind":"ask","id":1,"argv":["bHM=",""]}`))
	f.Add(frame(`{"kind":"start","start":{"command":"ls","dir":"L3RtcA==","env":null,"killDelay":1000}}`))
	f.Add(append(frame(`{"kind":"done","done":{"status":126}}`), frame(`{}`)...))
	f.Add([]byte{0, 0, 0, 200, '{'})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		conn := interpreter.NewConn(bytes.NewReader(in), nil)
		for {
			m, err := conn.Receive()
			if err != nil {
				require.Nil(t, m)
				return
			}
			var pipe bytes.Buffer
			require.NoError(t, interpreter.NewConn(nil, &pipe).Send(m))
			again, err := interpreter.NewConn(&pipe, nil).Receive()
			require.NoError(t, err)
			var other bytes.Buffer
			require.NoError(t, interpreter.NewConn(nil, &other).Send(again))
			third, err := interpreter.NewConn(&other, nil).Receive()
			require.NoError(t, err)
			require.Equal(t, again, third)
		}
	})
}
