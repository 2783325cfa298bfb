package fetch

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestBodies(t *testing.T) {
	for _, row := range []struct {
		name, contentType, encoding string
		body                        string
		status                      int
		want                        string
		base64, truncated           bool
		note                        string
	}{
		{"text", "text/html; charset=utf-8", "", "<p>é</p>", 200, "<p>é</p>", false, false, ""},
		{"an error is an answer", "application/problem+json", "", `{"a":1}`, 503, `{"a":1}`, false, false, ""},
		{"latin 1", "text/plain; charset=iso-8859-1", "", "caf\xe9", 200, "café", false, false, ""},
		{"utf-16", "text/plain; charset=utf-16le", "", "h\x00i\x00", 200, "hi", false, false, ""},
		{"a byte order mark", "text/plain", "", "\xef\xbb\xbfhi", 200, "hi", false, false, ""},
		{"undeclared", "text/plain", "", "caf\xe9", 200, "café", false, false, ""},
		{"bad bytes", "text/plain; charset=utf-8", "", "a\xff\x00b", 200, "a\uFFFD\uFFFDb", false, false, "replaced"},
		{"cut in a rune", "text/plain; charset=utf-8", "", strings.Repeat("x", 99) + "é", 200, strings.Repeat("x", 99), false, true, ""},
		{"too long", "text/plain", "", strings.Repeat("x", 300), 200, strings.Repeat("x", 100), false, true, ""},
		{"grows when decoded", "text/plain; charset=iso-8859-1", "", strings.Repeat("\xe9", 99), 200, strings.Repeat("é", 50), false, true, ""},
		{"another type", "image/svg+xml", "", "<svg/>", 200, "", false, false, "content-type"},
		{"no type", "", "", "hello", 200, "", false, false, "content-type"},
		{"a type that is none", "text", "", "hello", 200, "", false, false, "content-type"},
		{"a wrong parameter", "text/plain; charset", "", "hello", 200, "hello", false, false, ""},
		{"an encoding that nobody asked for", "text/plain", "br", "hello", 200, "", false, false, "content-encoding"},
		{"a listed type that is no text", "image/png", "", "\x89PNG", 200, "\x89PNG", true, false, ""},
		{"empty", "text/plain", "", "", 200, "", false, false, ""},
		{"no content", "text/plain", "", "", 204, "", false, false, ""},
		{"refresh is data", "text/html", "", `<meta http-equiv="refresh" content="0;url=https://evil.example.com">`, 200, `<meta http-equiv="refresh" content="0;url=https://evil.example.com">`, false, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			opts := tablePolicies["P"]
			opts.MaxBody = 100
			opts.ContentTypes = append([]string{"image/png"}, defaultContentTypes...)
			r := newRig(t, opts, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if row.contentType != "" {
					w.Header().Set("Content-Type", row.contentType)
				}
				if row.encoding != "" {
					w.Header().Set("Content-Encoding", row.encoding)
				}
				w.Header().Set("Refresh", "0;url=https://evil.example.com/")
				w.WriteHeader(row.status)
				w.Write([]byte(row.body))
			})
			res, err := r.fetch("https://example.com/")
			require.NoError(t, err)
			require.Equal(t, row.status, res.Status)
			require.Equal(t, row.truncated, res.Truncated)
			got := res.Body
			if row.base64 {
				require.Empty(t, got)
				raw, err := base64.StdEncoding.DecodeString(res.BodyBase64)
				require.NoError(t, err)
				got = string(raw)
			}
			require.Equal(t, row.want, got)
			require.Equal(t, got != "", res.Untrusted != "", "the warning stands where there is a body")
			require.Equal(t, row.note != "", len(res.Notes) == 1, "%v", res.Notes)
			if row.note != "" {
				require.Contains(t, res.Notes[0], row.note)
			}
			require.Len(t, r.seen, 1)
		})
	}
}

func TestHead(t *testing.T) {
	r := newRig(t, tablePolicies["P"], func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, http.MethodHead, r.Method)
		text(w, "hello")
	})
	res, err := r.c.fetch(r.by, Input{URL: "https://example.com/", Method: http.MethodHead})
	require.NoError(t, err)
	require.Equal(t, 200, res.Status)
	require.Empty(t, res.Body)
	require.Empty(t, res.Notes)
}

func TestMediaPatterns(t *testing.T) {
	for _, row := range []struct {
		pattern, media string
		want           bool
	}{
		{"text/*", "text/html", true},
		{"text/*", "texts/html", false},
		{"TEXT/HTML", "text/html", true},
		{"application/*+json", "application/problem+json", true},
		{"application/*+json", "application/json", false},
		{"application/json", "application/jsonx", false},
		{"*/*", "image/png", true},
		{"*/*", "image/", false},
	} {
		p, ok := compileMediaPattern(row.pattern)
		require.True(t, ok, row.pattern)
		require.Equal(t, row.want, p.matches(row.media), "%s %s", row.pattern, row.media)
	}
}

func FuzzBody(f *testing.F) {
	f.Add([]byte("hello"), "text/plain", false)
	f.Add([]byte("caf\xe9"), "text/html; charset=iso-8859-1", true)
	f.Add([]byte("\xff\xfeh\x00"), "text/plain; charset=utf-16", true)
	f.Add([]byte(`<meta charset="shift_jis">`+"\x83\x65"), "text/html", false)
	f.Add([]byte("\x1b$B"), "text/plain; charset=iso-2022-jp", true)
	f.Fuzz(func(t *testing.T, data []byte, contentType string, truncated bool) {
		out, _, _ := decodeText(data, contentType, truncated, 64)
		require.True(t, utf8.ValidString(out))
		require.NotContains(t, out, "\x00")
		require.LessOrEqual(t, len(out), 64)
		require.True(t, utf8.ValidString(cleanHeader(contentType)))
	})
}
