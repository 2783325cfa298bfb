//go:build !linux && !darwin

package worktree

import "os"

// statOf returns what an index remembers of a file; here that is not enough to
// call a file unchanged, so that every file is read.
func statOf(info os.FileInfo) fileStat {
	return fileStat{size: uint32(info.Size()), mode: info.Mode(), mtime: info.ModTime().UnixNano()}
}

// statIn is statOf of what an open directory holds.
func statIn(_ *os.File, d os.DirEntry) (fileStat, error) {
	info, err := d.Info()
	if err != nil {
		return fileStat{}, err
	}
	return statOf(info), nil
}

const fullStat = false
