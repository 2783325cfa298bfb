//go:build unix

package shell

import (
	"os/exec"
	"testing"
)

// What a call costs before its command does anything, beside a real shell that
// nobody judges.
func BenchmarkRun(b *testing.B) {
	r, err := newRunner(Options{})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	j := func(command string) *job {
		return &job{command: command, dir: dir, timeout: long, judge: &judge{by: &fakePolicy{}}}
	}
	b.Run("builtin", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.run(b.Context(), j("echo hi")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("program", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.run(b.Context(), j("/bin/echo hi")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("loop of 1000 builtins", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.run(b.Context(), j("for ((i=0; i<1000; i++)); do echo $i; done")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sh -c", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/sh", "-c", "/bin/echo hi").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
