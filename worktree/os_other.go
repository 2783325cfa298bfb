//go:build !windows && (!unix || solaris || aix)

package worktree

import (
	"errors"
	"os"
)

// tryLock refuses: without file locks two processes would hand out one tree.
func tryLock(*os.File) (bool, error) {
	return false, errors.New("this system has no file locks that a worktree provider can use")
}

func syncUnsupported(error) bool { return true }
