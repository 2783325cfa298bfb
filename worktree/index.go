package worktree

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// fileStat is what an index remembers of a file, so that a file which is not
// read can be known to be unchanged.
type fileStat struct {
	mtime, ctime  int64 // nanoseconds
	ino, uid, gid uint32
	size          uint32 // modulo 2^32
	mode          os.FileMode
}

// readIndex reads an index with go-git. Its bytes may be an agent's.
func readIndex(r io.Reader) (idx *index.Index, err error) {
	defer func() {
		if p := recover(); p != nil {
			idx, err = nil, fmt.Errorf("the index cannot be parsed: %v", p)
		}
	}()
	idx = &index.Index{}
	return idx, index.NewDecoder(bufio.NewReaderSize(r, 1<<16)).Decode(idx)
}

func readIndexFile(path string) (*index.Index, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if idx := readPlainIndex(text); idx != nil {
		return idx, nil
	}
	return readIndex(bytes.NewReader(text))
}

// unchanged reports whether a file is certainly the one that the entry speaks
// of. racy is when the index was written.
func unchanged(e *index.Entry, s fileStat, racy time.Time, fileMode bool) bool {
	if !fullStat || !sameKind(e.Mode, s.mode, fileMode) {
		return false
	}
	return e.ModifiedAt.UnixNano() == s.mtime && e.CreatedAt.UnixNano() == s.ctime &&
		e.Inode == s.ino && e.UID == s.uid && e.GID == s.gid && e.Size == s.size && s.mtime < racy.UnixNano()
}

// sameKind compares what git keeps of a file's mode.
func sameKind(want filemode.FileMode, have os.FileMode, fileMode bool) bool {
	switch want {
	case filemode.Symlink:
		return have&os.ModeSymlink != 0
	case filemode.Executable, filemode.Regular, filemode.Deprecated:
		executable := have&0o100 != 0
		return have.IsRegular() && (!fileMode || executable == (want == filemode.Executable))
	}
	return false
}
