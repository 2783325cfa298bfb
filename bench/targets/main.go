// Command targets reads the samples that run.sh wrote and prints, for each
// row of TARGETS.md, the ratio that was reached beside the goal.
//
//	targets out
//
// A ratio of times is one of minima: on a machine that others use, the least
// disturbed sample of each side is the steadier figure. Some rows of long ops
// divide processor time instead of the clock's. A figure that a paired
// benchmark reports itself, such as x-bound, is the median of its samples.
// Rows whose samples are not there are left out.
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: targets DIRECTORY")
		os.Exit(2)
	}
	all := map[string]samples{}
	files, _ := filepath.Glob(filepath.Join(os.Args[1], "*.txt"))
	for _, f := range files {
		s, err := read(f)
		if err != nil {
			fmt.Fprintln(os.Stderr, "targets:", err)
			os.Exit(1)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".txt")] = s
	}
	fmt.Println("| row | figure | reached | goal | first step | |")
	fmt.Println("|---|---|---:|---:|---:|---|")
	for _, r := range rows {
		if v, ok := r.value(all[r.item]); ok {
			fmt.Println(r.line(v))
		}
	}
}

// samples are the figures of one item by benchmark and unit.
type samples map[string]map[string][]float64

// suffix is the -GOMAXPROCS tail go test adds to a benchmark's name.
var suffix = regexp.MustCompile(`-\d+$`)

func read(file string) (samples, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := samples{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		words := strings.Fields(sc.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name := suffix.ReplaceAllString(strings.TrimPrefix(words[0], "Benchmark"), "")
		if s[name] == nil {
			s[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(words); i += 2 {
			if v, err := strconv.ParseFloat(words[i], 64); err == nil {
				s[name][words[i+1]] = append(s[name][words[i+1]], v)
			}
		}
	}
	return s, sc.Err()
}

// value is the row's figure, if its samples are there.
func (r *row) value(s samples) (float64, bool) {
	of := s[r.of]
	switch {
	case len(of) == 0:
		return 0, false
	case r.unit != "":
		return median(of[r.unit]), len(of[r.unit]) > 0
	}
	unit := "ns/op"
	if r.cpu {
		unit = "cpu-ns/op"
	}
	by := s[r.by][unit]
	if len(of[unit]) == 0 || len(by) == 0 {
		return 0, false
	}
	return slices.Min(of[unit]) / slices.Min(by), true
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// line writes the row.
func (r *row) line(v float64) string {
	sign, first := "≤", ""
	if r.atLeast {
		sign = "≥"
	}
	if r.first != 0 {
		first = fmt.Sprintf("%s %g", sign, r.first)
	}
	figure := r.of + " ÷ " + r.by
	if r.cpu {
		figure += ", processor time"
	}
	if r.unit != "" {
		figure = r.of + ", " + r.unit
	}
	return fmt.Sprintf("| %s | %s | %.4g | %s %g | %s | %s |", r.id, figure, v, sign, r.goal, first, r.verdict(v))
}

// verdict says how far the figure has come.
func (r *row) verdict(v float64) string {
	meets := func(bound float64) bool {
		if r.atLeast {
			return v >= bound
		}
		return v <= bound
	}
	switch {
	case meets(r.goal):
		return "reached"
	case r.first != 0 && meets(r.first):
		return "first step"
	}
	return "missed"
}
