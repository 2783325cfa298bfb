package rulvar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/llm"
)

// life is a run of the kill matrix within this process, on a disk in memory:
// one engine after the other does what is next for it until it is finished. It
// notes the points that the run comes to and what the run's store has told its
// callers, and each operation of the disk can be met by a hook.
type life struct {
	run  *crashRun
	dir  string // where the tools have their effects; no power cut takes them back
	disk *faultfs.FS
	// before is called before the n-th operation of the disk that changes
	// something, from 1. It may be called by several goroutines at once.
	before func(n int, op faultfs.Op, path string)

	mu     sync.Mutex
	ops    int
	points []string
	told   told
	locked bool // a segment holds the run
}

// told is what a store has said is durable.
type told struct {
	lines  map[int64]string    // records, by their seq
	files  map[string]promised // metadata and blobs
	groups int                 // writes of several records that are under way
}

// promised is the text that a file has been told to have, "" for none, and the
// one that is being put in its place.
type promised struct {
	kept, next string
	under      bool
}

func (p promised) allows(text string) bool { return text == p.kept || p.under && text == p.next }

func (o told) clone() told { return told{maps.Clone(o.lines), maps.Clone(o.files), o.groups} }

func newLife(t testing.TB, r *crashRun, disk *faultfs.FS, effects []byte) *life {
	l := &life{run: r, dir: t.TempDir(), disk: disk, told: told{lines: map[int64]string{}, files: map[string]promised{}}}
	if len(effects) > 0 {
		require.NoError(t, os.WriteFile(filepath.Join(l.dir, effectsFile), effects, 0o600))
	}
	watchers.Store(l.dir, l.reach)
	t.Cleanup(func() { watchers.Delete(l.dir) })
	disk.Inject = func(op faultfs.Op, path string) faultfs.Fault {
		if op != faultfs.Open && l.before != nil {
			l.mu.Lock()
			l.ops++
			n := l.ops
			l.mu.Unlock()
			l.before(n, op, path)
		}
		return faultfs.Fault{}
	}
	return l
}

func (l *life) reach(point string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.points = append(l.points, point)
}

// finish lets engines work until the run has a result.
func (l *life) finish() (string, error) {
	for range 20 {
		result, err := l.process()
		if result != "" || err != nil {
			return result, err
		}
	}
	return "", errors.New("the run does not come to an end")
}

// process is crashRun.process on the disk in memory.
func (l *life) process() (result string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	disk, err := rulvar.OpenFileStore("/d", &rulvar.FileStoreOptions{FS: l.disk})
	if err != nil {
		return "", err
	}
	cfg := l.run.config(l.dir)
	cfg.Store = &toldStore{disk, l}
	cfg.Providers = []llm.Provider{pointedProvider{cfg.Providers[0], l}}
	cfg.Logger = quietLog()
	engine, err := rulvar.NewEngine(cfg)
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, engine.Close(ctx))
		l.mu.Lock()
		l.locked = false
		l.mu.Unlock()
	}()
	h, err := l.run.next(ctx, engine, disk, l.run.workflow(l.dir))
	if h == nil || err != nil {
		return "", err
	}
	out, err := h.Result(ctx)
	switch {
	case out.Status == rulvar.RunOK:
		return out.Value, nil
	case out.Status == rulvar.RunSuspended:
		return "", nil
	case out.Status == rulvar.RunError && strings.Contains(err.Error(), flakyFault):
		return "", nil
	}
	return "", fmt.Errorf("the run ended with %s: %w", out.Status, err)
}

// toldStore notes what its callers are told, and the points that
// rulvartest.CrashStore has after its writes.
type toldStore struct {
	rulvar.Store
	life *life
}

func (s *toldStore) AppendAll(ctx context.Context, runID string, entries []*rulvar.Entry, lock *rulvar.RunLock) error {
	l := s.life
	group := func(n int) {
		if len(entries) > 1 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.told.groups += n
		}
	}
	group(1)
	defer group(-1)
	err := s.Store.AppendAll(ctx, runID, entries, lock)
	if err != nil {
		return err
	}
	var words []string
	l.mu.Lock()
	for _, en := range entries {
		l.told.lines[en.Seq] = lineOf(en)
		words = append(words, pointWord(en))
	}
	l.mu.Unlock()
	l.reach("append:" + strings.Join(words, "+") + ":after")
	return nil
}

// lineOf is the line of an entry, as a store writes it.
func lineOf(en *rulvar.Entry) string {
	text, err := en.AppendLine(nil)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func pointWord(en *rulvar.Entry) string {
	var v struct {
		DecisionType string `json:"decisionType"`
	}
	if en.Kind == "decision" && json.Unmarshal(en.Value, &v) == nil {
		return "decision:" + v.DecisionType
	}
	return string(en.Kind) + ":" + string(en.Status)
}

// promise notes that a file is about to have a text, and then that it has.
func (l *life) promise(name, text string, write func() error) error {
	l.mu.Lock()
	p := l.told.files[name]
	p.next, p.under = text, true
	l.told.files[name] = p
	l.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told.files[name] = promised{kept: text}
	return nil
}

func (s *toldStore) PutMeta(ctx context.Context, meta *rulvar.RunMeta, lock *rulvar.RunLock) error {
	return s.life.promise("meta", metaText(meta), func() error { return s.Store.PutMeta(ctx, meta, lock) })
}

func metaText(meta *rulvar.RunMeta) string {
	if meta == nil {
		return ""
	}
	return string(must(meta.AppendText(nil)))
}

func (s *toldStore) Put(ctx context.Context, ref string, data []byte) error {
	return s.life.promise(ref, string(data), func() error { return s.Store.Put(ctx, ref, data) })
}

func (s *toldStore) Lock(ctx context.Context, runID, owner string) (*rulvar.RunLock, error) {
	lock, err := s.Store.Lock(ctx, runID, owner)
	if err == nil {
		s.life.mu.Lock()
		s.life.locked = true
		s.life.mu.Unlock()
	}
	return lock, err
}

// pointedProvider notes the points of rulvartest.CrashProvider.
type pointedProvider struct {
	llm.Provider
	life *life
}

func (p pointedProvider) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	turn := 1
	for _, m := range req.Messages {
		if m.Role == llm.RoleAssistant {
			turn++
		}
	}
	p.life.reach(fmt.Sprintf("model:%s:%d:before", req.Messages[0].Parts[0].Text, turn))
	return p.Provider.Stream(ctx, req)
}
