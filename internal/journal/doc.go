// Package journal holds the record format of a run and the stores that keep
// it: a directory of JSON lines for one machine, and memory for tests.
//
// # Promises of the file store
//
// An entry whose Append has returned is on the disk: it survives the death of
// the process and of the machine, as far as the drive keeps what fsync told it
// to keep. Two appenders, in one process or in several on one machine, never
// share a sequence number and never mix their lines. A run has one segment at
// a time: its lock is a lock of the kernel's, which ends with the process that
// holds it, however that ends. A journal that was damaged is not read past the
// damage.
//
// The promises rest on these assumptions: fsync and rename do what POSIX says,
// the file system is a local one with flock, and only programs that take the
// same locks write to the directory. A power cut may leave any of the blocks,
// of 512 bytes, of the last write, which was not acknowledged: the journal then
// ends before the first entry of it that is not whole. There are no checksums
// in the format: a byte that changed within a string is not noticed, and damage
// that looks as a power cut does, zero bytes or newlines up to the end of a
// block, ends the journal there if at most 64 whole entries stand behind it: a
// Load warns of them, and a next append cuts them off with a warning how much
// that is; in front of more it is damage. (So is a power cut in the middle of
// one AppendAll of more than 64 entries, where it takes an early block and
// leaves a late one.)
//
// While a run is locked its journal ends in newlines written ahead, which are
// taken back at the release and cost no reader anything; see padding.go.
//
// # What a call costs
//
// Syncs, each of which costs more than everything else together:
//
//	Append, AppendAll       1, and 1 for the directory at the first under a
//	                        lock or without one; concurrent calls to one run
//	                        share them
//	  … that repairs        1 more for a torn end, 2 for a glued one
//	  … that fails          1, for what is taken back
//	PutMeta                 2: the new file, the directory
//	Put                     2: the new file, the directory; 1 more for each
//	                        directory on the way that is new to this store
//	Delete                  1, and 1 where there are blobs
//	DeleteBlob              1
//	Load, Get, List,
//	ListRuns, Lock,
//	Release                 0
//
// # Locks
//
// The segment lock is an flock on <runId>.lock, held from Lock to Release. The
// append lock is an flock on the journal itself, held for one write and one
// sync. On Windows both lock a byte far behind the files' ends.
package journal
