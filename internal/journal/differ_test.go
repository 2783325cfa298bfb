package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// pair is one run kept by files and in memory.
type pair struct {
	t       *testing.T
	rng     *rand.Rand
	disk    *faultfs.FS
	stores  []*journal.FileStore // the first holds the lock
	memory  *journal.MemoryStore
	locks   [2]*journal.RunLock // of stores[0] and memory
	last    int64               // the tail
	readers []int64             // what each store has been told of by Load
	name    string
}

// TestSameInMemory: whatever is asked of them, files and memory answer the
// same, every line is what its entry says, and the file is the lines.
func TestSameInMemory(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := &pair{t: t, rng: rng, disk: faultfs.New(), memory: journal.NewMemoryStore(), last: -1, name: fmt.Sprint("seed ", seed)}
		for i := range 3 {
			every := []int{0, 0, 3, -1}[rng.IntN(4)]
			if i == 0 {
				every = 0
			}
			p.stores = append(p.stores, open(t, "/d", &journal.FileOptions{FS: stoppedClock{p.disk}, SyncEvery: every}))
			p.readers = append(p.readers, -1)
		}
		p.lock()
		for range 30 {
			switch rng.IntN(8) {
			case 0:
				p.release()
				p.lock()
			case 1:
				p.foreign()
			case 2, 3:
				p.poll(rng.IntN(len(p.stores)))
			default:
				p.append()
			}
		}
		p.release()
	}
}

func (p *pair) lock() {
	p.locks = [2]*journal.RunLock{lock(p.t, p.stores[0], "r1"), lock(p.t, p.memory, "r1")}
}

// release gives the locks back and compares all there is.
func (p *pair) release() {
	for _, l := range p.locks {
		require.NoError(p.t, l.Release())
	}
	_, want, err := p.memory.Load(context.Background(), "r1", -1)
	require.NoError(p.t, err)
	var text strings.Builder
	for _, e := range want {
		text.Write(e.Raw)
		text.WriteByte('\n')
	}
	file := string(fileText(p.t, p.disk))
	if !p.padded(file) {
		require.Equal(p.t, text.String(), file, p.name)
	}
	for _, s := range p.stores {
		_, got, err := s.Load(context.Background(), "r1", -1)
		require.NoError(p.t, err, p.name)
		require.Len(p.t, got, len(want), p.name)
		for i := range got {
			require.Equal(p.t, want[i], got[i], p.name)
		}
	}
}

// padded reports whether another has appended behind newlines written ahead,
// which stay then.
func (p *pair) padded(text string) bool { return strings.Contains(text, "\n\n") }

// foreign appends as a program does that writes at the end of the file.
func (p *pair) foreign() {
	text := string(fileText(p.t, p.disk))
	if p.rng.IntN(3) > 0 || text == "" {
		return
	}
	p.last++
	e := step(`"foreign"`)
	e.Seq = p.last
	addText(p.t, p.disk, lineOf(e)+"\n")
	e.At = &e.Seq
	require.NoError(p.t, p.memory.Append(context.Background(), "r1", e, p.locks[1]))
}

// poll looks for what a store has not told of yet.
func (p *pair) poll(i int) {
	_, want, err := p.memory.Load(context.Background(), "r1", p.readers[i])
	require.NoError(p.t, err)
	_, got, err := p.stores[i].Load(context.Background(), "r1", p.readers[i])
	require.NoError(p.t, err, p.name)
	require.Equal(p.t, seqs(want), seqs(got), p.name)
	for j := range got {
		require.Equal(p.t, want[j], got[j], p.name)
	}
	if p.rng.IntN(6) > 0 {
		p.readers[i] = p.last
	} else {
		p.readers[i] = p.rng.Int64N(p.last+2) - 1
	}
}

// append writes one batch to both.
func (p *pair) append() {
	ctx := context.Background()
	seed := p.rng.Uint64()
	by, unlocked := p.stores[0], p.rng.IntN(3) == 0
	locks := p.locks
	if unlocked {
		by, locks = p.stores[p.rng.IntN(3)], [2]*journal.RunLock{}
	}
	batch, twin := p.batch(rand.New(rand.NewPCG(seed, 1)), unlocked), p.batch(rand.New(rand.NewPCG(seed, 1)), unlocked)
	err := by.AppendAll(ctx, "r1", batch, locks[0])
	want := p.memory.AppendAll(ctx, "r1", twin, locks[1])
	require.Equal(p.t, want == nil, err == nil, "%s: %v, %v", p.name, want, err)
	if err != nil {
		var a, b *errs.Error
		require.True(p.t, errors.As(err, &a) && errors.As(want, &b), p.name)
		require.Equal(p.t, b.Code, a.Code, p.name)
		require.Equal(p.t, b.Msg, a.Msg, p.name)
		return
	}
	_, entries, err := p.memory.Load(ctx, "r1", -1)
	require.NoError(p.t, err)
	for i, e := range batch {
		require.Equal(p.t, twin[i].Seq, e.Seq)
		require.Equal(p.t, lineOf(e), string(entries[len(entries)-len(batch)+i].Raw), p.name)
		p.last = e.Seq
	}
}

// batch returns entries, some with numbers of their own, some as lines, some
// that refer to others of the batch, and sometimes one that is refused.
func (p *pair) batch(rng *rand.Rand, unlocked bool) (batch []*journal.Entry) {
	next := p.last
	for range 1 + rng.IntN(5) {
		value := fmt.Sprintf(`"%s"`, strings.Repeat("v", rng.IntN(600)))
		e := step(value)
		switch kind := rng.IntN(12); {
		case unlocked || kind < 2:
			e = resolution(max(0, rng.Int64N(p.last+2)-1), value)
		case kind < 5 && len(batch) > 0:
			of := batch[rng.IntN(len(batch))]
			e.Status, e.Ref = journal.StatusOK, &of.Seq
		case kind < 7:
			at := next + rng.Int64N(8)
			e.At, next = &at, max(next, at-1)
		case kind < 9:
			e.Seq = next + 1 + rng.Int64N(90)
			e, _ = journal.ParseEntry([]byte(strings.Replace(lineOf(e), `"kind"`, `"x":[ 1 ],"kind"`, 1)))
			next = e.Seq - 1
		case kind < 10:
			e.Value = json.RawMessage("{\n\"a\" : 1\r}")
		}
		next++
		batch = append(batch, e)
	}
	return batch
}

// TestMintAgain: a batch that was numbered for other tails, or could not be,
// has the lines of one that was made anew.
func TestMintAgain(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := &pair{t: t, rng: rng, last: rng.Int64N(120) - 1}
		make := func() *journal.Batch {
			b, err := journal.NewBatch("r1", p.batch(rand.New(rand.NewPCG(seed, 6)), false))
			require.NoError(t, err)
			return b
		}
		b := make()
		for range 6 {
			tail := max(-1, p.last+[]int64{0, 0, -1, 1, 9, 100, -10}[rng.IntN(7)])
			got, err := b.Mint(tail)
			fresh := make()
			want, wrong := fresh.Mint(tail)
			require.Equal(t, wrong, err)
			require.Equal(t, want, got, seed)
			if err == nil {
				require.Equal(t, fresh.Seqs(), b.Seqs())
			}
		}
	}
}

// TestManyAppendersOfOneStore: batches that are written together are whole and
// in order, and one that is refused or given up takes no other with it.
func TestManyAppendersOfOneStore(t *testing.T) {
	s := open(t, t.TempDir(), &journal.FileOptions{SyncEvery: -1})
	l := started(t, s, "r1", 1)
	var group sync.WaitGroup
	var mu sync.Mutex
	acked := make(map[int64]string)
	for w := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			for i := range 60 {
				ctx, cancel := context.WithCancel(context.Background())
				run, end := step(fmt.Sprintf(`"%d.%d%s"`, w, i, strings.Repeat("x", rng.IntN(3000)))), step(`1`)
				end.Status, end.Ref = journal.StatusOK, &run.Seq
				batch, by := []*journal.Entry{run, end}, l
				switch rng.IntN(5) {
				case 0:
					batch, by = []*journal.Entry{resolution(0, `"r"`)}, nil
				case 1:
					batch = append(batch, resolution(1<<40, `1`)) // refused
				case 2:
					go cancel()
				}
				if s.AppendAll(ctx, "r1", batch, by) == nil {
					mu.Lock()
					for _, e := range batch {
						acked[e.Seq] = lineOf(e)
					}
					mu.Unlock()
				}
				cancel()
			}
		})
	}
	group.Wait()
	require.NoError(t, l.Release())
	_, entries, err := s.Load(t.Context(), "r1", 0)
	require.NoError(t, err)
	require.Len(t, entries, len(acked))
	for i, e := range entries {
		require.EqualValues(t, i+1, e.Seq)
		require.Equal(t, acked[e.Seq], string(e.Raw))
	}
}
