package journal_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// TestPadding: while a run's lock is held its journal ends in newlines written
// ahead, no block begins at its end, and Release leaves the text alone.
func TestPadding(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := lock(t, s, "r1")
	writes := 0
	for i := range 200 {
		before := len(fileText(t, disk))
		require.NoError(t, s.Append(t.Context(), "r1", step(`"`+strings.Repeat("x", 500)+`"`), l))
		text := fileText(t, disk)
		require.NotZero(t, len(text)%512)
		require.Equal(t, i+1, bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n"))+1)
		if len(text) != before {
			writes++
		}
	}
	require.Less(t, writes, 10, "the file grows by ever larger steps")
	require.Len(t, loaded(t, s, "r1", -1), 200)
	require.NoError(t, l.Release())
	text := fileText(t, disk)
	require.True(t, bytes.HasSuffix(text, []byte("}\n")))
	require.Equal(t, 200, bytes.Count(text, []byte("\n")))
}

// TestPaddingIsShared: who else appends to a run while its holder has written
// newlines ahead is seen by everybody, though neither the journal's length nor,
// within a tick of the clock, its time says so.
func TestPaddingIsShared(t *testing.T) {
	disk := stoppedClock{faultfs.New()}
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	other := open(t, "/d", &journal.FileOptions{FS: disk})
	reader := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 2)
	last := int64(1)
	for range 5 {
		size := len(fileText(t, disk.FS))
		require.Empty(t, loaded(t, reader, "r1", last))
		require.NoError(t, other.Append(t.Context(), "r1", resolution(0, `1`), nil))
		require.Len(t, fileText(t, disk.FS), size)
		require.Equal(t, []int64{last + 1}, loaded(t, reader, "r1", last))
		require.NoError(t, s.Append(t.Context(), "r1", step(`2`), l))
		require.Equal(t, []int64{last + 2}, loaded(t, reader, "r1", last+1))
		last += 2
	}
	require.NoError(t, l.Release())
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, loaded(t, s, "r1", -1))
}

// TestPaddingLeftBehind: the newlines of a process that died are taken over,
// and who knows nothing of them may append behind them.
func TestPaddingLeftBehind(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	started(t, s, "r1", 2) // and never released
	left := len(fileText(t, disk))
	disk = disk.Crash(rand.New(rand.NewPCG(1, 1)))

	s = open(t, "/d", &journal.FileOptions{FS: disk})
	require.Equal(t, []int64{0, 1}, loaded(t, s, "r1", -1))
	l := lock(t, s, "r1")
	require.NoError(t, s.Append(t.Context(), "r1", step(`2`), l))
	require.Len(t, fileText(t, disk), left, "in the room that was there")
	addText(t, disk, strings.Replace(line9, `"seq":9`, `"seq":3`, 1)+"\n")
	require.NoError(t, s.Append(t.Context(), "r1", step(`4`), l))
	require.NoError(t, l.Release())
	require.Equal(t, []int64{0, 1, 2, 3, 4}, loaded(t, s, "r1", -1))
}

// stoppedClock is a disk whose times are coarser than a test.
type stoppedClock struct{ *faultfs.FS }

func (d stoppedClock) Stat(name string) (os.FileInfo, error) {
	info, err := d.FS.Stat(name)
	if err != nil {
		return nil, err
	}
	return stopped{info}, nil
}

func (d stoppedClock) OpenFile(name string, flag int, perm os.FileMode) (journal.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	return stoppedFile{f}, err
}

type stoppedFile struct{ journal.File }

func (f stoppedFile) Stat() (os.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return stopped{info}, nil
}

type stopped struct{ os.FileInfo }

func (stopped) ModTime() (t time.Time) { return t }
