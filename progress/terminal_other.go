//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package progress

import "io"

// terminalSize is nil: here nothing is known of terminals.
func terminalSize(io.Writer) func() (columns, rows int) { return nil }
