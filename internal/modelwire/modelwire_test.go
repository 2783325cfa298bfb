package modelwire_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

func TestStrict(t *testing.T) {
	const open = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`
	for _, row := range []struct{ name, in, want string }{
		{"closed", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":["string","null"]}}}`,
			`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":["string","null"]}}}`},
		{"annotations go", `{"$schema":"x","title":"T","type":"object","additionalProperties":false,"properties":{}}`,
			`{"type":"object","additionalProperties":false,"properties":{}}`},
		{"members named like assertions stay", `{"type":"object","additionalProperties":false,"required":["pattern","title"],"properties":{"pattern":{"type":"string","pattern":"^a"},"title":{"enum":[1,12345678901234567890]}}}`,
			`{"type":"object","additionalProperties":false,"required":["pattern","title"],"properties":{"pattern":{"type":"string","description":"{\"pattern\":\"^a\"}"},"title":{"enum":[1,12345678901234567890]}}}`},
		{"references", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"type":"array","items":{"type":"integer"},"maxItems":3},{"const":null,"type":"null"}]}}}`,
			`{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"type":"array","items":{"type":"integer"},"description":"{\"maxItems\":3}"},{"const":null,"type":"null"}]}}}`},
		{"open", open, ""},
		{"open within", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":` + open + `}}`, ""},
		{"open below a reference", `{"type":"object","additionalProperties":false,"properties":{},"$defs":{"x":` + open + `}}`, ""},
		{"an optional member", `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}`, ""},
		{"anything", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{}}}`, ""},
		{"a boolean schema", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":true}}`, ""},
		{"one of", `{"type":"object","additionalProperties":false,"properties":{},"oneOf":[{"type":"object"}]}`, ""},
		{"a remote reference", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"$ref":"https://x"}}}`, ""},
		{"tuples", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`, ""},
		{"a list of types with an open object", `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":["object","null"]}}}`, ""},
		{"no object", `{"type":"array","items":{"type":"string"}}`, ""},
		{"no schema", `17`, ""},
		{"no JSON", `{`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, ok := modelwire.Strict(json.RawMessage(row.in))
			require.Equal(t, row.want != "", ok)
			if ok {
				require.JSONEq(t, row.want, string(got))
			}
		})
	}
}

func TestFault(t *testing.T) {
	hide := modelwire.HideSecrets("the-key")
	for _, row := range []struct {
		name  string
		a     modelwire.Answer
		kind  llm.ErrorKind
		after time.Duration
		retry bool
	}{
		{"no quota is no matter of waiting", modelwire.Answer{Status: 429, Word: "insufficient_quota"}, llm.KindTerminal, 0, false},
		{"the service says not to retry", modelwire.Answer{Status: 500, Header: http.Header{"X-Should-Retry": {"false"}, "Retry-After": {"1"}}}, llm.KindTransport, 0, false},
		{"milliseconds come first", modelwire.Answer{Status: 429, Header: http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}}, llm.KindRateLimit, 1500 * time.Millisecond, true},
		{"a date in the past", modelwire.Answer{Status: 429, Header: http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:04:05 GMT"}}}, llm.KindRateLimit, 0, true},
		{"a fraction", modelwire.Answer{Status: 429, Header: http.Header{"Retry-After": {"1.5"}}}, llm.KindRateLimit, 0, true},
		{"a word that says more than the status", modelwire.Answer{Status: 400, Word: "overloaded_error"}, llm.KindOverloaded, 0, true},
		{"a failure of a stream, unknown", modelwire.Answer{Status: 200, Word: "lunar_error"}, llm.KindTerminal, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := hide.Fault(row.a)
			require.Equal(t, row.kind, e.Kind)
			require.Equal(t, row.after, e.RetryAfter)
			require.Equal(t, row.retry, e.Retryable)
		})
	}
	far := hide.Fault(modelwire.Answer{Status: 429, Header: http.Header{"Retry-After": {time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat)}}})
	require.Equal(t, (1<<31-1)*time.Millisecond, far.RetryAfter)
}

func TestSecrets(t *testing.T) {
	hide := modelwire.HideSecrets("the-key", "")
	for in, want := range map[string]string{
		"a the-key b":                      "a [secret] b",
		"sk-proj-abcdefgh12 rest":          "[secret] rest",
		"key sk-ab***************cd.":      "key [secret].",
		"Authorization: Bearer abcdefghij": "[secret]",
		`{"x-api-key":"abc","b":1}`:        `{"[secret]","b":1}`,
		"task-list and asking are no keys": "task-list and asking are no keys",
		strings.Repeat("ö", 2000):          strings.Repeat("ö", 500) + " …",
		"bad \xff bytes":                   "bad \uFFFD bytes",
	} {
		require.Equal(t, want, hide(in))
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", hide, hide, hide), "the-key")
}

func TestIDs(t *testing.T) {
	m := modelwire.NewIDs("call_")
	a, b := m.Mint("x1"), m.Mint("x1")
	require.Equal(t, "x1", m.Wire(a))
	require.Equal(t, "call_"+b, m.Wire(b), "an id that is taken stands for one call only")
	require.Equal(t, "call_old", m.Wire("old"))
	odd := m.Mint("not sendable")
	require.Equal(t, "call_"+odd, m.Wire(odd))
	for i := range 1 << 16 {
		m.Mint(fmt.Sprintf("n%d", i))
	}
	require.Equal(t, "call_"+a, m.Wire(a), "forgotten, and sent in its derived form")
	c := m.Mint("x1")
	require.Equal(t, "x1", m.Wire(c), "free again")
}

func TestAccount(t *testing.T) {
	for _, row := range []struct {
		in, want llm.Usage
		ok       bool
	}{
		{llm.Usage{InputTokens: 5, CacheReadTokens: 2, CacheWriteTokens: 3}, llm.Usage{InputTokens: 5, CacheReadTokens: 2, CacheWriteTokens: 3}, true},
		{llm.Usage{InputTokens: 5, CacheReadTokens: 4, CacheWriteTokens: 3}, llm.Usage{InputTokens: 5, CacheReadTokens: 4, CacheWriteTokens: 1}, false},
		{llm.Usage{InputTokens: -5, OutputTokens: 1 << 60}, llm.Usage{OutputTokens: 1<<53 - 1}, false},
	} {
		got, ok := modelwire.Account(row.in)
		require.Equal(t, row.want, got)
		require.Equal(t, row.ok, ok)
	}
}

func TestBodyIsBounded(t *testing.T) {
	b := modelwire.Body(io.NopCloser(endless{}))
	n, err := io.Copy(io.Discard, b)
	require.ErrorIs(t, err, modelwire.ErrTooLarge)
	require.EqualValues(t, 64<<20, n)
	require.NoError(t, b.Close())
	e := modelwire.HideSecrets().Transport(t.Context(), "reading", err)
	require.Equal(t, llm.KindTerminal, e.(*llm.Error).Kind)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestClientKeepsUsersRules(t *testing.T) {
	stop := http.ErrUseLastResponse
	user := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return stop }}
	c := modelwire.Client(user)
	first, err := http.NewRequest(http.MethodPost, "https://a/x", nil)
	require.NoError(t, err)
	second, err := http.NewRequest(http.MethodPost, "https://a/y", nil)
	require.NoError(t, err)
	other, err := http.NewRequest(http.MethodPost, "http://a/y", nil)
	require.NoError(t, err)
	require.Equal(t, stop, c.CheckRedirect(second, []*http.Request{first}))
	require.ErrorIs(t, c.CheckRedirect(other, []*http.Request{first}), modelwire.ErrRedirect, "not without encryption either")
	require.Equal(t, stop, user.CheckRedirect(other, nil), "the user's client is as it was")
	require.Error(t, modelwire.Client(nil).CheckRedirect(second, []*http.Request{first, first, first, first, first, first}))
}

func TestVerbatim(t *testing.T) {
	var v modelwire.Verbatim
	block := json.RawMessage(`{"a": "<&>\u003c",  "b":1.0}`)
	held, err := v.Hold(block)
	require.NoError(t, err)
	body, err := v.Fill([]byte(`{"x":` + string(held) + `}`))
	require.NoError(t, err)
	require.Equal(t, `{"x":`+string(block)+`}`, string(body))
	_, err = v.Hold(json.RawMessage(`{`))
	require.Error(t, err)
	_, err = v.Fill([]byte(`{}`))
	require.Error(t, err)
}
