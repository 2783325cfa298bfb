package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// wireRecords lists the intents and ends of requests, in order.
func wireRecords(t *testing.T, store rulvar.Store) (records []string) {
	t.Helper()
	_, entries, err := store.Load(t.Context(), "r1", -1)
	require.NoError(t, err)
	for _, en := range entries {
		var d struct {
			DecisionType string
			Record       struct{ Outcome string }
		}
		if json.Unmarshal(en.Value, &d) != nil {
			continue
		}
		switch d.DecisionType {
		case "provider-intent":
			records = append(records, en.Key)
		case "provider-call":
			records = append(records, en.Key+" "+d.Record.Outcome)
		}
	}
	return records
}

func TestWireIntents(t *testing.T) {
	lost := &llm.Error{Kind: llm.KindTransport, Message: "lost", Retryable: true}
	for _, c := range []struct {
		name    string
		on      bool
		turns   []rulvartest.Turn
		cancel  bool
		records []string
	}{
		{"not asked for", false, []rulvartest.Turn{{Text: "x"}}, false, nil},
		{"an answer", true, []rulvartest.Turn{{Text: "x"}}, false, []string{"pi:0:1:1", "pc:0:1 ok"}},
		{"a second try", true, []rulvartest.Turn{{Errs: []error{lost}, Text: "x"}}, false, []string{"pi:0:1:1", "pc:0:1 error", "pi:0:2:2", "pc:0:2 ok"}},
		{"cancelled", true, []rulvartest.Turn{{Hang: true}}, true, []string{"pi:0:1:1", "pc:0:1 error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testCtx(t)
			store := rulvar.NewMemoryStore()
			model := rulvartest.NewProvider("test", rulvartest.Script{Turns: c.turns})
			engine := rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:m", WireIntents: c.on})
			h, err := rulvar.Run(ctx, engine, askShip(), "api", &rulvar.RunOptions{RunID: "r1"})
			require.NoError(t, err)
			if c.cancel {
				require.Eventually(t, func() bool { return len(model.Requests()) > 0 }, 10*time.Second, time.Millisecond)
				h.Cancel("enough")
			}
			_, _ = h.Result(ctx)
			require.NoError(t, ctx.Err())
			require.Equal(t, c.records, wireRecords(t, store))
			h, err = rulvar.Resume(ctx, engine, askShip(), "r1", &rulvar.ResumeOptions[string]{DryRun: true})
			require.NoError(t, err, "every request has its end")
			_, _ = h.Result(ctx)
		})
	}
}

// deafStore loses records.
type deafStore struct {
	rulvar.Store
	lose func(*rulvar.Entry) bool
}

func ofDecision(decisionType string) func(*rulvar.Entry) bool {
	return func(en *rulvar.Entry) bool {
		var d struct{ DecisionType string }
		return json.Unmarshal(en.Value, &d) == nil && d.DecisionType == decisionType
	}
}

func (s *deafStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	if slices.ContainsFunc(entries, s.lose) {
		return errors.New("the disk is gone")
	}
	return s.Store.AppendAll(ctx, runID, entries, lock)
}

// A request that cannot be announced is not sent; one whose end cannot be
// recorded fails the run, and a resume wants to be told about it.
func TestWireIntentsThatAreLost(t *testing.T) {
	for _, c := range []struct {
		lose     string
		requests int
		open     bool
	}{{"provider-intent", 0, false}, {"provider-call", 1, true}} {
		t.Run(c.lose, func(t *testing.T) {
			ctx := testCtx(t)
			store := rulvar.NewMemoryStore()
			model := rulvartest.NewProvider("test", rulvartest.Script{Turns: []rulvartest.Turn{{Text: "x"}}})
			cfg := rulvar.Config{Store: &deafStore{store, ofDecision(c.lose)}, Providers: []llm.Provider{model}, Model: "test:m", WireIntents: true, Logger: quietLog()}
			h, err := rulvar.Run(ctx, rulvartest.NewEngine(t, cfg), askShip(), "api", &rulvar.RunOptions{RunID: "r1"})
			require.NoError(t, err)
			out, err := h.Result(ctx)
			require.ErrorIs(t, err, rulvar.ErrJournalIntegrity)
			require.Equal(t, rulvar.RunError, out.Status)
			require.Len(t, model.Requests(), c.requests)

			cfg.Store = store
			engine := rulvartest.NewEngine(t, cfg)
			h, err = rulvar.Resume[string](ctx, engine, askShip(), "r1", nil)
			if c.open {
				require.ErrorIs(t, err, rulvar.ErrConfig)
				_, err = rulvar.Resume(ctx, engine, askShip(), "r1", &rulvar.ResumeOptions[string]{DryRun: true})
				require.NoError(t, err, "looking costs nothing")
				h, err = rulvar.Resume(ctx, engine, askShip(), "r1", &rulvar.ResumeOptions[string]{AcknowledgeWireIntents: true})
			}
			require.NoError(t, err)
			out, err = h.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, "x", out.Value)
		})
	}
}
