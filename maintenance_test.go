package rulvar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// keptRun is a run "r1" of two agents: one has ended, one waits for an
// approval. Its store is on a disk that can fail.
type keptRun struct {
	ctx      context.Context
	disk     *faultfs.FS
	store    *rulvar.FileStore
	engine   *rulvar.Engine
	workflow *rulvar.Workflow[string, string]
	model    *rulvartest.Provider
	deployed atomic.Int64
	looked   atomic.Int64
}

var lookScript = rulvartest.Script{Prompt: "Look", Turns: []rulvartest.Turn{
	{Calls: []rulvartest.Call{{ID: "l1", Tool: "look", Args: map[string]string{"service": "api"}}}},
	{Text: "seen"},
}}

func diskStore(t testing.TB, disk *faultfs.FS) *rulvar.FileStore {
	store, err := rulvar.OpenFileStore("/d", &rulvar.FileStoreOptions{FS: disk})
	require.NoError(t, err)
	return store
}

func keep(t *testing.T) *keptRun {
	k := &keptRun{ctx: testCtx(t), disk: faultfs.New()}
	k.store = diskStore(t, k.disk)
	look := literalTool(t, rulvar.ToolConfig{Name: "look", Risk: rulvar.RiskRead}, deploySchema, &k.looked, "fine")
	deploy := deployTool(t, &k.deployed)
	k.workflow = rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, service string) (string, error) {
		if _, err := rulvar.Agent[string](c, "Look", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{look}}); err != nil {
			return "", err
		}
		return rulvar.Agent[string](c, "Ship "+service, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
	})
	k.model = rulvartest.NewProvider("test", lookScript, shipScript)
	k.engine = k.over(t, k.store)
	h, err := rulvar.Run(k.ctx, k.engine, k.workflow, "api", &rulvar.RunOptions{RunID: "r1", Tags: []string{"kept"}})
	require.NoError(t, err)
	out, err := h.Result(k.ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	return k
}

// over makes an engine over a store.
func (k *keptRun) over(t *testing.T, store rulvar.Store) *rulvar.Engine {
	return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{k.model}, Model: "test:m"})
}

// finish approves what waits and resumes the run to its end.
func (k *keptRun) finish(t *testing.T, e *rulvar.Engine, runID string) {
	pending, err := e.PendingOf(k.ctx, runID)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	_, err = e.Resolve(k.ctx, runID, pending[0].Key, rulvar.Approve(""))
	require.NoError(t, err)
	h, err := rulvar.Resume(k.ctx, e, k.workflow, runID, nil)
	require.NoError(t, err)
	out, err := h.Result(k.ctx)
	require.NoError(t, err)
	require.Equal(t, "shipped", out.Value)
}

func export(t testing.TB, e *rulvar.Engine, runID string) string {
	var text bytes.Buffer
	require.NoError(t, e.ExportRun(t.Context(), runID, &text))
	return text.String()
}

// state says what a store holds of a run: "" for nothing, the status where
// there is metadata, and a digest of everything.
func state(t testing.TB, store rulvar.Store, runID string) (status, all string) {
	meta, entries, err := store.Load(t.Context(), runID, -1)
	if err != nil {
		return "damaged", err.Error()
	}
	refs, err := store.List(t.Context(), runID)
	require.NoError(t, err)
	if meta == nil && len(entries) == 0 && len(refs) == 0 {
		return "", ""
	}
	var b strings.Builder
	status = "without metadata"
	if meta != nil {
		status = meta.Status
		text, err := meta.AppendText(nil)
		require.NoError(t, err)
		b.Write(text)
	}
	for _, en := range entries {
		b.Write(en.Raw)
	}
	for _, ref := range refs {
		data, err := store.Get(t.Context(), ref)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s %q", ref, data)
	}
	return status, b.String()
}

// bare is a store that can do what a store must, and no more.
type bare struct{ rulvar.Store }

func TestDeleteRun(t *testing.T) {
	k := keep(t)
	lock, err := k.store.Lock(k.ctx, "r10", "neighbour")
	require.NoError(t, err)
	require.NoError(t, k.store.PutMeta(k.ctx, &rulvar.RunMeta{RunID: "r10", Status: "ok"}, lock))
	require.NoError(t, k.store.Put(k.ctx, "r10/ckpt/0", []byte("x")))
	require.ErrorIs(t, k.engine.DeleteRun(k.ctx, "r10"), rulvar.ErrLeaseHeld)
	require.NoError(t, lock.Release())

	require.ErrorIs(t, k.over(t, bare{k.store}).DeleteRun(k.ctx, "r1"), rulvar.ErrConfig)
	cancelled, cancel := context.WithCancel(k.ctx)
	cancel()
	require.ErrorIs(t, k.engine.DeleteRun(cancelled, "r1"), context.Canceled)
	require.ErrorIs(t, k.engine.DeleteRun(k.ctx, "../r1"), rulvar.ErrConfig)

	require.NoError(t, k.engine.DeleteRun(k.ctx, "r1"))
	status, _ := state(t, k.store, "r1")
	require.Empty(t, status)
	require.NoError(t, k.engine.DeleteRun(k.ctx, "r1"), "a second time")
	status, _ = state(t, k.store, "r10")
	require.Equal(t, "ok", status, "a run whose id begins alike")
	_, err = rulvar.Resume(k.ctx, k.engine, k.workflow, "r1", nil)
	require.ErrorIs(t, err, rulvar.ErrConfig)
}

func TestDeleteRunThatCannotBeRead(t *testing.T) {
	for _, name := range []string{"/d/r1.jsonl", "/d/r1.meta.json"} {
		t.Run(name, func(t *testing.T) {
			k := keep(t)
			f, err := k.disk.OpenFile(name, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("[[["), 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			status, _ := state(t, k.store, "r1")
			require.Equal(t, "damaged", status)
			require.Error(t, k.engine.ExportRun(k.ctx, "r1", &bytes.Buffer{}))
			require.NoError(t, k.engine.DeleteRun(k.ctx, "r1"))
			status, _ = state(t, k.store, "r1")
			require.Empty(t, status)
		})
	}
	t.Run("full disk", func(t *testing.T) {
		k := keep(t)
		k.disk.Inject = func(op faultfs.Op, _ string) faultfs.Fault {
			if op == faultfs.Write {
				return faultfs.Fault{Err: syscall.ENOSPC}
			}
			return faultfs.Fault{}
		}
		require.NoError(t, k.engine.DeleteRun(k.ctx, "r1"))
		status, _ := state(t, k.store, "r1")
		require.Empty(t, status)
	})
}

// eachCut cuts the power before each operation on the disk that work does, and
// hands what is left to check. It returns how many there were, and what a cut
// after the work leaves.
func eachCut(t *testing.T, prepare func(t *testing.T) *faultfs.FS, work func(store *rulvar.FileStore), check func(t *testing.T, disk *faultfs.FS, name string)) (cuts int, end *faultfs.FS) {
	for cut := 1; ; cut++ {
		disk := prepare(t)
		rng := rand.New(rand.NewPCG(uint64(cut), 7))
		var left []*faultfs.FS
		n := 0
		disk.Inject = func(faultfs.Op, string) faultfs.Fault {
			if n++; n == cut {
				for range 4 { // what a disk has kept is chance
					left = append(left, disk.Crash(rng))
				}
			}
			return faultfs.Fault{}
		}
		work(diskStore(t, disk))
		if left == nil {
			return cut - 1, disk.Crash(rng)
		}
		for i, after := range left {
			check(t, after, fmt.Sprintf("cut %d, state %d", cut, i))
		}
	}
}

// copyRun copies a run from one disk to a new one, by its text.
func copyRun(t *testing.T, text string) *faultfs.FS {
	disk := faultfs.New()
	e := rulvartest.NewEngine(t, rulvar.Config{Store: diskStore(t, disk)})
	_, err := e.ImportRun(t.Context(), strings.NewReader(text), "")
	require.NoError(t, err)
	return disk
}

// TestDeleteRunCutShort: whenever the power fails, the run is as it was, or is
// gone, or is listed as one that goes and cannot be resumed.
func TestDeleteRunCutShort(t *testing.T) {
	k := keep(t)
	text := export(t, k.engine, "r1")
	_, whole := state(t, k.store, "r1")
	seen := map[string]int{}
	cuts, end := eachCut(t, func(t *testing.T) *faultfs.FS { return copyRun(t, text) }, func(store *rulvar.FileStore) {
		require.NoError(t, rulvartest.NewEngine(t, rulvar.Config{Store: store}).DeleteRun(k.ctx, "r1"))
	}, func(t *testing.T, disk *faultfs.FS, name string) {
		store := diskStore(t, disk)
		e := k.over(t, store)
		status, all := state(t, store, "r1")
		seen[status]++
		switch status {
		case "":
		case string(rulvar.RunSuspended):
			require.Equal(t, whole, all, name)
		case string(rulvar.RunDeleting):
			_, err := rulvar.Resume(k.ctx, e, k.workflow, "r1", nil)
			require.ErrorIs(t, err, rulvar.ErrConfig, name)
			require.ErrorIs(t, e.ExportRun(k.ctx, "r1", &bytes.Buffer{}), rulvar.ErrConfig, name)
			pending, err := e.Pending(k.ctx)
			require.NoError(t, err, name)
			require.Empty(t, pending, name)
		default:
			require.Fail(t, "a broken run", "%s: %s", name, status)
		}
		require.NoError(t, e.DeleteRun(k.ctx, "r1"), name)
		status, _ = state(t, store, "r1")
		require.Empty(t, status, name)
	})
	require.Greater(t, cuts, 10)
	require.Greater(t, seen["suspended"], 5)
	require.Greater(t, seen["deleting"], 5)
	status, _ := state(t, diskStore(t, end), "r1")
	require.Empty(t, status, "what was removed stays removed")
}

func TestPruneRun(t *testing.T) {
	k := keep(t)
	refs, err := k.store.List(k.ctx, "r1")
	require.NoError(t, err)
	require.Len(t, refs, 3, "two checkpoints and a transcript: %v", refs)
	lock, err := k.store.Lock(k.ctx, "r1", "segment")
	require.NoError(t, err)
	_, err = k.engine.PruneRun(k.ctx, "r1")
	require.ErrorIs(t, err, rulvar.ErrLeaseHeld)
	require.NoError(t, lock.Release())
	_, err = k.engine.PruneRun(k.ctx, "none")
	require.ErrorIs(t, err, rulvar.ErrConfig)

	removed, err := k.engine.PruneRun(k.ctx, "r1")
	require.NoError(t, err)
	require.Equal(t, []string{"r1/ckpt/0"}, removed)
	again, err := k.engine.PruneRun(k.ctx, "r1")
	require.NoError(t, err)
	require.Empty(t, again)
	k.finish(t, k.engine, "r1")
	require.EqualValues(t, 1, k.looked.Load())
	require.EqualValues(t, 1, k.deployed.Load())
	removed, err = k.engine.PruneRun(k.ctx, "r1")
	require.NoError(t, err)
	require.Len(t, removed, 1, "now the second agent has ended too")
	h, err := rulvar.Resume(k.ctx, k.engine, k.workflow, "r1", nil)
	require.NoError(t, err)
	out, err := h.Result(k.ctx)
	require.NoError(t, err)
	require.Equal(t, "shipped", out.Value, "the whole run replays")
	require.Len(t, k.model.Requests(), 4)
}

// TestPruneRunKeeps: what another record names stays, whoever wrote it.
func TestPruneRunKeeps(t *testing.T) {
	const running = `{"hashVersion":2,"seq":%d,"scope":"","key":"k","ordinal":0,"kind":"agent","status":"running"}`
	const ended = `{"hashVersion":2,"seq":%d,"ref":%d,"scope":"","key":"k","ordinal":0,"kind":"agent","status":"%s","checkpointRef":"%s"}`
	line := fmt.Sprintf
	for name, c := range map[string]struct {
		entries []string
		meta    map[string]json.RawMessage
		want    []string
	}{
		"ok":            {entries: []string{line(running, 0), line(ended, 1, 0, "ok", "r1/ckpt/0")}, want: []string{"r1/ckpt/0"}},
		"not named":     {entries: []string{line(running, 0), line(ended, 1, 0, "error", "")}, want: []string{"r1/ckpt/0"}},
		"other name":    {entries: []string{line(running, 0), line(ended, 1, 0, "limit", "r1/x")}, want: []string{"r1/ckpt/0", "r1/x"}},
		"of a run":      {entries: []string{line(running, 0), line(ended, 1, 0, "cancelled", "r10/x")}, want: []string{"r1/ckpt/0"}},
		"running":       {entries: []string{line(running, 0)}},
		"escalated":     {entries: []string{line(running, 0), line(ended, 1, 0, "escalated", "r1/ckpt/0")}},
		"no running":    {entries: []string{line(ended, 1, 0, "ok", "r1/ckpt/0")}},
		"names a live":  {entries: []string{line(running, 0), line(running, 1), line(ended, 2, 0, "ok", "r1/ckpt/1")}, want: []string{"r1/ckpt/0"}},
		"same name":     {entries: []string{line(running, 0), line(running, 1), line(ended, 2, 0, "ok", "r1/x"), line(ended, 3, 1, "ok", "r1/x")}, want: []string{"r1/ckpt/0", "r1/ckpt/1", "r1/x"}},
		"a transcript":  {entries: []string{line(running, 0), strings.Replace(line(ended, 1, 0, "ok", "r1/tr/0"), "{", `{"transcriptRef":"r1/tr/0",`, 1)}, want: []string{"r1/ckpt/0"}},
		"mentioned":     {entries: []string{line(running, 0), line(ended, 1, 0, "ok", ""), `{"hashVersion":2,"seq":2,"scope":"","key":"","kind":"future","status":"ok","value":[{"x":"r1\/ckpt\/0"}]}`}},
		"in the result": {entries: []string{line(running, 0), strings.Replace(line(ended, 1, 0, "ok", "r1/ckpt/0"), "{", `{"value":{"checkpointRef":"r1/ckpt/0"},`, 1)}},
		"in metadata":   {entries: []string{line(running, 0), line(ended, 1, 0, "ok", "")}, meta: map[string]json.RawMessage{"x": json.RawMessage(`"r1/ckpt/0"`)}},
		"abandoned":     {entries: []string{line(running, 0), line(ended, 1, 0, "ok", ""), `{"hashVersion":2,"seq":2,"ref":0,"scope":"","key":"","kind":"abandon","status":"ok","abandon":{"target":0,"authorizedBy":"host","reason":""}}`}},
		"given up":      {entries: []string{line(running, 0), line(ended, 1, 0, "ok", ""), `{"hashVersion":2,"seq":2,"ref":0,"scope":"","key":"","kind":"abandon","status":"ok","abandon":{"target":0,"authorizedBy":"host","reason":"","retainCheckpoint":false}}`}, want: []string{"r1/ckpt/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := rulvar.NewMemoryStore()
			e := rulvartest.NewEngine(t, rulvar.Config{Store: store})
			lock, err := store.Lock(t.Context(), "r1", "test")
			require.NoError(t, err)
			var entries []*rulvar.Entry
			for _, text := range c.entries {
				en, err := journal.ParseEntry([]byte(text))
				require.NoError(t, err)
				entries = append(entries, en)
			}
			require.NoError(t, store.AppendAll(t.Context(), "r1", entries, lock))
			if c.meta != nil {
				require.NoError(t, store.PutMeta(t.Context(), &rulvar.RunMeta{RunID: "r1", Extra: c.meta}, lock))
			}
			for _, ref := range []string{"r1/ckpt/0", "r1/ckpt/1", "r1/x", "r1/tr/0", "r10/x"} {
				require.NoError(t, store.Put(t.Context(), ref, nil))
			}
			require.NoError(t, lock.Release())
			removed, err := e.PruneRun(t.Context(), "r1")
			require.NoError(t, err)
			require.Equal(t, c.want, removed)
			refs, err := store.List(t.Context(), "r1")
			require.NoError(t, err)
			require.Len(t, refs, 4-len(c.want))
		})
	}
}

var errGone = errors.New("the reader has gone")

type goneWriter struct{ after int }

func (w *goneWriter) Write(b []byte) (int, error) {
	if w.after -= len(b); w.after < 0 {
		return 0, errGone
	}
	return len(b), nil
}
