package anthropic_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

type body []byte

func (b body) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(bytes.NewReader(b)),
	}, nil
}

// Whatever the service sends is one whole answer or one fault, and only a whole
// answer calls tools.
func FuzzStream(f *testing.F) {
	names, err := filepath.Glob("testdata/*.sse")
	require.NoError(f, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add(failure("overloaded_error"))
	f.Add(data(`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9223372036854775807,"input_tokens":-1}}`, `{"type":"message_stop"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := open(t, "http://model.invalid", "k", &http.Client{Transport: body(b)})
		req := &llm.Request{Model: "claude-opus-5-5", Messages: []llm.Message{message(llm.RoleUser, llm.TextPart("x"))}}
		a, err := rulvartest.ReadAnswer(p.Stream(t.Context(), req))
		require.NotErrorIs(t, err, rulvartest.ErrBrokenStream)
		u := a.Usage
		require.True(t, u.InputTokens >= 0 && u.OutputTokens >= 0 && u.CacheReadTokens >= 0 && u.CacheWriteTokens >= 0)
		require.LessOrEqual(t, u.CacheReadTokens+u.CacheWriteTokens, u.InputTokens)
		if err != nil {
			_, ok := errors.AsType[*llm.Error](err)
			require.True(t, ok, "%v", err)
			require.Empty(t, a.Calls)
			return
		}
		require.NotEmpty(t, a.Finish)
	})
}
