//go:build !unix

package rulvartest

import (
	"os"
	"os/exec"
)

const canKill = "a process cannot be killed by itself without a trace on this system"

func killSelf() { os.Exit(137) }

func wasKilled(*os.ProcessState) bool { return false }

func askForStacks(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func reportFile() *os.File { return os.Stderr }
