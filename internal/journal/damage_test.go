package journal_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
)

// Two whole entries that follow those of a started run.
const (
	line9  = `{"hashVersion":2,"seq":9,"scope":"","key":"","ordinal":0,"kind":"step","status":"running"}`
	line9b = `{"hashVersion":2,"seq":10,"scope":"","key":"","ordinal":0,"kind":"step","status":"running"}`
	line11 = `{"hashVersion":2,"seq":11,"scope":"","key":"","ordinal":0,"kind":"step","status":"running"}`
	line2  = `{"hashVersion":2,"seq":2,"scope":"","key":"","ordinal":0,"kind":"step","status":"running"}`
)

// atBlock is a beginning of line, with a long value, that ends where a block
// of the disk does in a journal that begins with first.
func atBlock(first, line string) string {
	return (line[:len(line)-1] + `,"value":"` + strings.Repeat("x", 512))[:512-len(first)]
}

// lineOf is the line of an entry, as a store writes it.
func lineOf(e *journal.Entry) string {
	text, err := e.AppendLine(nil)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// addText appends to a run's journal behind the store's back.
func addText(t testing.TB, disk *faultfs.FS, text string) {
	putText(t, disk, "/d/r1.jsonl", append(getText(t, disk, "/d/r1.jsonl"), text...))
}

// putText replaces a file behind the store's back.
func putText(t testing.TB, disk *faultfs.FS, path string, text []byte) {
	f, err := disk.OpenFile(path, os.O_RDWR|os.O_CREATE, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0))
	_, err = f.WriteAt(text, 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func getText(t testing.TB, disk *faultfs.FS, path string) []byte {
	f, err := disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	_, err = f.ReadAt(b, 0)
	if err != nil {
		require.ErrorIs(t, err, io.EOF)
	}
	return b
}

func fileText(t testing.TB, disk *faultfs.FS) []byte { return getText(t, disk, "/d/r1.jsonl") }

// TestEndOfJournal: what a last line may look like, what is read of it, and
// what the file is after the next append.
func TestEndOfJournal(t *testing.T) {
	const zeros = "\x00\x00\x00\x00"
	first := strings.Replace(line9, `"seq":9`, `"seq":1`, 1) + "\n"
	for name, c := range map[string]struct {
		tail string
		want []int64 // read; nil is damage
		left string  // before what is appended next
		lost bool    // text was cut off
	}{
		"whole":                                     {line9 + "\n", []int64{1, 9}, line9 + "\n", false},
		"carriage return":                           {line9 + "\r\n", []int64{1, 9}, line9 + "\r\n", false},
		"blank lines between":                       {"\n\r\n \n" + line9 + "\n", []int64{1, 9}, "\n\r\n \n" + line9 + "\n", false},
		"newlines behind":                           {line9 + "\n\n\n\n", []int64{1, 9}, line9 + "\n", false},
		"no newline":                                {line9, []int64{1, 9}, line9 + "\n", false},
		"no newline, carriage return":               {line9 + "\r", []int64{1, 9}, line9 + "\r\n", false},
		"torn":                                      {line9[:40], []int64{1}, "", true},
		"torn in a rune":                            {line9[:30] + "\xe2\x82", []int64{1}, "", true},
		"torn after a backslash":                    {line9[:30] + "\\", []int64{1}, "", true},
		"one byte":                                  {"{", []int64{1}, "", true},
		"torn, newlines written ahead":              {atBlock(first, line9) + "\n\n\n\n", []int64{1}, "", true},
		"cut, newlines written ahead":               {line9[:40] + "\n\n\n\n", []int64{1}, "", true},
		"an open quote, padding behind":             {strings.Replace(line9, `"kind"`, `"kind`, 1) + "\n\n\n\n", nil, "", false},
		"a block is missing":                        {atBlock(first, line9) + strings.Repeat("\n", 512) + "x\n" + line9b + "\n", []int64{1}, "", true},
		"a zero block":                              {atBlock(first, line9) + strings.Repeat("\x00", 512) + "x\n" + line9b + "\n", []int64{1}, "", true},
		"less than a block is missing":              {atBlock(first, line9) + strings.Repeat("\n", 511) + "x\n" + line9b + "\n", nil, "", false},
		"the first block is missing":                {strings.Repeat("\n", 512-len(first)) + `"x":1}` + "\n" + line9b + "\n", []int64{1}, "", true},
		"the first line is missing":                 {strings.Repeat("\n", 512-len(first)) + line9b + "\n", []int64{1}, "", true},
		"the next line behind a gap":                {strings.Repeat("\n", 512-len(first)) + line2 + "\n", []int64{1, 2}, strings.Repeat("\n", 512-len(first)) + line2 + "\n", false},
		"a block is missing up to a newline":        {atBlock(first, line9) + strings.Repeat("\n", 513) + line9b + "\n", []int64{1}, "", true},
		"a zero block up to a newline":              {atBlock(first, line9) + strings.Repeat("\x00", 512) + "\n" + line9b + "\n", []int64{1}, "", true},
		"the first line is missing up to a newline": {strings.Repeat("\n", 513-len(first)) + line9b + "\n", []int64{1}, "", true},
		"a newline more, where a block begins":      {atBlock(first, line9) + "\n" + line9b + "\n", nil, "", false},
		"appended behind what a cut left":           {atBlock(first, line9) + strings.Repeat("\n", 512) + line9b + strings.Repeat("\n", 600) + line11 + "\n", nil, "", false},
		"appended behind a missing first line":      {strings.Repeat("\n", 512-len(first)) + line9b + strings.Repeat("\n", 600) + line11 + "\n", nil, "", false},
		"appended behind padding":                   {strings.Repeat("\n", 519-len(first)) + line9b + "\n", []int64{1, 10}, strings.Repeat("\n", 519-len(first)) + line9b + "\n", false},
		"damaged behind padding":                    {strings.Repeat("\n", 519-len(first)) + `"x":1}` + "\n" + line9b + "\n", nil, "", false},
		"torn with one newline":                     {line9[:40] + "\n", nil, "", false},
		"zero bytes to the end":                     {zeros, []int64{1}, "", true},
		"torn, zero bytes to the end":               {line9[:40] + zeros, []int64{1}, "", true},
		"zero bytes then the rest":                  {zeros + line9[4:] + "\n", nil, "", false},
		"glued":                                     {line9 + line9b, []int64{1, 9, 10}, line9 + "\n" + line9b + "\n", false},
		"glued with newline":                        {line9 + " " + line9b + "\n", []int64{1, 9, 10}, line9 + "\n" + line9b + "\n", false},
		"glued and torn":                            {line9 + line9b + line9[:40], []int64{1, 9, 10}, line9 + "\n" + line9b + "\n", true},
		"whole and torn":                            {line9 + line9b[:40], []int64{1, 9}, line9 + "\n", true},
		"whole and torn with a newline":             {line9 + line9b[:40] + "\n", nil, "", false},
		"whole and other text":                      {line9 + "x", nil, "", false},
		"glued in the wrong order":                  {line9b + line9, nil, "", false},
		"torn, then a whole line":                   {line9[:40] + "\n" + line9b + "\n", nil, "", false},
		"glued, then a whole line":                  {line9 + line9b + "\n" + strings.Replace(line9, `"seq":9`, `"seq":11`, 1) + "\n", nil, "", false},
		"other text":                                {"garbage", nil, "", false},
		"other JSON":                                {"{\"a\":1}", nil, "", false},
		"a number":                                  {"12", nil, "", false},
		"same number again":                         {first, nil, "", false},
		"lower number":                              {strings.Replace(first, `"seq":1`, `"seq":0`, 1), nil, "", false},
		"byte order mark in the middle":             {"\ufeff" + line9 + "\n", nil, "", false},
		"invalid UTF-8":                             {strings.Replace(line9, `"key":""`, "\"key\":\"\xff\"", 1) + "\n", nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.New()
			s := open(t, "/d", &journal.FileOptions{FS: disk})
			addText(t, disk, first+c.tail)
			_, entries, err := s.Load(t.Context(), "r1", -1)
			l := lock(t, s, "r1")
			next := step(`"next"`)
			if c.want == nil {
				require.ErrorIs(t, err, errs.JournalOrder)
				require.ErrorContains(t, err, "r1.jsonl line ")
				var typed *errs.Error
				require.ErrorAs(t, err, &typed)
				require.Contains(t, typed.Data, "offset")
				require.GreaterOrEqual(t, typed.Data["offset"].(int64), int64(len(first)))
				require.GreaterOrEqual(t, typed.Data["line"].(int), 2)
				require.ErrorIs(t, s.Append(t.Context(), "r1", next, l), errs.JournalOrder, "nothing is appended to a damaged journal")
				require.Equal(t, first+c.tail, string(fileText(t, disk)))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, seqs(entries))
			require.Equal(t, first+c.tail, string(fileText(t, disk)), "reading repairs nothing")
			require.NoError(t, s.Append(t.Context(), "r1", next, l))
			require.Equal(t, first+c.left+lineOf(next)+"\n", strings.TrimRight(string(fileText(t, disk)), "\n")+"\n")
			want := append(c.want, c.want[len(c.want)-1]+1)
			require.Equal(t, want, loaded(t, s, "r1", -1))
			require.Equal(t, want[len(want)-1:], loaded(t, s, "r1", c.want[len(c.want)-1]))
			require.NoError(t, l.Release())
		})
	}
}

func TestByteOrderMark(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	addText(t, disk, "\ufeff"+line9+"\n")
	_, _, err := s.Load(t.Context(), "r1", -1)
	require.ErrorIs(t, err, errs.JournalOrder)
	require.ErrorContains(t, err, "byte order mark")
}

// sample is a journal of several kinds of entries, as its lines.
func sample(t testing.TB) [][]byte {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 2)
	require.NoError(t, s.Append(t.Context(), "r1", resolution(0, `{"decision":"allow","n":[1,-2.5e3,null]}`), l))
	require.NoError(t, s.Append(t.Context(), "r1", decision(`{"decisionType":"run_settle","text":"\"é\u2028"}`), l))
	require.NoError(t, l.Release())
	return bytes.SplitAfter(bytes.TrimSuffix(fileText(t, disk), nil), []byte("\n"))
}

// verdict loads a journal's text and describes what was made of it.
func verdict(t testing.TB, text []byte) ([]*journal.Entry, error) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	addText(t, disk, string(text))
	_, entries, err := s.Load(t.Context(), "r1", -1)
	if err != nil {
		require.ErrorIs(t, err, errs.JournalOrder)
		require.ErrorContains(t, err, "r1.jsonl line ")
		require.Nil(t, entries)
	}
	return entries, err
}

// TestDamageAnywhere changes a journal at every byte. Whatever is done to it,
// it is refused, or read with at most one entry reading differently (a change
// within a string or a number, which the format cannot notice), or is a
// beginning of itself whose last line is torn.
func TestDamageAnywhere(t *testing.T) {
	lines := sample(t)
	lines = lines[:len(lines)-1]
	text := bytes.Join(lines, nil)

	t.Run("cut", func(t *testing.T) {
		for n := range len(text) {
			entries, err := verdict(t, text[:n])
			require.NoError(t, err, n)
			whole := bytes.Count(text[:n], []byte("\n"))
			if text[n] == '\n' {
				whole++ // only the newline is missing
			}
			require.Len(t, entries, min(whole, len(lines)), n)
		}
	})
	same := func(t *testing.T, entries []*journal.Entry, at int) {
		require.Len(t, entries, len(lines), at)
		different := 0
		for i, e := range entries {
			if string(e.Raw) != strings.TrimSpace(string(lines[i])) {
				different++
			}
		}
		require.LessOrEqual(t, different, 1, at)
	}
	t.Run("flip", func(t *testing.T) {
		for i := range text {
			for _, mask := range []byte{0x01, 0x20, 0x80, text[i]} {
				changed := bytes.Clone(text)
				changed[i] ^= mask
				if entries, err := verdict(t, changed); err == nil {
					same(t, entries, i)
				}
			}
		}
	})
	t.Run("insert", func(t *testing.T) {
		for i := range text {
			for _, c := range []byte{'\n', ' ', '"', '}', 0, '1'} {
				changed := append(append(bytes.Clone(text[:i]), c), text[i:]...)
				if entries, err := verdict(t, changed); err == nil {
					same(t, entries, i)
				}
			}
		}
	})
	t.Run("remove", func(t *testing.T) {
		for i := range text {
			changed := append(bytes.Clone(text[:i]), text[i+1:]...)
			if entries, err := verdict(t, changed); err == nil {
				same(t, entries, i)
			}
		}
	})
	t.Run("a line twice", func(t *testing.T) {
		for i := range lines {
			changed := append(bytes.Join(lines[:i+1], nil), bytes.Join(lines[i:], nil)...)
			_, err := verdict(t, changed)
			require.ErrorIs(t, err, errs.JournalOrder)
		}
	})
	t.Run("lines exchanged", func(t *testing.T) {
		for i := range len(lines) - 1 {
			changed := append([][]byte(nil), lines...)
			changed[i], changed[i+1] = changed[i+1], changed[i]
			_, err := verdict(t, bytes.Join(changed, nil))
			require.ErrorIs(t, err, errs.JournalOrder)
		}
	})
}

// TestDamagedMeta: metadata that cannot be read is an error for the run, and
// neither hides the others nor is overwritten.
func TestDamagedMeta(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	for _, id := range []string{"a", "b", "c"} {
		l := lock(t, s, id)
		require.NoError(t, s.PutMeta(t.Context(), &journal.Meta{RunID: id, Status: "ok", UpdatedAt: "t"}, l))
		require.NoError(t, l.Release())
	}
	const path = "/d/b.meta.json"
	whole := getText(t, disk, path)
	for n := range len(whole) {
		putText(t, disk, path, whole[:n])
		_, _, err := s.Load(t.Context(), "b", -1)
		require.ErrorIs(t, err, errs.JournalOrder, n)
		require.ErrorContains(t, err, "b.meta.json", n)
		damage, ok := errors.AsType[*errs.Error](err)
		require.True(t, ok)
		require.Equal(t, path, damage.Data["file"])
		require.EqualValues(t, n, damage.Data["offset"], "where the text breaks off")
		require.Equal(t, 1+bytes.Count(whole[:n], []byte("\n")), damage.Data["line"])
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 0x80
		putText(t, disk, path, changed)
		_, _, err := s.Load(t.Context(), "b", -1)
		require.ErrorIs(t, err, errs.JournalOrder, i)
	}
	metas, err := s.ListRuns(t.Context(), nil)
	require.ErrorIs(t, err, errs.JournalOrder)
	require.ErrorContains(t, err, "b.meta.json")
	require.Len(t, metas, 2)
	l := lock(t, s, "b")
	require.ErrorIs(t, s.PutMeta(t.Context(), &journal.Meta{RunID: "b"}, l), errs.JournalOrder)
	require.NoError(t, l.Release())

	putText(t, disk, path, bytes.Replace(whole, []byte(`"b"`), []byte(`"B"`), 1))
	_, _, err = s.Load(t.Context(), "b", -1)
	require.ErrorContains(t, err, `of run "B"`)
	require.NoError(t, s.Delete(t.Context(), "b", nil), "a damaged run can be deleted")
}

// TestPermissions: files are their owner's alone.
func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, nil)
	l := started(t, s, "r1", 1)
	require.NoError(t, s.PutMeta(t.Context(), &journal.Meta{RunID: "r1"}, l))
	require.NoError(t, s.Put(t.Context(), "r1/ckpt/0", []byte("x")))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), path)
		return nil
	}))
	require.NoError(t, l.Release())
	_, err := journal.Open(filepath.Join(dir, "r1.jsonl"), nil)
	require.ErrorIs(t, err, errs.Config, "a file in the directory's place")
	_, err = journal.Open("", nil)
	require.ErrorIs(t, err, errs.Config)
}

// TestLostSector: a sector that reads as zero bytes, far from a journal's end,
// is damage, and not the end of what a power cut has left.
func TestLostSector(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	l := started(t, s, "r1", 300)
	require.NoError(t, l.Release())
	text := fileText(t, disk)
	for at := 0; at+512 < len(text)*2/3; at += 512 {
		for _, fill := range []string{"\x00", "\n"} {
			broken := bytes.Clone(text)
			copy(broken[at:], strings.Repeat(fill, 512))
			_, err := verdict(t, broken)
			require.Error(t, err, "%q from byte %d", fill, at)
		}
	}
}

// TestLeftOutEntriesAreTold: a Load that leaves out whole entries behind a
// missing block says so, once.
func TestLeftOutEntriesAreTold(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "/d", &journal.FileOptions{FS: disk})
	require.NoError(t, started(t, s, "r1", 20).Release())
	text := fileText(t, disk)
	copy(text[len(text)/1024*512:], strings.Repeat("\x00", 512))
	putText(t, disk, "/d/r1.jsonl", text)
	var log bytes.Buffer
	s = open(t, "/d", &journal.FileOptions{FS: disk, Logger: logTo(&log)})
	read := loaded(t, s, "r1", -1)
	require.Less(t, len(read), 20)
	require.Contains(t, log.String(), "left out")
	told := log.Len()
	require.Empty(t, loaded(t, s, "r1", read[len(read)-1]))
	require.Equal(t, told, log.Len())
}
