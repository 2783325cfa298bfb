//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package progress

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns a function that tells the size of the terminal w is, or
// nil where it is none that can move its cursor.
func terminalSize(w io.Writer) func() (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return nil
	}
	fd := int(f.Fd())
	if _, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err != nil {
		return nil
	}
	return func() (columns, rows int) {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err != nil || size.Col == 0 || size.Row == 0 {
			return 80, 24
		}
		return int(size.Col), int(size.Row)
	}
}
