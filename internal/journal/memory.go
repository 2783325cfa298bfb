package journal

import (
	"context"
	"crypto/rand"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// MemoryStore keeps runs in memory, by the rules of [FileStore]: the same
// refusals, locks and sequence numbers. Nothing outlives it. Its methods may
// be called from any goroutine.
type MemoryStore struct {
	id    string // random
	mu    sync.Mutex
	runs  map[string]*memoryRun
	blobs map[string][]byte
	epoch int64 // of the last lock that was given
}

type memoryRun struct {
	entries []*Entry
	meta    *Meta
	holder  *Holder
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{id: "memory:" + rand.Text(), runs: make(map[string]*memoryRun), blobs: make(map[string][]byte)}
}

// Append is [FileStore.Append], without the disk.
func (s *MemoryStore) Append(ctx context.Context, runID string, e *Entry, lock *RunLock) error {
	return s.AppendAll(ctx, runID, []*Entry{e}, lock)
}

// AppendAll is [FileStore.AppendAll], without the disk.
func (s *MemoryStore) AppendAll(ctx context.Context, runID string, entries []*Entry, lock *RunLock) error {
	const op = "append"
	b, err := NewBatch(runID, entries)
	if err != nil || len(entries) == 0 {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	locked := lock != nil || !b.MayUnlocked()
	if locked {
		done, err := s.holdFor(op, runID, lock)
		if err != nil {
			return err
		}
		defer done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil || !locked && len(r.entries) == 0 {
		return noRun(runID)
	}
	last := int64(-1)
	if n := len(r.entries); n > 0 {
		last = r.entries[n-1].Seq
	}
	lines, err := b.Mint(last)
	if err != nil {
		return err
	}
	b.Acknowledge()
	for _, text := range lines {
		kept, err := ParseEntry(text)
		if err != nil {
			return err
		}
		r.entries = append(r.entries, kept)
	}
	return nil
}

// Load is [FileStore.Load].
func (s *MemoryStore) Load(ctx context.Context, runID string, after int64) (*Meta, []*Entry, error) {
	if err := admit(ctx, CheckRunID(runID)); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil {
		return nil, nil, nil
	}
	from, _ := slices.BinarySearchFunc(r.entries, after+1, func(e *Entry, seq int64) int {
		return int(max(-1, min(1, e.Seq-seq)))
	})
	entries := make([]*Entry, 0, len(r.entries)-from)
	for _, e := range r.entries[from:] {
		c := *e
		entries = append(entries, &c)
	}
	return r.meta.clone(), entries, nil
}

// PutMeta is [FileStore.PutMeta].
func (s *MemoryStore) PutMeta(ctx context.Context, meta *Meta, lock *RunLock) error {
	const op = "put metadata"
	if err := CheckRunID(meta.RunID); err != nil {
		return err
	}
	done, err := s.holdFor(op, meta.RunID, lock)
	if err != nil {
		return err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[meta.RunID]
	text, err := meta.over(r.meta.clone()).AppendText(nil)
	if err != nil {
		return err
	}
	kept, err := ParseMeta(text)
	if err != nil {
		return err
	}
	r.meta = kept
	return nil
}

// ListRuns is [FileStore.ListRuns].
func (s *MemoryStore) ListRuns(ctx context.Context, keep func(*Meta) bool) ([]*Meta, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Meta
	for _, id := range slices.Sorted(maps.Keys(s.runs)) {
		switch r := s.runs[id]; {
		case r.meta != nil:
			all = append(all, r.meta.clone())
		case len(r.entries) > 0:
			all = append(all, &Meta{RunID: id})
		}
	}
	if keep == nil {
		return all, nil
	}
	return slices.DeleteFunc(all, func(m *Meta) bool { return !keep(m) }), nil
}

// Delete is [FileStore.Delete].
func (s *MemoryStore) Delete(ctx context.Context, runID string, lock *RunLock) error {
	lock, err := retired(ctx, s, runID, lock)
	if err != nil {
		return err
	}
	s.mu.Lock()
	maps.DeleteFunc(s.blobs, func(ref string, _ []byte) bool { return strings.HasPrefix(ref, runID+"/") })
	s.runs[runID].entries, s.runs[runID].meta = nil, nil
	s.mu.Unlock()
	return lock.free()
}

// Lock is [FileStore.Lock], within this store.
func (s *MemoryStore) Lock(ctx context.Context, runID, owner string) (*RunLock, error) {
	if err := admit(ctx, checkLock("lock", runID, owner)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil {
		r = new(memoryRun)
		s.runs[runID] = r
	}
	if r.holder != nil {
		return nil, HeldBy("lock", runID, *r.holder)
	}
	host, _ := os.Hostname()
	s.epoch++
	h := Holder{Owner: owner, PID: os.Getpid(), Host: host, Since: time.Now().UTC().Format(time.RFC3339Nano), Epoch: s.epoch}
	r.holder = &h
	return NewRunLock(s, runID, h, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.holder = nil
		if r.meta == nil && len(r.entries) == 0 {
			delete(s.runs, runID)
		}
		return nil
	}), nil
}

// holdFor enters a call that only the lock's holder may make.
func (s *MemoryStore) holdFor(op, runID string, lock *RunLock) (done func(), err error) {
	if lock != nil {
		return lock.Use(s, op, runID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[runID]; r != nil && r.holder != nil {
		return nil, HeldBy(op, runID, *r.holder)
	}
	return nil, NeedsLock(op, runID)
}

// Put is [FileStore.Put].
func (s *MemoryStore) Put(ctx context.Context, ref string, data []byte) error {
	if err := admit(ctx, CheckBlobRef(ref)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[ref] = append([]byte{}, data...)
	return nil
}

// Get is [FileStore.Get].
func (s *MemoryStore) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := admit(ctx, CheckBlobRef(ref)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.blobs[ref]
	if !ok {
		return nil, nil
	}
	return append([]byte{}, b...), nil
}

// List is [FileStore.List].
func (s *MemoryStore) List(ctx context.Context, runID string) ([]string, error) {
	if err := admit(ctx, CheckRunID(runID)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var refs []string
	for ref := range s.blobs {
		if strings.HasPrefix(ref, runID+"/") {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs, nil
}

// DeleteBlob is [FileStore.DeleteBlob].
func (s *MemoryStore) DeleteBlob(ctx context.Context, ref string) error {
	if err := admit(ctx, CheckBlobRef(ref)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.blobs, ref)
	return nil
}

// admit returns what is wrong with a call, or that its context has ended.
func admit(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return ctx.Err()
}
