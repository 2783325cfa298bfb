package rulvar

import (
	"net/netip"
	"strconv"
	"strings"
)

// A host pattern is
//
//	example.com          that host
//	*.example.com        its subdomains at any depth, not the host itself
//	*                    every host
//	203.0.113.7  [2001:db8::1]   an address
//
// each with an optional ":port"; without one it stands for every port. Case
// and one trailing dot do not matter. Names are in their ASCII form.
type hostPattern struct {
	name   string // lower case, without the trailing dot or the "*."
	prefix hostWildcard
	port   string // "" for every port
}

type hostWildcard uint8

const (
	hostExact hostWildcard = iota
	hostSubdomains
	hostAny
)

// parseHostPattern compiles a pattern; why says why it cannot match.
func parseHostPattern(text string) (p hostPattern, why string) {
	if strings.Contains(text, "://") {
		return p, "it has a scheme: write the host alone"
	}
	if strings.ContainsAny(text, "/?#@\\") {
		return p, "it is a URL: write the host alone"
	}
	rest := text
	if host, port, ok := cutPort(text); ok {
		if !validPort(port) {
			return p, "the port is not a number from 1 to 65535"
		}
		rest, p.port = host, port
	}
	switch {
	case rest == "*":
		p.prefix = hostAny
		return p, ""
	case strings.HasPrefix(rest, "*."):
		p.prefix, rest = hostSubdomains, rest[2:]
	}
	if strings.Contains(rest, "*") {
		return p, "a wildcard stands alone or as the whole first label"
	}
	name, why := canonicalHost(rest)
	if why != "" {
		return p, why
	}
	if _, err := netip.ParseAddr(name); err == nil && p.prefix == hostSubdomains {
		return p, "an address has no subdomains"
	}
	p.name = name
	return p, ""
}

// matches holds the pattern against a canonical host. Where the port is not
// known a pattern with one matches: the tables deny and ask, so the doubt goes
// against the call.
func (p hostPattern) matches(name, port string) bool {
	if p.port != "" && port != "" && p.port != port {
		return false
	}
	switch p.prefix {
	case hostAny:
		return true
	case hostSubdomains:
		return len(name) > len(p.name)+1 && strings.HasSuffix(name, p.name) && name[len(name)-len(p.name)-1] == '.'
	}
	return name == p.name
}

// canonicalHost lowers a host name, drops one trailing dot and brings an
// address into its one spelling.
func canonicalHost(host string) (name, why string) {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		addr, err := netip.ParseAddr(host[1 : len(host)-1])
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", "what stands in brackets is not an IPv6 address"
		}
		return addr.Unmap().String(), ""
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" {
		return "", "the host is empty"
	}
	if len(name) > 253 {
		return "", "the host is longer than 253 characters"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", "a label is empty or longer than 63 characters"
		}
		for i := range len(label) {
			c := label[i]
			if c >= 0x80 {
				return "", "write the name in its ASCII form (xn--…)"
			}
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", "a host holds letters, digits, hyphens and dots (an IPv6 address stands in brackets)"
			}
		}
	}
	return name, ""
}

// cutPort splits "host:port" and "[v6]:port".
func cutPort(text string) (host, port string, found bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.HasSuffix(text, "]") {
		return text, "", false
	}
	if host = text[:i]; strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return text, "", false // an address without brackets: refused as a name
	}
	return host, text[i+1:], true
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && port[0] != '0'
}
