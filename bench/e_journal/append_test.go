package journal

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"
	_ "github.com/mattn/go-sqlite3"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	rulvar "github.com/rulvar/rulvar-go/internal/journal"
	tidwal "github.com/tidwall/wal"
	bolt "go.etcd.io/bbolt"
	_ "modernc.org/sqlite"
)

// appender writes a batch of records and returns once all of it is as durable
// as the store makes it; first is the index of the batch's first record.
type appender interface {
	append(first uint64, batch [][]byte) error
}

type peer struct {
	name string
	open func(b *testing.B, dir string) appender
}

var stores = []peer{
	{"file-fsync", func(b *testing.B, dir string) appender { return openFile(b, dir, (*os.File).Sync, 0, 0) }},
	{"file-fdatasync", func(b *testing.B, dir string) appender { return openFile(b, dir, fdatasync, 0, 0) }},
	{"file-fallocate-fdatasync", func(b *testing.B, dir string) appender { return openFile(b, dir, fdatasync, fallocated, 0) }},
	{"file-odsync-prewritten", func(b *testing.B, dir string) appender {
		return openFile(b, dir, func(*os.File) error { return nil }, prewritten, syscall.O_DSYNC)
	}},
	{"file-prewritten-fdatasync-bound", func(b *testing.B, dir string) appender { return openFile(b, dir, fdatasync, prewritten, 0) }},
	{"rulvar-file-store", openRulvar},
	{"bbolt", openBolt},
	{"tidwall-wal", openTidwall},
	{"raft-wal", openRaftWAL},
	{"sqlite-modernc-full", sqlite("sqlite", "FULL")},
	{"sqlite-modernc-normal-NOT-DURABLE", sqlite("sqlite", "NORMAL")},
	{"sqlite-mattn-full", sqlite("sqlite3", "FULL")},
	{"sqlite-mattn-normal-NOT-DURABLE", sqlite("sqlite3", "NORMAL")},
	{"nats-jetstream-sync-always", openNATS},
	{"file-nosync-NOT-DURABLE", func(b *testing.B, dir string) appender {
		return openFile(b, dir, func(*os.File) error { return nil }, 0, 0)
	}},
}

// BenchmarkAppend times one record durable before the next is written. The
// bound is one write and one fdatasync into space that is already written: a
// device flush and nothing of the file system's own journal.
func BenchmarkAppend(b *testing.B) { benchAppend(b, 1) }

// BenchmarkGroup64 times 64 records made durable together, as ns a batch.
func BenchmarkGroup64(b *testing.B) { benchAppend(b, 64) }

func benchAppend(b *testing.B, n int) {
	for _, p := range stores {
		b.Run(p.name, func(b *testing.B) {
			a := p.open(b, b.TempDir())
			batch := make([][]byte, n)
			for i := range batch {
				batch[i] = line(uint64(i))
			}
			next := uint64(1)
			b.SetBytes(int64(n * recordSize))
			b.ReportAllocs()
			for b.Loop() {
				if err := a.append(next, batch); err != nil {
					b.Fatal(err)
				}
				next += uint64(n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
		})
	}
}

// BenchmarkConcurrent64 has 64 goroutines each append one record at a time and
// wait for it to be durable; ns/op is the wall time a record.
func BenchmarkConcurrent64(b *testing.B) {
	run := func(b *testing.B, put func(seq uint64, rec []byte) error) {
		var seq atomic.Uint64
		rec := line(1)
		b.SetParallelism(32) // times GOMAXPROCS 2
		b.ReportAllocs()
		b.ResetTimer()
		start := cpuTime()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := put(seq.Add(1), rec); err != nil {
					b.Error(err)
					return
				}
			}
		})
		reportCPU(b, start, 1)
	}
	b.Run("file-group-commit-fdatasync", func(b *testing.B) {
		g := newGroup(openFile(b, b.TempDir(), fdatasync, 0, 0))
		run(b, func(_ uint64, rec []byte) error { return g.put(rec) })
	})
	b.Run("file-group-commit-prewritten-bound", func(b *testing.B) {
		g := newGroup(openFile(b, b.TempDir(), fdatasync, prewritten, 0))
		run(b, func(_ uint64, rec []byte) error { return g.put(rec) })
	})
	b.Run("rulvar-file-store", func(b *testing.B) {
		s := openRulvar(b, b.TempDir()).(*rulvarStore)
		entries := sync.Pool{New: func() any { return entry() }}
		run(b, func(uint64, []byte) error {
			e := entries.Get().(*rulvar.Entry)
			defer entries.Put(e)
			return s.put(e)
		})
	})
	b.Run("bbolt-batch", func(b *testing.B) {
		s := openBolt(b, b.TempDir()).(*boltStore)
		s.db.MaxBatchDelay = time.Millisecond
		run(b, func(seq uint64, rec []byte) error {
			return s.db.Batch(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key(seq), rec) })
		})
	})
	b.Run("bbolt-update", func(b *testing.B) {
		s := openBolt(b, b.TempDir())
		run(b, func(seq uint64, rec []byte) error { return s.append(seq, [][]byte{rec}) })
	})
	b.Run("sqlite-mattn-full", func(b *testing.B) {
		s := sqlite("sqlite3", "FULL")(b, b.TempDir())
		run(b, func(seq uint64, rec []byte) error { return s.append(seq, [][]byte{rec}) })
	})
	b.Run("nats-jetstream-sync-always", func(b *testing.B) {
		s := openNATS(b, b.TempDir())
		run(b, func(seq uint64, rec []byte) error { return s.append(seq, [][]byte{rec}) })
	})
}

// group is a reference group commit: the first waiter writes and syncs for all
// that queued up behind it.
type group struct {
	mu   sync.Mutex
	cond *sync.Cond
	to   appender
	busy bool
	next *batch // being filled
}

type batch struct {
	recs [][]byte
	done bool
	err  error
}

func newGroup(to appender) *group {
	g := &group{to: to, next: new(batch)}
	g.cond = sync.NewCond(&g.mu)
	return g
}

func (g *group) put(rec []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := g.next
	mine.recs = append(mine.recs, rec)
	for g.busy && !mine.done {
		g.cond.Wait()
	}
	if !mine.done { // nobody is writing and mine is still open: write it
		g.busy, g.next = true, new(batch)
		g.mu.Unlock()
		err := g.to.append(0, mine.recs)
		g.mu.Lock()
		mine.err, mine.done, g.busy = err, true, false
		g.cond.Broadcast()
	}
	return mine.err
}

func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// How a file's space is there before it is written to.
const (
	growing    = iota // not at all: every append moves the file's end
	fallocated        // reserved, but still marked unwritten
	prewritten        // filled with newlines, which a JSONL reader skips
)

const segment = 64 << 20

type file struct {
	f    *os.File
	sync func(*os.File) error
	buf  []byte
	off  int
	pre  bool
}

func openFile(b *testing.B, dir string, sync func(*os.File) error, space, flag int) appender {
	name := filepath.Join(dir, "journal.jsonl")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	switch space {
	case fallocated:
		err = syscall.Fallocate(int(f.Fd()), 0, 0, segment)
	case prewritten:
		_, err = f.Write(bytes.Repeat([]byte{'\n'}, segment))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil && flag != 0 {
		f.Close()
		f, err = os.OpenFile(name, os.O_RDWR|flag, 0)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return &file{f: f, sync: sync, pre: space != growing}
}

func (s *file) append(_ uint64, recs [][]byte) error {
	p := recs[0]
	if len(recs) > 1 {
		s.buf = s.buf[:0]
		for _, r := range recs {
			s.buf = append(s.buf, r...)
		}
		p = s.buf
	}
	if s.pre && s.off+len(p) > segment { // a long run starts over in its segment
		s.off = 0
		if _, err := s.f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	s.off += len(p)
	if _, err := s.f.Write(p); err != nil {
		return err
	}
	return s.sync(s.f)
}

var bucket = []byte("journal")

func key(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

type boltStore struct{ db *bolt.DB }

func openBolt(b *testing.B, dir string) appender {
	db, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0o600, nil)
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(bucket); return err })
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return &boltStore{db}
}

func (s *boltStore) append(first uint64, recs [][]byte) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		bk := tx.Bucket(bucket)
		bk.FillPercent = 1 // keys only grow
		for i, r := range recs {
			if err := bk.Put(key(first+uint64(i)), r); err != nil {
				return err
			}
		}
		return nil
	})
}

type tidStore struct {
	l *tidwal.Log
	b tidwal.Batch
}

func openTidwall(b *testing.B, dir string) appender {
	l, err := tidwal.Open(filepath.Join(dir, "wal"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return &tidStore{l: l}
}

func (s *tidStore) append(first uint64, recs [][]byte) error {
	if len(recs) == 1 {
		return s.l.Write(first, recs[0])
	}
	s.b.Clear()
	for i, r := range recs {
		s.b.Write(first+uint64(i), r)
	}
	return s.l.WriteBatch(&s.b)
}

type raftStore struct {
	w    *raftwal.WAL
	logs []*raft.Log
}

func openRaftWAL(b *testing.B, dir string) appender {
	w, err := raftwal.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	return &raftStore{w: w}
}

func (s *raftStore) append(first uint64, recs [][]byte) error {
	for len(s.logs) < len(recs) {
		s.logs = append(s.logs, new(raft.Log))
	}
	for i, r := range recs {
		s.logs[i].Index, s.logs[i].Term, s.logs[i].Data = first+uint64(i), 1, r
	}
	return s.w.StoreLogs(s.logs[:len(recs)])
}

type sqlStore struct {
	db  *sql.DB
	ins *sql.Stmt
}

func sqlite(driver, synchronous string) func(*testing.B, string) appender {
	return func(b *testing.B, dir string) appender {
		db, err := sql.Open(driver, filepath.Join(dir, "journal.db"))
		if err != nil {
			b.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		b.Cleanup(func() { db.Close() })
		for _, q := range []string{
			"PRAGMA journal_mode=WAL", "PRAGMA synchronous=" + synchronous,
			"CREATE TABLE journal (seq INTEGER PRIMARY KEY, rec BLOB NOT NULL)",
		} {
			if _, err := db.Exec(q); err != nil {
				b.Fatal(err)
			}
		}
		ins, err := db.Prepare("INSERT INTO journal (seq, rec) VALUES (?, ?)")
		if err != nil {
			b.Fatal(err)
		}
		return &sqlStore{db, ins}
	}
}

func (s *sqlStore) append(first uint64, recs [][]byte) error {
	if len(recs) == 1 {
		_, err := s.ins.Exec(int64(first), recs[0])
		return err
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	ins := tx.Stmt(s.ins)
	for i, r := range recs {
		if _, err := ins.Exec(int64(first)+int64(i), r); err != nil {
			return err
		}
	}
	return tx.Commit()
}

type natsStore struct {
	js jetstream.JetStream
}

// openNATS starts a server inside this process, reached without a socket.
func openNATS(b *testing.B, dir string) appender {
	s, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: dir, SyncAlways: true,
		NoLog: true, NoSigs: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		b.Fatal("nats: not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		b.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(context.Background(), jetstream.StreamConfig{
			Name: "J", Subjects: []string{"j"}, Storage: jetstream.FileStorage,
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nc.Close(); s.Shutdown(); s.WaitForShutdown() })
	return &natsStore{js}
}

func (s *natsStore) append(_ uint64, recs [][]byte) error {
	if len(recs) == 1 {
		_, err := s.js.Publish(context.Background(), "j", recs[0])
		return err
	}
	for _, r := range recs {
		if _, err := s.js.PublishAsync("j", r); err != nil {
			return err
		}
	}
	<-s.js.PublishAsyncComplete()
	return nil
}
