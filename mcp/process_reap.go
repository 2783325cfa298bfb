//go:build !linux

package mcp

// reap waits for the child's end and kills what is left of its group. A group
// keeps its number as long as it has members.
func (p *process) reap() {
	_ = p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	killGroup(p.cmd.Process)
	p.reaped = true
}
