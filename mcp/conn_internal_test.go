package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
)

var discard = slog.New(slog.DiscardHandler)

// A write that its caller gives up before it began harms nobody; one that was
// half done ends the connection.
func TestWriteGivenUp(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := newLineConn(ours, ours, 1<<20, time.Minute)
	defer conn.Close()
	note := &jsonrpc.Request{Method: "n", Params: json.RawMessage(`{}`)}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, conn.Write(ctx, note), context.DeadlineExceeded)
	require.NoError(t, conn.broke())

	go func() {
		buf := make([]byte, 5)
		_, _ = theirs.Read(buf)
	}()
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, conn.Write(ctx, note), "does not read its input")
	require.Error(t, conn.broke())
	require.Error(t, conn.Write(context.Background(), note), "nothing more goes out")
}

// An answer that comes after its caller has gone is dropped, and answers that
// nobody waits for are counted.
func TestLateAnswer(t *testing.T) {
	ours, theirs := net.Pipe()
	conn := newLineConn(ours, ours, 1<<20, time.Minute)
	defer conn.Close()
	id, _ := jsonrpc.MakeID(float64(7))
	go func() {
		defer theirs.Close()
		lines := newLineReader(theirs, 1<<20)
		_, _ = lines.next()
		_, _ = lines.next()
		_, _ = theirs.Write([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":"q","method":"ping"}` + "\n"))
	}()
	require.NoError(t, conn.Write(context.Background(), &jsonrpc.Request{ID: id, Method: methodCall}))
	require.NoError(t, conn.Write(context.Background(), &jsonrpc.Request{Method: noteCancelled, Params: json.RawMessage(`{"requestId":7}`)}))
	msg, err := conn.Read(context.Background())
	require.NoError(t, err)
	require.Equal(t, "ping", msg.(*jsonrpc.Request).Method)
	require.Empty(t, conn.pending)
}

// The guard lets bursts pass and stops what goes on and on.
func TestGuard(t *testing.T) {
	g := newGuard()
	for range floodBurst {
		require.NoError(t, g.stray())
	}
	g.tokens, g.last = 0, time.Now().Add(time.Second) // as if no time had passed
	require.ErrorIs(t, g.stray(), errFlood)
	g.earn()
	require.NoError(t, g.stray())
	g.last = time.Now().Add(-time.Second)
	for range floodRate {
		require.NoError(t, g.stray())
	}
}

// What a server says in an error is text and has an end.
func TestForeignText(t *testing.T) {
	require.Equal(t, "a\uFFFDb", foreignText("a\xffb"))
	long := foreignText(strings.Repeat("ä", maxErrorText))
	require.Less(t, len(long), maxErrorText+100)
	require.True(t, strings.HasSuffix(long, "bytes in all)"))
	require.NotContains(t, long, "\uFFFD")
}

// Texts of the SDK's errors lose what may be a secret.
func TestPlain(t *testing.T) {
	err := plain(context.DeadlineExceeded)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "exceeded 5 retries", plain(&plainError{text: "exceeded 5 retries (session ID: s3cret)"}).Error())
}

// Pages that the SDK answers from memory keep the server's text.
func TestPageTexts(t *testing.T) {
	var p pageTexts
	p.limit(10)
	p.put("", json.RawMessage(`123456`))
	require.Equal(t, `123456`, string(p.get("")))
	p.put("a", json.RawMessage(`123456`))
	require.Nil(t, p.get(""), "the bound holds for all together")
	p.clear()
	require.Nil(t, p.get("a"))
}
