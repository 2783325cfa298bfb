package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.txt")
	text := `goos: linux
BenchmarkA/ours-2   100  30 ns/op  0 B/op  0 allocs/op
BenchmarkA/ours-2   100  20 ns/op  8 B/op  1 allocs/op
BenchmarkA/bound-2  100  10 ns/op
BenchmarkC/ours-2   100  90 ns/op  6 cpu-ns/op
BenchmarkC/bound-2  100  10 ns/op  2 cpu-ns/op
BenchmarkPaired-2   100  10 ns/op  1.5 x-bound
BenchmarkPaired-2   100  10 ns/op  1.1 x-bound
PASS
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		row  row
		want string
	}{
		{"minima divided", most("a", "x", "A/ours", "A/bound", 2, 0), "| a | A/ours ÷ A/bound | 2 | ≤ 2 |  | reached |"},
		{"first step", most("a", "x", "A/ours", "A/bound", 1, 3), "| a | A/ours ÷ A/bound | 2 | ≤ 1 | ≤ 3 | first step |"},
		{"too low", least("a", "x", "A/ours", "A/bound", 4), "| a | A/ours ÷ A/bound | 2 | ≥ 4 |  | missed |"},
		{"too many", own("a", "x", "A/ours", "allocs/op", 0, 0), "| a | A/ours, allocs/op | 0.5 | ≤ 0 |  | missed |"},
		{"processor time", cpu(most("a", "x", "C/ours", "C/bound", 3, 0)), "| a | C/ours ÷ C/bound, processor time | 3 | ≤ 3 |  | reached |"},
		{"median of a figure", own("a", "x", "Paired", "x-bound", 1.3, 0), "| a | Paired, x-bound | 1.3 | ≤ 1.3 |  | reached |"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, ok := c.row.value(s)
			if got := c.row.line(v); !ok || got != c.want {
				t.Errorf("%v %s, want %s", ok, got, c.want)
			}
		})
	}
	missing := most("a", "x", "A/none", "A/bound", 1, 0)
	if _, ok := missing.value(s); ok {
		t.Error("a row without samples has a value")
	}
}
