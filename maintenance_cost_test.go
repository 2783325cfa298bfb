package rulvar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// meter notes what each write to a store has cost in syncs, of files and of
// directories.
type meter struct {
	rulvar.Store
	disk *faultfs.FS

	mu    sync.Mutex
	notes []string
	total int
}

func (m *meter) measure(name string, write func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	files, dirs := m.disk.Count(faultfs.Sync), m.disk.Count(faultfs.SyncDir)
	err := write()
	files, dirs = m.disk.Count(faultfs.Sync)-files, m.disk.Count(faultfs.SyncDir)-dirs
	m.notes = append(m.notes, fmt.Sprintf("%s %d+%d", name, files, dirs))
	m.total += files + dirs
	return err
}

func (m *meter) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	var words []string
	for _, en := range entries {
		word := string(en.Kind) + ":" + string(en.Status)
		var v struct {
			DecisionType string `json:"decisionType"`
		}
		if en.Kind == "decision" && json.Unmarshal(en.Value, &v) == nil {
			word = v.DecisionType
		}
		words = append(words, word)
	}
	return m.measure(strings.Join(words, "+"), func() error { return m.Store.AppendAll(ctx, runID, entries, lock) })
}

func (m *meter) PutMeta(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
	return m.measure("meta:"+meta.Status, func() error { return m.Store.PutMeta(ctx, meta, lock) })
}

func (m *meter) Put(ctx context.Context, ref string, data []byte) error {
	return m.measure(strings.Split(ref, "/")[1], func() error { return m.Store.Put(ctx, ref, data) })
}

// take returns the notes so far and what they add up to, and forgets them.
func (m *meter) take() (notes []string, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	notes, total = m.notes, m.total
	m.notes, m.total = nil, 0
	return notes, total
}

// costs are what the promise in the README adds up, in syncs.
const (
	costBegin      = 2 // of a segment: its metadata
	costEnd        = 2 // of a segment: its metadata
	costSettle     = 1 // of a segment that has added something
	costFirst      = 1 // the journal's name, at the first record of a segment
	costStep       = 1
	costFact       = 1 // a clock reading, a random draw
	costChild      = 2 // a workflow within: its start, its end
	costAgent      = 4 // its start, its transcript, its end
	costToolTurn   = 2 // its checkpoint
	costIntent     = 2 // a checkpoint more, where somebody asks for it
	costWait       = 1 // for an approval or a value
	costAnswer     = 1
	costMark       = 1 // that an approval is used
	costCheckpoint = 2 // before an approval is asked for
	costFirstBlob  = 2 // the run's directory, and the kind's
	costOtherKind  = 1 // the directory of another kind of blob
)

// TestSyncsOfARun holds what runs cost to the README.
func TestSyncsOfARun(t *testing.T) {
	step := func(c *rulvar.Ctx, label string) error {
		_, err := rulvar.Step(c, label, func(context.Context) (int, error) { return 1, nil }, nil)
		return err
	}
	agent := func(c *rulvar.Ctx, prompt string, tools ...rulvar.ToolSource) error {
		_, err := rulvar.Agent[string](c, prompt, &rulvar.AgentOptions{Tools: tools})
		return err
	}
	look := literalTool(t, rulvar.ToolConfig{Name: "look", Risk: rulvar.RiskRead}, deploySchema, nil, "fine")
	deploy := deployTool(t, nil)
	inner := rulvar.DefineWorkflow("inner", func(c *rulvar.Ctx, _ int) (int, error) { return 0, step(c, "x") })
	for name, c := range map[string]struct {
		config rulvar.Config
		body   func(c *rulvar.Ctx) error
		// what the run itself costs, what a resume costs where it was
		// suspended, and what another resume costs
		cost, resume int
		writes       string // of the run
	}{
		"empty": {
			body:   func(*rulvar.Ctx) error { return nil },
			cost:   costBegin + costFirst + costSettle + costEnd,
			writes: "meta:running 1+1, run_settle 1+1, meta:ok 1+1",
		},
		"a step": {
			body:   func(c *rulvar.Ctx) error { return step(c, "a") },
			cost:   costBegin + costFirst + costStep + costSettle + costEnd,
			writes: "meta:running 1+1, step:running+step:ok 1+1, run_settle 1+0, meta:ok 1+1",
		},
		"three steps": {
			body: func(c *rulvar.Ctx) error {
				_, _ = step(c, "a"), step(c, "b")
				return step(c, "c")
			},
			cost: costBegin + costFirst + 3*costStep + costSettle + costEnd,
		},
		"facts": {
			body: func(c *rulvar.Ctx) error {
				_, _ = c.Now()
				_, err := c.UUID()
				return err
			},
			cost:   costBegin + costFirst + 2*costFact + costSettle + costEnd,
			writes: "meta:running 1+1, rand:ok 1+1, rand:ok 1+0, run_settle 1+0, meta:ok 1+1",
		},
		"an agent": {
			body:   func(c *rulvar.Ctx) error { return agent(c, "Greet") },
			cost:   costBegin + costFirst + costAgent + costFirstBlob + costSettle + costEnd,
			writes: "meta:running 1+1, agent:running 1+1, tr 1+3, agent:ok 1+0, run_settle 1+0, meta:ok 1+1",
		},
		"two agents": {
			body: func(c *rulvar.Ctx) error {
				_ = agent(c, "Greet")
				return agent(c, "Greet")
			},
			cost: costBegin + costFirst + 2*costAgent + costFirstBlob + costSettle + costEnd,
		},
		"a turn with a tool": {
			body:   func(c *rulvar.Ctx) error { return agent(c, "Look", look) },
			cost:   costBegin + costFirst + costAgent + costToolTurn + costFirstBlob + costOtherKind + costSettle + costEnd,
			writes: "meta:running 1+1, agent:running 1+1, ckpt 1+3, tr 1+2, agent:ok 1+0, run_settle 1+0, meta:ok 1+1",
		},
		"an approval": {
			body:   func(c *rulvar.Ctx) error { return agent(c, "Ship api", deploy) },
			cost:   costBegin + costFirst + 1 + costCheckpoint + costFirstBlob + costWait + costSettle + costEnd,
			resume: costBegin + costFirst + costMark + costToolTurn + costOtherKind + costAgent - 1 + costSettle + costEnd,
			writes: "meta:running 1+1, agent:running 1+1, ckpt 1+3, approval:suspended 1+0, run_settle 1+0, meta:suspended 1+1",
		},
		"an approval, calls reported": {
			config: rulvar.Config{OnInterrupted: rulvar.InterruptedReport},
			body:   func(c *rulvar.Ctx) error { return agent(c, "Ship api", deploy) },
			cost:   costBegin + costFirst + 1 + costCheckpoint + costFirstBlob + costWait + costSettle + costEnd,
			resume: costBegin + costFirst + costMark + costIntent + costToolTurn + costOtherKind + costAgent - 1 + costSettle + costEnd,
		},
		"a value from outside": {
			body: func(c *rulvar.Ctx) error {
				_, err := rulvar.AwaitExternal[json.RawMessage](c, "k", "p", nil)
				return err
			},
			cost:   costBegin + costFirst + costWait + costSettle + costEnd,
			resume: costBegin + costFirst + costSettle + costEnd,
		},
		"a workflow within": {
			body: func(c *rulvar.Ctx) error {
				_, err := rulvar.CallWorkflow(c, inner, 0, "")
				return err
			},
			cost:   costBegin + costFirst + costChild + costStep + costSettle + costEnd,
			writes: "meta:running 1+1, child:running 1+1, step:running+step:ok 1+0, child:ok 1+0, run_settle 1+0, meta:ok 1+1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.New()
			m := &meter{Store: diskStore(t, disk), disk: disk}
			greet := rulvartest.Script{Prompt: "Greet", Turns: []rulvartest.Turn{{Text: "hi"}}}
			c.config.Store, c.config.Model = m, "test:m"
			c.config.Providers = []llm.Provider{rulvartest.NewProvider("test", lookScript, shipScript, greet)}
			e := rulvartest.NewEngine(t, c.config)
			w := rulvar.DefineWorkflow("w", func(ctx *rulvar.Ctx, _ int) (int, error) { return 0, c.body(ctx) })
			settles := func(h *rulvar.RunHandle[int], err error, cost int) (rulvar.Outcome[int], string) {
				t.Helper()
				require.NoError(t, err)
				out, err := h.Result(t.Context())
				require.NoError(t, err)
				notes, total := m.take()
				require.Equal(t, cost, total, "%v", notes)
				return out, strings.Join(notes, ", ")
			}
			h, err := rulvar.Run(t.Context(), e, w, 0, &rulvar.RunOptions{RunID: "r1"})
			out, notes := settles(h, err, c.cost)
			if c.writes != "" {
				require.Equal(t, c.writes, notes)
			}
			if out.Status == rulvar.RunSuspended {
				var answer any = rulvar.Approve("")
				if out.Pending[0].Call == nil {
					answer = 7
				}
				_, err := e.Resolve(t.Context(), "r1", out.Pending[0].Key, answer)
				require.NoError(t, err)
				notes, total := m.take()
				require.Equal(t, costAnswer+costFirst, total, "%v", notes)
				h, err = rulvar.Resume(t.Context(), e, w, "r1", nil)
				settles(h, err, c.resume)
			}
			h, err = rulvar.Resume(t.Context(), e, w, "r1", nil)
			settles(h, err, costBegin+costEnd)
		})
	}
}

// TestSyncsOfMaintenance holds what the care of runs costs to its comments.
func TestSyncsOfMaintenance(t *testing.T) {
	k := keep(t)
	cost := func(disk *faultfs.FS, what string, want int, call func() error) {
		t.Helper()
		before := disk.Count(faultfs.Sync) + disk.Count(faultfs.SyncDir)
		require.NoError(t, call())
		require.Equal(t, want, disk.Count(faultfs.Sync)+disk.Count(faultfs.SyncDir)-before, what)
	}
	var text bytes.Buffer
	cost(k.disk, "export", 0, func() error { return k.engine.ExportRun(k.ctx, "r1", &text) })
	cost(k.disk, "prune", 1, func() error { _, err := k.engine.PruneRun(k.ctx, "r1"); return err })
	cost(k.disk, "prune again", 0, func() error { _, err := k.engine.PruneRun(k.ctx, "r1"); return err })
	cost(k.disk, "pending", 0, func() error { _, err := k.engine.Pending(k.ctx); return err })
	cost(k.disk, "delete", 2+2, func() error { return k.engine.DeleteRun(k.ctx, "r1") })
	disk := faultfs.New()
	e := k.over(t, diskStore(t, disk))
	// Two marks of metadata, the records, three blobs in two directories.
	cost(disk, "import", 2+2+costFirst+1+3*2+costFirstBlob+costOtherKind, func() error {
		_, err := e.ImportRun(k.ctx, &text, "")
		return err
	})
}
