package worktree

import "golang.org/x/sys/unix"

// readBootID tells this run of the machine from those before.
func readBootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
