package rulvar_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// While a segment of any run of the kill matrix lives, a second engine tries to
// run and to resume the same run, in between any two operations of the disk. It
// is refused with the name of the holder and writes nothing, and the first
// engine finishes the run as if nobody had come.
func TestSecondEngineIsRefusedEverywhere(t *testing.T) {
	every := 5
	if os.Getenv(fullMatrix) != "" {
		every = 1
	}
	for _, r := range crashRuns() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			plain, err := newLife(t, &r, faultfs.New(), nil).finish()
			require.NoError(t, err)
			l := newLife(t, &r, faultfs.New(), nil)
			i := newIntruder(t, l)
			l.before = func(n int, _ faultfs.Op, _ string) {
				l.mu.Lock()
				locked := l.locked
				l.mu.Unlock()
				if locked && n%every == 0 && i.busy.CompareAndSwap(false, true) {
					i.come(t)
					i.busy.Store(false)
				}
			}
			result, err := l.finish()
			require.NoError(t, err)
			require.Equal(t, plain, result)
			require.Positive(t, i.refused)
			require.Empty(t, i.disk.touched())
			_, entries, err := i.store.Load(t.Context(), crashRunID, -1)
			require.NoError(t, err)
			end := crashEndOf(t, i.store, entries, l.dir, []rulvartest.Visit{{Points: l.points}})
			end.laws(t)
			r.check(t, end)
		})
	}
}

// intruder is a second engine, over a handle of its own on the store.
type intruder struct {
	busy    atomic.Bool
	disk    *glass
	store   *rulvar.FileStore
	engine  *rulvar.Engine
	work    *rulvar.Workflow[string, string]
	refused int
}

func newIntruder(t *testing.T, l *life) *intruder {
	t.Helper()
	i := &intruder{disk: &glass{FS: l.disk}, work: l.run.workflow(t.TempDir())}
	var err error
	i.store, err = rulvar.OpenFileStore("/d", &rulvar.FileStoreOptions{FS: i.disk})
	require.NoError(t, err)
	i.disk.watching.Store(true)
	cfg := l.run.config("")
	cfg.Store, cfg.Logger = i.store, quietLog()
	i.engine = rulvartest.NewEngine(t, cfg)
	return i
}

// come tries to run and to resume; it belongs to whatever goroutine the first
// engine works in.
func (i *intruder) come(t *testing.T) {
	ctx := context.Background()
	_, err := rulvar.Run(ctx, i.engine, i.work, "api", &rulvar.RunOptions{RunID: crashRunID})
	i.mustBeRefused(t, err)
	meta, entries, err := i.store.Load(ctx, crashRunID, -1)
	if err == nil && meta == nil && len(entries) == 0 {
		return // there is nothing to resume yet
	}
	_, err = rulvar.Resume[string](ctx, i.engine, i.work, crashRunID, nil)
	i.mustBeRefused(t, err)
}

func (i *intruder) mustBeRefused(t *testing.T, err error) {
	e, ok := errors.AsType[*rulvar.Error](err)
	if !ok || !errors.Is(err, rulvar.ErrLeaseHeld) {
		t.Errorf("not refused: %v", err)
		return
	}
	holder, ok := e.Data["holder"].(journal.Holder)
	if !ok || holder.PID != os.Getpid() || holder.Owner == "" {
		t.Errorf("the holder is not named: %v, %+v", err, e.Data)
	}
	i.refused++
}

// glass is a file system that one may look through and must not touch. Taking
// and giving back a lock is not touching.
type glass struct {
	journal.FS
	watching atomic.Bool

	mu   sync.Mutex
	seen []string
}

func (g *glass) touched() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seen)
}

func (g *glass) touch(op, name string) {
	if !g.watching.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, fmt.Sprint(op, " ", name))
}

func (g *glass) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	if _, err := g.Stat(name); err != nil && flag&os.O_CREATE != 0 {
		g.touch("create", name)
	}
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &glassFile{f, g, name}, nil
}

func (g *glass) Mkdir(name string, perm fs.FileMode) error {
	g.touch("mkdir", name)
	return g.FS.Mkdir(name, perm)
}

func (g *glass) Rename(from, to string) error {
	g.touch("rename", to)
	return g.FS.Rename(from, to)
}

func (g *glass) Remove(name string) error {
	g.touch("remove", name)
	return g.FS.Remove(name)
}

type glassFile struct {
	journal.File
	g    *glass
	name string
}

func (f *glassFile) WriteAt(b []byte, at int64) (int, error) {
	f.g.touch("write", f.name)
	return f.File.WriteAt(b, at)
}

func (f *glassFile) Truncate(size int64) error {
	f.g.touch("truncate", f.name)
	return f.File.Truncate(size)
}
