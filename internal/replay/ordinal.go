package replay

import "github.com/rulvar/rulvar-go/internal/journal"

// Ordinals counts how often a key occurred in a scope. The number is recorded
// on every entry that is not a reference to another one; matching never looks
// at it. The zero value counts from 0.
type Ordinals struct {
	next map[ordinalKey]int64
}

type ordinalKey struct {
	scope   string
	version int
	key     string
}

// SeedOrdinals returns counters that continue after the entries of earlier
// segments. Terminals, resolutions and abandons refer to another entry and
// repeat its ordinal, so they do not count.
func SeedOrdinals(prior []*journal.Entry) *Ordinals {
	o := &Ordinals{next: make(map[ordinalKey]int64, len(prior))}
	for i := range prior {
		e := prior[i]
		if e.Ref != nil || e.Ordinal < 0 {
			continue
		}
		k := ordinalKey{e.Scope, e.HashVersion, e.Key}
		if after := following(e.Ordinal); after > o.next[k] {
			o.next[k] = after
		}
	}
	return o
}

// Next mints the ordinal of a new entry. Entries with an empty key (most
// decisions) share one counter a scope. A failed append does not give an
// ordinal back; gaps are legal.
func (o *Ordinals) Next(scope string, hashVersion int, key string) int64 {
	if o.next == nil {
		o.next = map[ordinalKey]int64{}
	}
	k := ordinalKey{scope, hashVersion, key}
	n := o.next[k]
	o.next[k] = following(n)
	return n
}

// following is n+1, held at the largest integer that the format can carry: a
// damaged journal must not make the counter overflow.
func following(n int64) int64 {
	if n >= maxExactInt {
		return maxExactInt
	}
	return n + 1
}
