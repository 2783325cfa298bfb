package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rulvar/rulvar-go"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// rulvarWorkflow runs n steps. A step's two records, that it runs and what
// came of it, share one sync.
var rulvarWorkflow = rulvar.DefineWorkflow("bench", func(c *rulvar.Ctx, n int) (int, error) {
	total := 0
	for i := range n {
		s, err := rulvar.Step(c, fmt.Sprintf("step-%d", i), step, nil)
		if err != nil {
			return 0, err
		}
		total += len(s)
	}
	return total, nil
})

func newEngine(tb testing.TB, store rulvar.Store) *rulvar.Engine {
	e, err := rulvar.NewEngine(rulvar.Config{Store: store, Logger: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close(context.Background()) })
	return e
}

func openStore(tb testing.TB, opts *rulvar.FileStoreOptions) *rulvar.FileStore {
	s, err := rulvar.OpenFileStore(tb.TempDir(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// benchRulvar is one run of n steps an op, from Run to its outcome.
func benchRulvar(b *testing.B, store rulvar.Store, n int) {
	e := newEngine(b, store)
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		if got, err := runOnce(b.Context(), e, n); err != nil || got != n*len(payload) {
			b.Fatal(got, err)
		}
	}
	reportCPU(b, start, 1)
	if n > 0 {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
	}
}

func runOnce(ctx context.Context, e *rulvar.Engine, n int) (int, error) {
	h, err := rulvar.Run(ctx, e, rulvarWorkflow, n, nil)
	if err != nil {
		return 0, err
	}
	out, err := h.Result(ctx)
	if err == nil && out.Status != rulvar.RunOK {
		err = fmt.Errorf("the run is %s", out.Status)
	}
	return out.Value, err
}

// jsonl is the bound: one JSON line and one fdatasync a step, on a file that
// grows.
func jsonl(tb testing.TB) func(i int) error {
	f, err := os.Create(filepath.Join(tb.TempDir(), "j.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	return func(i int) error {
		l, err := json.Marshal(map[string]any{"seq": i, "kind": "step", "result": payload})
		if err != nil {
			return err
		}
		if _, err := f.Write(append(l, '\n')); err != nil {
			return err
		}
		return syscall.Fdatasync(int(f.Fd()))
	}
}

// BenchmarkPaired alternates a step of a run with one write of the bound, so
// that the disk's drift falls on both alike. An op is 100 of each.
func BenchmarkPaired(b *testing.B) {
	b.Run("rulvar", func(b *testing.B) {
		e := newEngine(b, openStore(b, nil))
		put := jsonl(b)
		var ours, least []time.Duration
		w := rulvar.DefineWorkflow("paired", func(c *rulvar.Ctx, n int) (int, error) {
			for i := range n {
				t0 := time.Now()
				if _, err := rulvar.Step(c, fmt.Sprintf("step-%d", i), step, nil); err != nil {
					return 0, err
				}
				t1 := time.Now()
				if err := put(i); err != nil {
					return 0, err
				}
				ours, least = append(ours, t1.Sub(t0)), append(least, time.Since(t1))
			}
			return n, nil
		})
		for b.Loop() {
			h, err := rulvar.Run(b.Context(), e, w, steps, nil)
			if err != nil {
				b.Fatal(err)
			}
			if out, err := h.Result(b.Context()); err != nil || out.Value != steps {
				b.Fatal(out, err)
			}
		}
		slices.Sort(ours)
		slices.Sort(least)
		o, l := ours[len(ours)/2], least[len(least)/2]
		b.ReportMetric(float64(o.Microseconds()), "p50-us")
		b.ReportMetric(float64(l.Microseconds()), "bound-p50-us")
		b.ReportMetric(float64(o)/float64(l), "x-bound")
	})
}

// TestRulvar holds a run to its value, on each store.
func TestRulvar(t *testing.T) {
	for name, store := range map[string]rulvar.Store{
		"file": openStore(t, nil), "unsynced": openStore(t, &rulvar.FileStoreOptions{SyncEvery: -1}), "memory": rulvar.NewMemoryStore(),
	} {
		if got, err := runOnce(t.Context(), newEngine(t, store), 3); err != nil || got != 3*len(payload) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
