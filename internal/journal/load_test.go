package journal_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// TestPollBesideAWrite: an entry of which a reader saw a part is found by its
// next look, though the journal's length and time are what they were.
func TestPollBesideAWrite(t *testing.T) {
	disk := stoppedClock{faultfs.New()}
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 3)
	text := fileText(t, disk.FS)
	end := len(bytes.TrimRight(text, "\n"))
	last := bytes.LastIndexByte(text[:end], '\n') + 1
	for n := last + 1; n < end; n += 7 {
		view := bytes.Clone(text)
		copy(view[n:], bytes.Repeat([]byte("\n"), end-n))
		reader := open(t, "/d", &journal.FileOptions{FS: &viewed{FS: disk.FS, views: [][]byte{view}, stopped: true}})
		seen := loaded(t, reader, "r1", -1)
		if len(seen) == 2 {
			require.Equal(t, []int64{2}, loaded(t, reader, "r1", 1), n)
		} else {
			require.Equal(t, []int64{0, 1, 2}, seen)
		}
	}
	require.NoError(t, l.Release())
}

// fiveEntries is a run at work, its journal's text and the lines of that.
func fiveEntries(t *testing.T) (*faultfs.FS, *journal.RunLock, []byte, [][]byte) {
	disk := faultfs.New()
	l := started(t, open(t, "/d", &journal.FileOptions{FS: disk}), "r1", 5)
	text := fileText(t, disk)
	return disk, l, text, bytes.SplitAfter(bytes.TrimRight(text, "\n"), []byte("\n"))
}

// TestReadBesideAWriterThatStays: what stands behind a gap is not taken for
// all there is when the writer does not end in time.
func TestReadBesideAWriterThatStays(t *testing.T) {
	disk, l, text, lines := fiveEntries(t)
	at := len(bytes.Join(lines[:3], nil))
	for name, to := range map[string]int{"a gap": at + len(lines[3]), "a part": at + 60} {
		t.Run(name, func(t *testing.T) {
			view := bytes.Clone(text)
			copy(view[at:to], bytes.Repeat([]byte("\n"), to-at))
			fs := &viewed{FS: disk, views: [][]byte{view}}
			reader := open(t, "/d", &journal.FileOptions{FS: fs})
			ctx, cancel := context.WithCancel(t.Context())
			held, err := disk.OpenFile("/d/r1.jsonl", 0, 0)
			require.NoError(t, err)
			ok, err := held.TryLock()
			require.True(t, ok && err == nil)
			fs.opened = cancel
			_, _, err = reader.Load(ctx, "r1", -1)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, errs.JournalOrder)
			require.NoError(t, held.Close())
			require.Equal(t, []int64{0, 1, 2, 3, 4}, loaded(t, reader, "r1", -1))
		})
	}
	require.NoError(t, l.Release())
}

// TestPollAfterAnEntryWasTakenBack: a reader that has seen an entry of a write
// that failed finds what is written in its place and behind.
func TestPollAfterAnEntryWasTakenBack(t *testing.T) {
	disk := stoppedClock{faultfs.New()}
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	reader := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 3)
	big := step(`"` + string(bytes.Repeat([]byte("x"), 2000)) + `"`)
	disk.Inject = func(op faultfs.Op, _ string) faultfs.Fault {
		if op == faultfs.Sync {
			require.Equal(t, []int64{3}, loaded(t, reader, "r1", 2))
			disk.Inject = nil
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	}
	require.Error(t, s.Append(t.Context(), "r1", big, l))
	require.NoError(t, l.Release())
	s = open(t, "/d", &journal.FileOptions{FS: disk})
	l = lock(t, s, "r1")
	require.NoError(t, s.Append(t.Context(), "r1", step(`3`), l))
	require.NoError(t, s.Append(t.Context(), "r1", step(`4`), l))
	require.Equal(t, []int64{4}, loaded(t, reader, "r1", 3))
	require.NoError(t, l.Release())
}

// TestReadBesideAWrite: what a reader sees of a write that is under way, some
// bytes of it and not others, is read again while nobody writes.
func TestReadBesideAWrite(t *testing.T) {
	disk, l, text, lines := fiveEntries(t)
	at := len(bytes.Join(lines[:3], nil))
	for name, c := range map[string]struct{ from, to int }{
		"its middle":     {at + 20, at + 60},
		"its beginning":  {at, at + 60},
		"its end":        {at + 20, at + len(lines[3])},
		"an entry":       {at, at + len(lines[3])},
		"two, one whole": {at - 10, at + len(lines[3])},
	} {
		t.Run(name, func(t *testing.T) {
			view := bytes.Clone(text)
			copy(view[c.from:c.to], bytes.Repeat([]byte("\n"), c.to-c.from))
			reader := open(t, "/d", &journal.FileOptions{FS: &viewed{FS: disk, views: [][]byte{view}}})
			require.Equal(t, []int64{0, 1, 2, 3, 4}, loaded(t, reader, "r1", -1))
		})
	}
	require.NoError(t, l.Release())
}

// viewed is a disk whose journals are first read as the views say.
type viewed struct {
	*faultfs.FS
	views   [][]byte
	opened  func() // called when a journal is opened behind the views
	stopped bool   // its clock
}

func (d *viewed) Stat(name string) (os.FileInfo, error) {
	if d.stopped {
		return stoppedClock{d.FS}.Stat(name)
	}
	return d.FS.Stat(name)
}

func (d *viewed) OpenFile(name string, flag int, perm os.FileMode) (journal.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if len(d.views) > 0 && strings.HasSuffix(name, ".jsonl") {
		f, d.views = &viewedFile{f, d.views[0]}, d.views[1:]
	} else if d.opened != nil && strings.HasSuffix(name, ".jsonl") {
		d.opened()
	}
	if d.stopped {
		f = stoppedFile{f}
	}
	return f, err
}

type viewedFile struct {
	journal.File
	view []byte
}

func (f *viewedFile) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(f.view).ReadAt(b, at)
}

// TestReadersBesideAWriter: readers of a journal that is being written see
// every entry, in order, each once.
func TestReadersBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	l := started(t, s, "r1", 1)
	const entries = 300
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			reader := open(t, dir, nil)
			for last := int64(0); last < entries; {
				_, more, err := reader.Load(context.Background(), "r1", last)
				if !assert.NoError(t, err) {
					return
				}
				for _, e := range more {
					if !assert.Equal(t, last+1, e.Seq) {
						return
					}
					last = e.Seq
				}
			}
		})
	}
	for i := range entries {
		require.NoError(t, s.Append(t.Context(), "r1", step(`"`+strings.Repeat("x", i*7%6000)+`"`), l))
	}
	group.Wait()
	require.NoError(t, l.Release())
}

// TestDeleteBesideAWriterThatStays: the wait for it ends with the context, and
// the run stays.
func TestDeleteBesideAWriterThatStays(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 2)
	held, err := disk.OpenFile("/d/r1.jsonl", 0, 0)
	require.NoError(t, err)
	ok, err := held.TryLock()
	require.True(t, ok && err == nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Delete(ctx, "r1", l), context.DeadlineExceeded)
	require.Equal(t, []int64{0, 1}, loaded(t, s, "r1", -1))
	require.NoError(t, held.Close())
	require.NoError(t, s.Delete(t.Context(), "r1", nil))
	require.Empty(t, loaded(t, s, "r1", -1))
}
