package worktree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/isolation"
)

// The provider's directory holds, for each tree:
//
//	<id>        the work tree
//	<id>.git    our git directory for it: index, private objects
//	<id>.json   the record: what the tree is and who has it
//	<id>.lock   locked by who decides what becomes of the tree
//
// and "lock", which is locked while records are counted or handed over. The
// record is written first and removed last, so that nothing is ever there
// without one. The repository's git directory has worktrees/<id>, which makes
// the tree a linked worktree.

// state is what a tree is being used for.
type state string

const (
	making      state = "making"
	live        state = "live"
	parked      state = "parked"
	failed      state = "failed"
	uncollected state = "uncollected"
	pooled      state = "pooled"
	removing    state = "removing"
)

var pinnedStates = map[state]isolation.Keep{parked: isolation.KeepParked, failed: isolation.KeepFailed, uncollected: isolation.KeepUncollected}

// record is what is written of a tree.
type record struct {
	ID       string    `json:"id"`
	RunID    string    `json:"runId"`
	SpanID   string    `json:"spanId,omitempty"`
	Store    string    `json:"store,omitempty"`
	Path     string    `json:"path"`
	Base     string    `json:"base"`
	Common   string    `json:"repository"`
	State    state     `json:"state"`
	Snapshot string    `json:"snapshot,omitempty"`
	Since    time.Time `json:"since"`
	// Boot is the run of the machine in which the record was written.
	Boot string `json:"boot,omitempty"`
	// IndexTime is when our index was written: what was changed at that moment
	// or later may look unchanged.
	IndexTime time.Time `json:"indexTime"`
}

func (t *record) dir() string      { return filepath.Dir(t.Path) }
func (t *record) private() string  { return filepath.Join(t.dir(), t.ID+".git") }
func (t *record) index() string    { return filepath.Join(t.private(), "index") }
func (t *record) file() string     { return filepath.Join(t.dir(), t.ID+".json") }
func (t *record) lockFile() string { return filepath.Join(t.dir(), t.ID+".lock") }
func (t *record) admin() string    { return filepath.Join(t.Common, "worktrees", t.ID) }

// tree is the record as others see it. A tree whose removal has begun is
// nobody's.
func (t *record) tree() isolation.Tree {
	if t.State == removing {
		return isolation.Tree{ID: t.ID, Path: t.Path, Base: t.Base}
	}
	return isolation.Tree{ID: t.ID, RunID: t.RunID, Store: t.Store, Path: t.Path, Base: t.Base, Pinned: pinnedStates[t.State]}
}

// What a record must outlive
//
// A process that dies takes nothing with it that it has written. A power cut
// does: the content of a tree is never synced, so of a tree that was in use, or
// being made or cleaned, nothing can be told afterwards, whatever its record
// says. Such a tree is known by its record's Boot, which is not the machine's
// any more, and no agent goes on in it. So a record need only be durable when
// it is new, lest there be a tree without one, and where it outlives the boot:
// when the tree is pinned, and when it is no longer. In between, the states are
// appended to it and not synced; the last whole line counts.

// bootID tells this run of the machine from those before; empty where the
// system does not say. Then every state is synced.
var bootID = sync.OnceValue(readBootID)

// line is the record in a new state.
func (t *record) line(s state) ([]byte, error) {
	t.State, t.Boot = s, bootID()
	text, err := json.Marshal(t)
	return append(text, '\n'), err
}

// save writes the record, durably and whole.
func (t *record) save(s state) error {
	text, err := t.line(s)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(t.dir(), ".record-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), t.file())
	}
	if err != nil {
		return err
	}
	return journal.OS().SyncDir(t.dir())
}

// note adds a state to the record, for the time that the machine runs.
func (t *record) note(s state) error {
	if bootID() == "" {
		return t.save(s)
	}
	text, err := t.line(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(t.file(), os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, os.ErrNotExist) {
		return t.save(s)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte{'\n'}, text...)) // the last one may be torn
	return errors.Join(err, f.Close())
}

// validID reports whether a text can be the id of a tree: a file name of ours.
func validID(id string) bool {
	return len(id) > 7 && len(id) < 64 && strings.HasPrefix(id, "rulvar-") && !strings.ContainsFunc(id, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// parseRecord reads a record. It takes no path from it: a record speaks of the
// tree beside it.
func parseRecord(dir, id string, text []byte) (*record, error) {
	t := &record{}
	text = lastLine(text)
	bad := func(msg string, err error) (*record, error) {
		return nil, errs.Wrap(errs.JournalIntegrity, "worktree", filepath.Join(dir, id+".json"), msg, err)
	}
	if err := json.Unmarshal(text, t); err != nil {
		return bad("the record of a worktree cannot be read", err)
	}
	if t.ID != id || !validID(id) || !filepath.IsAbs(t.Common) || !isHex(t.Base) {
		return bad("the record of a worktree is damaged", nil)
	}
	switch t.State {
	case making, live, parked, failed, uncollected, pooled, removing:
	default:
		return bad(fmt.Sprintf("the record of a worktree has the unknown state %q", t.State), nil)
	}
	t.Path = filepath.Join(dir, id)
	return t, nil
}

// lastLine is the last line that was written whole.
func lastLine(text []byte) []byte {
	text = bytes.TrimRight(text[:bytes.LastIndexByte(text, '\n')+1], "\n")
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

func isHex(s string) bool {
	return len(s) == 40 && !strings.ContainsFunc(s, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') })
}

// load reads the record of a tree; nil where there is none.
func (p *GitProvider) load(id string) (*record, error) {
	if !validID(id) {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(p.dir, id+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseRecord(p.dir, id, text)
}

// records lists all records that can be read and warns of the others.
func (p *GitProvider) records() ([]*record, error) {
	files, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, err
	}
	var list []*record
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok {
			continue
		}
		switch t, err := p.load(id); {
		case err != nil:
			p.warn(err.Error())
		case t != nil:
			list = append(list, t)
		}
	}
	return list, nil
}

// repoLocks holds one lock for each provider directory of this process: a file
// lock parts processes only.
var repoLocks sync.Map

// locked runs fn while nobody else, in this process or another, does so for
// the same directory.
func (p *GitProvider) locked(ctx context.Context, fn func() error) error {
	v, _ := repoLocks.LoadOrStore(p.dir, make(chan struct{}, 1))
	lock, _ := v.(chan struct{})
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f, err := journal.OS().OpenFile(filepath.Join(p.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // which unlocks it
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ok, err := f.TryLock()
		if err != nil {
			return err
		}
		if ok {
			return fn()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
