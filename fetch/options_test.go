package fetch_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/fetch"
)

func TestPatterns(t *testing.T) {
	for pattern, good := range map[string]bool{
		"example.com": true, "*.example.com": true, "Bücher.DE.": true, "api.vendor.net:8443": true, "*": true, "*:8443": true,
		"8.8.8.8": true, "[2001:4860:4860::8888]:443": true, "*.co.example": true, "a.github.io": true,
		".example.com": false, "example.com:0": false, "https://example.com": false, "example.com/path": false, "ex*mple.com": false,
		"a.*.com": false, "*.com": false, "*.co.uk": false, "*.github.io": false, "*.10.0.0.1": false, "": false, "example.com:": false,
		"user@example.com": false, "127.1": false, "0x7f.1": false, "localhost": false, "*.internal": false, "a.local": false,
		"2001:db8::1": false, "[::1": false, "**": false, "*.*.com": false, "a b.com": false, "under_score.com": false, "example.com:99999": false,
	} {
		for _, opts := range []fetch.Options{{Allow: []string{"a.example", pattern}}, {Ask: []string{"a.example", pattern}}, {Allow: []string{"*"}, Deny: []string{"a.example", pattern}}} {
			_, err := fetch.New(&opts)
			if good {
				require.NoError(t, err, pattern)
				continue
			}
			require.ErrorIs(t, err, rulvar.ErrConfig, pattern)
			require.ErrorContains(t, err, "[1]")
		}
	}
}

func TestWrongPatternsSayWhatToDo(t *testing.T) {
	for pattern, want := range map[string]string{
		"https://example.com":      "it has a scheme: write the host alone",
		"https://example.com:8443": "it has a scheme: write the host alone",
		"example.com:http":         "the port is not a number",
		"localhost:8080":           "AllowIPLiteral and AllowPrivate",
	} {
		_, err := fetch.New(&fetch.Options{Allow: []string{pattern}})
		require.ErrorContains(t, err, want, pattern)
	}
}

func TestOptions(t *testing.T) {
	for name, opts := range map[string]*fetch.Options{
		"nil":                  nil,
		"nothing allowed":      {Deny: []string{"a.example"}},
		"negative time":        {Allow: []string{"*"}, Timeout: -time.Second},
		"negative size":        {Allow: []string{"*"}, MaxBody: -1},
		"redirects":            {Allow: []string{"*"}, MaxRedirects: -2},
		"no range":             {Allow: []string{"*"}, AllowPrivate: []netip.Prefix{{}}},
		"mapped range":         {Allow: []string{"*"}, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		"no media type":        {Allow: []string{"*"}, ContentTypes: []string{"text"}},
		"media type star":      {Allow: []string{"*"}, ContentTypes: []string{"*/html"}},
		"media type part":      {Allow: []string{"*"}, ContentTypes: []string{"text/h*"}},
		"authorization":        {Allow: []string{"*"}, Headers: []string{"Authorization"}},
		"host header":          {Allow: []string{"*"}, Headers: []string{"hOsT"}},
		"proxy header":         {Allow: []string{"*"}, Headers: []string{"Proxy-Authorization"}},
		"header with a blank":  {Allow: []string{"*"}, Headers: []string{"X Y"}},
		"user agent injection": {Allow: []string{"*"}, UserAgent: "a\r\nHost: b"},
		"tool name":            {Allow: []string{"*"}, Name: "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch.New(opts)
			require.ErrorIs(t, err, rulvar.ErrConfig)
		})
	}
	tool, err := fetch.New(&fetch.Options{Allow: []string{"*"}})
	require.NoError(t, err)
	require.Equal(t, "fetch", tool.Name())
	require.Equal(t, rulvar.RiskNetwork, tool.Risk())
	require.True(t, tool.Idempotent())
	other, err := fetch.New(&fetch.Options{Allow: []string{"example.com"}, MaxBody: 10})
	require.NoError(t, err)
	require.Equal(t, tool.ContractHash(), other.ContractHash(), "policy is no part of the contract")
}
