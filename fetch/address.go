package fetch

import "net/netip"

// Addresses that are not the public internet: this host, private networks,
// links, shared address space, documentation, benchmarks, translation,
// multicast, everything reserved. Of IPv6 only the global unicast space is left,
// without its special parts.
var (
	blockedV4 = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
		"192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	)
	globalV6  = netip.MustParsePrefix("2000::/3")
	blockedV6 = prefixes(
		"2001::/23",         // protocol assignments, Teredo among them
		"2001:db8::/32",     // documentation
		"2002::/16",         // 6to4: an IPv4 address inside
		"2620:4f:8000::/48", // AS112
		"3fff::/20",         // documentation
	)
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// public reports whether an address is one of the public internet. An IPv4
// address in an IPv6 mapping is what it maps; the zero Addr and an address with
// a zone are not public.
func public(a netip.Addr) bool {
	a = a.Unmap()
	switch {
	case !a.IsValid() || a.Zone() != "":
		return false
	case a.Is4():
		return !contains(blockedV4, a)
	}
	return globalV6.Contains(a) && !contains(blockedV6, a)
}

// mayConnect reports whether the policy lets a connection go to an address: a
// public one, or one that the host has opened.
func (p *policy) mayConnect(a netip.Addr) bool {
	return public(a) || a.IsValid() && a.Zone() == "" && contains(p.private, a.Unmap())
}
