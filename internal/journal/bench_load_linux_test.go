package journal_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
)

// BenchmarkLoad reads a journal of 100,000 lines of a kilobyte, and beside it
// only cuts the same file into lines, which is the least that reading costs.
func BenchmarkLoad(b *testing.B) {
	const lines = 100_000
	dir := b.TempDir()
	name := filepath.Join(dir, "r1.jsonl")
	var text bytes.Buffer
	for i := range lines {
		e := kilobyte()
		e.Seq = int64(i)
		line, err := e.AppendLine(nil)
		require.NoError(b, err)
		text.Write(append(line, '\n'))
	}
	require.NoError(b, os.WriteFile(name, text.Bytes(), 0o600))
	b.Run("load", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		b.ReportAllocs()
		for b.Loop() {
			s, err := journal.Open(dir, nil)
			require.NoError(b, err)
			_, entries, err := s.Load(b.Context(), "r1", -1)
			require.NoError(b, err)
			require.Len(b, entries, lines)
		}
	})
	b.Run("lines-scan-bound", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			f, err := os.Open(name)
			require.NoError(b, err)
			r := bufio.NewReaderSize(f, 1<<20)
			n := 0
			for {
				_, err := r.ReadSlice('\n')
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(b, err)
				n++
			}
			require.NoError(b, f.Close())
			require.Equal(b, lines, n)
		}
	})
}
