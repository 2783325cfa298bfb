package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/anthropic"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

const testKey = "test-key-0123456789"

// sink answers every request with a recorded text and keeps the request.
type sink struct {
	t      testing.TB
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
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(string(recorded(s.t, "text")))),
	}, nil
}

// send returns what the service gets of a request.
func send(t testing.TB, opts *anthropic.Options, req *llm.Request) (*sink, error) {
	t.Helper()
	o := anthropic.Options{APIKey: testKey}
	if opts != nil {
		o = *opts
		o.APIKey = testKey
	}
	s := &sink{t: t}
	o.HTTPClient = &http.Client{Transport: s}
	p, err := anthropic.New(&o)
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
		Model: "claude-opus-4-8", Effort: "xhigh", MaxOutputTokens: 500, ToolChoice: "tool:look_up", Schema: raw(closedSchema),
		Messages: []llm.Message{
			message(llm.RoleSystem, llm.TextPart("Be brief."), llm.TextPart("Be kind.")),
			message(llm.RoleUser, llm.TextPart("Look."), llm.Part{Type: llm.PartImage, MediaType: "image/png", Data: raw(`"aGk="`)},
				llm.Part{Type: llm.PartImage, MediaType: "image/png", Data: raw(`"https://example.com/a.png"`)},
				llm.Part{Type: llm.PartImage, MediaType: "image/png", Data: raw(`{"__rulvarBytes":"aGk="}`)}),
			message(llm.RoleAssistant,
				llm.Part{Type: llm.PartRaw, Provider: "anthropic", Block: raw(`{"type":"thinking","thinking":"<x>","signature":"s"}`)},
				llm.Part{Type: llm.PartRaw, Provider: "openai", Block: raw(`{"type":"reasoning"}`)},
				llm.TextPart("Looking."), llm.TextPart(" "),
				llm.Part{Type: llm.PartToolCall, ID: "01A", Name: "look_up", Args: raw(`{"n":12345678901234567890}`)},
				llm.Part{Type: llm.PartToolCall, ID: "01B", Name: "look_up", Args: raw(`{"__unparsed":"{n:"}`)},
				llm.Part{Type: llm.PartToolCall, ID: "01C", Name: "look_up", Args: raw(`null`)},
				llm.Part{Type: llm.PartToolCall, ID: "01D", Name: "look_up", Args: raw(`{"s":"\ud800"}`)}),
			message(llm.RoleTool,
				llm.Part{Type: llm.PartToolResult, ID: "01A", Name: "look_up", Result: raw(`"a text"`)},
				llm.Part{Type: llm.PartToolResult, ID: "01B", Name: "look_up", Result: raw(`{"error":"bad"}`), IsError: true},
				llm.Part{Type: llm.PartToolResult, ID: "01C", Name: "look_up", Result: raw(`""`)},
				llm.Part{Type: llm.PartToolResult, ID: "01D", Name: "look_up", Result: raw(`""`), IsError: true}),
		},
		Tools: []llm.ToolDeclaration{
			{Name: "look_up", Description: "Looks up.", Parameters: raw(closedSchema), Version: "2"},
			{Name: "today", Parameters: raw(`{}`)},
		},
	}
}

func TestRequest(t *testing.T) {
	s, err := send(t, nil, wholeRequest())
	require.NoError(t, err)
	const want = `{
	  "model": "claude-opus-4-8", "max_tokens": 500, "stream": true,
	  "system": [{"type":"text","text":"Be brief."}, {"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}}],
	  "messages": [
	    {"role":"user","content":[
	      {"type":"text","text":"Look."},
	      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},
	      {"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},
	      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]},
	    {"role":"assistant","content":[
	      {"type":"thinking","thinking":"<x>","signature":"s"},
	      {"type":"text","text":"Looking."},
	      {"type":"tool_use","id":"toolu_01A","name":"look_up","input":{"n":12345678901234567890}},
	      {"type":"tool_use","id":"toolu_01B","name":"look_up","input":{"__unparsed":"{n:"}},
	      {"type":"tool_use","id":"toolu_01C","name":"look_up","input":{"__unparsed":null}},
	      {"type":"tool_use","id":"toolu_01D","name":"look_up","input":{"s":"\ufffd"}}]},
	    {"role":"user","content":[
	      {"type":"tool_result","tool_use_id":"toolu_01A","content":[{"type":"text","text":"a text"}]},
	      {"type":"tool_result","tool_use_id":"toolu_01B","is_error":true,"content":[{"type":"text","text":"{\"error\":\"bad\"}"}]},
	      {"type":"tool_result","tool_use_id":"toolu_01C"},
	      {"type":"tool_result","tool_use_id":"toolu_01D","is_error":true,"content":[{"type":"text","text":"the call failed without saying why"}],"cache_control":{"type":"ephemeral"}}]}],
	  "tools": [
	    {"name":"look_up","description":"Looks up.","strict":true,"input_schema":{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer","description":"A number. {\"minimum\":1}"}}}},
	    {"name":"today","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}],
	  "tool_choice": {"type":"tool","name":"look_up"},
	  "output_config": {"effort":"xhigh","format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer","description":"A number. {\"minimum\":1}"}}}}}
	}`
	got, err := json.Marshal(s.body)
	require.NoError(t, err)
	require.JSONEq(t, want, string(got))
	require.Equal(t, "https://api.anthropic.com/v1/messages", s.url)
	require.Equal(t, testKey, s.header.Get("X-Api-Key"))
	require.Empty(t, s.header.Get("Authorization"))
}

func TestRequestByModel(t *testing.T) {
	type m = map[string]any
	for _, row := range []struct {
		name, model string
		opts        *anthropic.Options
		change      func(*llm.Request)
		want        func(t *testing.T, body m)
	}{
		{name: "a model that always thinks is not forced", model: "claude-opus-5-5", want: func(t *testing.T, b m) {
			require.Equal(t, m{"type": "auto"}, b["tool_choice"])
			require.NotContains(t, b, "thinking")
		}},
		{name: "nor by a dated name", model: "claude-opus-5-5-20261001", want: func(t *testing.T, b m) {
			require.Equal(t, m{"type": "auto"}, b["tool_choice"])
		}},
		{name: "thinking where it has to be asked for", model: "claude-opus-4-8", change: func(r *llm.Request) { r.ToolChoice = "auto" }, want: func(t *testing.T, b m) {
			require.Equal(t, m{"type": "adaptive"}, b["thinking"])
		}},
		{name: "summaries", model: "claude-opus-5-5", opts: &anthropic.Options{ShowThinking: true}, want: func(t *testing.T, b m) {
			require.Equal(t, m{"type": "adaptive", "display": "summarized"}, b["thinking"])
		}},
		{name: "no effort where there is none", model: "claude-haiku-4-5", want: func(t *testing.T, b m) {
			require.NotContains(t, b["output_config"], "effort")
			require.NotContains(t, b, "thinking")
		}},
		{name: "no effort that the model lacks", model: "claude-opus-4-6", want: func(t *testing.T, b m) {
			require.NotContains(t, b["output_config"], "effort")
		}},
		{name: "an unknown model", model: "claude-next", want: func(t *testing.T, b m) {
			require.NotContains(t, b, "output_config")
			require.NotContains(t, b, "thinking")
			require.NotContains(t, fmt.Sprint(b["tools"]), "strict")
			require.Contains(t, fmt.Sprint(b["messages"].([]any)[0]), "fits this JSON Schema")
		}},
		{name: "an open schema is asked for in words", model: "claude-opus-5-5", change: func(r *llm.Request) { r.Schema = raw(`{"type":"object"}`) }, want: func(t *testing.T, b m) {
			require.NotContains(t, b["output_config"], "format")
			require.Contains(t, fmt.Sprint(b["messages"].([]any)[0]), "fits this JSON Schema")
		}},
		{name: "no choice at all", model: "claude-opus-5-5", change: func(r *llm.Request) { r.ToolChoice = "none" }, want: func(t *testing.T, b m) {
			require.Equal(t, m{"type": "none"}, b["tool_choice"])
			require.Len(t, b["tools"], 2)
		}},
		{name: "any tool", model: "claude-opus-4-5", change: func(r *llm.Request) { r.ToolChoice = "required" }, want: func(t *testing.T, b m) {
			require.Equal(t, m{"type": "any"}, b["tool_choice"])
		}},
		{name: "the model's own bound", model: "claude-opus-4-5", change: func(r *llm.Request) { r.MaxOutputTokens = 0 }, want: func(t *testing.T, b m) {
			require.EqualValues(t, 64000, b["max_tokens"])
		}},
		{name: "not above the model's bound", model: "claude-opus-4-5", change: func(r *llm.Request) { r.MaxOutputTokens = 1 << 30 }, want: func(t *testing.T, b m) {
			require.EqualValues(t, 64000, b["max_tokens"])
		}},
		{name: "described models", model: "claude-next", opts: &anthropic.Options{Models: map[string]llm.Capabilities{"claude-next": {StructuredOutput: llm.StructuredNative, MaxOutputTokens: 400}}}, want: func(t *testing.T, b m) {
			require.EqualValues(t, 400, b["max_tokens"])
			require.Contains(t, b["output_config"], "format")
		}},
		{name: "an hour", model: "claude-opus-5-5", opts: &anthropic.Options{Cache: anthropic.CacheHour}, want: func(t *testing.T, b m) {
			require.Equal(t, 3, strings.Count(fmt.Sprint(b), "cache_control:map[ttl:1h type:ephemeral]"))
		}},
		{name: "no cache", model: "claude-opus-5-5", opts: &anthropic.Options{Cache: anthropic.CacheOff}, want: func(t *testing.T, b m) {
			require.NotContains(t, fmt.Sprint(b), "cache_control")
		}},
		{name: "loose tools", model: "claude-opus-5-5", opts: &anthropic.Options{LooseTools: true}, want: func(t *testing.T, b m) {
			require.NotContains(t, fmt.Sprint(b["tools"]), "strict")
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			req := wholeRequest()
			req.Model = row.model
			if row.change != nil {
				row.change(req)
			}
			s, err := send(t, row.opts, req)
			require.NoError(t, err)
			row.want(t, s.body)
		})
	}
}

// Tools beyond the twentieth are not decoded by their schemas: the service
// takes no more.
func TestManyStrictTools(t *testing.T) {
	req := wholeRequest()
	for i := range 30 {
		req.Tools = append(req.Tools, llm.ToolDeclaration{Name: fmt.Sprintf("t%d", i), Parameters: raw(closedSchema)})
	}
	s, err := send(t, nil, req)
	require.NoError(t, err)
	require.Equal(t, 20, strings.Count(fmt.Sprint(s.body["tools"]), "strict:true"))
}

func TestUnsendable(t *testing.T) {
	for name, change := range map[string]func(*llm.Request){
		"a schema that is none":  func(r *llm.Request) { r.Tools[0].Parameters = raw(`[]`) },
		"an unknown choice":      func(r *llm.Request) { r.ToolChoice = "perhaps" },
		"an image without data":  func(r *llm.Request) { r.Messages[1].Parts[1].Data = raw(`{}`) },
		"a block that is broken": func(r *llm.Request) { r.Messages[2].Parts[0].Block = raw(`{`) },
	} {
		req := wholeRequest()
		change(req)
		s, err := send(t, nil, req)
		var pe *llm.Error
		require.ErrorAs(t, err, &pe, name)
		require.Equal(t, llm.KindTerminal, pe.Kind, name)
		require.False(t, pe.Retryable, name)
		require.Nil(t, s.body, name)
	}
}

// Another process, which has not seen the answer, sends the conversation as the
// service had sent it: the order of the blocks and the names of the calls are
// kept with the answer.
func TestOrderSurvivesProcess(t *testing.T) {
	x := exchanges(t)[2]
	first := open(t, "http://model.invalid", testKey, &http.Client{Transport: &reply{t: t, name: "thinking"}})
	a, err := rulvartest.ReadAnswer(first.Stream(t.Context(), &llm.Request{Model: "claude-opus-5-5", Messages: []llm.Message{message(llm.RoleUser, llm.TextPart("x"))}}))
	require.NoError(t, err)
	key := first.Capabilities("claude-opus-5-5").RetentionKey
	said := message(llm.RoleAssistant)
	for _, b := range a.Private {
		said.Parts = append(said.Parts, llm.Part{Type: llm.PartRaw, Provider: key, Block: b})
	}
	said.Parts = append(said.Parts, llm.TextPart(a.Text))
	results := message(llm.RoleTool)
	for _, c := range a.Calls {
		said.Parts = append(said.Parts, llm.Part{Type: llm.PartToolCall, ID: c.ID, Name: c.Tool, Args: raw(c.Arguments)})
		results.Parts = append(results.Parts, llm.Part{Type: llm.PartToolResult, ID: c.ID, Name: c.Tool, Result: raw(`"r"`)})
	}
	req := &llm.Request{Model: "claude-opus-5-5", Messages: []llm.Message{message(llm.RoleUser, llm.TextPart("x")), said, results}}
	s, err := send(t, nil, req)
	require.NoError(t, err)
	var types, ids []string
	for _, msg := range s.body["messages"].([]any)[1:] {
		for _, b := range msg.(map[string]any)["content"].([]any) {
			block := b.(map[string]any)
			types = append(types, block["type"].(string))
			for _, k := range []string{"id", "tool_use_id"} {
				if id, ok := block[k].(string); ok {
					ids = append(ids, id)
				}
			}
		}
	}
	require.Equal(t, []string{"thinking", "redacted_thinking", "text", "tool_use", "thinking", "tool_use", "tool_result", "tool_result"}, types)
	require.Equal(t, append(x.WireIDs, x.WireIDs...), ids)

	// A message that somebody has changed is sent as it stands.
	req.Messages[1].Parts = append(req.Messages[1].Parts, llm.TextPart("more"))
	s, err = send(t, nil, req)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(s.body), "rulvar_order")
	require.Contains(t, fmt.Sprint(s.body), "toolu_"+a.Calls[0].ID)
}

type reply struct {
	t    testing.TB
	name string
}

func (r *reply) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(string(recorded(r.t, r.name)))),
	}, nil
}

func TestOptions(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_BASE_URL", "http://elsewhere.invalid")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
	for name, o := range map[string]*anthropic.Options{
		"no key":              nil,
		"an unknown cache":    {APIKey: testKey, Cache: "2h"},
		"no URL":              {APIKey: testKey, BaseURL: "api.anthropic.com"},
		"a user in the URL":   {APIKey: testKey, BaseURL: "https://user:secretpass@host"},
		"a query in the URL":  {APIKey: testKey, BaseURL: "https://host?key=secretpass"},
		"a URL of the parser": {APIKey: testKey, BaseURL: "http://[::1"},
	} {
		_, err := anthropic.New(o)
		require.ErrorIs(t, err, rulvar.ErrConfig, name)
		require.NotContains(t, err.Error(), "secretpass", name)
	}
	t.Setenv("ANTHROPIC_API_KEY", testKey)
	p, err := anthropic.New(nil)
	require.NoError(t, err)
	require.Equal(t, "anthropic", p.ID())
	p, err = anthropic.New(&anthropic.Options{ID: "claude"})
	require.NoError(t, err)
	require.Equal(t, "claude", p.ID())
	o := anthropic.Options{APIKey: testKey}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "options", o, "provider", p)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", o, o, o, o)+log.String(), testKey)
}

func TestCapabilities(t *testing.T) {
	p, err := anthropic.New(&anthropic.Options{APIKey: testKey, Account: "blue"})
	require.NoError(t, err)
	c := p.Capabilities("claude-sonnet-5")
	require.Equal(t, llm.Capabilities{
		StructuredOutput: llm.StructuredNative, ContextWindow: 1_000_000, MaxOutputTokens: 128_000, RetentionKey: "anthropic#blue",
		Pricing: &llm.Pricing{InputUSD: 2, OutputUSD: 10, CacheReadUSD: 0.20, CacheWriteUSD: 2.50, CheckedAt: anthropic.PricesCheckedAt},
	}, c)
	require.Equal(t, "anthropic#blue/claude-opus-5-5", p.Capabilities("claude-opus-5-5").RetentionKey, "its thinking is bound to it")
	require.NotNil(t, p.Capabilities("claude-haiku-4-5-20251001").Pricing)
	u := p.Capabilities("claude-unheard-of")
	require.Equal(t, llm.StructuredPrompt, u.StructuredOutput)
	require.Nil(t, u.Pricing)
}
