//go:build unix

package mcp_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/mcp"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// short are time-outs for servers that never answer the greeting.
var short = mcp.Timeouts{
	Connect: 300 * time.Millisecond, Close: 100 * time.Millisecond,
}

// A server that fails before it has listed its tools costs an error that says
// what happened, and nothing is left of it.
func TestFailsBeforeTheList(t *testing.T) {
	for _, row := range []struct {
		name, mode, arg string
		opts            mcp.Options
		want            string
	}{
		{name: "never answers", mode: "silent", opts: mcp.Options{Timeouts: short}, want: "connecting took longer than 300ms"},
		{name: "never reads", mode: "deaf", opts: mcp.Options{Timeouts: short}, want: "connecting took longer than 300ms"},
		{name: "ends at once", mode: "exit", want: "the server has gone: EOF; it said: no licence"},
		{name: "hangs in the list", mode: "hang-list", opts: mcp.Options{Timeouts: mcp.Timeouts{List: 300 * time.Millisecond}}, want: "listing took longer than 300ms"},
		{
			name: "hangs in the list, under a bound for all pages", mode: "hang-list",
			opts: mcp.Options{Timeouts: mcp.Timeouts{Discovery: 200 * time.Millisecond}}, want: "reading all pages of the list took longer than 200ms",
		},
		{name: "refuses the list", mode: "refuse-list", want: "the server refuses the request: not today (code -32000)"},
		{name: "floods", mode: "flood", want: "the server floods: it sends too many messages"},
		{name: "asks and asks", mode: "ask", want: "the server floods: it asks too many questions"},
		{name: "repeats a cursor", mode: "echo-cursor", want: `page 2 repeats its own cursor "a"`},
		{name: "goes in a circle", mode: "cycle", want: `page 3 returns to the cursor "a"`},
		{name: "never ends", mode: "endless", want: "more than 100 pages"},
		{name: "never ends, fewer pages", mode: "endless", opts: mcp.Options{MaxPages: 3}, want: "more than 3 pages"},
		{name: "too many tools", mode: "paged", opts: mcp.Options{MaxTools: 1, Allow: []string{"none"}}, want: "more than 1 tools"},
		{name: "too large a list", mode: "list", arg: `{"tools":[` + strings.Repeat(" ", 5000) + `]}`, opts: mcp.Options{MaxMessageBytes: 4000}, want: "a message of more than 4000 bytes"},
		{name: "pages that are too large together", mode: "endless", opts: mcp.Options{MaxMessageBytes: 2000}, want: "the list has more than 2000 bytes"},
		{name: "too deep to be read", mode: "list", arg: `{"tools":` + strings.Repeat("[", 12000) + strings.Repeat("]", 12000) + `}`, want: "a message that cannot be read"},
		{name: "half a message", mode: "list", arg: `{"tools":[`, want: "a message that cannot be read"},
		{name: "no list", mode: "list", arg: `{"tools":null}`, want: "no list of tools"},
		{name: "no object", mode: "list", arg: `[]`, want: "not a JSON object"},
		{name: "a cursor that is no text", mode: "list", arg: `{"tools":[],"nextCursor":3}`, want: "cursor is no text"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, fakeServer(row.mode, row.arg), row.opts)
			tools, err := s.Tools(testCtx(t))
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, row.want)
			require.Empty(t, tools)
		})
	}
}

// A call that fails is an error result with a code; the run goes on.
func TestFailsInTheCall(t *testing.T) {
	note := filepath.Join(t.TempDir(), "cancelled")
	for _, row := range []struct {
		name, mode, arg string
		text            string
		code            mcp.FailureKind
		want            string
	}{
		{name: "hangs", mode: "hang-call", arg: note, code: mcp.FailureTimeout, want: `MCP tool "echo": the call took longer than 300ms; it may have had its effect`},
		{name: "dies", mode: "die", code: mcp.FailureConnection, want: "the connection broke during the call, which may have had its effect: the server has gone"},
		{name: "sends 20 MiB", mode: "huge", code: mcp.FailureConnection, want: "the server sends a message of more than 16777216 bytes"},
		{name: "stops reading", mode: "stop-reading", text: strings.Repeat("x", 4<<20), code: mcp.FailureTimeout, want: "took longer"},
		{name: "refuses", mode: "refuse-call", code: mcp.FailureServer, want: "Unknown tool: echo (code -32602)"},
		{name: "half a message", mode: "result", arg: `{"content":`, code: mcp.FailureConnection, want: "a message that cannot be read"},
		{name: "no object", mode: "result", arg: `"x"`, code: mcp.FailureResult, want: "not a JSON object"},
		{name: "not clear whether it failed", mode: "result", arg: `{"content":[],"isError":"false"}`, code: mcp.FailureResult, want: "does not say clearly"},
		{name: "asks for input", mode: "result", arg: `{"resultType":"input_required","inputRequests":{}}`, code: mcp.FailureResult, want: "asks for more input"},
		{name: "fails", mode: "result", arg: `{"content":[{"type":"text","text":"no such "},{"type":"text","text":"file"}],"isError":true}`, code: mcp.FailureTool, want: "no such file"},
		{name: "fails silently", mode: "result", arg: `{"content":[],"isError":true}`, code: mcp.FailureTool, want: "does not say why"},
	} {
		t.Run(row.name, func(t *testing.T) {
			timeouts := mcp.Timeouts{}
			if row.code == mcp.FailureTimeout {
				timeouts.Call = 300 * time.Millisecond
			}
			s := open(t, fakeServer(row.mode, row.arg), mcp.Options{Timeouts: timeouts})
			got := calls(t, s, echo(row.text))[0]
			require.True(t, got.isError)
			require.Equal(t, string(row.code), got.code)
			require.Contains(t, got.text(), row.want)
		})
	}
	// The server of the first row was told that nobody waits any more.
	text, err := os.ReadFile(note)
	require.NoError(t, err)
	require.Contains(t, string(text), "requestId")
}

// A result over its bound is refused, and the session lives on.
func TestResultTooLarge(t *testing.T) {
	s := open(t, fakeServer("ok", ""), mcp.Options{MaxResultBytes: 1000})
	got := calls(t, s, echo(strings.Repeat("x", 2000)), echo("small"))
	require.Equal(t, string(mcp.FailureTooLarge), got[0].code)
	require.Contains(t, got[0].text(), "the call was made, but its result has 2002 bytes, more than 1000")
	require.Equal(t, "small", got[1].text())
}

// Bytes that are no text reach nobody.
func TestInvalidText(t *testing.T) {
	for _, row := range []struct{ name, result, want string }{
		{"bytes that are no UTF-8", "{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\xfeb\"}]}", "a\uFFFDb"},
		{"a lone surrogate in text", `{"content":[{"type":"text","text":"a\ud800b"}]}`, "a\uFFFDb"},
		{"a lone surrogate in structured content", `{"content":[],"structuredContent":{"k\udc00":"\ud800","n":12345678901234567890}}`, "{\"k\uFFFD\":\"\uFFFD\",\"n\":12345678901234567890}"},
		{"a lone surrogate in a block", `{"content":[{"type":"odd","v":"\ud800"}]}`, "[{\"type\":\"odd\",\"v\":\"\uFFFD\"}]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, fakeServer("result", row.result), mcp.Options{})
			got := calls(t, s, echo(""))[0]
			require.False(t, got.isError, "%s", got.result)
			require.Equal(t, row.want, got.text())
		})
	}
}

// A server that prints, or does not know the newest greeting and says nothing,
// is understood all the same.
func TestOddServers(t *testing.T) {
	for _, mode := range []string{"chatty", "old"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, fakeServer(mode, ""), mcp.Options{Timeouts: mcp.Timeouts{Connect: 6 * time.Second}})
			require.Equal(t, "hello", calls(t, s, echo("hello"))[0].text())
		})
	}
}

// A server that has died is started again for the next call; the call that it
// died in is not sent again.
func TestRestart(t *testing.T) {
	s := open(t, fakeServer("die-once", filepath.Join(t.TempDir(), "died")), mcp.Options{})
	got := calls(t, s, echo("one"), echo("two"))
	require.Equal(t, string(mcp.FailureConnection), got[0].code)
	require.Equal(t, "two", got[1].text())
}

// What is left of a server after Close: nothing, also of what it started, and
// however little it wants to go.
func TestNothingIsLeft(t *testing.T) {
	for _, mode := range []string{"family", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			s := open(t, fakeServer(mode, file), mcp.Options{Timeouts: mcp.Timeouts{Close: 50 * time.Millisecond}})
			_, err := s.Tools(testCtx(t))
			require.NoError(t, err)
			require.NoError(t, s.Close())
			if mode == "family" {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				pid, err := strconv.Atoi(string(text))
				require.NoError(t, err)
				require.Eventually(t, func() bool { return gone(pid) }, 5*time.Second, 5*time.Millisecond)
			}
		})
	}
}

// gone reports whether a process has ended; one that nobody has waited for yet
// counts as ended.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// The child gets a few variables and no secret.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "s3cret")
	t.Setenv("WANTED", "yes")
	transport := fakeServer("env", "")
	transport.InheritEnv = []string{"WANTED", "NOT_SET"}
	got := string(calls(t, open(t, transport, mcp.Options{}), echo(""))[0].result)
	require.NotContains(t, got, "SECRET")
	require.Contains(t, got, `"WANTED=yes"`)
	require.Contains(t, got, `"ARG="`)
	require.Contains(t, got, `"PATH=`)
}

// After Close the source is closed for good, also for tools that it gave out.
func TestClosed(t *testing.T) {
	s := open(t, fakeServer("ok", ""), mcp.Options{})
	require.NoError(t, s.Close(), "before any use")
	_, err := s.Tools(testCtx(t))
	require.ErrorIs(t, err, rulvar.ErrConfig)
	require.ErrorContains(t, err, "the source is closed")

	s = open(t, fakeServer("ok", ""), mcp.Options{})
	tools, err := s.Tools(testCtx(t))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	got := calls(t, tools[0], echo("late"))[0]
	require.Equal(t, string(mcp.FailureConnection), got.code)
	require.Contains(t, got.text(), "nothing was called: the source is closed")
}

// Close does not wait for calls that hang, in any phase.
func TestCloseDuring(t *testing.T) {
	for _, mode := range []string{"silent", "deaf", "hang-list"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, fakeServer(mode, ""), mcp.Options{})
			done := make(chan error)
			go func() { _, err := s.Tools(testCtx(t)); done <- err }()
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, s.Close())
			require.ErrorContains(t, <-done, "the source is closed")
		})
	}
}

// Many who ask at once share one server and one list.
func TestShared(t *testing.T) {
	s := open(t, fakeServer("pid", ""), mcp.Options{})
	errs := make(chan error)
	for range 20 {
		go func() { _, err := s.Tools(testCtx(t)); errs <- err }()
	}
	for range 20 {
		require.NoError(t, <-errs)
	}
	got := calls(t, s, echo(""), echo(""))
	require.Equal(t, got[0].text(), got[1].text(), "one process answers")
}

// An agent that is cancelled does not wait for the server.
func TestCancelledRun(t *testing.T) {
	note := filepath.Join(t.TempDir(), "cancelled")
	s := open(t, fakeServer("hang-call", note), mcp.Options{})
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Calls: []rulvartest.Call{echo("")}}, {Text: "done"}}})
	e := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "test:m", Logger: quiet})
	wf := rulvar.DefineWorkflow("hang", func(c *rulvar.Ctx, _ string) (string, error) {
		return rulvar.Agent[string](c, "go", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{s}})
	})
	h, err := rulvar.Run(testCtx(t), e, wf, "", nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(model.Requests()) == 1 }, 10*time.Second, time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	h.Cancel("enough")
	_, err = h.Result(testCtx(t))
	require.ErrorContains(t, err, "the run was cancelled: enough")
	require.Eventually(t, func() bool { _, err := os.Stat(note); return err == nil }, 10*time.Second, time.Millisecond)
}
