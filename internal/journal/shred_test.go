package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// TestShreddedWrites is TestPowerCut on a disk that keeps no order between
// syncs, for batches whose lines end where blocks do, beside failing writes,
// another store's resolutions and locks that are given back and taken again.
func TestShreddedWrites(t *testing.T) {
	for seed := range uint64(250) {
		rng := rand.New(rand.NewPCG(seed, 7))
		disk := faultfs.New()
		var kept []string
		for round := range 4 {
			after, acked := shredDuring(t, disk, rng, slices.Clone(kept))
			name := fmt.Sprintf("seed %d round %d", seed, round)
			_, entries, err := open(t, "/d", &journal.FileOptions{FS: after}).Load(context.Background(), "r1", -1)
			require.NoError(t, err, name)
			kept = nil
			for i, e := range entries {
				require.EqualValues(t, i, e.Seq, name)
				kept = append(kept, string(e.Raw))
			}
			require.GreaterOrEqual(t, len(kept), len(acked), name)
			require.True(t, slices.Equal(acked, kept[:len(acked)]), name)
			disk = after
		}
	}
}

// shredDuring works on the disk and returns what is left of it when the power
// fails, and what had been acknowledged by then.
func shredDuring(t *testing.T, disk *faultfs.FS, rng *rand.Rand, acked []string) (after *faultfs.FS, then []string) {
	ctx := context.Background()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	other := open(t, "/d", &journal.FileOptions{FS: disk})
	left, full := 1+rng.IntN(40), rng.IntN(3) == 0
	disk.Inject = func(op faultfs.Op, _ string) faultfs.Fault {
		if left--; left == 0 {
			after, then = disk.Shred(rng), slices.Clone(acked)
		}
		if full && op == faultfs.Write && rng.IntN(8) == 0 {
			return faultfs.Fault{Err: syscall.ENOSPC, Part: rng.IntN(8) * 512}
		}
		return faultfs.Fault{}
	}
	l := lock(t, s, "r1")
	for i := 0; i < 8 && after == nil; i++ {
		if rng.IntN(6) == 0 {
			require.NoError(t, l.Release())
			l = lock(t, s, "r1")
		}
		who, by, batch := s, l, blockSized(disk, rng, t)
		if len(acked) > 0 && rng.IntN(4) == 0 {
			who, by = other, nil
			batch = []*journal.Entry{resolution(0, `"`+strings.Repeat("r", rng.IntN(1200))+`"`)}
		}
		if who.AppendAll(ctx, "r1", batch, by) == nil {
			for _, e := range batch {
				acked = append(acked, lineOf(e))
			}
		}
	}
	disk.Inject = nil
	if after == nil {
		after, then = disk.Shred(rng), acked
	}
	return after, then
}

// blockSized returns entries most of whose lines end within a byte of a
// block's end.
func blockSized(disk *faultfs.FS, rng *rand.Rand, t *testing.T) (batch []*journal.Entry) {
	text := bytes.TrimRight(fileText(t, disk), "\n")
	end, seq := len(text), bytes.Count(text, []byte("\n"))
	if end > 0 {
		end, seq = end+1, seq+1
	}
	for range 1 + rng.IntN(4) {
		to := (end/512+1+rng.IntN(3))*512 + rng.IntN(4) - 1
		if rng.IntN(3) == 0 {
			to = end + rng.IntN(1500)
		}
		e := step(`""`)
		e.Seq = int64(seq)
		e.Value = []byte(`"` + strings.Repeat("x", max(0, to-end-len(lineOf(e))-1)) + `"`)
		end, seq = end+len(lineOf(e))+1, seq+1
		batch = append(batch, e)
	}
	return batch
}
