package journal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// session is what a process had been told when the power failed.
type session struct {
	lines  []string // of acknowledged entries
	under  int      // how many entries were being written
	status promised // the metadata's
	blob   promised
}

// promised is a file's text: the last that was acknowledged, "" if none was,
// and the one that was being put in its place.
type promised struct {
	kept, next string
	under      bool
}

func (p *promised) put(text string, write func() error) bool {
	p.next, p.under = text, true
	if write() != nil {
		return false
	}
	p.kept, p.under = text, false
	return true
}

func (p *promised) allows(text string) bool { return text == p.kept || p.under && text == p.next }

// work writes until the disk is gone.
func work(s *journal.FileStore, rng *rand.Rand, now *session) {
	ctx := context.Background()
	l, err := s.Lock(ctx, "r1", "w")
	if err != nil {
		return
	}
	for i := range 10 {
		switch rng.IntN(5) {
		case 0:
			m := &journal.Meta{RunID: "r1", Status: fmt.Sprint("status ", i), Name: strings.Repeat("n", rng.IntN(2000))}
			if !now.status.put(m.Status, func() error { return s.PutMeta(ctx, m, l) }) {
				return
			}
		case 1:
			blob := strings.Repeat(fmt.Sprint(i), 1+rng.IntN(3000))
			if !now.blob.put(blob, func() error { return s.Put(ctx, "r1/ckpt/0", []byte(blob)) }) {
				return
			}
		default:
			batch := []*journal.Entry{step(fmt.Sprintf(`"%s"`, strings.Repeat("x", rng.IntN(3000))))}
			for rng.IntN(3) == 0 {
				batch = append(batch, step(fmt.Sprintf(`"%s"`, strings.Repeat("y", rng.IntN(900)))))
			}
			now.under = len(batch)
			if s.AppendAll(ctx, "r1", batch, l) != nil {
				return
			}
			now.under = 0
			for _, e := range batch {
				now.lines = append(now.lines, lineOf(e))
			}
		}
	}
}

// TestPowerCut cuts the power before any operation, in the middle of what the
// disk had not been told to keep, and expects everything acknowledged. The
// next process goes on with what is left, until the power fails again.
func TestPowerCut(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		disk := faultfs.New()
		var now session
		for round := range 3 {
			name := fmt.Sprintf("seed %d round %d", seed, round)
			var then session
			disk, then = cutDuring(t, disk, rng, now)
			now = survives(t, disk, then, name)
		}
	}
}

// cutDuring works on the disk and returns what is left of it when the power
// fails, and what had been promised by then.
func cutDuring(t *testing.T, disk *faultfs.FS, rng *rand.Rand, now session) (after *faultfs.FS, then session) {
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	left := 1 + rng.IntN(60)
	disk.Inject = func(faultfs.Op, string) faultfs.Fault {
		if left--; left == 0 {
			after, then = disk.Crash(rng), now
			then.lines = slices.Clone(now.lines)
		}
		return faultfs.Fault{}
	}
	work(s, rng, &now)
	disk.Inject = nil
	if after == nil {
		after, then = disk.Crash(rng), now
	}
	return after, then
}

// survives opens what the power cut left and returns what stands there, which
// is promised from now on.
func survives(t *testing.T, disk *faultfs.FS, then session, name string) (now session) {
	ctx := context.Background()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	meta, entries, err := s.Load(ctx, "r1", -1)
	require.NoError(t, err, name)
	require.LessOrEqual(t, len(entries), len(then.lines)+then.under, name)
	for _, e := range entries {
		now.lines = append(now.lines, string(e.Raw))
	}
	require.GreaterOrEqual(t, len(entries), len(then.lines), name)
	require.True(t, slices.Equal(then.lines, now.lines[:len(then.lines)]), name)
	if meta != nil {
		now.status.kept = meta.Status
	}
	require.True(t, then.status.allows(now.status.kept), "%s: status %q", name, now.status.kept)
	blob, err := s.Get(ctx, "r1/ckpt/0")
	require.NoError(t, err, name)
	now.blob.kept = string(blob)
	require.True(t, then.blob.allows(now.blob.kept), name)
	return now
}
