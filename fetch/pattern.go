package fetch

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// pattern is one entry of [Options.Allow], Ask or Deny.
type pattern struct {
	host   host // zero for "*"
	subs   bool // the subdomains of host, not itself
	any    bool
	port   string // "" for the scheme's own; for any port where it denies
	source string
}

// compilePattern reads a pattern; why says what is wrong with it.
func compilePattern(text string) (p pattern, why string) {
	p.source = text
	if strings.Contains(text, "://") {
		return p, "it has a scheme: write the host alone"
	}
	rest, port, cut := cutPort(text)
	if cut {
		if !validPort(port) {
			return p, "the port is not a number from 1 to 65535"
		}
		p.port = port
	}
	switch {
	case text == "":
		return p, "it is empty"
	case strings.ContainsAny(text, "/?#@\\"):
		return p, "it is a URL: write the host alone"
	case rest == "*":
		p.any = true
		return p, ""
	}
	if rest, p.subs = strings.CutPrefix(rest, "*."); strings.Contains(rest, "*") {
		return p, "a wildcard stands alone or as the whole first label"
	}
	h, code := readHost(rest)
	if code != "" {
		return p, fmt.Sprintf("the host cannot be read (%s)", code)
	}
	p.host = h
	switch {
	case h.addr.IsValid() && p.subs:
		return p, "an address has no subdomains"
	case h.addr.IsValid():
		return p, ""
	}
	if p.subs {
		if suffix, _ := publicsuffix.PublicSuffix(h.name); suffix == h.name {
			return p, "everybody can register names below it: name the domains"
		}
	}
	if code := nameProblem(h.name); code != "" {
		return p, fmt.Sprintf("no request ever goes to such a name (%s), only to its address, where Options.AllowIPLiteral and AllowPrivate open it", code)
	}
	return p, ""
}

// matchesHost reports whether the pattern names the host, on whatever port.
func (p pattern) matchesHost(h host) bool {
	switch {
	case p.any:
		return true
	case p.subs:
		return !h.addr.IsValid() && strings.HasSuffix(h.name, "."+p.host.name)
	}
	return h == p.host
}

// matches reports whether the pattern names the host on just this port.
func (p pattern) matches(t *target) bool {
	want := p.port
	if want == "" {
		want = t.defaultPort()
	}
	return want == t.port && p.matchesHost(t.host)
}

// denies is matches for a pattern that denies: without a port it is every port.
func (p pattern) denies(t *target) bool {
	return (p.port == "" || p.port == t.port) && p.matchesHost(t.host)
}

// cutPort splits "host:port"; found says that there is a colon for one.
func cutPort(text string) (host, port string, found bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || i < strings.LastIndexByte(text, ']') {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && port[0] != '0'
}
