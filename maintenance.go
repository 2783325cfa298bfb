package rulvar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// The statuses of a run whose making or removal is under way, or was cut
// short. Such a run is listed and cannot be resumed; [Engine.DeleteRun]
// removes what is left of it.
const (
	RunImporting RunStatus = "importing"
	RunDeleting  RunStatus = "deleting"
)

// unfinished is the workflow that a run under construction or removal belongs
// to. No workflow can have this name, so that nothing resumes the run.
const unfinished = "rulvar/unfinished"

// marked returns metadata that says that the run is not whole.
func marked(meta RunMeta, status RunStatus) *RunMeta {
	meta.Status, meta.WorkflowName, meta.UpdatedAt = string(status), unfinished, stamp(time.Now())
	return &meta
}

// hold takes the lock of a run that exists and reads its journal. A run that a
// segment works on is an [ErrLeaseHeld].
func (e *Engine) hold(ctx context.Context, op, runID string) (*RunLock, *RunMeta, []*Entry, error) {
	// Looking first keeps a wrong id from leaving a lock file behind.
	if _, _, err := e.existing(ctx, op, runID); err != nil {
		return nil, nil, nil, err
	}
	lock, err := e.store.Lock(ctx, runID, owner()+" "+op)
	if err != nil {
		return nil, nil, nil, err
	}
	meta, entries, err := e.existing(ctx, op, runID)
	if err != nil {
		return nil, nil, nil, errors.Join(err, lock.Release())
	}
	return lock, meta, entries, nil
}

func (e *Engine) existing(ctx context.Context, op, runID string) (*RunMeta, []*Entry, error) {
	meta, entries, err := e.store.Load(ctx, runID, -1)
	switch {
	case err != nil:
		return nil, nil, err
	case meta == nil && len(entries) == 0:
		return nil, nil, errs.New(errs.Config, op, runID, "there is no such run")
	}
	return meta, entries, refuseUnfinished(op, runID, meta)
}

// refuseUnfinished refuses a run that is being made or removed.
func refuseUnfinished(op, runID string, meta *RunMeta) error {
	if meta == nil || meta.WorkflowName != unfinished {
		return nil
	}
	return errs.New(errs.Config, op, runID, fmt.Sprintf("the run is not whole, its status is %s; DeleteRun removes what is left", meta.Status))
}

// DeleteRun removes a run with everything that belongs to it, also one that
// cannot be read. It is refused with an [ErrLeaseHeld] while a segment works
// on the run, and with an [ErrConfig] by a store that has no method Delete. A
// run that does not exist is no error.
//
// The run is marked as one that goes, then its blobs, its journal, its
// metadata and its lock are removed. A crash in between leaves a run that is
// listed with status [RunDeleting], that nothing resumes, and that DeleteRun
// removes.
func (e *Engine) DeleteRun(ctx context.Context, runID string) error {
	const op = "DeleteRun"
	store, ok := e.store.(journal.RunDeleter)
	if !ok {
		return errs.New(errs.Config, op, runID, "the store cannot delete runs: it has no method Delete, see storekit.RunDeleter")
	}
	lock, err := e.store.Lock(ctx, runID, owner()+" "+op)
	if err != nil {
		return err
	}
	// A run that cannot be read needs no mark, since nothing resumes it; and a
	// full disk, which takes no mark, must not keep anybody from making room.
	if meta, entries, err := e.store.Load(ctx, runID, -1); err == nil && (meta != nil || len(entries) > 0) {
		if meta == nil {
			meta = &RunMeta{RunID: runID}
		}
		if err := e.store.PutMeta(ctx, marked(*meta, RunDeleting), lock); err != nil {
			e.log.Warn("rulvar: a run that is deleted could not be marked", "run", runID, "error", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, lock.Release())
	}
	e.disarmRun(runID)
	return store.Delete(ctx, runID, lock)
}

// PruneRun removes the checkpoints that no resume of the run can need: those
// of agents whose end is recorded, unless another record names them. It
// returns what it has removed, by name; a second call finds nothing. The
// journal and the transcripts stay, so that the run still tells everything. It
// is refused with an [ErrLeaseHeld] while a segment works on the run.
func (e *Engine) PruneRun(ctx context.Context, runID string) (removed []string, err error) {
	const op = "PruneRun"
	lock, meta, entries, err := e.hold(ctx, op, runID)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	useless, err := spentCheckpoints(runID, meta, entries)
	if err != nil {
		return nil, err
	}
	there, err := e.store.List(ctx, runID)
	if err != nil {
		return nil, err
	}
	for _, ref := range there {
		if !useless[ref] {
			continue
		}
		if err := e.store.DeleteBlob(ctx, ref); err != nil {
			return removed, err
		}
		removed = append(removed, ref)
	}
	return removed, nil
}

// spentCheckpoints names the checkpoints of agents that have ended. One is
// kept where a string anywhere else in the run's records is its name, where an
// abandon asks for it, and where it is that of an agent that has not ended.
func spentCheckpoints(runID string, meta *RunMeta, entries []*Entry) (map[string]bool, error) {
	spent, ends := endedAgents(runID, entries)
	for _, en := range entries {
		switch {
		case en.Kind == journal.KindAbandon && en.Ref != nil && retainsCheckpoint(en),
			en.Kind == journal.KindAgent && en.Status == journal.StatusRunning && !ends[en.Seq]:
			of := en.Seq
			if en.Ref != nil {
				of = *en.Ref
			}
			delete(spent, checkpointRef(runID, of))
		}
		own := ends[en.Seq]
		err := en.Mentions(func(path []string, text string) {
			if !own || len(path) != 1 || path[0] != "checkpointRef" {
				delete(spent, text)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if meta == nil {
		return spent, nil
	}
	return spent, meta.Mentions(func(_ []string, text string) { delete(spent, text) })
}

// endedAgents returns the names of the checkpoints of agents that have ended,
// and the numbers of the two entries of each.
func endedAgents(runID string, entries []*Entry) (checkpoints map[string]bool, ends map[int64]bool) {
	checkpoints, ends = make(map[string]bool), make(map[int64]bool)
	running := make(map[int64]bool)
	for _, en := range entries {
		switch {
		case en.Kind != journal.KindAgent:
		case en.Status == journal.StatusRunning:
			running[en.Seq] = true
		case en.Ref != nil && running[*en.Ref] && endsAgent(en.Status):
			ends[en.Seq], ends[*en.Ref] = true, true
			checkpoints[checkpointRef(runID, *en.Ref)] = true
			if en.CheckpointRef != "" {
				checkpoints[en.CheckpointRef] = true // as another writer names it
			}
		}
	}
	return checkpoints, ends
}

// retainsCheckpoint reports whether an abandon keeps the checkpoint of what it
// abandons, which it does unless it says otherwise.
func retainsCheckpoint(en *Entry) bool {
	var a journal.Abandon
	return json.Unmarshal(en.Abandon, &a) != nil || a.RetainCheckpoint == nil || *a.RetainCheckpoint
}

// endsAgent reports whether an agent that ended so never goes on from its
// checkpoint. One that was escalated may.
func endsAgent(s journal.Status) bool {
	switch s {
	case journal.StatusOK, journal.StatusError, journal.StatusLimit, journal.StatusCancelled:
		return true
	}
	return false
}

// ExportRun writes a run, whole, as a text that [Engine.ImportRun] of any
// engine reads: JSON lines with its metadata, the records of its journal byte
// for byte, and its blobs. It is refused with an [ErrLeaseHeld] while a segment
// works on the run, and keeps segments out while it writes. An error of w comes
// as it is; what was written by then is not a run.
//
// The text holds what the run holds, tool inputs and answers included, in the
// clear.
func (e *Engine) ExportRun(ctx context.Context, runID string, w io.Writer) (err error) {
	lock, meta, entries, err := e.hold(ctx, "ExportRun", runID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	out := journal.NewPortableWriter(w, runID)
	if err := out.Meta(meta); err != nil {
		return err
	}
	for _, en := range entries {
		if err := out.Entry(en); err != nil {
			return err
		}
	}
	refs, err := e.store.List(ctx, runID)
	if err != nil {
		return err
	}
	slices.Sort(refs)
	for _, ref := range refs {
		data, err := e.store.Get(ctx, ref)
		if err != nil {
			return err
		}
		if data == nil {
			return errs.New(errs.JournalIntegrity, "ExportRun", ref, "the blob is listed and not there")
		}
		if err := out.Blob(ref, data); err != nil {
			return err
		}
	}
	return out.Close()
}
