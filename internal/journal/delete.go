package journal

import "context"

// RunDeleter is a journal store that can also delete runs. [FileStore] and
// [MemoryStore] are.
type RunDeleter interface {
	// Delete removes a run: its blobs, then its journal, then its metadata and
	// its lock, so that a run whose removal was cut short is still listed and
	// can be deleted again. lock is the run's, which Delete gives back; without
	// one Delete takes it, an ErrLeaseHeld while somebody holds it. A run that
	// does not exist is no error.
	Delete(ctx context.Context, runID string, lock *RunLock) error
}

var (
	_ RunDeleter = (*FileStore)(nil)
	_ RunDeleter = (*MemoryStore)(nil)
)
