package rulvar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// asTree makes a JSON tree of any value.
func asTree(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	tree, err := jcs.Parse(text)
	if err != nil {
		return err.Error()
	}
	return tree
}

// normal makes trees of all facts, nil lists empty, and gives lists whose order
// is the scheduler's a fixed one where branches run at the same time.
func (f fixtureFacts) normal(concurrent bool) fixtureFacts {
	out := make(fixtureFacts)
	for name, v := range f {
		tree := asTree(v)
		if tree == nil && slices.Contains([]string{"requests", "tools", "steps", "resolutions", "agents", "pending", "open"}, name) {
			tree = []any{}
		}
		out[name] = tree
	}
	for _, r := range out.list("requests") {
		sortStrings(r, "tools")
	}
	if !concurrent {
		return out
	}
	for _, name := range []string{"tools", "steps", "agents", "pending", "open"} {
		list := out.list(name)
		sort.SliceStable(list, func(i, k int) bool { return fmt.Sprint(list[i]) < fmt.Sprint(list[k]) })
	}
	requests := out.list("requests")
	who := func(i int) string {
		r, _ := requests[i].(map[string]any)
		return fmt.Sprint(r["prompt"], r["label"], r["agentType"])
	}
	sort.SliceStable(requests, func(i, k int) bool { return who(i) < who(k) })
	return out
}

func (f fixtureFacts) list(name string) []any {
	list, _ := f[name].([]any)
	return list
}

func sortStrings(v any, name string) {
	m, _ := v.(map[string]any)
	list, _ := m[name].([]any)
	sort.Slice(list, func(i, k int) bool { return fmt.Sprint(list[i]) < fmt.Sprint(list[k]) })
}

// disagreements names the facts in which got differs from want. A listed one
// must differ from want and be as listed.
func (f fixtureFacts) disagreements(got fixtureFacts, listed map[string]json.RawMessage) []string {
	names := make(map[string]bool)
	for _, m := range []fixtureFacts{f, got} {
		for name := range m {
			names[name] = true
		}
	}
	for name := range listed {
		names[name] = true
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		same := agrees(f[name], got[name])
		ours, differs := listed[name]
		switch {
		case !differs && !same:
			out = append(out, fmt.Sprintf("%s: recorded %s, got %s", name, show(f[name]), show(got[name])))
		case differs && same:
			out = append(out, name+": listed as a difference, but it agrees")
		case differs && !agrees(asTree(ours), got[name]):
			out = append(out, fmt.Sprintf("%s: listed %s, got %s", name, ours, show(got[name])))
		}
	}
	return out
}

func show(v any) string {
	text, err := jcs.AppendTree(nil, v)
	if err != nil {
		return err.Error()
	}
	if len(text) > 1500 {
		return string(text[:1500]) + "…"
	}
	return string(text)
}

// masked reports whether a recorded text stands for what was left out: a
// sentence of the reference's engine, or a value that is new in every run.
func masked(s string) bool {
	switch s {
	case "[engine text]", "<ts>", "<now>", "<random>", "<uuid>", "<ulid>", "<hash>", "<span>":
		return true
	}
	return false
}

// agrees compares trees. A masked text of want agrees with any text or number,
// a list of masked sentences with any list of texts that is not empty.
func agrees(want, got any) bool {
	switch w := want.(type) {
	case string:
		if masked(w) {
			switch got.(type) {
			case string, json.Number:
				return true
			}
			return false
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for name, v := range w {
			if x, ok := g[name]; !ok || !agrees(v, x) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok {
			return false
		}
		if allMasked(w) && len(g) > 0 {
			return !slices.ContainsFunc(g, func(v any) bool { _, text := v.(string); return !text })
		}
		return slices.EqualFunc(w, g, agrees)
	}
	a, errA := jcs.AppendTree(nil, want)
	b, errB := jcs.AppendTree(nil, got)
	return errA == nil && errB == nil && string(a) == string(b)
}

func allMasked(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(v any) bool { s, text := v.(string); return !text || !masked(s) })
}

// runsBranches reports whether ops run at the same time.
func runsBranches(ops []fixtureOp) bool {
	return slices.ContainsFunc(ops, func(o fixtureOp) bool {
		return o.Branches != nil || o.Stages != nil || runsBranches(o.Body)
	})
}

func joinLines(lines []string) string { return "\n  " + strings.Join(lines, "\n  ") }
