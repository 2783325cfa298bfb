package fetch

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// holds checks what every decision that does not deny promises.
func holds(t *testing.T, c *client, d decision) {
	t.Helper()
	if d.verdict == rulvar.VerdictDeny {
		return
	}
	tg := &d.target
	require.Contains(t, []string{"https", "http"}, tg.scheme)
	require.True(t, validPort(tg.port))
	if a := tg.host.addr; a.IsValid() {
		require.True(t, c.policy.mayConnect(a))
		require.Equal(t, a.String(), tg.host.name)
	} else {
		_, err := netip.ParseAddr(tg.host.name)
		require.Error(t, err)
		require.Empty(t, nameProblem(tg.host.name))
		require.Equal(t, strings.ToLower(tg.host.name), tg.host.name)
	}
	// What is requested is read by another reader as what was decided about.
	text := tg.url.String()
	u, err := url.Parse(text)
	require.NoError(t, err)
	require.Equal(t, tg.host.name, strings.Trim(u.Hostname(), "[]"))
	require.Nil(t, u.User)
	again := c.policy.decide(text, passAll)
	if len(text) <= maxURL {
		require.Equal(t, tg.hostPort(), again.target.hostPort(), text)
		require.Equal(t, d.code, again.code, text)
	}
}

func FuzzDecide(f *testing.F) {
	for _, row := range decisionTable {
		if len(row.url) < maxURL {
			f.Add(row.url)
		}
	}
	var clients []*client
	for name := range tablePolicies {
		clients = append(clients, tableClient(f, name))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, c := range clients {
			holds(t, c, c.policy.decide(raw, passAll))
			d := c.policy.decide(raw, func(string) rulvar.Verdict { return rulvar.VerdictDeny })
			require.Equal(t, rulvar.VerdictDeny, d.verdict)
		}
	})
}

func FuzzLocation(f *testing.F) {
	for _, s := range []string{"/end", "//evil.example.com/x", `\\evil.example.com`, "https://169.254.169.254/", "?q", "#f", "http://example.com/", "https:example.com", "..", "/%2f%2fevil"} {
		f.Add(s)
	}
	c := tableClient(f, "P")
	from := c.policy.decide("https://example.com/a/b?c", passAll).target
	f.Fuzz(func(t *testing.T, loc string) {
		next, code := resolveLocation(&from, loc)
		if code == "" {
			holds(t, c, c.policy.decide(next, passAll))
			require.True(t, strings.HasPrefix(strings.ToLower(next), "https:"), next)
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"example.com", "*.example.com", "Bücher.DE.", "*", "*:8443", "*.com", "[::1]:1", "8.8.8.8", "127.1", ".a", ""} {
		f.Add(s, "https://a.example.com/")
	}
	f.Fuzz(func(t *testing.T, pattern, raw string) {
		c, err := newClient(&Options{Allow: []string{pattern}, AllowIPLiteral: true})
		if err != nil {
			return
		}
		d := c.policy.decide(raw, passAll)
		holds(t, c, d)
		denied, err := newClient(&Options{Allow: []string{"*", pattern}, Deny: []string{pattern}, AllowIPLiteral: true})
		require.NoError(t, err)
		if d.verdict == rulvar.VerdictPass {
			require.Equal(t, codeDenied, denied.policy.decide(raw, passAll).code)
		}
	})
}
