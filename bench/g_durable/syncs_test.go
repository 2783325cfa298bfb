package durable

import (
	"context"
	"fmt"
	"testing"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// A durable write costs more than everything else that a call needs, so how
// many each kind of work makes is the figure that rules the others. TestSyncs
// counts them on a file system that only counts; TARGETS.md states them.
func TestSyncs(t *testing.T) {
	oneCall := job{agents: 1, turns: 1, calls: 1}
	for _, row := range []struct {
		name       string
		more, less job   // the work is what more does beyond less
		most       count // syncs of files and of directories
	}{
		{"a run", job{}, job{none: true}, count{3, 3}},
		{"a step", job{steps: 2}, job{steps: 1}, count{1, 0}},
		{"an agent without calls", job{agents: 2}, job{agents: 1}, count{3, 1}},
		{"a turn with a call", job{agents: 1, turns: 2, calls: 1}, oneCall, count{1, 1}},
		{"nine more calls in a turn", job{agents: 1, turns: 1, calls: 10}, oneCall, count{0, 0}},
		{"nine more whose interruption is told", job{agents: 1, turns: 1, calls: 10, told: true}, job{agents: 1, turns: 1, calls: 1, told: true}, count{9, 9}},
		{"a call that asks, approved after the run was left", job{agents: 1, turns: 1, calls: 1, ask: true}, oneCall, count{7, 5}},
	} {
		t.Run(row.name, func(t *testing.T) {
			more, less := syncs(t, row.more), syncs(t, row.less)
			got := count{more.files - less.files, more.dirs - less.dirs}
			if got.files > row.most.files || got.dirs > row.most.dirs {
				t.Errorf("%+v, want %+v at most", got, row.most)
			}
			t.Logf("%+v", got)
		})
	}
}

// job is what a run does.
type job struct {
	none                        bool // nothing is run at all
	steps, agents, turns, calls int
	told                        bool // interrupted calls are told
	ask                         bool // every call asks and is approved at once
}

type count struct{ files, dirs int }

func syncs(t *testing.T, j job) (c count) {
	disk := faultfs.New()
	store, err := rulvar.OpenFileStore("/runs", &rulvar.FileStoreOptions{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	before := count{disk.Count(faultfs.Sync), disk.Count(faultfs.SyncDir)}
	if !j.none {
		j.run(t, store)
	}
	return count{disk.Count(faultfs.Sync) - before.files, disk.Count(faultfs.SyncDir) - before.dirs}
}

func (j job) run(t *testing.T, store rulvar.Store) {
	var turns []rulvartest.Turn
	for range j.turns {
		turns = append(turns, rulvartest.Turn{Calls: make([]rulvartest.Call, j.calls)})
		for i := range j.calls {
			turns[len(turns)-1].Calls[i] = rulvartest.Call{Tool: "write", Args: map[string]any{"text": fmt.Sprint(i)}}
		}
	}
	tool, err := rulvar.NewTool(rulvar.ToolConfig{Name: "write", Risk: rulvar.RiskWrite, NeedsApproval: j.ask},
		func(*rulvar.ToolContext, struct {
			Text string `json:"text"`
		}) (string, error) {
			return "ok", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	model := rulvartest.NewProvider("test", rulvartest.Script{Turns: append(turns, rulvartest.Turn{Text: "done"})})
	cfg := rulvar.Config{Store: store, Providers: []llm.Provider{model}, Model: "test:model", Logger: quiet}
	if j.told {
		cfg.OnInterrupted = rulvar.InterruptedReport
	}
	e, err := rulvar.NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	w := rulvar.DefineWorkflow("job", func(c *rulvar.Ctx, _ string) (string, error) {
		for i := range j.steps {
			if _, err := rulvar.Step(c, fmt.Sprintf("step-%d", i), step, nil); err != nil {
				return "", err
			}
		}
		for i := range j.agents {
			if _, err := rulvar.Agent[string](c, fmt.Sprintf("prompt %d", i), &rulvar.AgentOptions{Tools: []rulvar.ToolSource{tool}}); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	h, err := rulvar.Run(t.Context(), e, w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.Result(t.Context())
	for err == nil && out.Status == rulvar.RunSuspended {
		for _, p := range out.Pending {
			if _, err := e.Resolve(t.Context(), h.RunID(), p.Key, rulvar.Approve("")); err != nil {
				t.Fatal(err)
			}
		}
		if h, err = rulvar.Resume(t.Context(), e, w, h.RunID(), nil); err == nil {
			out, err = h.Result(t.Context())
		}
	}
	if err != nil || out.Status != rulvar.RunOK {
		t.Fatal(out, err)
	}
}
