package fetch

import (
	"net/netip"
	"net/url"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
)

// The codes of a decision. They are the words that a policy, a log and a model
// see; the first check that fails gives its code.
const (
	codeAllowed        = "allowed"
	codeURLTooLong     = "url-too-long"
	codeURLCharset     = "url-charset"
	codeURLParse       = "url-parse"
	codeScheme         = "scheme"
	codeHostEmpty      = "host-empty"
	codeUserinfo       = "userinfo"
	codePortEmpty      = "port-empty"
	codePort           = "port"
	codeHostCharset    = "host-charset"
	codeHostEmptyLabel = "host-empty-label"
	codeHostIDNA       = "host-idna"
	codeIPAmbiguous    = "ip-ambiguous"
	codeIPZone         = "ip-zone"
	codeIPBlocked      = "ip-blocked"
	codeIPLiteral      = "ip-literal"
	codeSingleLabel    = "single-label"
	codeSpecialUse     = "special-use-name"
	codeDenied         = "domain-denied"
	codeAsk            = "domain-ask"
	codeNotAllowed     = "domain-not-allowed"
)

// maxURL is the longest URL that is read, in bytes.
const maxURL = 8192

// policy is what the options say about where requests may go.
type policy struct {
	allow, ask, deny []pattern
	http, ipLiteral  bool
	private          []netip.Prefix
}

// target is where a URL leads, in one spelling.
type target struct {
	url    *url.URL // canonical, without user and fragment
	scheme string
	host   host
	port   string
}

func (t *target) defaultPort() string {
	if t.scheme == "http" {
		return "80"
	}
	return "443"
}

// hostPort is the host and the port: what rules are asked about.
func (t *target) hostPort() string { return t.host.text() + ":" + t.port }

func (t *target) origin() string { return t.scheme + "://" + t.hostPort() }

// decision is what the policy and the chain's rules make of a URL: deny, ask or
// pass. target is where it leads, as far as that could be read.
type decision struct {
	verdict rulvar.Verdict
	code    string
	target  target
}

// decide is the one decision about a URL: the chain asks it before a call is
// dispatched, and the tool again before each connection. judge is what the
// chain's domain rules say of a host. Nothing is looked up.
func (p *policy) decide(raw string, judge func(host string) rulvar.Verdict) decision {
	t, code := p.read(raw)
	d := decision{verdict: rulvar.VerdictDeny, code: code, target: t}
	if code != "" {
		return d
	}
	d.verdict, d.code = p.byRules(&d.target, judge(d.target.hostPort()))
	return d
}

// read reads the URL of a request. code is why it is refused whatever the rules
// say, or "".
func (p *policy) read(raw string) (t target, code string) {
	switch {
	case len(raw) > maxURL:
		return t, codeURLTooLong
	case badText(raw):
		return t, codeURLCharset
	}
	u, err := url.Parse(raw)
	if err != nil {
		return t, codeURLParse
	}
	t.scheme = strings.ToLower(u.Scheme)
	switch {
	case t.scheme != "https" && (t.scheme != "http" || !p.http):
		return t, codeScheme
	case u.Opaque != "" || u.Host == "":
		return t, codeHostEmpty
	case u.User != nil:
		return t, codeUserinfo
	}
	name, port, cut := cutPort(u.Host)
	t.port = port
	switch {
	case !cut:
		t.port = t.defaultPort()
	case port == "":
		return t, codePortEmpty
	case !validPort(port):
		return t, codePort
	}
	if name == "" {
		return t, codeHostEmpty
	}
	if t.host, code = readHost(name); code != "" {
		return t, code
	}
	t.url = t.canonical(u)
	return t, p.hostProblem(t.host)
}

// badText reports whether a URL holds what programs drop, trim or take for a
// slash.
func badText(raw string) bool {
	return strings.ContainsFunc(raw, func(r rune) bool { return r <= 0x20 || r == 0x7f || r == '\\' })
}

// canonical is u with the host as it was decided about.
func (t *target) canonical(u *url.URL) *url.URL {
	c := &url.URL{Scheme: t.scheme, Host: t.host.text(), Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
	if t.port != t.defaultPort() {
		c.Host = t.hostPort()
	}
	if c.Path == "" {
		c.Path = "/"
	}
	return c
}

// hostProblem is the code that refuses a host whatever the rules say.
func (p *policy) hostProblem(h host) string {
	switch {
	case !h.addr.IsValid():
		return nameProblem(h.name)
	case !p.mayConnect(h.addr):
		return codeIPBlocked
	case !p.ipLiteral:
		return codeIPLiteral
	}
	return ""
}

// byRules holds a target against the lists and what the chain says of it. What
// denies beats what asks, what asks beats what allows, and what nothing names is
// denied. A rule of the chain never opens a host: it only refuses it or asks.
func (p *policy) byRules(t *target, chain rulvar.Verdict) (rulvar.Verdict, string) {
	for _, d := range p.deny {
		if d.denies(t) {
			return rulvar.VerdictDeny, codeDenied
		}
	}
	if chain != rulvar.VerdictPass && chain != rulvar.VerdictAsk {
		return rulvar.VerdictDeny, codeDenied
	}
	asks := matchesAny(p.ask, t)
	switch {
	case !asks && !matchesAny(p.allow, t):
		for _, a := range p.allow {
			if a.matchesHost(t.host) {
				return rulvar.VerdictDeny, codePort
			}
		}
		return rulvar.VerdictDeny, codeNotAllowed
	case asks || chain == rulvar.VerdictAsk:
		return rulvar.VerdictAsk, codeAsk
	}
	return rulvar.VerdictPass, codeAllowed
}

func matchesAny(list []pattern, t *target) bool {
	for _, p := range list {
		if p.matches(t) {
			return true
		}
	}
	return false
}

// explain puts a code into words.
func explain(code string) string {
	if text, ok := explanations[code]; ok {
		return text
	}
	return "the URL is refused"
}

var explanations = map[string]string{
	codeURLTooLong:     "the URL is too long",
	codeURLCharset:     "the URL holds a blank, a control character or a backslash",
	codeURLParse:       "the URL cannot be read",
	codeScheme:         "the scheme is not permitted: https is, and http where Options.AllowHTTP says so",
	codeHostEmpty:      "the URL names no host",
	codeUserinfo:       "the URL holds a user name",
	codePortEmpty:      "the port is empty",
	codePort:           "the port is not permitted: what permits another than the scheme's own names it, as in example.com:8443",
	codeHostCharset:    "the host holds characters that no host has",
	codeHostEmptyLabel: "the host has an empty label",
	codeHostIDNA:       "the host is no name of the DNS",
	codeIPAmbiguous:    "the host may be read as an address; write the address in its plain form",
	codeIPZone:         "the address has a zone",
	codeIPBlocked:      "the address is not one of the public internet, and Options.AllowPrivate does not open it",
	codeIPLiteral:      "addresses are not permitted, use names; Options.AllowIPLiteral permits them",
	codeSingleLabel:    "the name is one of a local network, which is refused always; its address can be permitted",
	codeSpecialUse:     "the name is one of a local network, which is refused always; its address can be permitted",
	codeDenied:         "a rule denies the host",
	codeNotAllowed:     "neither Options.Allow nor Options.Ask names the host",
}
