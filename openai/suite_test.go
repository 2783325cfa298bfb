package openai_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/openai"
	"github.com/rulvar/rulvar-go/rulvartest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func recorded(t testing.TB, rows []rulvartest.Exchange) []rulvartest.Exchange {
	t.Helper()
	for i := range rows {
		b, err := os.ReadFile(filepath.Join("testdata", rows[i].Name+".sse"))
		require.NoError(t, err)
		rows[i].Body = b
	}
	return rows
}

// own is a client whose connections end with the test.
func own(t testing.TB, client *http.Client) *http.Client {
	if client != nil {
		return client
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func open(t testing.TB, url, key string, client *http.Client) llm.Provider {
	t.Helper()
	p, err := openai.New(&openai.Options{APIKey: key, BaseURL: url, HTTPClient: own(t, client)})
	require.NoError(t, err)
	return p
}

func openChat(t testing.TB, url, key string, client *http.Client) llm.Provider {
	t.Helper()
	p, err := openai.Compatible("local", url, &openai.CompatibleOptions{APIKey: key, HTTPClient: own(t, client)})
	require.NoError(t, err)
	return p
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func exchanges(t testing.TB) []rulvartest.Exchange {
	return recorded(t, []rulvartest.Exchange{
		{Name: "text", Want: rulvartest.Answer{
			Text: "Hello, wörld 🌍 <&>.", Finish: llm.FinishStop, Usage: llm.Usage{InputTokens: 25, OutputTokens: 15},
		}},
		{Name: "tools", WireIDs: []string{"call_A9", "call_B7"}, Want: rulvartest.Answer{
			Text:   "I look.",
			Calls:  []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query": "weather"}`}, {Tool: "today", Arguments: `{}`}},
			Finish: llm.FinishToolCalls,
			Usage:  llm.Usage{InputTokens: 2620, OutputTokens: 89, CacheReadTokens: 2048, CacheWriteTokens: 100},
		}},
		{Name: "reasoning", WireIDs: []string{"call_C5", "call_D3"}, Want: rulvartest.Answer{
			Reasoning: "Let me <think> & see.",
			Calls:     []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query":"a"}`}, {Tool: "look_up", Arguments: `{"query":"b"}`}},
			Private: []json.RawMessage{
				raw(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Let me <think> & see."}],"encrypted_content":"gAAAAABo<x>/+=="}`),
				raw(`{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"gAAAAABp"}`),
			},
			Finish: llm.FinishToolCalls, Usage: llm.Usage{InputTokens: 60, OutputTokens: 210, ReasoningTokens: 120},
		}},
		{Name: "max_tokens", Want: rulvartest.Answer{
			Text: "One, two", Finish: llm.FinishMaxTokens, Usage: llm.Usage{InputTokens: 30, OutputTokens: 16},
		}},
		{Name: "half_call", Want: rulvartest.Answer{
			Calls:  []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query":"whole"}`}},
			Finish: llm.FinishMaxTokens, Usage: llm.Usage{InputTokens: 30, OutputTokens: 64},
		}},
		{Name: "refusal", Want: rulvartest.Answer{Text: "I cannot.", Finish: llm.FinishRefusal, Usage: llm.Usage{InputTokens: 41, OutputTokens: 3}}},
		{Name: "filtered", Want: rulvartest.Answer{Text: "I", Finish: llm.FinishRefusal, Usage: llm.Usage{InputTokens: 41, OutputTokens: 3}}},
		{Name: "one_piece", Want: rulvartest.Answer{Text: "At once.", Finish: llm.FinishStop, Usage: llm.Usage{InputTokens: 4, OutputTokens: 3}}},
	})
}

func chatExchanges(t testing.TB) []rulvartest.Exchange {
	return recorded(t, []rulvartest.Exchange{
		{Name: "chat_text", Want: rulvartest.Answer{
			Text: "Hello, wörld 🌍 <&>.", Finish: llm.FinishStop, Usage: llm.Usage{InputTokens: 25, OutputTokens: 15},
		}},
		{Name: "chat_tools", WireIDs: []string{"call_A9", "call_B7"}, Want: rulvartest.Answer{
			Text:   "I look.",
			Calls:  []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query": "weather"}`}, {Tool: "today", Arguments: `{}`}},
			Finish: llm.FinishToolCalls,
			Usage:  llm.Usage{InputTokens: 2620, OutputTokens: 89, CacheReadTokens: 2048},
		}},
		{Name: "chat_small", WireIDs: []string{"call_h1", "call_h2"}, Want: rulvartest.Answer{
			Reasoning: "Hm.",
			Calls:     []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query":"a"}`}, {Tool: "look_up", Arguments: `{"query":"b"}`}},
			Finish:    llm.FinishToolCalls, Usage: llm.Usage{InputTokens: 12, OutputTokens: 7},
		}},
		{Name: "chat_max_tokens", Want: rulvartest.Answer{
			Text: "One, two", Finish: llm.FinishMaxTokens, Usage: llm.Usage{InputTokens: 30, OutputTokens: 8},
		}},
		{Name: "chat_half_call", Want: rulvartest.Answer{
			Calls:  []rulvartest.AnswerCall{{Tool: "look_up", Arguments: `{"query":"whole"}`}},
			Finish: llm.FinishMaxTokens, Usage: llm.Usage{InputTokens: 30, OutputTokens: 64},
		}},
		{Name: "chat_refusal", Want: rulvartest.Answer{Text: "I cannot.", Finish: llm.FinishRefusal, Usage: llm.Usage{InputTokens: 41, OutputTokens: 3}}},
		{Name: "chat_filtered", Want: rulvartest.Answer{Text: "I", Finish: llm.FinishRefusal, Usage: llm.Usage{InputTokens: 41, OutputTokens: 3}}},
	})
}

func data(events ...string) []byte {
	var out string
	for _, e := range events {
		out += "data: " + e + "\n\n"
	}
	return []byte(out)
}

const begun = `{"type":"response.created","response":{"id":"resp_1"}}`

func failed(code string) []byte {
	return data(begun, `{"type":"response.failed","response":{"status":"failed","error":{"code":"`+code+`","message":"It went wrong"},"usage":{"input_tokens":5,"output_tokens":1}}}`)
}

func TestProviderSuite(t *testing.T) {
	rulvartest.RunProviderSuite(t, &rulvartest.ProviderSuite{
		Open: open, Model: "gpt-6.2-sol", Exchanges: exchanges(t),
		Failures: []rulvartest.Failure{
			{Name: "rate limit", Body: failed("rate_limit_exceeded"), Kind: llm.KindRateLimit, Retryable: true},
			{Name: "server error", Body: failed("server_error"), Kind: llm.KindTransport, Retryable: true},
			{Name: "a timeout", Body: failed("vector_store_timeout"), Kind: llm.KindTransport, Retryable: true},
			{Name: "invalid prompt", Body: failed("invalid_prompt"), Kind: llm.KindTerminal},
			{Name: "an event of type error", Body: data(begun, `{"type":"error","code":"server_error","message":"It went wrong"}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "an error in an event of type error", Body: data(begun, `{"type":"error","error":{"type":"slow_down","message":"It went wrong"}}`), Kind: llm.KindOverloaded, Retryable: true},
			{Name: "negative usage", Body: data(begun, `{"type":"response.completed","response":{"usage":{"input_tokens":-5,"output_tokens":1}}}`), Kind: llm.KindTransport},
			{Name: "a call that never came", Body: data(begun, `{"type":"response.completed","response":{"output":[{"type":"function_call"}],"usage":{"input_tokens":5,"output_tokens":1}}}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "an end without a response", Body: data(begun, `{"type":"response.completed"}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "the other dialect's end", Body: data(begun, `[DONE]`), Kind: llm.KindTransport, Retryable: true},
		},
	})
}

func TestChatSuite(t *testing.T) {
	const chunk = `{"choices":[{"index":0,"delta":{"content":"Hel"}}]}`
	rulvartest.RunProviderSuite(t, &rulvartest.ProviderSuite{
		Open: openChat, Model: "qwen3", Exchanges: chatExchanges(t),
		Failures: []rulvartest.Failure{
			{Name: "a word", Body: data(chunk, `{"error":{"code":"rate_limit_exceeded","message":"It went wrong"}}`), Kind: llm.KindRateLimit, Retryable: true},
			{Name: "a status", Body: data(chunk, `{"error":{"code":502,"message":"It went wrong"}}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "a status of the client", Body: data(chunk, `{"error":{"code":400,"message":"It went wrong"}}`), Kind: llm.KindTerminal},
			{Name: "a text", Body: data(chunk, `{"error":"It went wrong"}`), Kind: llm.KindTerminal},
			{Name: "no reason", Body: data(chunk, `[DONE]`), Kind: llm.KindTransport, Retryable: true},
			{Name: "a reason and no end", Body: data(chunk, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), Kind: llm.KindTransport, Retryable: true},
			{Name: "negative usage", Body: data(chunk, `{"usage":{"prompt_tokens":-1}}`), Kind: llm.KindTransport},
			{Name: "a call without a name", Body: data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, `[DONE]`), Kind: llm.KindTransport, Retryable: true},
		},
	})
}
