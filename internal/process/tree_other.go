//go:build unix && !linux

package process

import "syscall"

// Descendant is a process that was started by another.
type Descendant struct{}

// Descendants finds nobody here: a process that has left the group is not seen.
func Descendants(int) []Descendant { return nil }

// Signal does nothing.
func (Descendant) Signal(syscall.Signal) {}

// KillDescendants does nothing.
func KillDescendants(int, []Descendant) {}
