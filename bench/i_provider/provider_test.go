// Package provider times what an adapter makes of an answer of 10,000 deltas
// against what the service's own SDK needs to decode it.
package provider

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	openaisdk "github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/rulvar/rulvar-go/anthropic"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/openai"
)

const deltas = 10_000

// body is an answer, without a network around it.
type body []byte

func (b body) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req, Body: io.NopCloser(bytes.NewReader(b)),
	}, nil
}

// answer writes the events of an answer: head, 10,000 times one, tail.
func answer(head, one, tail string) *http.Client {
	var b strings.Builder
	b.WriteString(head)
	for i := range deltas {
		fmt.Fprintf(&b, one, word(i))
	}
	b.WriteString(tail)
	return &http.Client{Transport: body(b.String())}
}

func word(i int) string { return fmt.Sprintf(" word%d", i) }

// pair is one service: its SDK's own decoding, and the adapter. Both return the
// text of the answer.
type pair struct {
	name string
	sdk  func(context.Context) (string, error)
	ours func(context.Context) (string, error)
}

func read(p llm.Provider, model string) func(context.Context) (string, error) {
	req := &llm.Request{Model: model, Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart("x")}}}}
	return func(ctx context.Context) (string, error) {
		var text strings.Builder
		for ev, err := range p.Stream(ctx, req) {
			if err != nil {
				return "", err
			}
			if ev.Type == llm.StreamText {
				text.WriteString(ev.Text)
			}
		}
		return text.String(), nil
	}
}

func pairs(tb testing.TB) []pair {
	tb.Helper()
	ok := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	claude := answer(
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"+
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n",
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":10000}}\n\n"+
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	gpt := answer("",
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"%s\",\"sequence_number\":7}\n\n",
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"usage\":{\"input_tokens\":25,\"output_tokens\":10000,\"total_tokens\":10025}}}\n\n")
	chat := answer("",
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":25,\"completion_tokens\":10000}}\n\ndata: [DONE]\n\n")
	a, err := anthropic.New(&anthropic.Options{APIKey: "k", HTTPClient: claude})
	ok(err)
	o, err := openai.New(&openai.Options{APIKey: "k", HTTPClient: gpt})
	ok(err)
	c, err := openai.Compatible("c", "http://localhost/v1", &openai.CompatibleOptions{APIKey: "k", HTTPClient: chat})
	ok(err)
	return []pair{
		{"anthropic", sdkClaude(claude), read(a, "claude-opus-5-5")},
		{"responses", sdkResponses(gpt), read(o, "gpt-6.2-sol")},
		{"chat", sdkChat(chat), read(c, "m")},
	}
}

func sdkClaude(client *http.Client) func(context.Context) (string, error) {
	sdk := anthropicsdk.NewClient(anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithEnvironmentProduction(),
		anthropicoption.WithAPIKey("k"), anthropicoption.WithHTTPClient(client), anthropicoption.WithoutOpenTelemetry())
	return func(ctx context.Context) (string, error) {
		var text strings.Builder
		s := sdk.Messages.NewStreaming(ctx, anthropicsdk.MessageNewParams{
			Model: "claude-opus-5-5", MaxTokens: 10, Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("x"))},
		})
		for s.Next() {
			ev := s.Current()
			text.WriteString(ev.Delta.Text)
		}
		return text.String(), s.Err()
	}
}

func sdkResponses(client *http.Client) func(context.Context) (string, error) {
	sdk := openaisdk.NewClient(openaioption.WithAPIKey("k"), openaioption.WithHTTPClient(client))
	return func(ctx context.Context) (string, error) {
		var text strings.Builder
		s := sdk.Responses.NewStreaming(ctx, responses.ResponseNewParams{
			Model: "gpt-6.2-sol", Input: responses.ResponseNewParamsInputUnion{OfString: openaisdk.String("x")},
		})
		for s.Next() {
			ev := s.Current()
			text.WriteString(ev.Delta)
		}
		return text.String(), s.Err()
	}
}

func sdkChat(client *http.Client) func(context.Context) (string, error) {
	sdk := openaisdk.NewClient(openaioption.WithAPIKey("k"), openaioption.WithHTTPClient(client), openaioption.WithBaseURL("http://localhost/v1"))
	return func(ctx context.Context) (string, error) {
		var text strings.Builder
		s := sdk.Chat.Completions.NewStreaming(ctx, openaisdk.ChatCompletionNewParams{
			Model: "m", Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("x")},
		})
		for s.Next() {
			for _, c := range s.Current().Choices {
				text.WriteString(c.Delta.Content)
			}
		}
		return text.String(), s.Err()
	}
}

func TestAgree(t *testing.T) {
	var want strings.Builder
	for i := range deltas {
		want.WriteString(word(i))
	}
	for _, p := range pairs(t) {
		for who, f := range map[string]func(context.Context) (string, error){"sdk": p.sdk, "rulvar": p.ours} {
			got, err := f(t.Context())
			if err != nil || got != want.String() {
				t.Fatalf("%s, %s: %d bytes, %v", p.name, who, len(got), err)
			}
		}
	}
}

// BenchmarkPaired alternates the two, so that what else the machine does falls
// on both, and reports the ratio of their processor times: x-sdk is ours ÷ the
// SDK's own.
func BenchmarkPaired(b *testing.B) {
	for _, p := range pairs(b) {
		b.Run(p.name, func(b *testing.B) {
			var sdk, ours time.Duration
			for b.Loop() {
				start := cpuTime()
				if _, err := p.sdk(b.Context()); err != nil {
					b.Fatal(err)
				}
				middle := cpuTime()
				if _, err := p.ours(b.Context()); err != nil {
					b.Fatal(err)
				}
				sdk, ours = sdk+middle-start, ours+cpuTime()-middle
			}
			b.ReportMetric(float64(ours)/float64(sdk), "x-sdk")
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N)/deltas, "cpu-ns/delta")
		})
	}
}
