package storekit_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
	"github.com/rulvar/rulvar-go/storekit"
)

// tables is what a database would hold: text, and nothing of this process.
type tables struct {
	sync.Mutex // a transaction at a time
	records    map[string][]record
	metas      map[string]string
	blobs      map[string]string
	holders    map[string]storekit.Holder
	epoch      int64
}

type record struct {
	seq  int64
	line string
}

// tableStore is a store over tables, written with the exported names alone.
type tableStore struct{ db *tables }

func openTables(db *tables) *tableStore {
	if db == nil {
		db = &tables{records: map[string][]record{}, metas: map[string]string{}, blobs: map[string]string{}, holders: map[string]storekit.Holder{}}
	}
	return &tableStore{db: db}
}

// admit begins a transaction of a call; lock is nil where the call may go
// without one.
func (s *tableStore) admit(ctx context.Context, op, runID string, lock *rulvar.RunLock, needed bool) (end func(), err error) {
	end = s.db.Unlock
	if lock != nil {
		done, err := lock.Use(s, op, runID)
		if err != nil {
			return nil, err
		}
		end = func() { s.db.Unlock(); done() }
	}
	s.db.Lock()
	err = errors.Join(storekit.CheckRunID(runID), ctx.Err())
	if h, held := s.db.holders[runID]; err == nil && lock == nil && needed {
		if err = storekit.NeedsLock(op, runID); held {
			err = storekit.HeldBy(op, runID, h)
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

func (s *tableStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	b, err := storekit.NewBatch(runID, entries)
	if err != nil || len(entries) == 0 {
		return err
	}
	end, err := s.admit(ctx, "append", runID, lock, !b.MayUnlocked())
	if err != nil {
		return err
	}
	defer end()
	rows, tail := s.db.records[runID], int64(-1)
	if len(rows) > 0 {
		tail = rows[len(rows)-1].seq
	} else if lock == nil {
		return storekit.NeedsLock("append", runID)
	}
	lines, err := b.Mint(tail)
	if err != nil {
		return err
	}
	for i, seq := range b.Seqs() {
		rows = append(rows, record{seq, string(lines[i])})
	}
	s.db.records[runID] = rows
	b.Acknowledge()
	return nil
}

func (s *tableStore) Load(ctx context.Context, runID string, after int64) (meta *rulvar.RunMeta, entries []*rulvar.Entry, err error) {
	end, err := s.admit(ctx, "load", runID, nil, false)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	if text, ok := s.db.metas[runID]; ok {
		if meta, err = storekit.ParseMeta([]byte(text)); err != nil {
			return nil, nil, err
		}
	}
	for _, r := range s.db.records[runID] {
		if r.seq <= after {
			continue
		}
		en, err := storekit.ParseEntry([]byte(r.line))
		if err != nil {
			return nil, nil, err
		}
		entries = append(entries, en)
	}
	return meta, entries, nil
}

func (s *tableStore) PutMeta(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
	text, err := meta.AppendText(nil)
	if err != nil {
		return err
	}
	end, err := s.admit(ctx, "put metadata", meta.RunID, lock, true)
	if err != nil {
		return err
	}
	defer end()
	s.db.metas[meta.RunID] = string(text)
	return nil
}

func (s *tableStore) ListRuns(ctx context.Context, filter func(*rulvar.RunMeta) bool) (list []*rulvar.RunMeta, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.db.Lock()
	defer s.db.Unlock()
	ids := slices.AppendSeq(slices.Collect(maps.Keys(s.db.metas)), maps.Keys(s.db.records))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		m := &rulvar.RunMeta{RunID: id}
		if text, ok := s.db.metas[id]; ok {
			if m, err = storekit.ParseMeta([]byte(text)); err != nil {
				return nil, err
			}
		}
		if filter == nil || filter(m) {
			list = append(list, m)
		}
	}
	return list, nil
}

func (s *tableStore) Lock(ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
	end, err := s.admit(ctx, "lock", runID, nil, false)
	if err != nil {
		return nil, err
	}
	defer end()
	if h, held := s.db.holders[runID]; held {
		return nil, storekit.HeldBy("lock", runID, h)
	}
	s.db.epoch++
	h := storekit.Holder{Owner: owner, Epoch: s.db.epoch}
	s.db.holders[runID] = h
	return storekit.NewRunLock(s, runID, h, func() error {
		s.db.Lock()
		defer s.db.Unlock()
		delete(s.db.holders, runID)
		return nil
	}), nil
}

func (s *tableStore) Delete(ctx context.Context, runID string, lock *rulvar.RunLock) error {
	if lock == nil {
		var err error
		if lock, err = s.Lock(ctx, runID, "delete"); err != nil {
			return err
		}
	}
	end, err := s.admit(ctx, "delete", runID, lock, true)
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.db.blobs, func(ref, _ string) bool { return strings.HasPrefix(ref, runID+"/") })
	delete(s.db.records, runID)
	delete(s.db.metas, runID)
	end()
	return lock.Release()
}

// blob makes a call that is about one blob.
func (s *tableStore) blob(ctx context.Context, ref string, call func()) error {
	if err := errors.Join(storekit.CheckBlobRef(ref), ctx.Err()); err != nil {
		return err
	}
	s.db.Lock()
	defer s.db.Unlock()
	call()
	return nil
}

func (s *tableStore) Put(ctx context.Context, ref string, data []byte) error {
	return s.blob(ctx, ref, func() { s.db.blobs[ref] = string(data) })
}

func (s *tableStore) Get(ctx context.Context, ref string) (data []byte, err error) {
	err = s.blob(ctx, ref, func() {
		if text, ok := s.db.blobs[ref]; ok {
			data = append([]byte{}, text...)
		}
	})
	return data, err
}

func (s *tableStore) List(ctx context.Context, runID string) (refs []string, err error) {
	end, err := s.admit(ctx, "list", runID, nil, false)
	if err != nil {
		return nil, err
	}
	defer end()
	for ref := range s.db.blobs {
		if strings.HasPrefix(ref, runID+"/") {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs, nil
}

func (s *tableStore) DeleteBlob(ctx context.Context, ref string) error {
	return s.blob(ctx, ref, func() { delete(s.db.blobs, ref) })
}

// TestOwnStore: what the package exports is enough for a store that passes.
func TestOwnStore(t *testing.T) {
	open := func(*testing.T) rulvar.Store { return openTables(nil) }
	second := func(_ *testing.T, first rulvar.Store) rulvar.Store { return openTables(first.(*tableStore).db) }
	t.Run("journal", func(t *testing.T) { rulvartest.RunJournalStoreSuite(t, open, second) })
	t.Run("lease", func(t *testing.T) { rulvartest.RunLeaseSuite(t, open, second) })
	t.Run("transcript", func(t *testing.T) { rulvartest.RunTranscriptStoreSuite(t, open, second) })
}

// TestOwnStoreServes: such a store serves an engine.
func TestOwnStoreServes(t *testing.T) {
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "hello"}}})
	e := rulvartest.NewEngine(t, rulvar.Config{Store: openTables(nil), Providers: []llm.Provider{model}, Model: "test:m"})
	greet := rulvar.DefineWorkflow("greet", func(c *rulvar.Ctx, name string) (string, error) {
		return rulvar.Agent[string](c, "Greet "+name, nil)
	})
	h, err := rulvar.Run(t.Context(), e, greet, "Ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := h.Result(t.Context())
		if err != nil || out.Value != "hello" {
			t.Fatal(out, err)
		}
		if h, err = rulvar.Resume(t.Context(), e, greet, h.RunID(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(model.Requests()); n != 1 {
		t.Fatalf("%d requests, want 1", n)
	}
	if err := e.DeleteRun(t.Context(), h.RunID()); err != nil {
		t.Fatal(err)
	}
}
