package jcs

import (
	"cmp"
	"slices"
)

// member is a member of an object while it is sorted.
type member[V any] struct {
	// prefix orders as the first eight bytes of name do, which decides most
	// comparisons.
	prefix uint64
	name   string
	// at is the member's place in its text: of members with one name the
	// last counts, so they have to stay in order.
	at  uint32
	val V
}

// fewMembers is up to how many members sorting by insertion is faster.
const fewMembers = 16

// sortMembers orders members by the UTF-16 code units of their names, and
// members of one name by their place.
func sortMembers[V any](m []member[V]) {
	if len(m) > fewMembers {
		slices.SortFunc(m, func(a, b member[V]) int {
			if c := compareMembers(&a, &b); c != 0 {
				return c
			}
			return cmp.Compare(a.at, b.at)
		})
		return
	}
	for i := 1; i < len(m); i++ {
		if compareMembers(&m[i-1], &m[i]) <= 0 {
			continue
		}
		moving, j := m[i], i
		for ; j > 0 && compareMembers(&m[j-1], &moving) > 0; j-- {
			m[j] = m[j-1]
		}
		m[j] = moving
	}
}

func compareMembers[V any](a, b *member[V]) int {
	if a.prefix != b.prefix {
		if a.prefix < b.prefix {
			return -1
		}
		return 1
	}
	return compareUTF16(a.name, b.name)
}

// compareUTF16 orders valid UTF-8 as RFC 8785 wants it, by UTF-16 code units.
// That is the order of the bytes, except that characters beyond U+FFFF (first
// byte 0xF0 to 0xF4), which UTF-16 writes with surrogates (0xD800 to 0xDFFF),
// come before U+E000 to U+FFFF (first byte 0xEE or 0xEF). Bytes from 0xEE are
// always first bytes, so rank only has to change their order.
func compareUTF16(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for i+8 <= n && load64(a, i) == load64(b, i) {
		i += 8
	}
	for ; i < n; i++ {
		if a[i] != b[i] {
			return cmp.Compare(rank(a[i]), rank(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// rank moves 0xEE and 0xEF behind 0xF4.
func rank(c byte) byte {
	switch {
	case c < 0xee || c > 0xf4:
		return c
	case c < 0xf0:
		return c + 5
	default:
		return c - 2
	}
}

// prefixOf returns the first eight bytes of name as a number that orders as
// they do; a shorter name is filled with zeros.
func prefixOf(name string) uint64 {
	var p uint64
	if len(name) >= 8 {
		b := name[:8]
		p = uint64(b[7]) | uint64(b[6])<<8 | uint64(b[5])<<16 | uint64(b[4])<<24 |
			uint64(b[3])<<32 | uint64(b[2])<<40 | uint64(b[1])<<48 | uint64(b[0])<<56
	} else {
		for i := range len(name) {
			p |= uint64(name[i]) << (56 - 8*i)
		}
	}
	if p&topBits == 0 {
		return p
	}
	var ranked uint64
	for shift := 0; shift < 64; shift += 8 {
		ranked |= uint64(rank(byte(p>>shift))) << shift
	}
	return ranked
}
