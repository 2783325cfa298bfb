package journal

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkPaired alternates an append to the store with one to the bound and
// one to a plain growing file, so that the disk's drift over minutes falls on
// all alike, and reports their median latencies, the store's ratio to each, and the
// processor time of store and bound.
// This is the row to hold a target to: x-bound and x-growing are steady within
// a few per cent where ns/op moves by half.
func BenchmarkPaired(b *testing.B) {
	for _, n := range []int{1, 64} {
		for _, p := range stores {
			if strings.HasSuffix(p.name, "NOT-DURABLE") || n > 1 && strings.HasPrefix(p.name, "nats") {
				continue
			}
			b.Run(map[int]string{1: "one", 64: "group64"}[n]+"/"+p.name, func(b *testing.B) { paired(b, p, n) })
		}
	}
}

func paired(b *testing.B, p peer, n int) {
	trio := [3]appender{
		openFile(b, b.TempDir(), fdatasync, prewritten, 0),
		openFile(b, b.TempDir(), fdatasync, growing, 0),
		p.open(b, b.TempDir()),
	}
	batch := make([][]byte, n)
	for i := range batch {
		batch[i] = line(uint64(i))
	}
	var took [3][]time.Duration
	var cpu [3]time.Duration
	next := uint64(1)
	for b.Loop() {
		// Who comes first changes, since one sync may do work for the next.
		for i := range trio {
			who := (i + int(next)/n) % 3
			c0, t0 := cpuTime(), time.Now()
			if err := trio[who].append(next, batch); err != nil {
				b.Fatal(err)
			}
			took[who] = append(took[who], time.Since(t0))
			cpu[who] += cpuTime() - c0
		}
		next += uint64(n)
	}
	var p50 [3]float64
	for i := range took {
		slices.Sort(took[i])
		p50[i] = float64(took[i][len(took[i])/2])
	}
	b.ReportMetric(p50[2]/1e3, "p50-us")
	b.ReportMetric(p50[0]/1e3, "bound-p50-us")
	b.ReportMetric(float64(cpu[2].Microseconds())/float64(b.N), "cpu-us")
	b.ReportMetric(float64(cpu[0].Microseconds())/float64(b.N), "bound-cpu-us")
	b.ReportMetric(p50[2]/p50[0], "x-bound")
	b.ReportMetric(p50[2]/p50[1], "x-growing")
}
