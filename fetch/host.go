package fetch

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// names maps a host to its ASCII form, as UTS 46 has it for look-ups, and
// refuses what DNS, IDNA or the rules on hyphens, joiners and bidirectional text
// do not allow.
var names = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(true), idna.BidiRule(),
	idna.CheckHyphens(true), idna.CheckJoiners(true), idna.VerifyDNSLength(true),
)

// host is a host in its one spelling: a lower-case ASCII name, or an address.
type host struct {
	name string
	addr netip.Addr // valid where the host is an address
}

// text is the host as a URL has it, without a port.
func (h host) text() string {
	if h.addr.Is6() {
		return "[" + h.name + "]"
	}
	return h.name
}

// readHost reads the host of a URL or a pattern. Anything that two programs
// could read as two different hosts has no reading here; code says why.
func readHost(raw string) (h host, code string) {
	if strings.HasPrefix(raw, "[") {
		return readBracketed(raw)
	}
	if strings.ContainsAny(raw, ":/?#@[]<>\\^|%\"`{}") {
		return host{}, codeHostCharset
	}
	text := strings.TrimSuffix(raw, ".")
	if text == "" || hasEmptyLabel(text) {
		return host{}, codeHostEmptyLabel
	}
	name, err := names.ToASCII(text)
	if err != nil || name == "" {
		return host{}, codeHostIDNA
	}
	if hasEmptyLabel(name) {
		return host{}, codeHostEmptyLabel
	}
	name = strings.ToLower(name)
	if again, err := names.ToASCII(name); err != nil || again != name {
		return host{}, codeHostIDNA // a name that is not its own form is read differently the second time
	}
	if !numeric(name[strings.LastIndexByte(name, '.')+1:]) {
		return host{name: name}, ""
	}
	// Resolvers read numbers in many ways; only the plain one is taken.
	addr, err := netip.ParseAddr(raw)
	if err != nil || !addr.Is4() || addr.String() != raw {
		return host{}, codeIPAmbiguous
	}
	return host{name: raw, addr: addr}, ""
}

func readBracketed(raw string) (h host, code string) {
	inner, ok := strings.CutSuffix(raw[1:], "]")
	addr, err := netip.ParseAddr(inner)
	switch {
	case strings.Contains(inner, "%"):
		return host{}, codeIPZone
	case !ok || err != nil || !addr.Is6():
		return host{}, codeHostCharset
	}
	addr = addr.Unmap()
	return host{name: addr.String(), addr: addr}, ""
}

func hasEmptyLabel(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..")
}

// numeric reports whether a last label makes programs read a host as an
// address: digits, or 0x and hexadecimal digits.
func numeric(label string) bool {
	digits := "0123456789"
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// specialSuffixes are the names that are not the public DNS's: they mean what
// the network says in which they are asked.
var specialSuffixes = []string{
	"localhost", "local", "localdomain", "internal", "home.arpa", "intranet", "lan", "corp", "home",
	"test", "invalid", "onion", "alt",
}

// nameProblem is the code that refuses a name whatever the rules say, or "".
func nameProblem(name string) string {
	if !strings.Contains(name, ".") {
		return codeSingleLabel
	}
	for _, s := range specialSuffixes {
		if name == s || strings.HasSuffix(name, "."+s) {
			return codeSpecialUse
		}
	}
	return ""
}
