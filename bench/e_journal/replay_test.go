package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bytedance/sonic"
	jsonx "github.com/go-json-experiment/json"
	goccy "github.com/goccy/go-json"
	"github.com/hashicorp/raft"
	bolt "go.etcd.io/bbolt"
)

const replayed = 100_000

// journalFile is written once for all the replay benchmarks, and read from the
// page cache.
var journalFile = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		panic(err)
	}
	name := filepath.Join(dir, "journal.jsonl")
	f, err := os.Create(name)
	if err != nil {
		panic(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range uint64(replayed) {
		w.Write(line(i))
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	f.Close()
	return name
})

func TestMain(m *testing.M) {
	c := m.Run()
	if made {
		os.RemoveAll(filepath.Dir(journalFile()))
	}
	if madeRulvar {
		os.RemoveAll(rulvarDir())
	}
	os.Exit(c)
}

var made bool

// replay reads the file line by line and hands each line to f.
func replay(b *testing.B, f func(line []byte) error) {
	made = true
	name := journalFile()
	b.SetBytes(replayed * recordSize)
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		fd, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		r := bufio.NewReaderSize(fd, 1<<20)
		n := 0
		for {
			l, err := r.ReadSlice('\n')
			if err == io.EOF {
				break
			}
			if err == nil {
				err = f(l)
			}
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		fd.Close()
		if n != replayed {
			b.Fatalf("%d records", n)
		}
	}
	perRecord(b)
	reportCPU(b, start, 1)
}

func perRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/replayed, "ns/record")
}

var sum uint64

// BenchmarkReplay times the reading back of 100,000 records, 102.4 MB.
func BenchmarkReplay(b *testing.B) {
	for _, p := range []struct {
		name      string
		unmarshal func([]byte, any) error
	}{
		{"encoding-json", json.Unmarshal},
		{"go-json-experiment", func(b []byte, v any) error { return jsonx.Unmarshal(b, v) }},
		{"sonic", sonic.Unmarshal},
		{"sonic-fastest", sonic.ConfigFastest.Unmarshal},
		{"goccy", goccy.Unmarshal},
	} {
		b.Run("decode/"+p.name, func(b *testing.B) {
			replay(b, func(l []byte) error {
				var r record
				err := p.unmarshal(l, &r)
				sum += r.Seq
				return err
			})
		})
	}
	b.Run("decode/rulvar-load", load)
	// Only what a resume needs first: which call, which kind, did it finish.
	b.Run("decode/encoding-json-5-fields", func(b *testing.B) {
		replay(b, func(l []byte) error {
			var r struct {
				Seq    uint64 `json:"seq"`
				Kind   string `json:"kind"`
				CallID string `json:"call_id"`
				Tool   string `json:"tool"`
				OK     bool   `json:"ok"`
			}
			err := json.Unmarshal(l, &r)
			sum += r.Seq
			return err
		})
	})
	b.Run("decode/json-valid", func(b *testing.B) {
		replay(b, func(l []byte) error {
			if !json.Valid(l) {
				return fmt.Errorf("invalid")
			}
			return nil
		})
	})
	b.Run("decode/lines-crc32c", func(b *testing.B) {
		t := crc32.MakeTable(crc32.Castagnoli)
		replay(b, func(l []byte) error { sum += uint64(crc32.Checksum(l, t)); return nil })
	})
	b.Run("decode/lines-scan-bound", func(b *testing.B) {
		replay(b, func(l []byte) error { sum += uint64(len(l)); return nil })
	})
	b.Run("decode/raw-read", func(b *testing.B) {
		made = true
		name := journalFile()
		buf := make([]byte, 1<<20)
		b.SetBytes(replayed * recordSize)
		for b.Loop() {
			fd, err := os.Open(name)
			if err != nil {
				b.Fatal(err)
			}
			for {
				n, err := fd.Read(buf)
				sum += uint64(bytes.Count(buf[:n], []byte{'\n'}))
				if err == io.EOF {
					break
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			fd.Close()
		}
		perRecord(b)
	})
}

// BenchmarkReplayStore reads the same records back out of each store, without
// decoding them.
func BenchmarkReplayStore(b *testing.B) {
	fill := func(b *testing.B, a appender) {
		const n = 1000
		recs := make([][]byte, n)
		for first := uint64(1); first <= replayed; first += n {
			for i := range recs {
				recs[i] = line(first + uint64(i))
			}
			if err := a.append(first, recs); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(replayed * recordSize)
		b.ReportAllocs()
	}
	check := func(b *testing.B, n int) {
		if n != replayed {
			b.Fatalf("%d records", n)
		}
	}
	b.Run("bbolt", func(b *testing.B) {
		s := openBolt(b, b.TempDir()).(*boltStore)
		fill(b, s)
		for b.Loop() {
			n := 0
			s.db.View(func(tx *bolt.Tx) error {
				return tx.Bucket(bucket).ForEach(func(_, v []byte) error { n++; sum += uint64(v[len(v)/2]); return nil })
			})
			check(b, n)
		}
		perRecord(b)
	})
	b.Run("tidwall-wal", func(b *testing.B) {
		s := openTidwall(b, b.TempDir()).(*tidStore)
		fill(b, s)
		for b.Loop() {
			n := 0
			for i := uint64(1); i <= replayed; i++ {
				v, err := s.l.Read(i)
				if err != nil {
					b.Fatal(err)
				}
				n++
				sum += uint64(v[len(v)/2])
			}
			check(b, n)
		}
		perRecord(b)
	})
	b.Run("raft-wal", func(b *testing.B) {
		s := openRaftWAL(b, b.TempDir()).(*raftStore)
		fill(b, s)
		for b.Loop() {
			n := 0
			var l raft.Log
			for i := uint64(1); i <= replayed; i++ {
				if err := s.w.GetLog(i, &l); err != nil {
					b.Fatal(err)
				}
				n++
				sum += uint64(l.Data[len(l.Data)/2])
			}
			check(b, n)
		}
		perRecord(b)
	})
	for _, d := range []struct{ name, driver string }{{"sqlite-modernc", "sqlite"}, {"sqlite-mattn", "sqlite3"}} {
		b.Run(d.name, func(b *testing.B) {
			s := sqlite(d.driver, "FULL")(b, b.TempDir()).(*sqlStore)
			fill(b, s)
			for b.Loop() {
				n := 0
				rows, err := s.db.Query("SELECT rec FROM journal ORDER BY seq")
				if err != nil {
					b.Fatal(err)
				}
				var v []byte
				for rows.Next() {
					if err := rows.Scan(&v); err != nil {
						b.Fatal(err)
					}
					n++
					sum += uint64(v[len(v)/2])
				}
				rows.Close()
				check(b, n)
			}
			perRecord(b)
		})
	}
	b.Run("file-lines-bound", func(b *testing.B) {
		replay(b, func(l []byte) error { sum += uint64(l[len(l)/2]); return nil })
	})
}

// TestDecodersAgree holds the decoders to the same record.
func TestDecodersAgree(t *testing.T) {
	l := line(7)
	var want record
	if err := json.Unmarshal(l, &want); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func([]byte, any) error{
		"jsonx": func(b []byte, v any) error { return jsonx.Unmarshal(b, v) }, "sonic": sonic.Unmarshal, "goccy": goccy.Unmarshal,
	} {
		var got record
		if err := f(l, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v\n%+v", name, err, got)
		}
	}
}
