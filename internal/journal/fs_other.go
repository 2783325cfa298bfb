//go:build !windows && (!unix || solaris || aix)

package journal

import (
	"errors"
	"os"
)

// tryLock refuses: without a lock that dies with its process two segments
// could write one journal.
func tryLock(f *os.File) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: errors.ErrUnsupported}
}

func unlock(*os.File) error { return nil }

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
