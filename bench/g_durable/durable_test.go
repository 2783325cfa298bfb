// Package durable times what one durable step costs: a workflow of 100 steps,
// each returning 1 kB, under rulvar on its file store and under DBOS Transact
// on SQLite (which it does not sync at each commit) and on PostgreSQL, next to
// the same records written straight to each store.
//
// PostgreSQL is used where PGURL names one (see pg.sh); its rows are skipped
// otherwise.
package durable

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
	"github.com/jackc/pgx/v5"
	"github.com/rulvar/rulvar-go"
)

const steps = 100

var payload = strings.Repeat("0123456789abcdef", 64)

func step(context.Context) (string, error) { return payload, nil }

func workflow(ctx dbos.Context, n int) (int, error) {
	total := 0
	for range n {
		s, err := dbos.RunAsStep(ctx, step)
		if err != nil {
			return 0, err
		}
		total += len(s)
	}
	return total, nil
}

func benchDBOS(b *testing.B, url string, n int) {
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{
		DatabaseURL: url, AppName: "bench", ApplicationVersion: "1", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	dbos.RegisterWorkflow(ctx, workflow)
	if err := dbos.Launch(ctx); err != nil {
		b.Fatal(err)
	}
	defer dbos.Shutdown(ctx, 10*time.Second)
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		h, err := dbos.RunWorkflow(ctx, workflow, n)
		if err != nil {
			b.Fatal(err)
		}
		if got, err := h.GetResult(); err != nil || got != n*len(payload) {
			b.Fatal(got, err)
		}
	}
	reportCPU(b, start, 1)
	if n > 0 {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
	}
}

// BenchmarkSteps is one workflow of 100 steps an op.
func BenchmarkSteps(b *testing.B) {
	pg := os.Getenv("PGURL")
	b.Run("rulvar-file-store", func(b *testing.B) { benchRulvar(b, openStore(b, nil), steps) })
	b.Run("rulvar-file-store-NOT-DURABLE", func(b *testing.B) {
		benchRulvar(b, openStore(b, &rulvar.FileStoreOptions{SyncEvery: -1}), steps)
	})
	b.Run("rulvar-memory-NOT-DURABLE", func(b *testing.B) { benchRulvar(b, rulvar.NewMemoryStore(), steps) })
	b.Run("dbos-sqlite-NOT-DURABLE", func(b *testing.B) { benchDBOS(b, "sqlite:"+filepath.Join(b.TempDir(), "dbos.db"), steps) })
	b.Run("dbos-postgres", func(b *testing.B) {
		if pg == "" {
			b.Skip("no PGURL: start a server with pg.sh")
		}
		benchDBOS(b, pg, steps)
	})
	b.Run("postgres-insert", func(b *testing.B) {
		if pg == "" {
			b.Skip("no PGURL: start a server with pg.sh")
		}
		ctx := context.Background()
		c, err := pgx.Connect(ctx, pg)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close(ctx)
		if _, err := c.Exec(ctx, "CREATE TABLE IF NOT EXISTS bench_journal (id bigserial PRIMARY KEY, rec text NOT NULL)"); err != nil {
			b.Fatal(err)
		}
		perStep(b, func(int) error {
			_, err := c.Exec(ctx, "INSERT INTO bench_journal (rec) VALUES ($1)", payload)
			return err
		})
	})
	for _, sync := range []string{"FULL", "NORMAL"} {
		b.Run("sqlite-insert-"+strings.ToLower(sync), func(b *testing.B) {
			db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "j.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			for _, q := range []string{"PRAGMA journal_mode=WAL", "PRAGMA synchronous=" + sync, "CREATE TABLE j (id INTEGER PRIMARY KEY, rec TEXT NOT NULL)"} {
				if _, err := db.Exec(q); err != nil {
					b.Fatal(err)
				}
			}
			perStep(b, func(int) error {
				_, err := db.Exec("INSERT INTO j (rec) VALUES (?)", payload)
				return err
			})
		})
	}
	b.Run("jsonl-fdatasync-bound", func(b *testing.B) { perStep(b, jsonl(b)) })
}

// BenchmarkEmpty is a workflow without steps: what starting and ending one
// costs.
func BenchmarkEmpty(b *testing.B) {
	b.Run("rulvar-file-store", func(b *testing.B) { benchRulvar(b, openStore(b, nil), 0) })
	b.Run("dbos-sqlite-NOT-DURABLE", func(b *testing.B) { benchDBOS(b, "sqlite:"+filepath.Join(b.TempDir(), "dbos.db"), 0) })
	b.Run("dbos-postgres", func(b *testing.B) {
		if os.Getenv("PGURL") == "" {
			b.Skip("no PGURL: start a server with pg.sh")
		}
		benchDBOS(b, os.Getenv("PGURL"), 0)
	})
}

func perStep(b *testing.B, put func(i int) error) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		for range steps {
			i++
			if err := put(i); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/steps, "ns/step")
}

// TestSynchronous tells which durability DBOS asks of SQLite.
func TestSynchronous(t *testing.T) {
	name := filepath.Join(t.TempDir(), "dbos.db")
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{DatabaseURL: "sqlite:" + name, AppName: "bench", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	dbos.Shutdown(ctx, time.Second)
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mode string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		t.Fatal(err)
	}
	fmt.Println("journal_mode of DBOS's file:", mode)
}
