package faultfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is what a disk writes whole.
const sector = 512

// Crash returns the file system as a power cut at this moment may leave it:
// what was synced, a beginning of the directory changes that were not, and of
// each file a beginning of its writes, of the last of which any sectors may be
// missing. Bytes that a file's length covers and no write reached are zero.
// Nobody holds a lock. rng decides; the file system itself is not changed.
func (f *FS) Crash(rng *rand.Rand) *FS { return f.crash(rng, (*node).torn) }

// Shred is Crash by a disk that keeps no order between syncs: each sector of a
// file is as any of the writes since the last sync left it, and the file is as
// long as after any of them.
func (f *FS) Shred(rng *rand.Rand) *FS { return f.crash(rng, (*node).shredded) }

func (f *FS) crash(rng *rand.Rand, left func(*node, *rand.Rand) []byte) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make(map[*node]map[string]*node) // directories, with what survives
	var collect func(*node)
	collect = func(n *node) {
		if n.dir == nil || names[n] != nil {
			return
		}
		names[n] = maps.Clone(n.onDisk)
		for _, child := range n.onDisk {
			collect(child)
		}
		for _, child := range n.dir {
			collect(child)
		}
	}
	collect(f.root)
	for _, l := range f.pending[:rng.IntN(len(f.pending)+1)] {
		for name, n := range l.names {
			if n == nil {
				delete(names[l.dir], name)
			} else if names[l.dir] != nil {
				names[l.dir][name] = n
			}
		}
	}
	copies := make(map[*node]*node)
	var revive func(*node) *node
	revive = func(n *node) *node {
		if c := copies[n]; c != nil {
			return c
		}
		c := &node{time: n.time}
		copies[n] = c
		if n.dir == nil {
			c.data = left(n, rng)
			c.durable = slices.Clone(c.data)
			return c
		}
		c.dir, c.onDisk = make(map[string]*node), make(map[string]*node)
		for _, name := range slices.Sorted(maps.Keys(names[n])) {
			child := revive(names[n][name])
			c.dir[name], c.onDisk[name] = child, child
		}
		return c
	}
	return &FS{root: revive(f.root), clock: f.clock, counts: make(map[Op]int)}
}

// torn returns a file's bytes with some of what was not synced.
func (n *node) torn(rng *rand.Rand) []byte {
	data := slices.Clone(n.durable)
	if len(n.changes) == 0 {
		return data
	}
	k := rng.IntN(len(n.changes) + 1)
	for _, c := range n.changes[:k] {
		data = c.applyTo(data)
	}
	if k == len(n.changes) {
		return data
	}
	c := n.changes[k]
	if c.truncate {
		return data
	}
	// The length may have reached the disk before the bytes, or not at all.
	full := c.applyTo(data)
	size := len(data) + rng.IntN(len(full)-len(data)+1)
	if rng.IntN(2) == 0 {
		size = len(full)
	}
	out := make([]byte, size)
	copy(out, data)
	mode := rng.IntN(3) // a beginning, an end, any sectors
	cut := rng.IntN(len(c.data) + 1)
	for at := c.at; at < c.at+int64(len(c.data)); {
		next := min((at/sector+1)*sector, c.at+int64(len(c.data)))
		keep := rng.IntN(2) == 0
		switch mode {
		case 0:
			keep = at < c.at+int64(cut)
		case 1:
			keep = at >= c.at+int64(cut)
		}
		if keep && at < int64(size) {
			copy(out[at:min(next, int64(size))], full[at:])
		}
		at = next
	}
	return out
}

// shredded returns a file's bytes with the sectors of different moments. Where
// a moment had none, the bytes are zero.
func (n *node) shredded(rng *rand.Rand) []byte {
	moments := [][]byte{n.durable}
	for _, c := range n.changes {
		moments = append(moments, c.applyTo(moments[len(moments)-1]))
	}
	any := func() []byte { return moments[rng.IntN(len(moments))] }
	out := make([]byte, len(any()))
	for at := 0; at < len(out); at += sector {
		if was := any(); at < len(was) {
			copy(out[at:min(at+sector, len(out))], was[at:])
		}
	}
	return out
}
