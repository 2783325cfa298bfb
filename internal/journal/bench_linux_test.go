package journal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// kilobyte is an entry whose line is about 1024 bytes.
func kilobyte() *journal.Entry {
	e := step("")
	e.Key = strings.Repeat("5d", 32)
	text, _ := json.Marshal(strings.Repeat("ok: 12 lines changed, 31 tests pass. ", 21))
	e.Value = text
	return e
}

const ahead = 64 << 20

// rawFile is the least a durable append costs: one write and one fdatasync,
// into space that is written already or at the end of a growing file.
func rawFile(b *testing.B, prewritten bool) func(p []byte) {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(b, err)
	b.Cleanup(func() { f.Close() })
	if prewritten {
		_, err = f.Write(bytes.Repeat([]byte{'\n'}, ahead))
		require.NoError(b, err)
		require.NoError(b, f.Sync())
	}
	off := int64(0)
	return func(p []byte) {
		if off+int64(len(p)) > ahead {
			off = 0
		}
		if _, err := f.WriteAt(p, off); err != nil {
			b.Fatal(err)
		}
		off += int64(len(p))
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendPaired times a durable append in turn with the same bytes
// written and synced by hand, so that the disk's moods fall on all alike.
func BenchmarkAppendPaired(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch%d", n), func(b *testing.B) {
			s, err := journal.Open(b.TempDir(), nil)
			require.NoError(b, err)
			l, err := s.Lock(b.Context(), "r1", "bench")
			require.NoError(b, err)
			growing, bound := rawFile(b, false), rawFile(b, true)
			line, err := kilobyte().AppendLine(nil)
			require.NoError(b, err)
			p := bytes.Repeat(append(line, '\n'), n)
			var took [3][]time.Duration
			for i := 0; b.Loop(); i++ {
				batch := make([]*journal.Entry, n)
				for i := range batch {
					batch[i] = kilobyte()
				}
				for j := range 3 {
					which := (i + j) % 3 // each comes first, second and third
					t0 := time.Now()
					switch which {
					case 0:
						if err := s.AppendAll(b.Context(), "r1", batch, l); err != nil {
							b.Fatal(err)
						}
					case 1:
						growing(p)
					case 2:
						bound(p)
					}
					took[which] = append(took[which], time.Since(t0))
				}
			}
			median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) }
			ours, grown, least := median(took[0]), median(took[1]), median(took[2])
			b.ReportMetric(ours/1e3, "p50-us")
			b.ReportMetric(ours/grown, "x-growing")
			b.ReportMetric(ours/least, "x-bound")
		})
	}
}

// BenchmarkAppendUnsynced times what an append costs beside its sync.
func BenchmarkAppendUnsynced(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch%d", n), func(b *testing.B) {
			s, err := journal.Open(b.TempDir(), &journal.FileOptions{SyncEvery: -1})
			require.NoError(b, err)
			l, err := s.Lock(b.Context(), "r1", "bench")
			require.NoError(b, err)
			batch := make([]*journal.Entry, n)
			for i := range batch {
				batch[i] = kilobyte()
			}
			b.ReportAllocs()
			for b.Loop() {
				for i := range batch {
					batch[i].Raw = nil
				}
				if err := s.AppendAll(b.Context(), "r1", batch, l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppendConcurrent has 64 goroutines append to one run, each durable;
// ns/op is the wall time an entry.
func BenchmarkAppendConcurrent(b *testing.B) {
	s, err := journal.Open(b.TempDir(), nil)
	require.NoError(b, err)
	l, err := s.Lock(b.Context(), "r1", "bench")
	require.NoError(b, err)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Append(b.Context(), "r1", kilobyte(), l); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkPoll looks again at a run where nothing was appended.
func BenchmarkPoll(b *testing.B) {
	s, err := journal.Open(b.TempDir(), nil)
	require.NoError(b, err)
	l := started(b, s, "r1", 10)
	require.NoError(b, s.PutMeta(b.Context(), &journal.Meta{RunID: "r1"}, l))
	for b.Loop() {
		if _, _, err := s.Load(b.Context(), "r1", 9); err != nil {
			b.Fatal(err)
		}
	}
}
