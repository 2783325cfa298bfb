package rulvar

import (
	"context"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// Entry is one record of a run's journal.
type Entry = journal.Entry

// RunMeta is what a store keeps of a run beside its journal.
type RunMeta = journal.Meta

// RunLock is held by the one segment that works on a run.
type RunLock = journal.RunLock

// JournalStore keeps the journals of runs. Implementations are safe for
// concurrent use by several goroutines and several processes. See rulvartest
// for what is asked of one.
//
// A store may have a method Identity() string, which tells its runs from those
// of other stores: the same for all that share the runs, in any process and
// for ever, and no other store's; empty where it cannot tell. With it
// [Engine.SweepTrees] knows the worktrees of this store's runs from others'.
// Without it, and behind a wrapper that does not pass it on, the sweep leaves
// each tree that no journal of the store proves to be done with.
//
// A store that can delete runs has the method Delete of package storekit's
// RunDeleter. [FileStore] and [MemoryStore] have it; without it
// [Engine.DeleteRun] refuses.
type JournalStore interface {
	// AppendAll writes entries as the run's next records, in one durable step,
	// and gives each its Seq. Without the run's lock only records that close
	// or withdraw a suspension are taken.
	AppendAll(ctx context.Context, runID string, entries []*Entry, lock *RunLock) error
	// Load returns the metadata, nil where there is none, and the entries
	// whose Seq is greater than after, in order; after -1 returns all. A run
	// that does not exist has neither.
	Load(ctx context.Context, runID string, after int64) (*RunMeta, []*Entry, error)
	// PutMeta replaces the metadata of a run.
	PutMeta(ctx context.Context, meta *RunMeta, lock *RunLock) error
	// ListRuns returns the metadata of the runs that filter accepts, all where
	// it is nil, by run id. Runs whose metadata cannot be read make an error
	// beside the others' result.
	ListRuns(ctx context.Context, filter func(*RunMeta) bool) ([]*RunMeta, error)
	// Lock makes the caller the only segment of a run. A run that is held is
	// an [ErrLeaseHeld] that names its holder.
	Lock(ctx context.Context, runID, owner string) (*RunLock, error)
}

// TranscriptStore keeps the blobs of runs: checkpoints, transcripts, patches.
// A ref is a path of names, the first of them the run's id.
type TranscriptStore interface {
	// Put replaces a blob, durably.
	Put(ctx context.Context, ref string, data []byte) error
	// Get returns a blob, or nil where there is none.
	Get(ctx context.Context, ref string) ([]byte, error)
	// List returns the refs of a run, sorted.
	List(ctx context.Context, runID string) ([]string, error)
	// DeleteBlob removes a blob; one that is not there is no error.
	DeleteBlob(ctx context.Context, ref string) error
}

// Store keeps journals and transcripts in one place.
type Store interface {
	JournalStore
	TranscriptStore
}

// FileStore keeps runs as files in a directory: a JSON line per record, a blob
// per checkpoint. Several processes may use one directory at once.
type FileStore = journal.FileStore

// FileStoreOptions refine a [FileStore].
type FileStoreOptions = journal.FileOptions

// MemoryStore keeps runs in memory, for tests and for runs that need not
// outlive the process.
type MemoryStore = journal.MemoryStore

// OpenFileStore opens a directory, which is made where it is missing, as a
// store. nil options are the safe defaults: every record is synced before it
// is acknowledged.
func OpenFileStore(dir string, opts *FileStoreOptions) (*FileStore, error) {
	return journal.Open(dir, opts)
}

// NewMemoryStore makes an empty [MemoryStore].
func NewMemoryStore() *MemoryStore { return journal.NewMemoryStore() }

var (
	_ Store = (*FileStore)(nil)
	_ Store = (*MemoryStore)(nil)
)
