//go:build unix

package interpreter

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"
)

// memoryInterval is how often the interpreter's memory is looked at: short
// enough that a variable which doubles again and again is noticed within a few
// doublings of the bound.
const memoryInterval = 5 * time.Millisecond

// watchMemory ends the process when its heap and its stacks outgrow what the
// host grants: what a command substitution reads, a variable that grows, a
// function that starts itself twice. Programs that the command starts have
// memory of their own and are not counted.
func (k *keeper) watchMemory() {
	limit := k.start.MaxMemory
	if limit == 0 {
		return
	}
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	used := func() (n uint64) {
		metrics.Read(samples)
		for _, s := range samples {
			if s.Value.Kind() == metrics.KindUint64 {
				n += s.Value.Uint64()
			}
		}
		return n
	}
	for range time.Tick(memoryInterval) {
		if used() <= limit {
			continue
		}
		runtime.GC() // garbage is no need
		if used() > limit {
			k.report(Done{Status: -1, Failure: fmt.Sprintf("the shell needed more than %d MiB of memory for variables, substitutions and functions", limit>>20)})
			k.perish()
		}
	}
}
