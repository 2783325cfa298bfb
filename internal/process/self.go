package process

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

// Self names the running program, for starting it once more in another role.
// On Linux it is found although its file was replaced or removed. A plug-in or
// a library of another program cannot be started, which is an error.
func Self() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-buildmode" && s.Value != "exe" && s.Value != "pie" {
				return "", fmt.Errorf("the program is built with -buildmode=%s and cannot be started again in another role", s.Value)
			}
		}
	}
	if runtime.GOOS == "linux" {
		const self = "/proc/self/exe"
		if _, err := os.Stat(self); err == nil {
			return self, nil
		}
	}
	return os.Executable()
}
