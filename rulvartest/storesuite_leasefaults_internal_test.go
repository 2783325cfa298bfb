package rulvartest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/storekit"
)

// locking plants a fault in Lock.
func locking(wrong func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error)) func(*faulty) {
	return func(f *faulty) {
		f.take = func(ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
			return wrong(f, ctx, runID, owner)
		}
	}
}

// refusing plants a fault in the error of a lock that is held.
func refusing(wrong func(e *rulvar.Error)) func(*faulty) {
	return locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
		l, err := f.rightLock(ctx, runID, owner)
		if e, ok := errors.AsType[*rulvar.Error](err); ok && e.Code == rulvar.ErrLeaseHeld {
			wrong(e)
		}
		return l, err
	})
}

var leaseFaults = []fault{
	{"takes a lock from who has it", []string{"lease-exclusive-acquire", "lease-of-many-askers", "lease-two-handles", "lease-epoch-grows", "lease-context-cancelled-before"}, locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
		l, err := f.rightLock(ctx, runID, owner)
		if !errors.Is(err, rulvar.ErrLeaseHeld) {
			return l, err
		}
		f.mu.Lock()
		held := f.latest[runID]
		f.mu.Unlock()
		_ = held.Release()
		return f.rightLock(ctx, runID, owner)
	})},
	{"looks before it takes", []string{"lease-of-many-askers"}, func(f *faulty) {
		var asking atomic.Int64
		locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
			defer asking.Add(-1)
			others := asking.Add(1) > 1
			time.Sleep(time.Millisecond)
			l, err := f.rightLock(ctx, runID, owner)
			if others && errors.Is(err, rulvar.ErrLeaseHeld) {
				return storekit.NewRunLock(f, runID, storekit.Holder{}, func() error { return nil }), nil
			}
			return l, err
		})(f)
	}},
	{"says that it is hopeless", []string{"lease-exclusive-acquire"}, refusing(func(e *rulvar.Error) { e.Retryable = false })},
	{"has another code", []string{"lease-exclusive-acquire", "lease-of-many-askers"}, refusing(func(e *rulvar.Error) { e.Code = rulvar.ErrConfig })},
	{"does not say who, to people", []string{"lease-names-holder"}, refusing(func(e *rulvar.Error) { e.Msg = "locked" })},
	{"does not say who, to programs", []string{"lease-names-holder"}, refusing(func(e *rulvar.Error) { e.Data = nil })},
	{"names who asks", []string{"lease-names-holder"}, refusing(func(e *rulvar.Error) { e.Data = map[string]any{"holder": storekit.Holder{Owner: "me"}} })},
	{"keeps what is given back", []string{"lease-released-on-release", "lease-two-handles"}, func(f *faulty) {
		f.releasing = func(func() error) error { return nil }
	}},
	{"fails to give back", []string{"lease-released-on-release"}, func(f *faulty) {
		f.releasing = func(release func() error) error { _ = release(); return errors.New("cannot") }
	}},
	{"gives every lock one number", []string{"lease-epoch-grows", "lease-two-handles"}, func(f *faulty) {
		f.holder = func(h storekit.Holder) storekit.Holder { h.Epoch = 1; return h }
	}},
	{"has one lock for all runs", []string{"lease-guards-one-run"}, func(f *faulty) {
		var held atomic.Int64
		f.releasing = func(release func() error) error { held.Add(-1); return release() }
		locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
			if held.Load() > 0 {
				return nil, storekit.HeldBy("lock", runID, storekit.Holder{Owner: "somebody"})
			}
			l, err := f.rightLock(ctx, runID, owner)
			if err == nil {
				held.Add(1)
			}
			return l, err
		})(f)
	}},
	{"takes names that are alike for one", []string{"lease-guards-one-run"}, locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
		return f.rightLock(ctx, strings.TrimRight(runID, "0"), owner)
	})},
	{"makes a run of a lock", []string{"lease-makes-no-run"}, locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
		l, err := f.rightLock(ctx, runID, owner)
		if err == nil {
			err = f.putMeta(ctx, &rulvar.RunMeta{RunID: runID}, l)
		}
		return l, err
	})},
	{"locks under an ended context", []string{"lease-context-cancelled-before"}, locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
		return f.rightLock(context.WithoutCancel(ctx), runID, owner)
	})},
	{"ends the lock with its context", []string{"lease-context-cancelled-before"}, func(f *faulty) {
		var taken context.Context
		var lock *rulvar.RunLock
		locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
			l, err := f.rightLock(ctx, runID, owner)
			if err == nil {
				taken, lock = ctx, l
			}
			return l, err
		})(f)
		appending(func(_ *faulty, right func([]*rulvar.Entry) error, entries []*rulvar.Entry) error {
			if taken.Err() != nil {
				_ = lock.Release()
			}
			return right(entries)
		})(f)
	}},
	{"locks what a path names", []string{"lease-safe-names-refused"}, locking(func(f *faulty, ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
		return f.rightLock(ctx, safe(runID), owner)
	})},
}

// getting plants a fault in what Get returns.
func getting(wrong func(data []byte) []byte) func(*faulty) {
	return func(f *faulty) {
		f.get = func(ctx context.Context, ref string) ([]byte, error) {
			data, err := f.good.Get(ctx, ref)
			return wrong(data), err
		}
	}
}

// listingBlobs plants a fault in what List returns.
func listingBlobs(wrong func(f *faulty, runID string, refs []string) []string) func(*faulty) {
	return func(f *faulty) {
		f.list = func(ctx context.Context, runID string) ([]string, error) {
			refs, err := f.good.List(ctx, runID)
			return wrong(f, runID, refs), err
		}
	}
}

var blobFaults = []fault{
	{"loses a blob now and then", []string{"blob-read-your-writes", "blob-any-bytes", "blob-replace"}, func(f *faulty) {
		n := 0
		f.put = func(ctx context.Context, ref string, data []byte) error {
			if n++; n%3 == 0 {
				return nil
			}
			return f.good.Put(ctx, ref, data)
		}
	}},
	{"takes blobs for text", []string{"blob-any-bytes"}, getting(func(data []byte) []byte {
		if data == nil {
			return nil
		}
		return bytes.ToValidUTF8(data, []byte("?"))
	})},
	{"takes an empty blob for none", []string{"blob-any-bytes", "blob-replace"}, getting(func(data []byte) []byte {
		if len(data) == 0 {
			return nil
		}
		return data
	})},
	{"cuts off large blobs", []string{"blob-any-bytes"}, getting(func(data []byte) []byte { return data[:min(len(data), 1<<16)] })},
	{"keeps the first blob", []string{"blob-replace"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			if old, _ := f.good.Get(ctx, ref); old != nil {
				return nil
			}
			return f.good.Put(ctx, ref, data)
		}
	}},
	{"writes over the old blob", []string{"blob-replace"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			old, err := f.good.Get(ctx, ref)
			if err == nil && len(old) > len(data) {
				data = append(bytes.Clone(data), old[len(data):]...)
			}
			return f.good.Put(ctx, ref, data)
		}
	}},
	{"shows a blob while it is written", []string{"blob-replace-is-whole"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			if err := f.good.Put(ctx, ref, data[:len(data)/2]); err != nil {
				return err
			}
			time.Sleep(2 * time.Millisecond)
			return f.good.Put(ctx, ref, data)
		}
	}},
	{"takes a blob away to replace it", []string{"blob-replace-is-whole"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			_ = f.good.DeleteBlob(ctx, ref)
			time.Sleep(2 * time.Millisecond)
			return f.good.Put(ctx, ref, data)
		}
	}},
	{"takes a missing blob for an empty one", []string{"blob-missing", "blob-delete"}, getting(func(data []byte) []byte { return append([]byte{}, data...) })},
	{"takes a missing blob for an error", []string{"blob-missing", "blob-delete"}, func(f *faulty) {
		f.get = func(ctx context.Context, ref string) ([]byte, error) {
			data, err := f.good.Get(ctx, ref)
			if err == nil && data == nil {
				err = errors.New("no rows")
			}
			return data, err
		}
	}},
	{"takes capital letters for small ones", []string{"blob-missing"}, func(f *faulty) {
		f.get = func(ctx context.Context, ref string) ([]byte, error) { return f.good.Get(ctx, strings.ToLower(ref)) }
	}},
	{"lists blobs in no order", []string{"blob-list", "blob-read-your-writes"}, listingBlobs(func(_ *faulty, _ string, refs []string) []string {
		slices.Reverse(refs)
		return refs
	})},
	{"lists blobs by number", []string{"blob-list"}, listingBlobs(func(_ *faulty, _ string, refs []string) []string {
		slices.SortFunc(refs, func(a, b string) int { return len(a) - len(b) })
		return refs
	})},
	{"lists blobs by prefix", []string{"blob-list"}, listingBlobs(func(f *faulty, runID string, refs []string) []string {
		if runID == "r1" {
			more, _ := f.good.List(context.Background(), "r10")
			refs = append(refs, more...)
		}
		return refs
	})},
	{"deletes no blob", []string{"blob-delete", "blob-two-handles"}, func(f *faulty) {
		f.deleteBlob = func(context.Context, string) error { return nil }
	}},
	{"deletes blobs by prefix", []string{"blob-delete"}, func(f *faulty) {
		f.deleteBlob = func(ctx context.Context, ref string) error {
			refs, _ := f.good.List(ctx, "r1")
			for _, r := range refs {
				if strings.HasPrefix(r, ref) {
					_ = f.good.DeleteBlob(ctx, r)
				}
			}
			return nil
		}
	}},
	{"knows nothing to delete of blobs", []string{"blob-delete"}, func(f *faulty) {
		f.deleteBlob = func(ctx context.Context, ref string) error {
			if data, _ := f.good.Get(ctx, ref); data == nil {
				return errors.New("no rows")
			}
			return f.good.DeleteBlob(ctx, ref)
		}
	}},
	{"keeps the caller's bytes", []string{"blob-keeps-a-copy"}, func(f *faulty) {
		kept := map[string][]byte{}
		f.put = func(_ context.Context, ref string, data []byte) error { kept[ref] = data; return nil }
		f.get = func(_ context.Context, ref string) ([]byte, error) { return kept[ref], nil }
	}},
	{"hands out its own bytes", []string{"blob-keeps-a-copy"}, func(f *faulty) {
		var once sync.Once
		var kept []byte
		getting(func(data []byte) []byte { once.Do(func() { kept = data }); return kept })(f)
	}},
	{"notes blobs in metadata", []string{"blob-apart-from-records"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			runID, _, _ := strings.Cut(ref, "/")
			if meta, _, _ := f.good.Load(ctx, runID, -1); meta != nil {
				meta.UpdatedAt = "now"
				_ = f.anyhow(runID, func(l *rulvar.RunLock) error { return f.good.PutMeta(ctx, meta, l) })
			}
			return f.good.Put(ctx, ref, data)
		}
	}},
	{"takes blobs of nobody else than who has the lock", []string{"blob-apart-from-records", "blob-read-your-writes"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			runID, _, _ := strings.Cut(ref, "/")
			l, err := f.good.Lock(ctx, runID, "put")
			if err == nil {
				_ = l.Release()
				return storekit.NeedsLock("put", runID)
			}
			return f.good.Put(ctx, ref, data)
		}
	}},
	{"puts under an ended context", []string{"blob-context-cancelled-before"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			return f.good.Put(context.WithoutCancel(ctx), ref, data)
		}
	}},
	{"gets under an ended context", []string{"blob-context-cancelled-before"}, func(f *faulty) {
		f.get = func(ctx context.Context, ref string) ([]byte, error) {
			return f.good.Get(context.WithoutCancel(ctx), ref)
		}
	}},
	{"lists blobs under an ended context", []string{"blob-context-cancelled-before"}, func(f *faulty) {
		f.list = func(ctx context.Context, runID string) ([]string, error) {
			return f.good.List(context.WithoutCancel(ctx), runID)
		}
	}},
	{"deletes blobs under an ended context", []string{"blob-context-cancelled-before"}, func(f *faulty) {
		f.deleteBlob = func(ctx context.Context, ref string) error {
			return f.good.DeleteBlob(context.WithoutCancel(ctx), ref)
		}
	}},
	{"puts where a path leads", []string{"blob-safe-names-refused"}, func(f *faulty) {
		f.put = func(ctx context.Context, ref string, data []byte) error {
			return f.good.Put(ctx, "r1/"+safe(ref), data)
		}
	}},
	{"gets where a path leads", []string{"blob-safe-names-refused"}, func(f *faulty) {
		f.get = func(ctx context.Context, ref string) ([]byte, error) { return f.good.Get(ctx, "r1/"+safe(ref)) }
	}},
	{"deletes where a path leads", []string{"blob-safe-names-refused"}, func(f *faulty) {
		f.deleteBlob = func(ctx context.Context, ref string) error { return f.good.DeleteBlob(ctx, "r1/"+safe(ref)) }
	}},
	{"lists where a path leads", []string{"blob-safe-names-refused"}, func(f *faulty) {
		f.list = func(ctx context.Context, runID string) ([]string, error) { return f.good.List(ctx, safe(runID)) }
	}},
}
