package rulvar_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// fixtureMutation is what a scenario does to the files of a store.
type fixtureMutation struct {
	Op        string
	Count     int
	KeepChars int
	Index     int
	Set       map[string]json.RawMessage
	Remove    []string
	Path      string
	Bytes     int
	Fragment  string
	Entry     json.RawMessage
}

// operate performs the surgery of a scenario's i-th segment on a store that
// nobody has open. Lines are counted as the reference has written them; the
// accounting among them is left out, since it is each system's own.
func operate(t *testing.T, f *fixture, i int, store string) {
	t.Helper()
	var recorded []json.RawMessage
	for k := range min(i+1, len(f.expect.History)) {
		recorded = append(recorded, f.expect.History[k].Appended...)
	}
	for _, a := range f.History[i].After {
		if a.Op != "mutate" {
			continue
		}
		var m fixtureMutation
		require.NoError(t, json.Unmarshal(a.Mutation, &m))
		switch m.Op {
		case "deleteFile":
			require.NoError(t, os.Remove(filepath.Join(store, m.Path)))
		case "truncateFile":
			require.NoError(t, os.Truncate(filepath.Join(store, m.Path), int64(m.Bytes)))
		case "writeMeta":
			path := filepath.Join(store, f.RunID+".meta.json")
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, patched(t, text, &m), 0o600))
		default:
			recorded = operateOnLines(t, filepath.Join(store, f.RunID+".jsonl"), recorded, &m)
		}
	}
}

// operateOnLines changes a journal and returns the recorded lines without those
// that were dropped.
func operateOnLines(t *testing.T, path string, recorded []json.RawMessage, m *fixtureMutation) []json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := slices.DeleteFunc(bytes.Split(text, []byte("\n")), func(l []byte) bool { return len(bytes.TrimSpace(l)) == 0 })
	last := len(lines) - 1
	end := "\n"
	switch m.Op {
	case "dropLastLines":
		drop := len(recorded) - m.Count
		lines = lines[:last+1-countFacts(t, recorded[drop:])]
		recorded = recorded[:drop]
	case "truncateLastLine":
		lines[last] = lines[last][:min(m.KeepChars, len(lines[last])-10)]
		end = ""
	case "glueLastTwo":
		lines[last-1] = slices.Concat(lines[last-1], lines[last], []byte(m.Fragment))
		lines, end = lines[:last], ""
	case "dropFinalNewline":
		end = ""
	case "patchEntry":
		k := countFacts(t, recorded[:m.Index])
		lines[k] = patched(t, lines[k], m)
	case "appendEntry":
		line, err := plainJSON(m.Entry)
		require.NoError(t, err)
		lines = append(lines, line)
	default:
		t.Fatalf("unknown mutation %q", m.Op)
	}
	require.NoError(t, os.WriteFile(path, append(bytes.Join(lines, []byte("\n")), end...), 0o600))
	return recorded
}

// countFacts counts the recorded lines that this library writes too.
func countFacts(t *testing.T, lines []json.RawMessage) int {
	t.Helper()
	n := 0
	for _, line := range lines {
		en, err := journal.ParseEntry(line)
		require.NoError(t, err)
		if !accounting(en) {
			n++
		}
	}
	return n
}

func patched(t *testing.T, text []byte, m *fixtureMutation) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &members))
	for name, v := range m.Set {
		members[name] = v
	}
	for _, name := range m.Remove {
		delete(members, name)
	}
	return mustJSON(t, members)
}
