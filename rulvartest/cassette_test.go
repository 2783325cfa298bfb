package rulvartest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// scripted is a model that calls a tool and then answers, with a key in what it
// says.
func scripted() *rulvartest.Provider {
	p := rulvartest.NewProvider("real", rulvartest.Script{Turns: []rulvartest.Turn{
		{Calls: []rulvartest.Call{{Tool: "look_up", Args: map[string]any{"query": "x"}}}},
		{Text: "found sk-aaaaaaaaaaaaaaaa", Errs: []error{&llm.Error{Kind: llm.KindOverloaded, Message: "busy", Retryable: true}}},
	}})
	p.Caps = llm.Capabilities{StructuredOutput: llm.StructuredNative, ContextWindow: 1000, Pricing: &llm.Pricing{InputUSD: 1, OutputUSD: 2, CheckedAt: "2026-11-10"}}
	return p
}

func runOn(t *testing.T, model llm.Provider) (rulvar.Outcome[string], error) {
	t.Helper()
	tool, err := rulvar.NewTool(rulvar.ToolConfig{Name: "look_up", Description: "Looks up."},
		func(_ *rulvar.ToolContext, in struct {
			Query string `json:"query"`
		}) (string, error) {
			return "key sk-bbbbbbbbbbbbbbbb for " + in.Query, nil
		})
	require.NoError(t, err)
	e := rulvartest.NewEngine(t, rulvar.Config{
		Providers: []llm.Provider{model}, Model: model.ID() + ":m", Retry: &rulvar.RetryPolicy{Initial: 1, Max: 1},
	})
	flow := rulvar.DefineWorkflow("f", func(c *rulvar.Ctx, _ struct{}) (string, error) {
		return rulvar.Agent[string](c, "Look it up.", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}})
	})
	h, err := rulvar.Run(t.Context(), e, flow, struct{}{}, nil)
	require.NoError(t, err)
	return h.Result(t.Context())
}

func TestCassette(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "run.jsonl")
	live := scripted()
	rec, err := rulvartest.OpenCassette(path, &rulvartest.CassetteOptions{Live: live})
	require.NoError(t, err)
	require.Equal(t, "real", rec.ID())
	first, err := runOn(t, rec)
	require.NoError(t, err)
	require.Len(t, live.Requests(), 3, "one of them failed")

	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(file), "sk-aaaa")
	require.NotContains(t, string(file), "sk-bbbb")

	for range 2 { // a cassette is read, not used up
		play, err := rulvartest.OpenCassette(path, nil)
		require.NoError(t, err)
		again, err := runOn(t, play)
		require.NoError(t, err)
		require.Equal(t, "found [secret]", again.Value)
		require.Equal(t, first.Usage, again.Usage)
		require.Equal(t, live.Caps, play.Capabilities("m"))
		require.Equal(t, llm.Capabilities{}, play.Capabilities("unknown"))
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, file, after)

	// With a live model only what the file lacks is asked.
	more, err := rulvartest.OpenCassette(path, &rulvartest.CassetteOptions{Live: live, ID: "other"})
	require.NoError(t, err)
	require.Equal(t, "other", more.ID())
	_, err = runOn(t, more)
	require.NoError(t, err)
	require.Len(t, live.Requests(), 3)
}

func ask(text string) *llm.Request {
	return &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.TextPart(text)}}}}
}

func TestCassetteMiss(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	live := rulvartest.NewProvider("real", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "hello"}}})
	rec, err := rulvartest.OpenCassette(path, &rulvartest.CassetteOptions{
		Live: live, Hide: func(s string) string { return strings.ReplaceAll(s, "/tmp/1", "DIR") },
	})
	require.NoError(t, err)
	_, err = rulvartest.ReadAnswer(rec.Stream(t.Context(), ask("in /tmp/1")))
	require.NoError(t, err)

	play, err := rulvartest.OpenCassette(path, &rulvartest.CassetteOptions{Hide: func(s string) string { return strings.ReplaceAll(s, "/tmp/2", "DIR") }})
	require.NoError(t, err)
	a, err := rulvartest.ReadAnswer(play.Stream(t.Context(), ask("in /tmp/2")))
	require.NoError(t, err)
	require.Equal(t, "hello", a.Text)

	var pe *llm.Error
	_, err = rulvartest.ReadAnswer(play.Stream(t.Context(), ask("in /tmp/2")))
	require.ErrorAs(t, err, &pe)
	require.False(t, pe.Retryable)
	require.ErrorContains(t, err, "1 answers to this request, which was made for the 2. time")
	other := ask("elsewhere")
	other.Effort = "high"
	_, err = rulvartest.ReadAnswer(play.Stream(t.Context(), other))
	require.ErrorContains(t, err, "differs in effort, messages[0]")
	other.MaxOutputTokens = 7
	bound := ask("in /tmp/2")
	bound.MaxOutputTokens = 5
	fresh, err := rulvartest.OpenCassette(path, &rulvartest.CassetteOptions{Hide: func(s string) string { return strings.ReplaceAll(s, "/tmp/2", "DIR") }})
	require.NoError(t, err)
	_, err = rulvartest.ReadAnswer(fresh.Stream(t.Context(), bound))
	require.NoError(t, err, "the bound on the answer does not make another request")
}

// What was not answered to its end is not kept.
func TestCassetteKeepsWholeAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	live := rulvartest.NewProvider("real",
		rulvartest.Script{Prompt: "hang", Turns: []rulvartest.Turn{{Hang: true}}},
		rulvartest.Script{Prompt: "cut", Turns: []rulvartest.Turn{{Text: "half", Cut: true}}},
		rulvartest.Script{Prompt: "long", Turns: []rulvartest.Turn{{Text: "whole"}}},
	)
	rec, err := rulvartest.OpenCassette(path, &rulvartest.CassetteOptions{Live: live})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not wanted"))
	_, err = rulvartest.ReadAnswer(rec.Stream(ctx, ask("hang")))
	require.Error(t, err)
	_, err = rulvartest.ReadAnswer(rec.Stream(t.Context(), ask("cut")))
	require.ErrorIs(t, err, rulvartest.ErrBrokenStream)
	for range rec.Stream(t.Context(), ask("long")) {
		break
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(file, []byte("\n")), "nothing but the first line")
	_, err = rulvartest.ReadAnswer(rec.Stream(t.Context(), ask("long")))
	require.NoError(t, err)
	_, err = rulvartest.OpenCassette(path, nil)
	require.NoError(t, err)
}

const head = `{"v":1,"kind":"rulvar-cassette","provider":"p"}` + "\n"

var badCassettes = map[string]string{
	"empty":              "",
	"another kind":       `{"v":1,"kind":"rulvar-vcr","provider":"p"}`,
	"another version":    `{"v":2,"kind":"rulvar-cassette","provider":"p"}`,
	"no provider":        `{"v":1,"kind":"rulvar-cassette"}`,
	"no JSON":            head + "{",
	"a torn line":        head + `{"hash":"a","events":[{"type":"finish"`,
	"an unknown member":  head + `{"hash":"a","surprise":1,"events":[{"type":"finish"}]}`,
	"no hash":            head + `{"events":[{"type":"finish"}]}`,
	"no end":             head + `{"hash":"a","events":[{"type":"text-delta","text":"x"}]}`,
	"two ends":           head + `{"hash":"a","events":[{"type":"finish"},{"type":"finish"}]}`,
	"an end and a fault": head + `{"hash":"a","events":[{"type":"finish"}],"error":{"kind":"terminal","message":"x"}}`,
	"nothing":            head + `{"hash":"a"}`,
	"twice":              head + `{"hash":"a","events":[{"type":"finish"}]}` + "\n" + `{"hash":"a","events":[{"type":"finish"}]}`,
	"the first missing":  head + `{"hash":"a","occurrence":1,"events":[{"type":"finish"}]}`,
	"two objects":        head + `{"hash":"a","events":[{"type":"finish"}]}{}`,
}

func TestBadCassettes(t *testing.T) {
	for name, text := range badCassettes {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := rulvartest.OpenCassette(path, nil)
			require.ErrorIs(t, err, rulvar.ErrConfig)
			require.ErrorContains(t, err, "a.jsonl")
		})
	}
	_, err := rulvartest.OpenCassette(filepath.Join(t.TempDir(), "none"), nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = rulvartest.OpenCassette(filepath.Join(file, "none"), &rulvartest.CassetteOptions{Live: scripted()})
	require.ErrorIs(t, err, rulvar.ErrConfig)
}

// Whatever stands in the file, it is refused or replayed in order.
func FuzzCassette(f *testing.F) {
	for _, text := range badCassettes {
		f.Add([]byte(text))
	}
	f.Add([]byte(head + `{"model":"m","capabilities":{"structuredOutput":"native"}}` + "\n" +
		`{"hash":"a","request":{"model":"m"},"events":[{"type":"tool-call-end","id":"1","name":"t","arguments":"{}"},{"type":"finish","finish":"stop","usage":{"inputTokens":1}}]}` + "\n" +
		`{"hash":"a","occurrence":1,"error":{"kind":"rate-limit","message":"x","retryable":true,"retryAfterMs":-9223372036854775808}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "fuzz.jsonl")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		c, err := rulvartest.OpenCassette(path, nil)
		if err != nil {
			require.ErrorIs(t, err, rulvar.ErrConfig)
			return
		}
		require.NotEmpty(t, c.ID())
		_, err = rulvartest.ReadAnswer(c.Stream(t.Context(), ask("anything")))
		var pe *llm.Error
		require.ErrorAs(t, err, &pe, "no request has the hash of an arbitrary text")
		for line := range bytes.Lines(text) {
			require.True(t, json.Valid(line) || len(bytes.TrimSpace(line)) == 0)
		}
	})
}
