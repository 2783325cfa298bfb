package anthropic_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rulvar/rulvar-go/anthropic"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".sse"))
	require.NoError(t, err)
	return b
}

func open(t testing.TB, url, key string, client *http.Client) llm.Provider {
	t.Helper()
	if client == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client = &http.Client{Transport: transport}
	}
	p, err := anthropic.New(&anthropic.Options{APIKey: key, BaseURL: url, HTTPClient: client})
	require.NoError(t, err)
	return p
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// exchanges are the recorded answers and what they mean.
func exchanges(t testing.TB) []rulvartest.Exchange {
	rows := []rulvartest.Exchange{
		{Name: "text", Want: rulvartest.Answer{
			Text: "Hello, wörld 🌍 <&>.", Finish: llm.FinishStop, Usage: llm.Usage{InputTokens: 25, OutputTokens: 15},
		}},
		{Name: "tools", WireIDs: []string{"toolu_01A9", "toolu_01B7"}, Want: rulvartest.Answer{
			Text:   "I look.",
			Calls:  []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query": "weather"}`}, {Tool: "today", Arguments: `{}`}},
			Finish: llm.FinishToolCalls,
			Usage:  llm.Usage{InputTokens: 2620, OutputTokens: 89, CacheReadTokens: 2048, CacheWriteTokens: 100},
		}},
		{Name: "thinking", WireIDs: []string{"toolu_01C5", "toolu_01D3"}, Want: rulvartest.Answer{
			Text: "First.", Reasoning: "Let me <think> & see.",
			Calls: []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query":"a"}`}, {Tool: "look_up", Arguments: `{"query":"b"}`}},
			Private: []json.RawMessage{
				raw(`{"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h/+==","thinking":"Let me <think> & see.","type":"thinking"}`),
				raw(`{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"}`),
				raw(`{"signature":"Eo8CCkYIBBgCKkA","thinking":"","type":"thinking"}`),
			},
			Finish: llm.FinishToolCalls, Usage: llm.Usage{InputTokens: 60, OutputTokens: 210, ReasoningTokens: 120},
		}},
		{Name: "max_tokens", Want: rulvartest.Answer{
			Text: "One, two", Finish: llm.FinishMaxTokens, Usage: llm.Usage{InputTokens: 30, OutputTokens: 8},
		}},
		{Name: "half_call", Want: rulvartest.Answer{
			Calls:  []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query":"whole"}`}},
			Finish: llm.FinishMaxTokens, Usage: llm.Usage{InputTokens: 30, OutputTokens: 64},
		}},
		{Name: "bare_call", Want: rulvartest.Answer{Finish: llm.FinishMaxTokens, Usage: llm.Usage{InputTokens: 30, OutputTokens: 9}}},
		{Name: "refusal", Want: rulvartest.Answer{Text: "I", Finish: llm.FinishRefusal, Usage: llm.Usage{InputTokens: 41, OutputTokens: 3}}},
		{Name: "context", Want: rulvartest.Answer{Text: "The", Finish: llm.FinishContextWindow, Usage: llm.Usage{InputTokens: 199000, OutputTokens: 2}}},
	}
	for i := range rows {
		rows[i].Body = recorded(t, rows[i].Name)
	}
	return rows
}

const begun = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

`

func failure(word string) []byte {
	return []byte(begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + word + "\",\"message\":\"It went wrong\"}}\n\n")
}

func data(events ...string) []byte {
	out := begun
	for _, e := range events {
		out += "data: " + e + "\n\n"
	}
	return []byte(out)
}

func TestProviderSuite(t *testing.T) {
	rulvartest.RunProviderSuite(t, &rulvartest.ProviderSuite{
		Open: open, Model: "claude-opus-5-5", Exchanges: exchanges(t),
		Failures: []rulvartest.Failure{
			{Name: "overloaded", Body: failure("overloaded_error"), Kind: llm.KindOverloaded, Retryable: true},
			{Name: "rate limit", Body: failure("rate_limit_error"), Kind: llm.KindRateLimit, Retryable: true},
			{Name: "api error", Body: failure("api_error"), Kind: llm.KindTransport, Retryable: true},
			{Name: "timeout", Body: failure("timeout_error"), Kind: llm.KindTransport, Retryable: true},
			{Name: "invalid request", Body: failure("invalid_request_error"), Kind: llm.KindTerminal},
			{Name: "a word to come", Body: failure("lunar_error"), Kind: llm.KindTerminal},
			{Name: "negative usage", Body: data(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":-5}}`), Kind: llm.KindTransport},
			{Name: "a reason to come", Body: data(`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`, `{"type":"message_stop"}`), Kind: llm.KindTransport},
			{Name: "no reason", Body: data(`{"type":"content_block_stop","index":0}`, `{"type":"message_stop"}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "an open block", Body: data(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "a block twice", Body: data(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "an unknown block", Body: data(`{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "a second beginning", Body: data(`{"type":"message_start","message":{}}`), Kind: llm.KindTransport, Retryable: true},
		},
	})
}
