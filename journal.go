package rulvar

import (
	"context"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// Entry is one record of a run's journal. A store needs to know nothing of it:
// package storekit writes and reads it. Of its fields these are what a reader
// asks for first:
//
//	Seq         int64            its place in the run, from 0
//	Ref         *int64           the entry that it is about, or nil
//	Scope, Key  string           where the operation stands, and what it is
//	Kind        (a string)       agent, step, external, resolution, decision and so on
//	Status      (a string)       running, ok, error, suspended and so on
//	Value       json.RawMessage  the result, the request or the answer
//	Error       json.RawMessage  the failure
//	StartedAt, EndedAt  string   RFC 3339
//	Raw         json.RawMessage  the line as it was loaded
type Entry = journal.Entry

// RunMeta is what a store keeps of a run beside its journal. Its fields, of which
// those of a foreign writer's run may be empty:
//
//	RunID, Name, WorkflowName  string
//	Tags               []string
//	Status             string           running, or how the last segment settled
//	Segments           int              how often the run was started or resumed
//	UpdatedAt          string           RFC 3339
//	BudgetUSD          *float64         the ceiling; nil is none
//	ConfigFingerprint  string
//	Args               json.RawMessage  the canonical arguments
//
// and what the engine compares (ArgsProvided, ArgsHash, Genesis,
// ExecKeyDerivation, WorkflowHash) or keeps for others (Extra).
type RunMeta = journal.Meta

// RunLock is held by the one segment that works on a run. Stores make it with
// storekit.NewRunLock. Its methods may be called from any goroutine:
//
//	RunID() string
//	Holder() storekit.Holder
//	Epoch() int64
//	Release() error
//	Use(store any, op, runID string) (done func(), err error)
//
// Use refuses a lock that was given back, or is another store's or another run's;
// done must be called when what was done under the lock has ended. Nil is the
// absence of a lock and has no methods: see storekit.NeedsLock.
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
// per checkpoint. Several processes may use one directory at once, which is
// readable by its owner only. It holds nothing open between runs and needs no
// closing. It is a [Store] that can delete runs and has an Identity.
type FileStore = journal.FileStore

// FileStoreOptions refine a [FileStore]. Its fields:
//
//	// SyncEvery is after how many appends to a run its journal is synced: 0
//	// and 1 sync each before it is acknowledged. With n > 1 up to n-1 records
//	// that were acknowledged are lost when the power fails (not when the
//	// process dies); below 0 nothing is synced. Metadata and blobs are always.
//	SyncEvery int
//	// Logger hears of each last line that is repaired. Nil says nothing.
//	Logger *slog.Logger
//
// and FS, with which this library's own tests let a disk fail.
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
