package worktree

import (
	"os"
	"syscall"
)

// statOf returns what an index remembers of a file.
func statOf(info os.FileInfo) fileStat {
	s := fileStat{size: uint32(info.Size()), mode: info.Mode(), mtime: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime = sys.Ctimespec.Nano()
		s.ino, s.uid, s.gid = uint32(sys.Ino), sys.Uid, sys.Gid
	}
	return s
}

// statIn is statOf of what an open directory holds.
func statIn(_ *os.File, d os.DirEntry) (fileStat, error) {
	info, err := d.Info()
	if err != nil {
		return fileStat{}, err
	}
	return statOf(info), nil
}

const fullStat = true
