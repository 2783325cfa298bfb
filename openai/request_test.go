package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/openai"
	"github.com/rulvar/rulvar-go/rulvartest"
)

const testKey = "test-key-0123456789"

// sink answers every request with a recorded text and keeps the request.
type sink struct {
	t      testing.TB
	answer string
	body   map[string]any
	header http.Header
	url    string
}

func (s *sink) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	require.NoError(s.t, err)
	s.body = nil
	require.NoError(s.t, json.Unmarshal(body, &s.body))
	s.header, s.url = req.Header.Clone(), req.URL.String()
	answer, err := os.ReadFile("testdata/" + s.answer + ".sse")
	require.NoError(s.t, err)
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(string(answer))),
	}, nil
}

// send returns what the Responses API gets of a request.
func send(t testing.TB, o openai.Options, req *llm.Request) (*sink, error) {
	t.Helper()
	s := &sink{t: t, answer: "text"}
	o.APIKey, o.HTTPClient = testKey, &http.Client{Transport: s}
	p, err := openai.New(&o)
	require.NoError(t, err)
	_, err = rulvartest.ReadAnswer(p.Stream(t.Context(), req))
	return s, err
}

// sendChat returns what a compatible service gets of a request.
func sendChat(t testing.TB, o openai.CompatibleOptions, req *llm.Request) (*sink, error) {
	t.Helper()
	s := &sink{t: t, answer: "chat_text"}
	o.HTTPClient = &http.Client{Transport: s}
	p, err := openai.Compatible("local", "http://localhost:11434/v1", &o)
	require.NoError(t, err)
	_, err = rulvartest.ReadAnswer(p.Stream(t.Context(), req))
	return s, err
}

func message(role llm.Role, parts ...llm.Part) llm.Message {
	return llm.Message{Role: role, Parts: parts}
}

const closedSchema = `{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer","minimum":1,"description":"A number."}}}`

func wholeRequest() *llm.Request {
	return &llm.Request{
		Model: "gpt-6.2-sol", Effort: "max", MaxOutputTokens: 5, ToolChoice: "tool:look_up", Schema: raw(closedSchema),
		Messages: []llm.Message{
			message(llm.RoleSystem, llm.TextPart("Be brief."), llm.TextPart("Be kind.")),
			message(llm.RoleUser, llm.TextPart("Look."), llm.Part{Type: llm.PartImage, MediaType: "image/png", Data: raw(`"aGk="`)},
				llm.Part{Type: llm.PartImage, MediaType: "image/png", Data: raw(`"https://example.com/a.png"`)}),
			message(llm.RoleAssistant,
				llm.Part{Type: llm.PartRaw, Provider: "anthropic", Block: raw(`{"type":"thinking"}`)},
				llm.Part{Type: llm.PartRaw, Provider: "openai", Block: raw(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"<x>"}`)},
				llm.TextPart("Looking."), llm.TextPart(" "),
				llm.Part{Type: llm.PartToolCall, ID: "01A", Name: "look_up", Args: raw(`{"n":12345678901234567890}`)},
				llm.Part{Type: llm.PartToolCall, ID: "01B", Name: "look_up", Args: raw(`{"__unparsed":"{n:"}`)}),
			message(llm.RoleTool,
				llm.Part{Type: llm.PartToolResult, ID: "01A", Name: "look_up", Result: raw(`"a text"`)},
				llm.Part{Type: llm.PartToolResult, ID: "01B", Name: "look_up", Result: raw(`"it went wrong"`), IsError: true}),
		},
		Tools: []llm.ToolDeclaration{
			{Name: "look_up", Description: "Looks up.", Parameters: raw(closedSchema), Version: "2"},
			{Name: "today", Parameters: raw(`{"type":"object","$defs":{"big":{"const":12345678901234567890}}}`)},
		},
	}
}

const strictSchema = `{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer","description":"A number. {\"minimum\":1}"}}}`

func TestResponsesRequest(t *testing.T) {
	s, err := send(t, openai.Options{Organization: "org", Project: "proj"}, wholeRequest())
	require.NoError(t, err)
	const want = `{
	  "model": "gpt-6.2-sol", "store": false, "stream": true, "include": ["reasoning.encrypted_content"],
	  "reasoning": {"effort":"max"}, "max_output_tokens": 16, "instructions": "Be brief.\n\nBe kind.",
	  "input": [
	    {"role":"user","content":[
	      {"type":"input_text","text":"Look."},
	      {"type":"input_image","detail":"auto","image_url":"data:image/png;base64,aGk="},
	      {"type":"input_image","detail":"auto","image_url":"https://example.com/a.png"}]},
	    {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"<x>"},
	    {"role":"assistant","content":"Looking."},
	    {"type":"function_call","call_id":"call_01A","name":"look_up","arguments":"{\"n\":12345678901234567890}"},
	    {"type":"function_call","call_id":"call_01B","name":"look_up","arguments":"{n:"},
	    {"type":"function_call_output","call_id":"call_01A","output":"a text"},
	    {"type":"function_call_output","call_id":"call_01B","output":"error: it went wrong"}],
	  "tools": [
	    {"type":"function","name":"look_up","description":"Looks up.","strict":true,"parameters":` + strictSchema + `},
	    {"type":"function","name":"today","strict":false,"parameters":{"type":"object","properties":{},"$defs":{"big":{"const":12345678901234567890}}}}],
	  "tool_choice": {"type":"function","name":"look_up"},
	  "text": {"format":{"type":"json_schema","name":"output","strict":true,"schema":` + strictSchema + `}}
	}`
	got, err := json.Marshal(s.body)
	require.NoError(t, err)
	require.JSONEq(t, want, string(got))
	require.Equal(t, "https://api.openai.com/v1/responses", s.url)
	require.Equal(t, "Bearer "+testKey, s.header.Get("Authorization"))
	require.Equal(t, "org", s.header.Get("Openai-Organization"))
	require.Equal(t, "proj", s.header.Get("Openai-Project"))
}

func TestChatRequest(t *testing.T) {
	req := wholeRequest()
	s, err := sendChat(t, openai.CompatibleOptions{}, req)
	require.NoError(t, err)
	const want = `{
	  "model": "gpt-6.2-sol", "stream": true, "stream_options": {"include_usage":true}, "max_tokens": 5,
	  "messages": [
	    {"role":"system","content":"Be brief.\n\nBe kind."},
	    {"role":"user","content":[
	      {"type":"text","text":"Look."},
	      {"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},
	      {"type":"image_url","image_url":{"url":"https://example.com/a.png"}},
	      {"type":"text","text":"INSTRUCTION"}]},
	    {"role":"assistant","content":"Looking. ","tool_calls":[
	      {"type":"function","id":"call_01A","function":{"name":"look_up","arguments":"{\"n\":12345678901234567890}"}},
	      {"type":"function","id":"call_01B","function":{"name":"look_up","arguments":"{n:"}}]},
	    {"role":"tool","tool_call_id":"call_01A","content":"a text"},
	    {"role":"tool","tool_call_id":"call_01B","content":"error: it went wrong"}],
	  "tools": [
	    {"type":"function","function":{"name":"look_up","description":"Looks up.","parameters":` + closedSchema + `}},
	    {"type":"function","function":{"name":"today","parameters":{"type":"object","properties":{},"$defs":{"big":{"const":12345678901234567890}}}}}],
	  "tool_choice": {"type":"function","function":{"name":"look_up"}}
	}`
	user := s.body["messages"].([]any)[1].(map[string]any)["content"].([]any)
	last := user[len(user)-1].(map[string]any)
	require.Contains(t, last["text"], "fits this JSON Schema:\n"+closedSchema)
	last["text"] = "INSTRUCTION"
	got, err := json.Marshal(s.body)
	require.NoError(t, err)
	require.JSONEq(t, want, string(got))
	require.Equal(t, "http://localhost:11434/v1/chat/completions", s.url)
	require.Empty(t, s.header.Get("Authorization"), "there is no key")
	require.Len(t, req.Messages[1].Parts, 3, "the request is not changed")
}

func TestRequestByModel(t *testing.T) {
	type m = map[string]any
	native := &llm.Capabilities{StructuredOutput: llm.StructuredNative, MaxOutputTokens: 3}
	for _, row := range []struct {
		name   string
		model  string
		opts   openai.Options
		chat   *openai.CompatibleOptions
		change func(*llm.Request)
		want   func(t *testing.T, body m)
	}{
		{name: "the next best effort", model: "gpt-5.5", want: func(t *testing.T, b m) { require.Equal(t, m{"effort": "xhigh"}, b["reasoning"]) }},
		{name: "no effort that the model lacks", model: "gpt-5.1", want: func(t *testing.T, b m) { require.NotContains(t, b, "reasoning") }},
		{name: "a snapshot", model: "gpt-6.2-sol-2026-12-01", want: func(t *testing.T, b m) { require.Equal(t, m{"effort": "max"}, b["reasoning"]) }},
		{name: "an unknown model is asked for nothing that it may lack", model: "gpt-4.1", want: func(t *testing.T, b m) {
			require.NotContains(t, b, "reasoning")
			require.NotContains(t, b, "include")
		}},
		{name: "no bound", model: "gpt-6-sol", change: func(r *llm.Request) { r.MaxOutputTokens = 0 }, want: func(t *testing.T, b m) {
			require.NotContains(t, b, "max_output_tokens")
		}},
		{name: "not above the model's bound", model: "gpt-6-sol", change: func(r *llm.Request) { r.MaxOutputTokens = 1 << 30 }, want: func(t *testing.T, b m) {
			require.EqualValues(t, 128000, b["max_output_tokens"])
		}},
		{name: "an open schema is not strict", model: "gpt-6-sol", change: func(r *llm.Request) { r.Schema = raw(`{"type":"object"}`) }, want: func(t *testing.T, b m) {
			require.Equal(t, m{"type": "json_schema", "name": "output", "strict": false, "schema": m{"type": "object"}}, b["text"].(m)["format"])
		}},
		{name: "no choice at all", model: "gpt-6-sol", change: func(r *llm.Request) { r.ToolChoice = "none" }, want: func(t *testing.T, b m) {
			require.Equal(t, "none", b["tool_choice"])
			require.Len(t, b["tools"], 2)
		}},
		{name: "any tool", model: "gpt-6-sol", change: func(r *llm.Request) { r.ToolChoice = "required" }, want: func(t *testing.T, b m) {
			require.Equal(t, "required", b["tool_choice"])
		}},
		{name: "loose tools", model: "gpt-6-sol", opts: openai.Options{LooseTools: true}, want: func(t *testing.T, b m) {
			require.NotContains(t, fmt.Sprint(b["tools"]), "strict:true")
		}},
		{name: "a described model", model: "mine", opts: openai.Options{Models: map[string]llm.Capabilities{"mine": {}}}, want: func(t *testing.T, b m) {
			require.NotContains(t, b, "text")
			require.NotContains(t, fmt.Sprint(b["tools"]), "strict:true")
		}},
		{name: "chat: native schemas", model: "x", chat: &openai.CompatibleOptions{Default: native, MaxCompletionTokens: true, Efforts: []string{"max"}, APIKey: testKey}, want: func(t *testing.T, b m) {
			require.EqualValues(t, 3, b["max_completion_tokens"])
			require.NotContains(t, b, "max_tokens")
			require.Equal(t, "max", b["reasoning_effort"])
			require.Equal(t, true, b["response_format"].(m)["json_schema"].(m)["strict"])
			require.Contains(t, fmt.Sprint(b["tools"]), "strict:true")
		}},
		{name: "chat: a plain text where there are no images", model: "x", chat: &openai.CompatibleOptions{}, change: func(r *llm.Request) {
			r.Messages, r.Schema, r.ToolChoice = []llm.Message{message(llm.RoleUser, llm.TextPart("a"), llm.TextPart("b"))}, nil, "auto"
		}, want: func(t *testing.T, b m) {
			require.Equal(t, []any{m{"role": "user", "content": "a\n\nb"}}, b["messages"])
			require.Equal(t, "auto", b["tool_choice"])
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			req := wholeRequest()
			req.Model = row.model
			if row.change != nil {
				row.change(req)
			}
			var s *sink
			var err error
			if row.chat != nil {
				s, err = sendChat(t, *row.chat, req)
			} else {
				s, err = send(t, row.opts, req)
			}
			require.NoError(t, err)
			row.want(t, s.body)
		})
	}
}

func TestUnsendable(t *testing.T) {
	for name, change := range map[string]func(*llm.Request){
		"a schema that is none":     func(r *llm.Request) { r.Tools[0].Parameters = raw(`[]`) },
		"an answer's that is none":  func(r *llm.Request) { r.Schema = raw(`[]`) },
		"an unknown choice":         func(r *llm.Request) { r.ToolChoice = "perhaps" },
		"an image without data":     func(r *llm.Request) { r.Messages[1].Parts[1].Data = raw(`{}`) },
		"a block that is broken":    func(r *llm.Request) { r.Messages[2].Parts[1].Block = raw(`{`) },
		"a call of the user":        func(r *llm.Request) { r.Messages[1].Parts[1] = r.Messages[2].Parts[4] },
		"an image of the assistant": func(r *llm.Request) { r.Messages[2].Parts[2] = r.Messages[1].Parts[1] },
	} {
		for _, chat := range []bool{false, true} {
			if chat && (name == "a block that is broken") {
				continue // the dialect has no place for it
			}
			req := wholeRequest()
			change(req)
			var s *sink
			var err error
			if chat {
				s, err = sendChat(t, openai.CompatibleOptions{Default: &llm.Capabilities{StructuredOutput: llm.StructuredNative}}, req)
			} else {
				s, err = send(t, openai.Options{}, req)
			}
			var pe *llm.Error
			require.ErrorAs(t, err, &pe, name)
			require.Equal(t, llm.KindTerminal, pe.Kind, name)
			require.Nil(t, s.body, name)
		}
	}
}

// Some services know calls by no id, or by the same one each time.
func TestCallsWithoutID(t *testing.T) {
	for name, id := range map[string]string{"none": "", "the same": "call_0"} {
		t.Run(name, func(t *testing.T) {
			p := openChat(t, "http://model.invalid", "", &http.Client{Transport: body(data(
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"`+id+`","function":{"name":"t","arguments":""}}]},"finish_reason":"tool_calls"}]}`, `[DONE]`))})
			req := wholeRequest()
			seen := make(map[string]bool)
			var msgs []llm.Message
			for range 3 {
				a, err := rulvartest.ReadAnswer(p.Stream(t.Context(), req))
				require.NoError(t, err)
				require.Len(t, a.Calls, 1)
				require.Equal(t, "{}", a.Calls[0].Arguments)
				require.False(t, seen[a.Calls[0].ID])
				seen[a.Calls[0].ID] = true
				msgs = append(msgs, message(llm.RoleAssistant, llm.Part{Type: llm.PartToolCall, ID: a.Calls[0].ID, Name: "t", Args: raw(`{}`)}))
			}
			require.Len(t, msgs, 3)
		})
	}
}

func TestOptions(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_BASE_URL", "http://elsewhere.invalid")
	t.Setenv("OPENAI_ORG_ID", "org-of-the-environment")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Env: yes")
	for name, o := range map[string]*openai.Options{
		"no key":             nil,
		"no URL":             {APIKey: testKey, BaseURL: "api.openai.com"},
		"a user in the URL":  {APIKey: testKey, BaseURL: "https://user:secretpass@host"},
		"a query in the URL": {APIKey: testKey, BaseURL: "https://host?key=secretpass"},
	} {
		_, err := openai.New(o)
		require.ErrorIs(t, err, rulvar.ErrConfig, name)
		require.NotContains(t, err.Error(), "secretpass", name)
	}
	_, err := openai.Compatible("", "http://localhost", nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	_, err = openai.Compatible("x", "", nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)

	s, err := send(t, openai.Options{}, wholeRequest())
	require.NoError(t, err)
	require.Equal(t, "https://api.openai.com/v1/responses", s.url, "the environment says nothing about where to send")
	require.Empty(t, s.header.Get("Openai-Organization"))
	require.Empty(t, s.header.Get("X-Env"))

	t.Setenv("OPENAI_API_KEY", testKey)
	p, err := openai.New(nil)
	require.NoError(t, err)
	require.Equal(t, "openai", p.ID())
	s, err = sendChat(t, openai.CompatibleOptions{}, wholeRequest())
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(s.header), testKey, "the key is not for other services")

	o, c := openai.Options{APIKey: testKey}, openai.CompatibleOptions{APIKey: testKey}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "options", o, "compatible", c, "provider", p)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s %v %+v %#v", o, o, o, o, c, c, c)+log.String(), testKey)
}

func TestCapabilities(t *testing.T) {
	p, err := openai.New(&openai.Options{APIKey: testKey, Account: "blue"})
	require.NoError(t, err)
	require.Equal(t, llm.Capabilities{
		StructuredOutput: llm.StructuredNative, ContextWindow: 1_050_000, MaxOutputTokens: 128_000, RetentionKey: "openai#blue",
		Pricing: &llm.Pricing{InputUSD: 2, OutputUSD: 10, CacheReadUSD: 0.10, CacheWriteUSD: 2.50, CheckedAt: openai.PricesCheckedAt},
	}, p.Capabilities("gpt-6.2-sol"))
	require.Nil(t, p.Capabilities("gpt-unheard-of").Pricing)
	c, err := openai.Compatible("local", "http://localhost/v1", nil)
	require.NoError(t, err)
	require.Equal(t, llm.Capabilities{StructuredOutput: llm.StructuredPrompt, ContextWindow: 8192, MaxOutputTokens: 4096, RetentionKey: "openai#local"}, c.Capabilities("x"))
}
