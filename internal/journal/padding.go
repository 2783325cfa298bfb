package journal

import (
	"bytes"
	"sync"
	"time"
)

// While a run is worked on, its journal is kept longer than its text:
// newlines are written ahead, which every reader of JSON lines passes over. An
// append then changes bytes that the file has already, and its sync writes
// those alone; to make a file longer costs a commit of the file system's own
// journal each time. The newlines go when the run's lock is given back, so
// that they are left only by a process that died.
const (
	minPadding = 4 << 10
	maxPadding = 1 << 20
)

// padded is how long a journal is made whose text ends at end: as much again,
// within bounds. No block begins at the new end, so that what is appended there
// by who knows nothing of this is not taken for what a power cut left of an
// entry (see [tailReader.behindHole]).
func padded(end int64) int64 {
	ahead := min(max(end, minPadding), maxPadding)
	return (end+ahead)/block*block + block/2
}

// newlinesAhead are written with few calls: the system keeps a file in larger
// pieces of memory, and writes it with fewer, where it was made with larger
// writes.
var newlinesAhead = sync.OnceValue(func() []byte { return bytes.Repeat([]byte{'\n'}, maxPadding) })

// pad writes newlines from the byte end of the file on. Where there is no room
// for them the journal does without: a part of them could end where a block
// begins.
func (r *run) pad(end int64) {
	to := padded(end)
	r.size, r.padded = to, true
	text := newlinesAhead()
	for at := end; at < to; {
		n := min(int64(len(text)), to-at)
		if writeAll(r.f, text[:n], at) != nil {
			_ = r.f.Truncate(end) // or else the next append finds the file longer
			r.size, r.padded = end, true
			return
		}
		at += n
	}
}

// ahead reports whether the file of size bytes holds nothing but newlines that
// this store wrote behind what it knows. Others write at the first of them.
func (r *run) ahead(size int64) bool {
	if !r.padded || size != r.size {
		return false
	}
	var b [2]byte
	n, _ := r.f.ReadAt(b[:min(2, size-r.pos.end)], r.pos.end)
	return int64(n) == min(2, size-r.pos.end) && newlines(b[:n]) == n
}

// trimTries is how often trim looks for others who write or read.
const trimTries = 25

// trim takes the newlines back, unless others write all the time. The caller
// holds the run's lock.
func (r *run) trim() {
	r.file.Lock()
	defer r.file.Unlock()
	if r.f == nil || !r.padded || r.s.deadRun(r.id) != nil {
		return
	}
	for try := 1; ; try++ {
		ok, err := r.f.TryLock()
		if err != nil || !ok && try == trimTries {
			return
		}
		if ok {
			break
		}
		time.Sleep(lockWait)
	}
	defer func() { _ = r.f.Unlock() }()
	now, err := r.s.fs.Stat(r.path)
	if err != nil || !r.s.fs.SameFile(r.self, now) || r.refresh(now.Size()) != nil {
		return
	}
	if r.f.Truncate(r.pos.end) == nil {
		r.size, r.padded = r.pos.end, false
	}
}
