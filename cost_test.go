package rulvar_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// weigher counts the bytes of the blobs that are put.
type weigher struct {
	rulvar.Store
	checkpoints, transcripts atomic.Int64
}

func (w *weigher) Put(ctx context.Context, ref string, data []byte) error {
	if strings.Contains(ref, "/ckpt/") {
		w.checkpoints.Add(int64(len(data)))
	} else {
		w.transcripts.Add(int64(len(data)))
	}
	return w.Store.Put(ctx, ref, data)
}

// A checkpoint is the whole conversation, written at each turn: what a long one
// costs grows with the square of its length. The README states the figures.
func TestCostOfALongConversation(t *testing.T) {
	const turns, size = 200, 4 << 10
	page := strings.Repeat("x", size)
	look := literalTool(t, rulvar.ToolConfig{Name: "look", Risk: rulvar.RiskRead}, deploySchema, nil, page)
	var s rulvartest.Script
	for i := range turns {
		s.Turns = append(s.Turns, rulvartest.Turn{Calls: []rulvartest.Call{{ID: fmt.Sprintf("c%d", i), Tool: "look", Args: map[string]string{"service": "api"}}}})
	}
	s.Turns = append(s.Turns, rulvartest.Turn{Text: "seen"})
	disk := faultfs.New()
	w := &weigher{Store: diskStore(t, disk)}
	opened := disk.Count(faultfs.SyncDir)
	calls := turns
	e := rulvartest.NewEngine(t, rulvar.Config{
		Store: w, Providers: []llm.Provider{rulvartest.NewProvider("test", s)}, Model: "test:m",
		Limits: &rulvar.UsageLimits{MaxTurns: turns + 1, MaxToolCalls: &calls},
	})
	h, err := rulvar.Run(t.Context(), e, askShip(look), "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, "seen", out.Value)
	syncs := disk.Count(faultfs.Sync) + disk.Count(faultfs.SyncDir) - opened
	require.Equal(t, costBegin+costFirst+costAgent+turns*costToolTurn+costFirstBlob+costOtherKind+costSettle+costEnd, syncs)
	wrote, kept := w.checkpoints.Load(), w.transcripts.Load()
	t.Logf("%d turns of %d bytes: %d syncs, %.1f MB of checkpoints, %.2f MB kept", turns, size, syncs, float64(wrote)/1e6, float64(kept)/1e6)
	require.Less(t, kept, int64(turns*size*5/4), "the conversation itself")
	require.Less(t, wrote, kept*(turns+2)/2, "half of the square, and no more")
}

// What a run that waits costs the process: nothing once it has settled, apart
// from the timer of a deadline, and its goroutines and its conversation while
// something else holds its segment open. The README states the figures.
func TestMemoryOfParkedRuns(t *testing.T) {
	const n = 50
	for name, row := range map[string]struct {
		held       bool
		goroutines int // a run
		bytes      int64
	}{
		"settled": {false, 0, 8 << 10},
		"live":    {true, 8, 256 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testCtx(t)
			p := newParkedFleet(t, t.TempDir())
			p.start(ctx, t, "warm", row.held)
			memory, goroutines := usage()
			for i := range n {
				p.start(ctx, t, fmt.Sprint("run-", i), row.held)
			}
			m, g := usage()
			each, of := (m-memory)/n, float64(g-goroutines)/n
			t.Logf("a %s run that waits: %.1f kB, %.1f goroutines", name, float64(each)/1e3, of)
			require.LessOrEqual(t, each, row.bytes)
			require.LessOrEqual(t, g-goroutines, n*row.goroutines)
			require.NoError(t, p.engine.Close(ctx))
		})
	}
}

// usage is what the heap and the stacks hold, and how many goroutines there
// are.
func usage() (memory int64, goroutines int) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// start runs a run until it waits for its approval, held open by a step or
// settled.
func (p *parkedFleet) start(ctx context.Context, t *testing.T, id string, held bool) {
	t.Helper()
	parked := make(chan struct{})
	h, err := rulvar.Run(ctx, p.engine, p.workflow, held, &rulvar.RunOptions{RunID: id, OnEvent: func(ev rulvar.Event) {
		if _, ok := ev.Body.(rulvar.ApprovalPending); ok {
			close(parked)
		}
	}})
	require.NoError(t, err)
	select {
	case <-parked:
	case <-ctx.Done():
		t.Fatal("it has not parked")
	}
	if held {
		return
	}
	out, err := h.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
}
