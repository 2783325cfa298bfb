package modelwire

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/oklog/ulid/v2"
)

// maxIDs bounds how many pairs of ids an [IDs] remembers. One that was
// forgotten is sent in its derived form, in a call and its result alike.
const maxIDs = 1 << 16

// IDs maps the ids of tool calls: the library's own, which are ULIDs, and those
// of a service. It is safe for concurrent use.
type IDs struct {
	prefix string

	mu   sync.Mutex
	wire map[string]string // by our id
	used map[string]bool   // ids of the service that stand for a call
	ring []string          // our ids, in the order in which they are forgotten
	next int
}

// NewIDs makes a map whose derived ids begin with prefix.
func NewIDs(prefix string) *IDs {
	return &IDs{prefix: prefix, wire: make(map[string]string), used: make(map[string]bool)}
}

// Mint returns a new id for a call that the service knows by wire. Some
// services send no id or the same one again: such a call goes by its derived
// id, since two calls of a conversation must not share one.
func (m *IDs) Mint(wire string) string {
	id := ulid.Make().String()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sendable(wire, 64) || m.used[wire] {
		return id
	}
	if len(m.ring) < maxIDs {
		m.ring = append(m.ring, id)
	} else {
		old := m.ring[m.next]
		delete(m.used, m.wire[old])
		delete(m.wire, old)
		m.ring[m.next] = id
		m.next = (m.next + 1) % maxIDs
	}
	m.wire[id], m.used[wire] = wire, true
	return id
}

// Wire returns what the service shall know a call by: the id that it gave, or
// one that is derived from ours where the call came from another service,
// another process, or too long ago.
func (m *IDs) Wire(id string) string {
	m.mu.Lock()
	wire, ok := m.wire[id]
	m.mu.Unlock()
	switch {
	case ok:
		return wire
	case sendable(id, 64-len(m.prefix)):
		return m.prefix + id
	}
	sum := sha256.Sum256([]byte(id))
	return m.prefix + hex.EncodeToString(sum[:16])
}

// sendable reports whether every service takes the id.
func sendable(id string, most int) bool {
	if id == "" || len(id) > most {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
