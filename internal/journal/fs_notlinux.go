//go:build !linux

package journal

import "os"

// syncFile is os.File.Sync, which on macOS asks the drive too.
func syncFile(f *os.File) error { return f.Sync() }
