// Package storekit holds what it takes to write a [rulvar.Store] of one's own,
// over a database for instance: the record format, the numbering of records
// and the lock that a store hands out. A store keeps the lines that [Batch]
// makes and gives them back byte for byte; it never writes JSON of its own.
//
// The suites of package rulvartest say what is asked of a store and hold it to
// that; run them all:
//
//	func TestStore(t *testing.T) {
//		rulvartest.RunJournalStoreSuite(t, open, second)
//		rulvartest.RunLeaseSuite(t, open, second)
//		rulvartest.RunTranscriptStoreSuite(t, open, second)
//	}
//
// An AppendAll goes like this, in one transaction:
//
//	b, err := storekit.NewBatch(runID, entries)    refuses what may not be written
//	lock.Use(store, "append", runID)               or b.MayUnlocked, and the run exists
//	lines, err := b.Mint(tail)                     tail as the transaction sees it
//	…                                              insert b.Seqs() and lines; commit
//	b.Acknowledge()
//
// and a Load is [ParseEntry] of each line.
//
// A store should also have the method Identity() string that
// [rulvar.JournalStore] speaks of: the database's name and address, say. It
// lets [rulvar.Engine.SweepTrees] remove the worktrees of deleted runs.
package storekit

import "github.com/rulvar/rulvar-go/internal/journal"

// Batch is the entries of one AppendAll on their way into a store. See
// [NewBatch]. Its methods, in the order of their use:
//
//	MayUnlocked() bool                      may they be written without the run's lock?
//	Mint(tail int64) ([][]byte, error)      their lines, numbered behind the run's last Seq
//	Seqs() []int64                          the numbers, in the order of the lines
//	Acknowledge()                           the lines are durable: the entries get their Seq
type Batch = journal.Batch

// Holder is who holds a run's lock, as [HeldBy] names it. Its JSON is that of
// the file store's lock file. Its fields are Owner, Host and Since (RFC 3339),
// which are strings, PID, an int, and Epoch, an int64 that grows with each
// acquisition of the run's lock.
type Holder = journal.Holder

// RunDeleter is a journal store that can also delete runs; [rulvar.FileStore]
// and [rulvar.MemoryStore] are. A store that has its method is asked by
// Engine.DeleteRun and by an import that has to clear up:
//
//	Delete(ctx context.Context, runID string, lock *rulvar.RunLock) error
//
// It removes the run's blobs, then its journal, then its metadata and its lock,
// so that a run whose removal was cut short is still listed, and gives lock back.
// Without a lock it takes the run's, an ErrLeaseHeld while somebody holds it. A run
// that does not exist is no error.
type RunDeleter = journal.RunDeleter

// NewBatch checks a run's next entries and encodes what is known of them
// before the journal's tail is: Mint numbers them, Acknowledge tells the
// entries, when their lines are durable, what they have become. A run id or an
// entry that may not be written is an ErrConfig, a payload that is not JSON an
// ErrNonSerializable.
func NewBatch(runID string, entries []*journal.Entry) (*Batch, error) {
	return journal.NewBatch(runID, entries)
}

// NewRunLock makes the lock that a store's Lock returns: of a run, given by
// store, to holder, whose Epoch must be above that of every earlier holder of
// the run, also of a deleted one. release gives the lock back; it is called
// once, after the calls that [rulvar.RunLock.Use] admitted have ended.
//
// A lock of a database that can be lost, by a timeout for instance, must be
// checked in the transaction of each call under it, by its epoch.
func NewRunLock(store any, runID string, holder Holder, release func() error) *journal.RunLock {
	return journal.NewRunLock(store, runID, holder, release)
}

// HeldBy is the ErrLeaseHeld of a call that somebody else's lock keeps out.
func HeldBy(op, runID string, h Holder) error { return journal.HeldBy(op, runID, h) }

// NeedsLock is the ErrConfig of a call that needs the run's lock and came
// without, while nobody holds it.
func NeedsLock(op, runID string) error { return journal.NeedsLock(op, runID) }

// ParseEntry reads a line that a store has kept. It shares memory with line.
// What is no record is an ErrJournalOrder that names the byte.
func ParseEntry(line []byte) (*journal.Entry, error) { return journal.ParseEntry(line) }

// ParseMeta reads the text that [rulvar.RunMeta.AppendText] wrote. What is no
// metadata is an ErrJournalOrder that names the byte.
func ParseMeta(text []byte) (*journal.Meta, error) { return journal.ParseMeta(text) }

// CheckRunID refuses, with an ErrConfig, a run id that is not 1 to 200 of
// A-Z a-z 0-9 . _ -, or that is . or .., or that ends as a file of the file
// store does.
func CheckRunID(runID string) error { return journal.CheckRunID(runID) }

// CheckBlobRef refuses, with an ErrConfig, a blob's name that is not a run id
// and at least one more part of the same alphabet, separated by /.
func CheckBlobRef(ref string) error { return journal.CheckBlobRef(ref) }
