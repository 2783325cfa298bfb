package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	rulvar "github.com/rulvar/rulvar-go/internal/journal"
)

const runID = "r1"

// entry is a step as our journal keeps it: a line of recordSize bytes, newline
// included, where seq has one digit.
func entry() *rulvar.Entry {
	e := &rulvar.Entry{
		Kind: rulvar.KindStep, Status: rulvar.StatusRunning, Key: strings.Repeat("5d", 32), Scope: "wf:0/agent:2",
		SpanID: "s_01JDXW5E2Q7M3V8Y", StartedAt: "2026-11-30T07:32:11.123Z", EndedAt: "2026-11-30T07:32:11.125Z",
		Value: value(0),
	}
	l, err := e.AppendLine(nil)
	if err != nil {
		panic(err)
	}
	e.Value = value(recordSize - 1 - len(l))
	return e
}

// value is a tool's result with n bytes of text in it.
func value(n int) json.RawMessage {
	const text = `ok: 12 lines changed in segment.go, go vet and 31 tests pass. `
	return json.RawMessage(`{"changed":12,"ok":true,"text":"` + strings.Repeat(text, n/len(text)+1)[:n] + `"}`)
}

// rulvarStore appends entries of the batch's number and size: it is given no
// lines, since the store writes its own.
type rulvarStore struct {
	s       *rulvar.FileStore
	lock    *rulvar.RunLock
	entries []*rulvar.Entry
}

func openRulvar(b *testing.B, dir string) appender {
	s, err := rulvar.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	lock, err := s.Lock(context.Background(), runID, "bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { lock.Release() })
	return &rulvarStore{s: s, lock: lock}
}

func (s *rulvarStore) append(_ uint64, recs [][]byte) error {
	for len(s.entries) < len(recs) {
		s.entries = append(s.entries, entry())
	}
	batch := s.entries[:len(recs)]
	for _, e := range batch {
		e.Raw = nil
	}
	return s.s.AppendAll(context.Background(), runID, batch, s.lock)
}

// put appends one entry, from any goroutine.
func (s *rulvarStore) put(e *rulvar.Entry) error {
	e.Raw = nil
	return s.s.Append(context.Background(), runID, e, s.lock)
}

// rulvarDir holds a journal of 100,000 entries, as the store writes it.
var rulvarDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		panic(err)
	}
	f, err := os.Create(filepath.Join(dir, runID+".jsonl"))
	if err != nil {
		panic(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	e := entry()
	var l []byte
	for e.Seq = range replayed {
		e.Status, e.Ref = rulvar.StatusRunning, nil
		if prev := e.Seq - 1; prev%2 == 0 { // every second line ends the step of the one before
			e.Status, e.Ref = rulvar.StatusOK, &prev
		}
		if l, err = e.AppendLine(l[:0]); err != nil {
			panic(err)
		}
		w.Write(append(l, '\n'))
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	f.Close()
	return dir
})

// load reads the whole journal back: every line's grammar is checked, the
// envelope decoded, sequence numbers and references held to their order, and
// payloads left as text.
func load(b *testing.B) {
	madeRulvar = true
	dir := rulvarDir()
	b.SetBytes(replayed * recordSize)
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		s, err := rulvar.Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		_, entries, err := s.Load(context.Background(), runID, -1)
		if err != nil || len(entries) != replayed {
			b.Fatal(len(entries), err)
		}
		sum += uint64(entries[replayed-1].Seq)
	}
	perRecord(b)
	reportCPU(b, start, 1)
}

var madeRulvar bool

// TestRulvarEntry holds our entries to the size of the others' records, and
// the store to giving back what it was given.
func TestRulvarEntry(t *testing.T) {
	e := entry()
	l, err := e.AppendLine(nil)
	if err != nil || len(l)+1 != recordSize {
		t.Fatalf("a line of %d bytes (%v), want %d", len(l)+1, err, recordSize)
	}
	ctx := t.Context()
	s, err := rulvar.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := s.Lock(ctx, runID, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := s.AppendAll(ctx, runID, []*rulvar.Entry{entry(), entry()}, lock); err != nil {
		t.Fatal(err)
	}
	_, entries, err := s.Load(ctx, runID, -1)
	if err != nil || len(entries) != 2 || entries[1].Seq != 1 || string(entries[1].Value) != string(e.Value) {
		t.Fatal(entries, err)
	}
}
