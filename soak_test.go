package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// soakTime is how long the soak goes on: RULVAR_SOAK, or a second.
func soakTime(t *testing.T) time.Duration {
	text := os.Getenv("RULVAR_SOAK")
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// Two engines share a store. Runs wait for approvals with short deadlines,
// while several goroutines of both engines approve, reject, revoke, cancel and
// resume them, all at once. What each of them was told agrees with the journal,
// and no tool runs without an approval that stood when it was used.
func TestSoak(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	disk := faultfs.New()
	s := &soak{ran: map[string]int{}}
	var engines []*rulvar.Engine
	for _, deadline := range []time.Duration{0, time.Millisecond} {
		engines = append(engines, must(rulvar.NewEngine(rulvar.Config{
			Store: diskStore(t, disk), Providers: []llm.Provider{rulvartest.NewProvider("test", shipScript)}, Model: "test:m",
			Permissions: &rulvar.PermissionConfig{ApprovalDeadline: deadline}, PollInterval: time.Millisecond, Logger: quietLog(),
		})))
	}
	schema := must(rulvar.SchemaLiteral(json.RawMessage(deploySchema)))
	s.work = askShip(must(rulvar.NewToolWithSchema(deployConfig, schema, func(tc *rulvar.ToolContext, _ json.RawMessage) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ran[tc.RunID()]++
		return "done", nil
	})))
	end := time.Now().Add(soakTime(t))
	var workers sync.WaitGroup
	var rounds atomic.Int64
	for w := range 4 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), uint64(end.UnixNano())))
			for i := 0; time.Now().Before(end) && !t.Failed(); i++ {
				r := &soakRun{soak: s, id: fmt.Sprintf("run-%d-%d", w, i), engines: engines, rng: rng}
				r.round(t, diskStore(t, disk))
				rounds.Add(1)
			}
		})
	}
	workers.Wait()
	t.Logf("%d runs", rounds.Load())
	require.Positive(t, rounds.Load())
	for _, e := range engines {
		require.NoError(t, e.Close(context.Background()))
	}
}

type soak struct {
	work *rulvar.Workflow[string, string]
	mu   sync.Mutex
	ran  map[string]int // the tool, by run
}

// soakRun is one run and what its callers were told.
type soakRun struct {
	*soak
	id      string
	engines []*rulvar.Engine
	rng     *rand.Rand

	mu      sync.Mutex
	applied map[string]int64 // the record of the answer, by key
	revoked map[string]bool  // an allow that was taken back in time, by key
}

func (r *soakRun) round(t *testing.T, store rulvar.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r.applied, r.revoked = map[string]int64{}, map[string]bool{}
	asked := make(chan string, 100)
	listen := func(ev rulvar.Event) {
		if b, ok := ev.Body.(rulvar.ApprovalPending); ok {
			asked <- b.Key
		}
	}
	h, err := rulvar.Run(ctx, r.engines[r.rng.IntN(2)], r.work, "api", &rulvar.RunOptions{RunID: r.id, OnEvent: listen})
	if err != nil {
		t.Errorf("%s: %v", r.id, err)
		return
	}
	key := <-asked
	r.race(ctx, t, key, h)
	for i := 0; ; i++ {
		out, err := h.Result(ctx)
		if out.Status == rulvar.RunOK {
			break
		}
		if ctx.Err() != nil || i > 20 || err != nil && out.Status != rulvar.RunCancelled {
			t.Errorf("%s does not come to its end: %s %v", r.id, out.Status, err)
			return
		}
		for _, p := range out.Pending {
			r.answer(ctx, t, r.engines[i%2], p.Key, rulvar.Approve(""))
		}
		if h, err = rulvar.Resume(ctx, r.engines[i%2], r.work, r.id, &rulvar.ResumeOptions[string]{OnEvent: listen}); err != nil {
			t.Errorf("%s: %v", r.id, err)
			return
		}
	}
	r.audit(t, store)
}

// race does everything to the run that may be done to it, at the same time.
func (r *soakRun) race(ctx context.Context, t *testing.T, key string, h *rulvar.RunHandle[string]) {
	acts := []func(e *rulvar.Engine){
		func(e *rulvar.Engine) { r.answer(ctx, t, e, key, rulvar.Approve("")) },
		func(e *rulvar.Engine) { r.answer(ctx, t, e, key, rulvar.Reject("no")) },
		func(e *rulvar.Engine) {
			r.answer(ctx, t, e, key, rulvar.ApproveEdited(json.RawMessage(deployArgs), ""))
		},
		func(e *rulvar.Engine) { r.revoke(ctx, t, e, key) },
		func(*rulvar.Engine) { h.Cancel("enough") },
		func(e *rulvar.Engine) { r.resume(ctx, t, e) },
	}
	var racers sync.WaitGroup
	for _, act := range acts {
		if r.rng.IntN(2) == 0 {
			continue
		}
		e, pause := r.engines[r.rng.IntN(2)], time.Duration(r.rng.IntN(2000))*time.Microsecond
		racers.Go(func() {
			time.Sleep(pause)
			act(e)
		})
	}
	racers.Wait()
}

func (r *soakRun) answer(ctx context.Context, t *testing.T, e *rulvar.Engine, key string, d rulvar.ApprovalDecision) {
	out, err := e.Resolve(ctx, r.id, key, d)
	if err != nil {
		t.Errorf("%s: %v", r.id, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.applied[key]; out.Applied && twice {
		t.Errorf("%s: two answers to %s were the first", r.id, key)
	}
	if out.Applied {
		r.applied[key] = out.EntryRef
	}
}

func (r *soakRun) revoke(ctx context.Context, t *testing.T, e *rulvar.Engine, key string) {
	did, err := e.RevokeApproval(ctx, r.id, key, "ada", "a mistake")
	if err != nil {
		t.Errorf("%s: %v", r.id, err)
	}
	if did == "revoked-allow" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.revoked[key] = true
	}
}

// resume is refused while the run is held, and does what is next otherwise.
func (r *soakRun) resume(ctx context.Context, t *testing.T, e *rulvar.Engine) {
	h, err := rulvar.Resume[string](ctx, e, r.work, r.id, nil)
	if err == nil {
		out, resultErr := h.Result(ctx)
		if resultErr != nil && out.Status != rulvar.RunCancelled {
			t.Errorf("%s: %s %v", r.id, out.Status, resultErr)
		}
	} else if !errors.Is(err, rulvar.ErrLeaseHeld) {
		t.Errorf("%s: %v", r.id, err)
	}
}

// audit holds what was done and told to the journal.
func (r *soakRun) audit(t *testing.T, store rulvar.Store) {
	_, entries, err := store.Load(context.Background(), r.id, -1)
	if err != nil {
		t.Errorf("%s: %v", r.id, err)
		return
	}
	type fate struct {
		decided       int64
		allowed, void bool
		used          int64
	}
	fates := map[int64]*fate{}
	marks := 0
	for _, en := range entries {
		switch {
		case en.Kind == "approval":
			fates[en.Seq] = &fate{decided: -1, used: -1}
		case en.Kind == "resolution" && fates[*en.Ref].decided < 0:
			var v struct{ Value struct{ Decision string } }
			if err := json.Unmarshal(en.Resolution, &v); err != nil {
				t.Error(err)
			}
			fates[*en.Ref].decided, fates[*en.Ref].allowed = en.Seq, v.Value.Decision != "deny"
		case en.Kind == "decision":
			var v struct {
				DecisionType string
				TargetRef    int64
			}
			if json.Unmarshal(en.Value, &v) != nil {
				continue
			}
			f := fates[v.TargetRef]
			switch {
			case v.DecisionType == "approval_revoked" && f.used < 0:
				f.void = true
			case v.DecisionType == "approval_consumed" && f.void:
				// The run reads the journal once more behind its mark, sees
				// what stands before it, and does not use it.
			case v.DecisionType == "approval_consumed":
				marks++
				if !f.allowed || f.used >= 0 {
					t.Errorf("%s: entry %d uses an approval that does not stand", r.id, en.Seq)
				}
				f.used = en.Seq
			}
		}
	}
	r.soak.mu.Lock()
	ran := r.ran[r.id]
	r.soak.mu.Unlock()
	if ran > marks {
		t.Errorf("%s: the tool ran %d times over %d marks", r.id, ran, marks)
	}
	for seq, f := range fates {
		key := fmt.Sprint("approval:", seq)
		if ref, ok := r.applied[key]; ok && ref != f.decided {
			t.Errorf("%s: %s was decided by %d, and %d was told to have", r.id, key, f.decided, ref)
		}
		if r.revoked[key] && f.used >= 0 {
			t.Errorf("%s: %s was taken back and used", r.id, key)
		}
	}
}
