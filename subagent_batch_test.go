package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// mortalStore is a store whose process dies at one of its writes: of an append
// it writes the first keep records, as a power cut would leave them, and
// nothing behind it.
type mortalStore struct {
	rulvar.Store
	at, keep int

	mu     sync.Mutex
	writes int
	sizes  []int // of the writes: records of an append, 0 of another
	dead   bool
}

var errDied = errors.New("the process has died")

func (s *mortalStore) write(size int, write func(keep int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errDied
	}
	s.sizes = append(s.sizes, size)
	s.writes++
	if s.writes-1 != s.at {
		return write(size)
	}
	s.dead = true
	if s.keep > 0 {
		if err := write(s.keep); err != nil {
			return err
		}
	}
	return errDied
}

func (s *mortalStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	return s.write(len(entries), func(keep int) error { return s.Store.AppendAll(ctx, runID, entries[:keep], lock) })
}

func (s *mortalStore) PutMeta(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
	return s.write(0, func(int) error { return s.Store.PutMeta(ctx, meta, lock) })
}

func (s *mortalStore) Put(ctx context.Context, ref string, data []byte) error {
	return s.write(0, func(int) error { return s.Store.Put(ctx, ref, data) })
}

// batchLife is one process of a run that spawns three agents, all or none.
type batchLife struct {
	quota int // MaxSpawns
	at    int // the write at which it dies; -1 is none
	keep  int
	// forgets loses the checkpoints before this life: the conversation begins
	// again, and its calls have other ids.
	forgets bool
}

// batchStory is what became of the run after its lives.
type batchStory struct {
	store   rulvar.Store
	asked   map[string]int
	result  string // of parallel_agents, as the model was shown it
	sizes   [][]int
	again   bool // a conversation has begun again
	outcome rulvar.Outcome[string]
	err     error
}

func liveBatch(t *testing.T, lives ...batchLife) *batchStory {
	t.Helper()
	story := &batchStory{store: rulvar.NewMemoryStore(), asked: make(map[string]int)}
	for i, life := range lives {
		id := "batch"
		if life.forgets {
			id = fmt.Sprintf("batch%d", i)
			story.again = true
			refs, err := story.store.List(t.Context(), "r1")
			require.NoError(t, err)
			for _, ref := range refs {
				require.NoError(t, story.store.DeleteBlob(t.Context(), ref))
			}
		}
		mortal := &mortalStore{Store: story.store, at: life.at, keep: life.keep}
		f := newFleet(t, rulvar.Config{Store: mortal, Concurrency: 4},
			&rulvar.OrchestrateOptions{ParallelAdmission: rulvar.AdmitAllOrNone, MaxSpawns: life.quota},
			goal(do(rulvartest.Call{ID: id, Tool: "parallel_agents", Args: map[string]any{"tasks": []any{task("thinker", "a"), task("looker", "b"), task("thinker", "c")}}}),
				do(call("await_all", map[string]any{"handles": []any{"$1", "$2", "$3"}})), do(finish("done"))),
			says("a", "A"), rulvartest.Script{Prompt: "b", Turns: []rulvartest.Turn{do(call("look", map[string]any{})), {Text: "B"}}}, says("c", "C"))
		ctx := testCtx(t)
		var h *rulvar.RunHandle[string]
		var err error
		if meta, entries, loadErr := story.store.Load(ctx, "r1", -1); meta == nil && len(entries) == 0 {
			require.NoError(t, loadErr)
			h, err = rulvar.Run(ctx, f.engine, f.workflow, 0, &rulvar.RunOptions{RunID: "r1"})
		} else {
			h, err = rulvar.Resume(ctx, f.engine, f.workflow, "r1", &rulvar.ResumeOptions[int]{})
		}
		if err == nil {
			story.outcome, story.err = h.Result(ctx)
		} else {
			story.err = err
		}
		story.sizes = append(story.sizes, mortal.sizes)
		for _, p := range []string{"a", "b", "c"} {
			story.asked[p] += f.asked(p)
		}
		if r := f.results(t, "parallel_agents"); len(r) > 0 {
			story.result = r[0]
		}
		_ = f.engine.Close(ctx)
	}
	return story
}

// check holds the end of a run to all or none.
func (s *batchStory) check(t *testing.T) {
	t.Helper()
	require.NoError(t, s.err)
	require.Equal(t, "done", s.outcome.Value)
	require.Empty(t, s.outcome.Preview.Orphaned)
	var told struct{ Handles []int64 }
	require.NoError(t, json.Unmarshal([]byte(s.result), &told), s.result)
	_, entries, err := s.store.Load(t.Context(), "r1", -1)
	require.NoError(t, err)
	var began []int64
	admitted, withdrawn := map[int64]bool{}, map[int64]bool{}
	for _, en := range entries {
		var v struct {
			DecisionType, Verdict string
			SpawnRef, TargetRef   int64
		}
		if json.Unmarshal(en.Value, &v) != nil {
			continue
		}
		switch {
		case v.SpawnRef > 0 && en.Ref == nil && !slices.Contains(began, v.SpawnRef):
			began = append(began, v.SpawnRef)
		case v.DecisionType == "spawn-admission" && v.Verdict == "admitted":
			admitted[en.Seq] = true
		case v.DecisionType == "spawn-cancelled":
			withdrawn[v.TargetRef] = true
		}
	}
	slices.Sort(began)
	if len(told.Handles) == 0 {
		require.Contains(t, s.result, "batch_atomic")
		require.Empty(t, began)
		require.Equal(t, map[string]int{"a": 0, "b": 0, "c": 0}, s.asked)
		if !s.again {
			require.Equal(t, admitted, withdrawn, "what was admitted is withdrawn on the record")
		}
		return
	}
	require.Len(t, told.Handles, 3)
	require.ElementsMatch(t, told.Handles, began, "a part runs as if it were all")
	if !s.again {
		require.Len(t, admitted, 3)
	}
	require.Empty(t, withdrawn)
	for p, n := range s.asked {
		require.Positive(t, n, p)
	}
}

// A process may die at each of its writes, in the middle of each append too,
// and the next one may see another quota: of a batch that is all or none, all
// run in the end or none ever has.
func TestABatchIsAllOrNoneAcrossCrashes(t *testing.T) {
	whole := liveBatch(t, batchLife{quota: 16, at: -1})
	whole.check(t)
	refused := liveBatch(t, batchLife{quota: 2, at: -1})
	refused.check(t)
	require.NotContains(t, refused.result, `"handles":[1`)
	cuts := 0
	live := func(lives ...batchLife) {
		t.Helper()
		cuts++
		t.Run(fmt.Sprintf("%+v", lives), func(t *testing.T) { liveBatch(t, lives...).check(t) })
	}
	for _, first := range []int{16, 2} {
		sizes := map[int][]int{16: whole.sizes[0], 2: refused.sizes[0]}[first]
		for at, size := range sizes {
			for keep := range size + 1 {
				for _, next := range []int{16, 2} {
					dies := batchLife{quota: first, at: at, keep: keep}
					live(dies, batchLife{quota: next, at: -1})
					live(dies, batchLife{quota: next, at: -1, forgets: true})
				}
			}
		}
	}
	// The batch is cut, and the process that goes on dies too, at each of its
	// writes.
	batch := slices.Index(whole.sizes[0], 3)
	require.Equal(t, batch, slices.Index(refused.sizes[0], 3))
	for n := range 16 {
		first, second, third := []int{16, 2}[n&1], []int{16, 2}[n>>1&1], []int{16, 2}[n>>2&1]
		cut := batchLife{quota: first, at: batch, keep: 1 + n>>3&1}
		for at, size := range liveBatch(t, cut, batchLife{quota: second, at: -1}).sizes[1] {
			for keep := range size + 1 {
				live(cut, batchLife{quota: second, at: at, keep: keep}, batchLife{quota: third, at: -1})
			}
		}
	}
	t.Logf("%d ways", cuts)
}
