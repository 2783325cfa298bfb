package rulvartest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

// clones copies entries, so that a callee cannot tell the caller's anything.
func clones(entries []*rulvar.Entry) []*rulvar.Entry {
	var list []*rulvar.Entry
	for _, en := range entries {
		c := *en
		list = append(list, &c)
	}
	return list
}

// tail is the number of the last record.
func (f *faulty) tail(runID string) int64 {
	_, entries, _ := f.good.Load(context.Background(), runID, -1)
	if len(entries) == 0 {
		return -1
	}
	return entries[len(entries)-1].Seq
}

// appending plants a fault in AppendAll.
func appending(wrong func(f *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error) func(*faulty) {
	return func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			return wrong(f, func(some []*rulvar.Entry) error { return right(ctx, runID, some, lock) }, entries)
		}
	}
}

var appendFaults = []fault{
	{"appends one by one", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			if err := right([]*rulvar.Entry{en}); err != nil {
				return err
			}
		}
		return nil
	})},
	{"changes entries that it refuses", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		err := right(entries)
		if err != nil {
			entries[0].Seq = 5
		}
		return err
	})},
	{"takes what is no record", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		if err := right(entries); !errors.Is(err, rulvar.ErrNonSerializable) {
			return err
		}
		return nil
	})},
	{"refuses an empty batch", []string{"a1-append-atomicity"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		if len(entries) == 0 {
			return errors.New("nothing to do")
		}
		return right(entries)
	})},
	{"loses a record now and then", []string{"a2-total-order", "a3-read-your-writes", "lease-release-ends-writes"}, func(f *faulty) {
		var mu sync.Mutex
		n := 0
		appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%5 == 4 {
				return nil
			}
			return right(entries)
		})(f)
	}},
	{"numbers anew what brings its number", []string{"a5-monotonic-seq"}, appending(func(f *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			if en.At != nil && *en.At <= f.tail("r1") {
				en.At = nil
			}
		}
		return right(entries)
	})},
	{"leaves no gap", []string{"a5-monotonic-seq", "load-after"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			en.At = nil
		}
		return right(entries)
	})},
	{"tells nothing", []string{"append-tells-seq", "a3-read-your-writes"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		return right(clones(entries))
	})},
	{"takes a ref for a number", []string{"batch-refers-to-its-own"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		copies := clones(entries)
		err := right(copies)
		for i, c := range copies {
			entries[i].Seq = c.Seq
		}
		return err
	})},
	{"takes no large record", []string{"big-entries"}, appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
		for _, en := range entries {
			if len(en.Value) > 1<<16 {
				return errors.New("the value is too long for the column")
			}
		}
		return right(entries)
	})},
	{"keeps the caller's memory", []string{"append-keeps-a-copy"}, func(f *faulty) {
		var kept []*rulvar.Entry
		appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
			kept = append(kept, entries...)
			return right(entries)
		})(f)
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, _, err := f.good.Load(ctx, runID, after)
			return meta, kept, err
		}
	}},
}

// rewriting plants a fault in the lines that Load returns.
func rewriting(wrong func(raw []byte) []byte) func(*faulty) {
	return func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			for i, en := range entries {
				if again, parseErr := storekit.ParseEntry(wrong(en.Raw)); parseErr == nil {
					entries[i] = again
				}
			}
			return meta, entries, err
		}
	}
}

// loading plants a fault in what Load returns.
func loading(wrong func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry)) func(*faulty) {
	return func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			meta, entries = wrong(meta, entries)
			return meta, entries, err
		}
	}
}

var loadFaults = []fault{
	{"loads backwards", []string{"a2-total-order"}, loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
		slices.Reverse(entries)
		return meta, entries
	})},
	{"shows a record late", []string{"a3-read-your-writes"}, loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
		return meta, entries[:max(0, len(entries)-1)]
	})},
	{"sorts members", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		var v map[string]any
		if json.Unmarshal(raw, &v) != nil {
			return raw
		}
		b, _ := json.Marshal(v)
		return b
	})},
	{"escapes for HTML", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		var b bytes.Buffer
		json.HTMLEscape(&b, raw)
		return b.Bytes()
	})},
	{"takes out white space", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		var b bytes.Buffer
		_ = json.Compact(&b, raw)
		return b.Bytes()
	})},
	{"drops what it does not know", []string{"a4-opaque-payload"}, rewriting(func(raw []byte) []byte {
		en, _ := storekit.ParseEntry(raw)
		en.Raw = nil
		b, _ := en.AppendLine(nil)
		return b
	})},
	{"cuts off large values", []string{"big-entries"}, func(f *faulty) {
		loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
			for _, en := range entries {
				en.Value = en.Value[:min(len(en.Value), 1<<16)]
			}
			return meta, entries
		})(f)
	}},
	{"loads everything", []string{"load-after"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, _ int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			return f.good.Load(ctx, runID, -1)
		}
	}},
	{"loads one too many", []string{"load-after"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			return f.good.Load(ctx, runID, after-1)
		}
	}},
	{"loads metadata the first time", []string{"load-after"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			if after >= 0 {
				meta = nil
			}
			return meta, entries, err
		}
	}},
	{"takes a missing run for an error", []string{"missing-run"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			if meta == nil && entries == nil && err == nil {
				err = errors.New("no rows")
			}
			return meta, entries, err
		}
	}},
	{"makes empty metadata", []string{"missing-run", "meta-separation", "lease-makes-no-run"}, loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
		if meta == nil {
			meta = &rulvar.RunMeta{}
		}
		return meta, entries
	})},
	{"makes the run that it looks for", []string{"missing-run"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			meta, entries, err := f.good.Load(ctx, runID, after)
			if meta == nil && len(entries) == 0 && runID == "none" {
				_ = f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.PutMeta(ctx, &rulvar.RunMeta{RunID: runID}, l) })
			}
			return meta, entries, err
		}
	}},
	{"answers make runs", []string{"missing-run", "unlocked-appends-limited"}, func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			err := right(ctx, runID, entries, lock)
			if lock == nil && errors.Is(err, rulvar.ErrConfig) && f.tail(runID) < 0 {
				return nil
			}
			return err
		}
	}},
	{"each handle has its own runs", []string{"two-handles", "lease-two-handles", "blob-two-handles"}, func(f *faulty) {
		f.other = func() rulvar.Store { return rulvar.NewMemoryStore() }
	}},
}
