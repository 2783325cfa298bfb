package worktree

import (
	"os"
	"strings"
)

// readBootID tells this run of the machine from those before.
func readBootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
