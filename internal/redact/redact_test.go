package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/redact"
)

func TestText(t *testing.T) {
	long := strings.Repeat("a1B2", 10)
	for name, secret := range map[string]string{
		"api key":     "sk-proj-" + long,
		"aws":         "AKIA" + strings.Repeat("Q", 16),
		"github":      "ghp_" + long,
		"github fine": "github_pat_" + long,
		"slack":       "xoxb-" + long,
		"google":      "AIza" + long,
		"jwt":         "eyJhbGciOiJI.eyJzdWIiOiIx." + long,
		"pem":         "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n" + long + "\n-----END RSA PRIVATE KEY-----",
		"cut pem":     "-----BEGIN PRIVATE KEY-----\nMIIE\n" + long,
	} {
		t.Run(name, func(t *testing.T) {
			got := redact.Text("before " + secret + " after")
			require.NotContains(t, got, long)
			require.Contains(t, got, redact.Masked)
			require.True(t, strings.HasPrefix(got, "before "))
		})
	}
	require.Equal(t, "Authorization: Bearer "+redact.Masked, redact.Text("Authorization: Bearer "+long))
	for _, plain := range []string{"", "go test ./...", "risk-free sk-", "deadbeefdeadbeefdeadbeefdeadbeef", "bearer of news"} {
		require.Equal(t, plain, redact.Text(plain))
	}
}

func TestValue(t *testing.T) {
	secret := "ghp_" + strings.Repeat("x", 30)
	in := map[string]any{"a": []any{secret, 1, map[string]any{secret: true}}}
	require.Equal(t, map[string]any{"a": []any{redact.Masked, 1, map[string]any{redact.Masked: true}}}, redact.Value(in))
	require.Equal(t, secret, in["a"].([]any)[0], "the input is not changed")
}

func FuzzText(f *testing.F) {
	f.Add("Bearer abcdefghijklmnop sk-aaaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, s string) {
		once := redact.Text(s)
		require.Equal(t, once, redact.Text(once))
	})
}
