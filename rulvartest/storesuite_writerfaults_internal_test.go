package rulvartest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

var writerFaults = []fault{
	{"takes anything without the lock", []string{"unlocked-appends-limited", "two-handles", "lease-two-handles", "lease-names-holder"}, func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			if lock != nil {
				return right(ctx, runID, entries, lock)
			}
			return f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.AppendAll(ctx, runID, entries, l) })
		}
	}},
	{"judges a batch by its first record", []string{"unlocked-appends-limited"}, func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			if lock != nil || len(entries) < 2 || entries[0].Kind != "resolution" {
				return right(ctx, runID, entries, lock)
			}
			return f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.AppendAll(ctx, runID, entries, l) })
		}
	}},
	{"keeps answers out while the run is locked", []string{"resolution-beside-lock", "a2-total-order", "two-handles"}, func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			if lock == nil {
				l, err := f.good.Lock(ctx, runID, "answer")
				if err != nil {
					return err
				}
				defer func() { _ = l.Release() }()
			}
			return right(ctx, runID, entries, lock)
		}
	}},
	{"takes any lock", []string{"lock-of-another", "lease-released-on-release", "lease-release-ends-writes", "lease-guards-one-run"}, func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			if lock == nil {
				return right(ctx, runID, entries, lock)
			}
			return f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.AppendAll(ctx, runID, entries, l) })
		}
	}},
	{"appends under an ended context", []string{"context-cancelled-before"}, func(f *faulty) {
		right := f.appendAll
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			return right(context.WithoutCancel(ctx), runID, entries, lock)
		}
	}},
	{"writes metadata under an ended context", []string{"context-cancelled-before"}, func(f *faulty) {
		right := f.putMeta
		f.putMeta = func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
			return right(context.WithoutCancel(ctx), meta, lock)
		}
	}},
	{"loads under an ended context", []string{"context-cancelled-before"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			return f.good.Load(context.WithoutCancel(ctx), runID, after)
		}
	}},
	{"lists under an ended context", []string{"context-cancelled-before"}, func(f *faulty) {
		f.listRuns = func(ctx context.Context, filter func(*rulvar.RunMeta) bool) ([]*rulvar.RunMeta, error) {
			return f.good.ListRuns(context.WithoutCancel(ctx), filter)
		}
	}},
	{"loads what a path names", []string{"safe-names-refused"}, func(f *faulty) {
		f.load = func(ctx context.Context, runID string, after int64) (*rulvar.RunMeta, []*rulvar.Entry, error) {
			return f.good.Load(ctx, safe(runID), after)
		}
	}},
	{"deletes what a path names", []string{"safe-names-refused"}, func(f *faulty) {
		f.remove = func(ctx context.Context, runID string, lock *rulvar.RunLock) error {
			return f.good.Delete(ctx, safe(runID), nil)
		}
	}},
	{"refuses safe names", []string{"safe-names-refused"}, func(f *faulty) {
		right := f.take
		f.take = func(ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
			if strings.HasPrefix(runID, ".") {
				return nil, errors.New("a hidden file")
			}
			return right(ctx, runID, owner)
		}
	}},
}

// writing plants a fault in the metadata that PutMeta writes.
func writing(wrong func(m *rulvar.RunMeta)) func(*faulty) {
	return func(f *faulty) {
		right := f.putMeta
		f.putMeta = func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
			c := *meta
			wrong(&c)
			return right(ctx, &c, lock)
		}
	}
}

// listing plants a fault in what ListRuns returns.
func listing(wrong func(metas []*rulvar.RunMeta) []*rulvar.RunMeta) func(*faulty) {
	return func(f *faulty) {
		f.listRuns = func(ctx context.Context, filter func(*rulvar.RunMeta) bool) ([]*rulvar.RunMeta, error) {
			metas, err := f.good.ListRuns(ctx, filter)
			return wrong(metas), err
		}
	}
}

var metaFaults = []fault{
	{"keeps metadata among the records", []string{"meta-separation"}, func(f *faulty) {
		right := f.putMeta
		f.putMeta = func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
			err := right(ctx, meta, lock)
			if err == nil {
				err = f.appendAll(ctx, meta.RunID, []*rulvar.Entry{stepEntry("meta")}, lock)
			}
			return err
		}
	}},
	{"touches metadata at each append", []string{"meta-separation"}, func(f *faulty) {
		right, n := f.appendAll, 0
		f.appendAll = func(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
			err := right(ctx, runID, entries, lock)
			n++
			if meta, _, _ := f.good.Load(ctx, runID, -1); err == nil && lock != nil && meta != nil {
				meta.UpdatedAt = fmt.Sprint("now ", n)
				err = f.putMeta(ctx, meta, lock)
			}
			return err
		}
	}},
	{"drops members that it does not know", []string{"meta-round-trip"}, writing(func(m *rulvar.RunMeta) { m.Extra = nil })},
	{"sorts tags", []string{"meta-round-trip"}, writing(func(m *rulvar.RunMeta) { m.Tags = sorted(m.Tags) })},
	{"takes no tags for none", []string{"meta-round-trip"}, writing(func(m *rulvar.RunMeta) {
		if len(m.Tags) == 0 {
			m.Tags = nil
		}
	})},
	{"keeps what new metadata leaves out", []string{"meta-round-trip"}, func(f *faulty) {
		right := f.putMeta
		f.putMeta = func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
			c := *meta
			if old, _, _ := f.good.Load(ctx, c.RunID, -1); old != nil && c.Name == "" {
				c.Name = old.Name
			}
			return right(ctx, &c, lock)
		}
	}},
	{"lists an abstract", []string{"meta-round-trip"}, listing(func(metas []*rulvar.RunMeta) []*rulvar.RunMeta {
		for _, m := range metas {
			m.Args = nil
		}
		return metas
	})},
	{"takes metadata from anybody", []string{"meta-needs-lock", "two-handles", "lease-names-holder"}, func(f *faulty) {
		right := f.putMeta
		f.putMeta = func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
			if lock != nil {
				return right(ctx, meta, lock)
			}
			return f.anyhow(meta.RunID, func(l *rulvar.RunLock) error { return f.good.PutMeta(ctx, meta, l) })
		}
	}},
	{"takes metadata from anybody while nobody works", []string{"meta-needs-lock"}, func(f *faulty) {
		right := f.putMeta
		f.putMeta = func(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
			err := right(ctx, meta, lock)
			if lock == nil && errors.Is(err, rulvar.ErrConfig) {
				return nil
			}
			return err
		}
	}},
	{"hands out its own metadata", []string{"load-gives-a-copy"}, func(f *faulty) {
		var kept *rulvar.RunMeta
		loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
			if kept == nil {
				kept = meta
			}
			return kept, entries
		})(f)
	}},
	{"hands out its own records", []string{"load-gives-a-copy"}, func(f *faulty) {
		var kept []*rulvar.Entry
		loading(func(meta *rulvar.RunMeta, entries []*rulvar.Entry) (*rulvar.RunMeta, []*rulvar.Entry) {
			if kept == nil {
				kept = entries
			}
			return meta, kept
		})(f)
	}},
	{"hands out its own listing", []string{"load-gives-a-copy"}, func(f *faulty) {
		var kept []*rulvar.RunMeta
		listing(func(metas []*rulvar.RunMeta) []*rulvar.RunMeta {
			if kept == nil {
				kept = metas
			}
			return kept
		})(f)
	}},
	{"lists in no order", []string{"list-runs", "meta-separation"}, listing(func(metas []*rulvar.RunMeta) []*rulvar.RunMeta {
		slices.Reverse(metas)
		return metas
	})},
	{"lists a page", []string{"list-runs"}, listing(func(metas []*rulvar.RunMeta) []*rulvar.RunMeta { return metas[:min(len(metas), 20)] })},
	{"lists runs with metadata", []string{"list-runs", "meta-separation"}, listing(func(metas []*rulvar.RunMeta) []*rulvar.RunMeta {
		return slices.DeleteFunc(metas, func(m *rulvar.RunMeta) bool { return m.Status == "" })
	})},
	{"lists all", []string{"list-runs"}, func(f *faulty) {
		f.listRuns = func(ctx context.Context, _ func(*rulvar.RunMeta) bool) ([]*rulvar.RunMeta, error) {
			return f.good.ListRuns(ctx, nil)
		}
	}},
}

// deleting plants a fault in Delete.
func deleting(wrong func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error) func(*faulty) {
	return func(f *faulty) {
		f.remove = func(ctx context.Context, runID string, lock *rulvar.RunLock) error { return wrong(f, ctx, runID, lock) }
	}
}

var deleteFaults = []fault{
	{"deletes nothing", []string{"delete", "delete-needs-the-lock", "delete-starts-anew"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		l, err := f.take(ctx, runID, "delete")
		if err == nil {
			err = l.Release()
		}
		return err
	})},
	{"leaves blobs", []string{"delete"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		kept, _ := f.good.Get(ctx, runID+"/tr/0")
		err := f.rightDelete(ctx, runID, lock)
		if kept != nil {
			_ = f.good.Put(ctx, runID+"/tr/0", kept)
		}
		return err
	})},
	{"deletes by prefix", []string{"delete"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		metas, _ := f.good.ListRuns(ctx, nil)
		for _, m := range metas {
			if strings.HasPrefix(m.RunID, runID) && m.RunID != runID {
				_ = f.good.Delete(ctx, m.RunID, nil)
			}
		}
		return f.rightDelete(ctx, runID, lock)
	})},
	{"knows nothing to delete", []string{"delete"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		if meta, _, _ := f.good.Load(ctx, runID, -1); meta == nil {
			return errors.New("no rows")
		}
		return f.rightDelete(ctx, runID, lock)
	})},
	{"deletes under a segment", []string{"delete-needs-the-lock"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		if lock != nil {
			return f.rightDelete(ctx, runID, lock)
		}
		return f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.Delete(ctx, runID, l) })
	})},
	{"does not look at the lock", []string{"delete-needs-the-lock"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		if lock != nil && lock.RunID() != runID {
			return f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.Delete(ctx, runID, l) })
		}
		return f.rightDelete(ctx, runID, lock)
	})},
	{"keeps the lock", []string{"delete-needs-the-lock"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		err := f.rightDelete(ctx, runID, lock)
		if err == nil && lock != nil {
			_, err = f.good.Lock(ctx, runID, "kept")
		}
		return err
	})},
	{"deletes under an ended context", []string{"delete-needs-the-lock"}, deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
		return f.rightDelete(context.WithoutCancel(ctx), runID, lock)
	})},
	{"counts epochs from the beginning", []string{"delete-starts-anew"}, func(f *faulty) {
		epoch := int64(0)
		f.holder = func(h storekit.Holder) storekit.Holder {
			epoch++
			h.Epoch = epoch
			return h
		}
		deleting(func(f *faulty, ctx context.Context, runID string, lock *rulvar.RunLock) error {
			epoch = 0
			return f.rightDelete(ctx, runID, lock)
		})(f)
	}},
}
