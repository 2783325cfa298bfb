//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// There are no process groups here: only the child itself is ended.
func ownGroup(*exec.Cmd) {}

func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }
