package provider

import (
	"syscall"
	"time"
)

// cpuTime is the time that this process has spent on any core. On a machine
// that others use it is steadier than the time on the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
