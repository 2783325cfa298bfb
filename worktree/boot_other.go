//go:build !linux && !darwin

package worktree

// readBootID is empty: nothing here tells one run of the machine from another.
func readBootID() string { return "" }
