package fetch

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
)

// The policies of the decision table.
var tablePolicies = map[string]Options{
	"P": {
		Allow: []string{"example.com", "*.example.com", "bücher.de", "api.vendor.net:8443"},
		Ask:   []string{"pay.example.com", "partner.org"},
		Deny:  []string{"evil.example.com"},
	},
	"Any":  {Allow: []string{"*"}},
	"IP":   {Allow: []string{"*"}, AllowIPLiteral: true},
	"HTTP": {Allow: []string{"example.com"}, AllowHTTP: true},
}

// decisionTable is the table of what becomes of a URL before anything is looked
// up.
var decisionTable = []struct {
	policy, url string
	verdict     rulvar.Verdict
	code, host  string
}{
	{"P", "https://example.com/a?b=1#c", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"P", "https://EXAMPLE.com/", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"P", "HTTPS://example.com", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"P", "https://example.com./", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"P", "https://example.com../", rulvar.VerdictDeny, codeHostEmptyLabel, ""},
	{"P", "https://.example.com/", rulvar.VerdictDeny, codeHostEmptyLabel, ""},
	{"P", "https://example.com:443/", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"P", "https://a.b.example.com/", rulvar.VerdictPass, codeAllowed, "a.b.example.com"},
	{"P", "https://notexample.com/", rulvar.VerdictDeny, codeNotAllowed, "notexample.com"},
	{"P", "https://example.com.attacker.net/", rulvar.VerdictDeny, codeNotAllowed, "example.com.attacker.net"},
	{"P", "https://evil.example.com/", rulvar.VerdictDeny, codeDenied, "evil.example.com"},
	{"P", "https://EVIL.example.com./", rulvar.VerdictDeny, codeDenied, "evil.example.com"},
	{"P", "https://evil.example.com:8443/", rulvar.VerdictDeny, codeDenied, "evil.example.com"},
	{"P", "https://pay.example.com/", rulvar.VerdictAsk, codeAsk, "pay.example.com"},
	{"P", "https://partner.org/", rulvar.VerdictAsk, codeAsk, "partner.org"},
	{"P", "https://partner.org:8443/", rulvar.VerdictDeny, codeNotAllowed, "partner.org"},
	{"P", "https://other.org/", rulvar.VerdictDeny, codeNotAllowed, "other.org"},
	{"P", "http://example.com/", rulvar.VerdictDeny, codeScheme, ""},
	{"HTTP", "http://example.com/", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"HTTP", "https://example.com/", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"HTTP", "http://example.com:443/", rulvar.VerdictDeny, codePort, "example.com"},
	{"P", "ftp://example.com/", rulvar.VerdictDeny, codeScheme, ""},
	{"P", "file:///etc/passwd", rulvar.VerdictDeny, codeScheme, ""},
	{"P", "javascript:alert(1)", rulvar.VerdictDeny, codeScheme, ""},
	{"P", "//example.com/x", rulvar.VerdictDeny, codeScheme, ""},
	{"P", "", rulvar.VerdictDeny, codeScheme, ""},
	{"P", "https:example.com", rulvar.VerdictDeny, codeHostEmpty, ""},
	{"P", "https://", rulvar.VerdictDeny, codeHostEmpty, ""},
	{"P", "https://:443/", rulvar.VerdictDeny, codeHostEmpty, ""},
	{"P", "https://user:pw@example.com/", rulvar.VerdictDeny, codeUserinfo, ""},
	{"P", "https://@example.com/", rulvar.VerdictDeny, codeUserinfo, ""},
	{"P", "https://example.com@attacker.net/", rulvar.VerdictDeny, codeUserinfo, ""},
	{"P", `https://attacker.net\@example.com/`, rulvar.VerdictDeny, codeURLCharset, ""},
	{"P", "https://example.com:8443/", rulvar.VerdictDeny, codePort, "example.com"},
	{"P", "https://api.vendor.net:8443/v1", rulvar.VerdictPass, codeAllowed, "api.vendor.net"},
	{"P", "https://api.vendor.net/v1", rulvar.VerdictDeny, codePort, "api.vendor.net"},
	{"P", "https://example.com:0443/", rulvar.VerdictDeny, codePort, ""},
	{"P", "https://example.com:99999/", rulvar.VerdictDeny, codePort, ""},
	{"P", "https://example.com:0/", rulvar.VerdictDeny, codePort, ""},
	{"P", "https://example.com:/", rulvar.VerdictDeny, codePortEmpty, ""},
	{"P", "https://bücher.de/", rulvar.VerdictPass, codeAllowed, "xn--bcher-kva.de"},
	{"P", "https://BÜCHER.DE/", rulvar.VerdictPass, codeAllowed, "xn--bcher-kva.de"},
	{"P", "https://b%C3%BCcher.de/", rulvar.VerdictPass, codeAllowed, "xn--bcher-kva.de"},
	{"P", "https://xn--bcher-kva.de/", rulvar.VerdictPass, codeAllowed, "xn--bcher-kva.de"},
	{"P", "https://ex\u0430mple.com/", rulvar.VerdictDeny, codeNotAllowed, "xn--exmple-4nf.com"}, // a Cyrillic a
	{"P", "https://ｅｘａｍｐｌｅ．ｃｏｍ/", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"P", "https://example。com/", rulvar.VerdictPass, codeAllowed, "example.com"},
	{"P", "https://ex%61mple.com/", rulvar.VerdictDeny, codeURLParse, ""},
	{"P", "https://example.com%00.attacker.net/", rulvar.VerdictDeny, codeURLParse, ""},
	{"P", "https://example.com%25.attacker.net/", rulvar.VerdictDeny, codeHostCharset, ""},
	{"P", "https://exa mple.com/", rulvar.VerdictDeny, codeURLCharset, ""},
	{"P", "https://example.com\n.attacker.net/", rulvar.VerdictDeny, codeURLCharset, ""},
	{"P", " https://example.com/", rulvar.VerdictDeny, codeURLCharset, ""},
	{"P", "https://example.com/" + strings.Repeat("a", maxURL), rulvar.VerdictDeny, codeURLTooLong, ""},
	{"P", "https://-bad.example.com/", rulvar.VerdictDeny, codeHostIDNA, ""},
	{"P", "https://under_score.example.com/", rulvar.VerdictDeny, codeHostIDNA, ""},
	{"P", "https://xn--a.example.com/", rulvar.VerdictDeny, codeHostIDNA, ""},
	{"Any", "https://localhost/", rulvar.VerdictDeny, codeSingleLabel, "localhost"},
	{"Any", "https://intranet/", rulvar.VerdictDeny, codeSingleLabel, "intranet"},
	{"Any", "https://foo.localhost/", rulvar.VerdictDeny, codeSpecialUse, "foo.localhost"},
	{"Any", "https://metadata.google.internal/", rulvar.VerdictDeny, codeSpecialUse, "metadata.google.internal"},
	{"Any", "https://metadata.google.internal./", rulvar.VerdictDeny, codeSpecialUse, "metadata.google.internal"},
	{"Any", "https://8.8.8.8/", rulvar.VerdictDeny, codeIPLiteral, "8.8.8.8"},
	{"IP", "https://8.8.8.8/", rulvar.VerdictPass, codeAllowed, "8.8.8.8"},
	{"IP", "https://[2606:4700:4700::1111]/", rulvar.VerdictPass, codeAllowed, "2606:4700:4700::1111"},
	{"IP", "https://127.0.0.1/", rulvar.VerdictDeny, codeIPBlocked, "127.0.0.1"},
	{"IP", "https://0.0.0.0/", rulvar.VerdictDeny, codeIPBlocked, "0.0.0.0"},
	{"IP", "https://169.254.169.254/latest/meta-data/", rulvar.VerdictDeny, codeIPBlocked, "169.254.169.254"},
	{"IP", "https://127.1/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://2130706433/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://0x7f000001/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://0X7F.1/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://8.8.8.0x/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://0177.0.0.1/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://１２７.０.０.１/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://①②⑦.0.0.1/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://8.8.8.8./", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://8.8.8.8.8/", rulvar.VerdictDeny, codeIPAmbiguous, ""},
	{"IP", "https://[::1]/", rulvar.VerdictDeny, codeIPBlocked, "::1"},
	{"IP", "https://[::]/", rulvar.VerdictDeny, codeIPBlocked, "::"},
	{"IP", "https://[::ffff:127.0.0.1]/", rulvar.VerdictDeny, codeIPBlocked, "127.0.0.1"},
	{"IP", "https://[::ffff:7f00:1]/", rulvar.VerdictDeny, codeIPBlocked, "127.0.0.1"},
	{"IP", "https://[::ffff:8.8.8.8]/", rulvar.VerdictPass, codeAllowed, "8.8.8.8"},
	{"IP", "https://[fe80::1%25eth0]/", rulvar.VerdictDeny, codeIPZone, ""},
	{"IP", "https://[64:ff9b::a9fe:a9fe]/", rulvar.VerdictDeny, codeIPBlocked, "64:ff9b::a9fe:a9fe"},
	{"IP", "https://[8.8.8.8]/", rulvar.VerdictDeny, codeURLParse, ""},
}

func tableClient(t testing.TB, name string) *client {
	t.Helper()
	opts, ok := tablePolicies[name]
	require.True(t, ok)
	c, err := newClient(&opts)
	require.NoError(t, err)
	return c
}

func passAll(string) rulvar.Verdict { return rulvar.VerdictPass }

func TestDecisionTable(t *testing.T) {
	for _, row := range decisionTable {
		t.Run(row.policy+" "+row.url[:min(len(row.url), 80)], func(t *testing.T) {
			d := tableClient(t, row.policy).policy.decide(row.url, passAll)
			require.Equal(t, row.code, d.code)
			require.Equal(t, row.verdict, d.verdict)
			if row.host != "" {
				require.Equal(t, row.host, d.target.host.name)
			}
		})
	}
}

// The chain answers what the table says, before anything is dispatched.
func TestChainAnswersTheDecisionTable(t *testing.T) {
	tables := []*rulvar.PermissionConfig{
		nil,
		{Deny: []rulvar.Rule{rulvar.DomainRule("fetch", "evil.example.com")}, Ask: []rulvar.Rule{rulvar.DomainRule("fetch", "pay.example.com", "partner.org:443")}},
	}
	want := map[rulvar.Verdict]rulvar.Verdict{rulvar.VerdictPass: rulvar.VerdictAllow, rulvar.VerdictAsk: rulvar.VerdictAsk, rulvar.VerdictDeny: rulvar.VerdictDeny}
	for i, config := range tables {
		chain, err := rulvar.CompilePermissionChain(config, nil, nil)
		require.NoError(t, err)
		for _, row := range decisionTable {
			if row.url == "" || len(row.url) > maxURL {
				continue // the schema refuses it before any policy
			}
			opts := tablePolicies[row.policy]
			if i > 0 && row.policy == "P" { // the same policy, told by the chain's rules
				opts.Deny, opts.Ask, opts.Allow = nil, nil, append([]string{"partner.org"}, opts.Allow...)
				if row.url == "https://partner.org:8443/" {
					continue
				}
			}
			tool, err := New(&opts)
			require.NoError(t, err)
			ev, err := rulvar.EvaluatePermission(context.Background(), chain, tool, Input{URL: row.url})
			require.NoError(t, err)
			require.Equal(t, want[row.verdict], ev.Verdict, "%s\n%s", row.url, ev)
			require.Empty(t, ev.Advisory)
			if row.verdict != rulvar.VerdictPass {
				require.Contains(t, ev.Reason, row.code)
			}
			if i > 0 && row.policy == "P" && (row.code == codeDenied || row.code == codeAsk) {
				require.False(t, ev.Rule.IsZero(), "%s", ev)
			}
		}
	}
}

// A rule of the chain makes nothing reachable that the options do not.
func TestChainRulesOnlyTighten(t *testing.T) {
	c := tableClient(t, "P")
	rank := map[rulvar.Verdict]int{rulvar.VerdictPass: 0, rulvar.VerdictAsk: 1, rulvar.VerdictDeny: 2}
	for _, row := range decisionTable {
		last := -1
		for _, v := range []rulvar.Verdict{rulvar.VerdictPass, rulvar.VerdictAsk, rulvar.VerdictDeny} {
			d := c.policy.decide(row.url, func(string) rulvar.Verdict { return v })
			require.GreaterOrEqual(t, rank[d.verdict], last, "%s under %s", row.url, v)
			last = rank[d.verdict]
		}
		for _, v := range []rulvar.Verdict{"", "allow", "yes"} {
			require.Equal(t, rulvar.VerdictDeny, c.policy.decide(row.url, func(string) rulvar.Verdict { return v }).verdict)
		}
	}
}

// names is a resolver; the last answer of a name is repeated. It counts.
type namesOf struct {
	answers map[string][][]string
	asked   []string
	err     error
}

func (r *namesOf) LookupNetIP(_ context.Context, network, name string) ([]netip.Addr, error) {
	n := 0
	for _, a := range r.asked {
		if a == name {
			n++
		}
	}
	r.asked = append(r.asked, name)
	list := r.answers[strings.TrimSuffix(name, ".")]
	switch {
	case r.err != nil:
		return nil, r.err
	case network != "ip" || !strings.HasSuffix(name, "."):
		return nil, &net.DNSError{Err: "not asked as it should be", Name: name}
	case len(list) == 0:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	var out []netip.Addr
	for _, a := range list[min(n, len(list)-1)] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// The rows of the decision table that are about what a name leads to.
func TestResolvedAddresses(t *testing.T) {
	for _, row := range []struct {
		name, code string
		addrs      []string
	}{
		{"rebind.example.com", codeDNSBlocked, []string{"93.184.215.14", "10.0.0.5"}},
		{"meta.example.com", codeDNSBlocked, []string{"169.254.169.254"}},
		{"six.example.com", codeDNSBlocked, []string{"::ffff:127.0.0.1"}},
		{"nat64.example.com", codeDNSBlocked, []string{"64:ff9b::7f00:1"}},
		{"sixtofour.example.com", codeDNSBlocked, []string{"2002:7f00:1::"}},
		{"shared.example.com", codeDNSBlocked, []string{"100.100.100.200"}},
		{"zone.example.com", codeDNSBlocked, []string{"fe80::1%eth0"}},
		{"ok6.example.com", "", []string{"2606:2800:220:1:248:1893:25c8:1946"}},
		{"mapped.example.com", "", []string{"::ffff:93.184.215.14"}},
		{"gone.example.com", codeDNSEmpty, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := tableClient(t, "P")
			answers := map[string][][]string{}
			if row.addrs != nil {
				answers[row.name] = [][]string{row.addrs}
			}
			c.opts.Resolver = &namesOf{answers: answers}
			addrs, err := c.resolve(context.Background(), host{name: row.name})
			if row.code == "" {
				require.NoError(t, err)
				require.Len(t, addrs, len(row.addrs))
				require.False(t, addrs[0].Is4In6())
				return
			}
			require.ErrorIs(t, err, rulvar.Code(row.code))
			require.Empty(t, addrs)
			require.True(t, isRefusal(err))
		})
	}
}

func TestPrivateAddressesAreOpenedByRange(t *testing.T) {
	c, err := newClient(&Options{Allow: []string{"10.1.2.3", "*.example.com"}, AllowIPLiteral: true, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	require.NoError(t, err)
	require.Equal(t, codeAllowed, c.policy.decide("https://10.1.2.3/", passAll).code)
	require.Equal(t, codeAllowed, c.policy.decide("https://[::ffff:10.1.2.3]/", passAll).code)
	require.Equal(t, codeIPBlocked, c.policy.decide("https://10.2.0.1/", passAll).code)
	require.Equal(t, codeNotAllowed, c.policy.decide("https://10.1.2.4/", passAll).code)
	c.opts.Resolver = &namesOf{answers: map[string][][]string{"in.example.com": {{"10.1.9.9"}}, "out.example.com": {{"10.1.9.9", "127.0.0.1"}}}}
	_, err = c.resolve(context.Background(), host{name: "in.example.com"})
	require.NoError(t, err)
	_, err = c.resolve(context.Background(), host{name: "out.example.com"})
	require.ErrorIs(t, err, rulvar.Code(codeDNSBlocked))
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "::ffff:8.8.8.8": true, "2606:4700::1": true, "223.255.255.255": true,
		"0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.128.0.1": true, "127.255.255.255": false, "169.254.0.1": false,
		"172.15.0.1": true, "172.31.255.255": false, "192.0.0.8": false, "192.0.2.1": false, "192.31.196.1": false, "192.52.193.1": false,
		"192.88.99.1": false, "192.168.1.1": false, "192.175.48.1": false, "198.19.0.1": false, "198.51.100.1": false, "203.0.113.1": false,
		"224.0.0.1": false, "239.1.1.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::127.0.0.1": false, "::ffff:10.0.0.1": false, "fe80::1": false, "fc00::1": false, "fd12::1": false,
		"ff02::1": false, "2001::1": false, "2001:1ff::1": false, "2001:200::1": true, "2001:db8::1": false, "2002::1": false,
		"2620:4f:8000::1": false, "3fff::1": false, "64:ff9b::1": false, "64:ff9b:1::1": false, "100::1": false, "4000::1": false, "5f00::1": false,
	} {
		require.Equal(t, want, public(netip.MustParseAddr(text)), text)
	}
	require.False(t, public(netip.Addr{}))
}

// quiet is the judging of a call that no policy stands above.
type quiet struct {
	context.Context
	rules    func(host string) rulvar.Verdict
	approved bool
	logged   []string
}

func (q *quiet) JudgeHost(h string) (rulvar.Verdict, rulvar.Rule) {
	if q.rules == nil {
		return rulvar.VerdictPass, rulvar.Rule{}
	}
	return q.rules(h), rulvar.Rule{}
}
func (q *quiet) Approved() bool { return q.approved }
func (q *quiet) Log(_ slog.Level, _ string, data ...any) {
	line := ""
	for i := 0; i+1 < len(data); i += 2 {
		line += data[i].(string) + "=" + toText(data[i+1]) + " "
	}
	q.logged = append(q.logged, strings.TrimSpace(line))
}
