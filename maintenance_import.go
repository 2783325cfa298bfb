package rulvar

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// ImportRun brings a run into the store that [Engine.ExportRun] has written,
// under the id as, or under its own where as is "", and returns the id. All of
// the text is read and checked before anything is written: damage is an
// [ErrJournalOrder] that names line and byte, a later version of the format an
// [ErrJournalCompat]. A run that exists is never touched: the error is an
// [ErrConfig], or an [ErrLeaseHeld] while a segment works on it.
//
// Records keep their bytes; under another id those that name a blob of the run
// name it anew. Idempotency keys of tools that run outside the process hang on
// the run's id: under another id a call that is made again has another key.
//
// While the import is under way the run is listed with status [RunImporting]
// and nothing resumes it. An import that fails removes what it has written;
// one that crashed leaves that, and the next ImportRun to the id takes its
// place. The text is held in memory.
func (e *Engine) ImportRun(ctx context.Context, r io.Reader, as string) (runID string, err error) {
	p, err := journal.ReadPortable(r)
	if err != nil {
		return "", err
	}
	if as != "" {
		if p, err = p.As(as); err != nil {
			return "", err
		}
	}
	if p.Meta != nil && p.Meta.WorkflowName == unfinished {
		return "", errs.New(errs.JournalOrder, opImport, p.RunID, "the text is of a run that is not whole")
	}
	lock, err := e.holdNew(ctx, p.RunID)
	if err != nil {
		return "", err
	}
	if err := e.putRun(ctx, p, lock); err != nil {
		return "", errors.Join(err, e.undoImport(ctx, p.RunID, lock))
	}
	return p.RunID, lock.Release()
}

const opImport = "ImportRun"

// holdNew takes the lock of a run that must not exist, and removes what a
// crashed import has left under its id.
func (e *Engine) holdNew(ctx context.Context, runID string) (*RunLock, error) {
	for try := 0; ; try++ {
		lock, err := e.store.Lock(ctx, runID, owner()+" "+opImport)
		if err != nil {
			return nil, err
		}
		left, err := e.leftover(ctx, runID)
		if err == nil && !left {
			return lock, nil
		}
		store, ok := e.store.(journal.RunDeleter)
		if err == nil && (!ok || try > 0) {
			err = errs.New(errs.Config, opImport, runID, "an import of this run was cut short, and the store cannot remove what it left")
		}
		if err != nil {
			return nil, errors.Join(err, lock.Release())
		}
		// The lock goes with what it guards. Whoever is faster now is met
		// again above.
		if err := store.Delete(ctx, runID, lock); err != nil {
			return nil, err
		}
	}
}

// leftover reports whether a crashed import is all that stands under an id;
// a run that stands there is an error.
func (e *Engine) leftover(ctx context.Context, runID string) (bool, error) {
	meta, entries, err := e.store.Load(ctx, runID, -1)
	if err != nil && e.importCrashed(ctx, runID) {
		return true, nil // its journal was cut off too
	}
	switch {
	case err != nil:
		return false, errs.Wrap(errs.Config, opImport, runID, "something that cannot be read stands under this id", err)
	case meta != nil && meta.WorkflowName == unfinished && meta.Status == string(RunImporting):
		return true, nil
	case meta != nil || len(entries) > 0:
		return false, errs.New(errs.Config, opImport, runID, "the run exists: import it under another id, or delete that one first")
	}
	refs, err := e.store.List(ctx, runID)
	if err == nil && len(refs) > 0 {
		err = errs.New(errs.Config, opImport, runID, fmt.Sprintf("there is no such run, and %d blobs of it; DeleteRun removes them", len(refs)))
	}
	return false, err
}

// importCrashed looks for the mark of an import where the run cannot be read.
func (e *Engine) importCrashed(ctx context.Context, runID string) bool {
	metas, _ := e.store.ListRuns(ctx, func(m *RunMeta) bool { // the error is of the runs that cannot be read
		return m.RunID == runID && m.WorkflowName == unfinished && m.Status == string(RunImporting)
	})
	return len(metas) > 0
}

// putRun writes the run: the mark first, the metadata last. What a crash
// leaves bears the mark.
func (e *Engine) putRun(ctx context.Context, p *journal.Portable, lock *RunLock) error {
	meta := p.Meta
	if meta == nil { // what a resume takes for a run without
		meta = &RunMeta{RunID: p.RunID, Segments: 1, ExecKeyDerivation: 2}
	}
	if err := e.store.PutMeta(ctx, marked(RunMeta{RunID: p.RunID, Name: meta.Name, Tags: meta.Tags}, RunImporting), lock); err != nil {
		return err
	}
	for _, b := range p.Blobs {
		if err := e.store.Put(ctx, b.Ref, b.Data); err != nil {
			return err
		}
	}
	if err := e.store.AppendAll(ctx, p.RunID, p.Entries, lock); err != nil {
		return err
	}
	return e.store.PutMeta(ctx, meta, lock)
}

// undoImport removes what an import has written, or else gives up the lock:
// what it leaves bears the mark.
func (e *Engine) undoImport(ctx context.Context, runID string, lock *RunLock) error {
	if store, ok := e.store.(journal.RunDeleter); ok {
		return store.Delete(context.WithoutCancel(ctx), runID, lock)
	}
	return lock.Release()
}
