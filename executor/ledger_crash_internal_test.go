package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// promises are what the ledger has said to be durable: by attempt, whether
// there is an outcome.
type promises map[string]bool

func (p promises) clone() promises {
	c := promises{}
	for k, v := range p {
		c[k] = v
	}
	return c
}

// account writes intents and outcomes until the disk is gone.
func account(l *FileLedger, rng *rand.Rand, round int, now promises) {
	ctx := context.Background()
	for i := range 8 {
		in := &Intent{
			AttemptID: fmt.Sprintf("%d.%d", round, i), IdempotencyKey: "key", Tool: "t", Executor: "subprocess",
			Workdir: strings.Repeat("w", rng.IntN(1500)),
		}
		if l.Intent(ctx, in) != nil {
			return
		}
		now[in.AttemptID] = false
		if rng.IntN(4) == 0 {
			continue
		}
		if l.Outcome(ctx, &Outcome{Intent: *in, Outcome: OutcomeOK}) != nil {
			return
		}
		now[in.AttemptID] = true
	}
}

// TestLedgerPowerCut cuts the power at any moment, several times over one file,
// and expects what was promised: no effect is forgotten, and the ledger opens.
func TestLedgerPowerCut(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		disk, now := faultfs.New(), promises{}
		for round := range 4 {
			l, err := openFileLedger(disk, "/effects.jsonl")
			require.NoError(t, err, "seed %d round %d", seed, round)
			list, err := l.Attempts(context.Background(), "key")
			require.NoError(t, err)
			found := promises{}
			for _, a := range list {
				found[a.Intent.AttemptID] = a.Outcome != nil
			}
			for id, settled := range now {
				is, there := found[id]
				require.True(t, there, "seed %d round %d: the intent %s is gone", seed, round, id)
				require.True(t, is || !settled, "seed %d round %d: the outcome of %s is gone", seed, round, id)
			}
			now = found
			var after *faultfs.FS
			var then promises
			left := 1 + rng.IntN(40)
			disk.Inject = func(faultfs.Op, string) faultfs.Fault {
				if left--; left == 0 {
					after, then = disk.Crash(rng), now.clone()
				}
				return faultfs.Fault{}
			}
			account(l, rng, round, now)
			disk.Inject = nil
			if after == nil {
				after, then = disk.Crash(rng), now
			}
			disk, now = after, then
		}
	}
}

// A write that fails may have left anything: the ledger says so until it is
// opened again.
func TestLedgerWriteFails(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Write, faultfs.Sync} {
		t.Run(string(op), func(t *testing.T) {
			disk := faultfs.New()
			l, err := openFileLedger(disk, "/l")
			require.NoError(t, err)
			require.NoError(t, l.Intent(t.Context(), &Intent{AttemptID: "a", IdempotencyKey: "k"}))
			broken := errors.New("no space")
			disk.Inject = func(o faultfs.Op, _ string) faultfs.Fault {
				if o == op {
					return faultfs.Fault{Err: broken, Part: 20}
				}
				return faultfs.Fault{}
			}
			require.ErrorIs(t, l.Intent(t.Context(), &Intent{AttemptID: "b", IdempotencyKey: "k"}), broken)
			disk.Inject = nil
			_, err = l.Attempts(t.Context(), "k")
			require.ErrorIs(t, err, ErrLedger)
			l, err = openFileLedger(disk, "/l")
			require.NoError(t, err)
			list, err := l.Attempts(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, "a", list[0].Intent.AttemptID)
			require.NoError(t, l.Outcome(t.Context(), &Outcome{Intent: list[0].Intent, Outcome: OutcomeOK}))
		})
	}
}
