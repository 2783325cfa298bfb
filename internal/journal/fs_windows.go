package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockRange is one byte far behind any journal: a lock of Windows keeps others
// from the bytes it covers, and the holder's name must stay readable.
var lockRange = windows.Overlapped{OffsetHigh: 1 << 30}

func tryLock(f *os.File) (bool, error) {
	at := lockRange
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, &os.PathError{Op: "LockFileEx", Path: f.Name(), Err: err}
}

func unlock(f *os.File) error {
	at := lockRange
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

// syncDir does nothing: Windows offers no flush of a directory.
func syncDir(string) error { return nil }
