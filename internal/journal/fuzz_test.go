package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// seeds adds every recorded file that matches.
func seeds(f *testing.F, pattern string, add func(text []byte)) {
	paths, err := filepath.Glob(recorded + "/*/store/" + pattern)
	if err != nil || len(paths) == 0 {
		f.Fatal("no recorded stores", err)
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		add(text)
	}
}

// FuzzParseEntry: a line is refused, or it is JSON that encoding/json agrees
// about, and writing the decoded entry again says the same.
func FuzzParseEntry(f *testing.F) {
	seen := make(map[string]bool)
	seeds(f, "*.jsonl", func(text []byte) {
		for l := range bytes.SplitSeq(text, []byte("\n")) {
			e, err := journal.ParseEntry(l)
			if err != nil || !seen[string(e.Kind)+string(e.Status)] { // one of each sort
				f.Add(l)
			}
			if err == nil {
				seen[string(e.Kind)+string(e.Status)] = true
			}
		}
	})
	f.Add([]byte(line + `,"v":1,"value":"\ud800","x":[-0.0e-1,{"":null}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := journal.ParseEntry(text)
		if err != nil {
			if !errors.Is(err, errs.JournalOrder) {
				t.Fatal(err)
			}
			return
		}
		var std struct {
			Seq          int64
			Scope, Key   string
			Kind, Status string
		}
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("not JSON: %q", text)
		}
		names := make(map[string]json.RawMessage)
		if err := json.Unmarshal(text, &names); err != nil {
			t.Fatal(err)
		}
		for name, into := range map[string]any{"seq": &std.Seq, "scope": &std.Scope, "key": &std.Key, "kind": &std.Kind, "status": &std.Status} {
			if err := json.Unmarshal(names[name], into); err != nil {
				t.Fatal(err)
			}
		}
		if std.Seq != e.Seq || std.Scope != e.Scope || std.Key != e.Key || std.Kind != string(e.Kind) || std.Status != string(e.Status) {
			t.Fatalf("%+v\n%+v", std, e)
		}
		e.Raw = nil
		again, err := e.AppendLine(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := journal.ParseEntry(again)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		twice, err := back.AppendLine(nil)
		if err != nil || !bytes.Equal(again, twice) {
			t.Fatalf("%v\n%s\n%s", err, again, twice)
		}
	})
}

// FuzzLoad: a journal is refused with its place, or read; then an append
// leaves what was read and adds one entry.
func FuzzLoad(f *testing.F) {
	seeds(f, "*.jsonl", func(text []byte) {
		if len(text) < 3000 {
			f.Add(text)
		}
	})
	f.Add([]byte(line9 + line9b + line9[:30]))
	f.Add([]byte(line9 + "\n" + line9b[:30] + "\n\n\n"))
	f.Add(append([]byte(line9+"\n"), make([]byte, 1000)...))
	hole := atBlock(line9+"\n", line9b) + strings.Repeat("\n", 513) + line11 + "\n\n\n"
	f.Add([]byte(line9 + "\n" + hole))
	f.Add([]byte(line9 + "\n" + strings.ReplaceAll(hole, "\n\n\n\n", "\n\x00\x00\n")))
	f.Fuzz(func(t *testing.T, text []byte) {
		disk := faultfs.New()
		s := open(t, "/d", &journal.FileOptions{FS: disk})
		addText(t, disk, string(text))
		_, before, err := s.Load(t.Context(), "r1", -1)
		l := lock(t, s, "r1")
		next := step(`"next"`)
		appended := s.Append(t.Context(), "r1", next, l)
		if err != nil {
			var typed *errs.Error
			if !errors.As(err, &typed) || typed.Code != errs.JournalOrder || typed.Data["line"] == nil {
				t.Fatal(err)
			}
			if appended == nil {
				t.Fatal("appended to a damaged journal")
			}
			if !bytes.Equal(text, fileText(t, disk)) {
				t.Fatal("changed a damaged journal")
			}
			return
		}
		if appended != nil {
			if len(before) > 0 && before[len(before)-1].Seq == 1<<53-1 {
				return // there is no next number
			}
			t.Fatal(appended)
		}
		_, after, err := open(t, "/d", &journal.FileOptions{FS: disk}).Load(t.Context(), "r1", -1)
		if err != nil || len(after) != len(before)+1 {
			t.Fatal(err, len(before), len(after))
		}
		for i, e := range before {
			if !bytes.Equal(e.Raw, after[i].Raw) {
				t.Fatalf("%s\n%s", e.Raw, after[i].Raw)
			}
		}
		if string(after[len(before)].Raw) != lineOf(next) {
			t.Fatalf("%s\n%s", next.Raw, after[len(before)].Raw)
		}
	})
}

// FuzzMeta: metadata is refused, or writing it again keeps every member.
func FuzzMeta(f *testing.F) {
	n := 0
	seeds(f, "*.meta.json", func(text []byte) {
		if n++; n%20 == 0 || bytes.Contains(text, []byte("tags")) {
			f.Add(text)
		}
	})
	f.Add([]byte(metaGolden))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := journal.ParseMeta(text)
		if err != nil {
			if !errors.Is(err, errs.JournalOrder) {
				t.Fatal(err)
			}
			return
		}
		again, err := m.AppendText(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := journal.ParseMeta(again)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		twice, err := back.AppendText(nil)
		if err != nil || !bytes.Equal(again, twice) {
			t.Fatalf("%v\n%s\n%s", err, again, twice)
		}
		var was, is map[string]json.RawMessage
		if json.Unmarshal(text, &was) != nil || json.Unmarshal(again, &is) != nil {
			t.Fatal("not JSON")
		}
		for name, v := range was {
			if len(is[name]) == 0 && string(v) != `""` && string(v) != "0" {
				t.Fatalf("member %q is lost: %s", name, again)
			}
		}
	})
}
