package rulvar_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// TestExportImport moves a suspended run to other stores, under its own name
// and another, and finishes it there: nothing is paid or done twice.
func TestExportImport(t *testing.T) {
	k := keep(t)
	text := export(t, k.engine, "r1")
	for name, as := range map[string]string{"same name": "", "own name": "r1", "another name": "copy-of-r1"} {
		t.Run(name, func(t *testing.T) {
			k.looked.Store(1)
			k.deployed.Store(0)
			requests := len(k.model.Requests())
			store := rulvar.NewMemoryStore()
			e := k.over(t, store)
			id, err := e.ImportRun(k.ctx, strings.NewReader(text), as)
			require.NoError(t, err)
			if as == "" {
				as = "r1"
			}
			require.Equal(t, as, id)
			if as == "r1" {
				require.Equal(t, text, export(t, e, id))
			}
			runs, err := e.Runs(k.ctx, nil)
			require.NoError(t, err)
			require.Len(t, runs, 1)
			require.Equal(t, []string{"kept"}, runs[0].Tags)
			require.Equal(t, "suspended", runs[0].Status)
			k.finish(t, e, id)
			require.EqualValues(t, 1, k.looked.Load())
			require.EqualValues(t, 1, k.deployed.Load())
			require.Len(t, k.model.Requests(), requests+1)
			back := k.over(t, diskStore(t, faultfs.New()))
			_, err = back.ImportRun(k.ctx, strings.NewReader(export(t, e, id)), "r1")
			require.NoError(t, err, "and a finished one goes back")
		})
	}
	_, all := state(t, k.store, "r1")
	require.NotEmpty(t, all, "the run is where it was")
}

func TestExportRunRefuses(t *testing.T) {
	k := keep(t)
	text := export(t, k.engine, "r1")
	require.ErrorIs(t, k.engine.ExportRun(k.ctx, "none", &bytes.Buffer{}), rulvar.ErrConfig)
	for n := 0; n < len(text); n += 97 {
		require.ErrorIs(t, k.engine.ExportRun(k.ctx, "r1", &goneWriter{after: n}), errGone)
	}
	lock, err := k.store.Lock(k.ctx, "r1", "segment")
	require.NoError(t, err, "the lock was given back")
	require.ErrorIs(t, k.engine.ExportRun(k.ctx, "r1", &bytes.Buffer{}), rulvar.ErrLeaseHeld)
	require.NoError(t, lock.Release())
	_, err = k.disk.Stat("/d/none.lock")
	require.Error(t, err, "a wrong id leaves nothing behind")
}

func TestImportRunRefuses(t *testing.T) {
	k := keep(t)
	text := export(t, k.engine, "r1")
	_, before := state(t, k.store, "r1")
	imports := func(text, as string, want error) {
		t.Helper()
		_, err := k.engine.ImportRun(k.ctx, strings.NewReader(text), as)
		require.ErrorIs(t, err, want)
	}
	imports(text, "", rulvar.ErrConfig)
	imports(text, "../x", rulvar.ErrConfig)
	imports(text[:len(text)/2], "other", rulvar.ErrJournalOrder)
	imports(strings.Replace(text, `"suspended"`, `"suspendee"`, 1), "other", rulvar.ErrJournalOrder)
	imports(strings.Replace(text, `"rulvarRun":1`, `"rulvarRun":9`, 1), "other", rulvar.ErrJournalCompat)
	lock, err := k.store.Lock(k.ctx, "other", "segment")
	require.NoError(t, err)
	imports(text, "other", rulvar.ErrLeaseHeld)
	require.NoError(t, lock.Release())
	require.NoError(t, k.store.Put(k.ctx, "other/ckpt/0", nil))
	imports(text, "other", rulvar.ErrConfig)
	require.NoError(t, k.engine.DeleteRun(k.ctx, "other"))
	cancelled, cancel := context.WithCancel(k.ctx)
	cancel()
	_, err = k.engine.ImportRun(cancelled, strings.NewReader(text), "other")
	require.ErrorIs(t, err, context.Canceled)
	status, _ := state(t, k.store, "other")
	require.Empty(t, status)
	_, after := state(t, k.store, "r1")
	require.Equal(t, before, after, "the run that exists is as it was")
	imports(text, "other", nil)
}

// TestImportRunCutShort: whenever the power fails, there is no run, or the
// whole run, or one that is listed as unfinished, cannot be resumed, and gives
// way to the next import.
func TestImportRunCutShort(t *testing.T) {
	k := keep(t)
	text := export(t, k.engine, "r1")
	_, whole := state(t, k.store, "r1")
	seen := map[string]int{}
	cuts, end := eachCut(t, func(*testing.T) *faultfs.FS { return faultfs.New() }, func(store *rulvar.FileStore) {
		_, err := rulvartest.NewEngine(t, rulvar.Config{Store: store}).ImportRun(k.ctx, strings.NewReader(text), "")
		require.NoError(t, err)
	}, func(t *testing.T, disk *faultfs.FS, name string) {
		store := diskStore(t, disk)
		e := k.over(t, store)
		status, all := state(t, store, "r1")
		seen[status]++
		switch status {
		case "":
		case string(rulvar.RunSuspended):
			require.Equal(t, whole, all, name)
			return
		case string(rulvar.RunImporting), "damaged": // a batch that the disk tore
			_, err := rulvar.Resume(k.ctx, e, k.workflow, "r1", nil)
			require.Error(t, err, name)
			require.ErrorIs(t, k.over(t, bare{store}).DeleteRun(k.ctx, "r1"), rulvar.ErrConfig)
			_, err = k.over(t, bare{store}).ImportRun(k.ctx, strings.NewReader(text), "")
			require.ErrorIs(t, err, rulvar.ErrConfig, "a store that cannot delete cannot begin anew: %s", name)
		default:
			require.Fail(t, "a broken run", "%s: %s", name, status)
		}
		_, err := e.ImportRun(k.ctx, strings.NewReader(text), "")
		require.NoError(t, err, name)
		_, all = state(t, store, "r1")
		require.Equal(t, whole, all, name)
	})
	require.Greater(t, cuts, 20)
	require.Greater(t, seen["importing"], 20)
	require.Positive(t, seen[""])
	_, all := state(t, diskStore(t, end), "r1")
	require.Equal(t, whole, all, "what was imported stays")
}

// TestImportRunFails: an import that meets an error takes back what it wrote.
func TestImportRunFails(t *testing.T) {
	k := keep(t)
	text := export(t, k.engine, "r1")
	for _, op := range []faultfs.Op{faultfs.Write, faultfs.Sync, faultfs.SyncDir, faultfs.Rename, faultfs.Mkdir, faultfs.Open} {
		t.Run(string(op), func(t *testing.T) {
			failed := 0
			for at := 1; ; at++ {
				disk := faultfs.New()
				store := diskStore(t, disk)
				e := k.over(t, store)
				n := 0
				disk.Inject = func(o faultfs.Op, _ string) faultfs.Fault {
					if o == op {
						if n++; n == at {
							return faultfs.Fault{Err: syscall.ENOSPC, Part: 7}
						}
					}
					return faultfs.Fault{}
				}
				_, err := e.ImportRun(k.ctx, strings.NewReader(text), "")
				if n < at {
					break
				}
				disk.Inject = nil
				status, _ := state(t, store, "r1")
				if err == nil {
					require.Equal(t, "suspended", status)
					continue // the name in the lock file, a directory above the store
				}
				failed++
				require.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
				require.Empty(t, status, "%s %d", op, at)
				_, err = e.ImportRun(k.ctx, strings.NewReader(text), "")
				if op != faultfs.Sync && op != faultfs.SyncDir {
					require.NoError(t, err)
				}
			}
			require.Positive(t, failed)
		})
	}
	t.Run("and cannot take it back", func(t *testing.T) {
		disk := faultfs.New()
		e := k.over(t, bare{diskStore(t, disk)})
		disk.Inject = func(op faultfs.Op, path string) faultfs.Fault {
			if op == faultfs.Write && strings.HasSuffix(path, ".jsonl") {
				return faultfs.Fault{Err: syscall.ENOSPC}
			}
			return faultfs.Fault{}
		}
		_, err := e.ImportRun(k.ctx, strings.NewReader(text), "")
		require.ErrorIs(t, err, syscall.ENOSPC)
		disk.Inject = nil
		status, _ := state(t, diskStore(t, disk), "r1")
		require.Equal(t, "importing", status)
		_, err = k.over(t, diskStore(t, disk)).ImportRun(k.ctx, strings.NewReader(text), "")
		require.NoError(t, err, "a store that can removes it")
	})
}

// TestImportRunWithoutMetadata: a journal alone is a run too.
func TestImportRunWithoutMetadata(t *testing.T) {
	k := keep(t)
	require.NoError(t, k.disk.Remove("/d/r1.meta.json"))
	text := export(t, k.engine, "r1")
	require.NotContains(t, text, `{"meta"`)
	e := k.over(t, rulvar.NewMemoryStore())
	id, err := e.ImportRun(k.ctx, strings.NewReader(text), "")
	require.NoError(t, err)
	pending, err := e.Pending(k.ctx)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	require.Equal(t, id, pending[0].RunID)
}

// TestImportRecorded brings runs that the reference recorded into another store
// and back; internal/journal does so with all of them, without an engine.
func TestImportRecorded(t *testing.T) {
	dirs, err := filepath.Glob("testdata/journals/*/store")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for i, dir := range dirs {
		if i%6 != 0 {
			continue
		}
		copied := t.TempDir()
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		store, err := rulvar.OpenFileStore(copied, nil)
		require.NoError(t, err)
		from := rulvartest.NewEngine(t, rulvar.Config{Store: store})
		var text bytes.Buffer
		if err := from.ExportRun(t.Context(), "r1", &text); err != nil {
			require.ErrorIs(t, err, rulvar.ErrConfig, dir) // the store holds no such run
			continue
		}
		to := rulvartest.NewEngine(t, rulvar.Config{Store: rulvar.NewMemoryStore()})
		_, err = to.ImportRun(t.Context(), bytes.NewReader(text.Bytes()), "x")
		require.NoError(t, err, dir)
		want, err := from.PendingOf(t.Context(), "r1")
		require.NoError(t, err, dir)
		got, err := to.PendingOf(t.Context(), "x")
		require.NoError(t, err, dir)
		require.Len(t, got, len(want), dir)
		_, err = to.ImportRun(t.Context(), strings.NewReader(export(t, to, "x")), "r1")
		require.NoError(t, err, dir)
		if strings.Contains(text.String(), `{"meta"`) {
			require.Equal(t, text.String(), export(t, to, "r1"), dir)
		}
	}
}

// sealedRun gives lines the end that makes them an exported run, so that what
// chance makes of them is not kept out by the hash alone.
func sealedRun(text string) string {
	text, _, _ = strings.Cut(text, `{"end":`)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf(`%s{"end":{"entries":%d,"blobs":%d,"sha256":"%x"}}`, text, strings.Count(text, "\n{\"entry\":"), strings.Count(text, "\n{\"blob\":"), sum)
}

const smallRun = `{"rulvarRun":1,"runId":"r1"}
{"meta":{"runId":"r1","status":"suspended","segments":1,"updatedAt":"","argsProvided":false,"workflowName":"ship"}}
{"entry":{"hashVersion":2,"seq":0,"scope":"","key":"k","ordinal":0,"kind":"agent","status":"running","spanId":"s1"}}
{"entry":{"hashVersion":2,"seq":1,"ref":0,"scope":"","key":"k","ordinal":0,"kind":"agent","status":"ok","spanId":"s1","value":"r1/tr/0","transcriptRef":"r1/tr/0","checkpointRef":"r1/ckpt/0","artifacts":[{"ref":"r1/patch/0"}]}}
{"blob":"r1/ckpt/0","data":"AXt9"}
{"blob":"r1/tr/0","data":""}
`

// FuzzImportRun: bytes are refused and leave nothing, or they are a run that
// travels on as it came.
func FuzzImportRun(f *testing.F) {
	f.Add([]byte(sealedRun(smallRun)), "")
	f.Add([]byte(sealedRun(smallRun)), "another")
	f.Add([]byte(smallRun), "r1")
	f.Add([]byte(sealedRun(`{"rulvarRun":1,"runId":"r1"}`)), "..")
	f.Fuzz(func(t *testing.T, text []byte, as string) {
		imports(t, string(text), as)
		imports(t, sealedRun(string(text)), as)
	})
}

func imports(t *testing.T, text, as string) {
	e, err := rulvar.NewEngine(rulvar.Config{Store: rulvar.NewMemoryStore()})
	require.NoError(t, err)
	id, err := e.ImportRun(t.Context(), strings.NewReader(text), as)
	runs, listErr := e.Runs(t.Context(), nil)
	require.NoError(t, listErr)
	if err != nil {
		require.Empty(t, runs)
		return
	}
	require.Len(t, runs, 1)
	require.Equal(t, id, runs[0].RunID)
	first := export(t, e, id)
	other, err := rulvar.NewEngine(rulvar.Config{Store: rulvar.NewMemoryStore()})
	require.NoError(t, err)
	again, err := other.ImportRun(t.Context(), strings.NewReader(first), "")
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.Equal(t, first, export(t, other, id))
	for line := range strings.Lines(first) {
		require.True(t, json.Valid([]byte(line)))
	}
	_, err = other.PruneRun(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, other.DeleteRun(t.Context(), id))
}
