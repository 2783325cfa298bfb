package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFile flushes the data and what is needed to find it again, the file's
// length included; not the times, which would cost a journal commit of the
// file system more.
func syncFile(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}
