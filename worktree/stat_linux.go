package worktree

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// statOf returns what an index remembers of a file.
func statOf(info os.FileInfo) fileStat {
	s := fileStat{size: uint32(info.Size()), mode: info.Mode(), mtime: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime = sys.Ctim.Nano()
		s.ino, s.uid, s.gid = uint32(sys.Ino), sys.Uid, sys.Gid
	}
	return s
}

// statIn is statOf of what an open directory holds. It does not look up the way
// to the directory for each file, which is most of what a walk costs.
func statIn(dir *os.File, d os.DirEntry) (fileStat, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), d.Name(), &st, unix.AT_SYMLINK_NOFOLLOW)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fstatat(int(dir.Fd()), d.Name(), &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return fileStat{}, &os.PathError{Op: "fstatat", Path: d.Name(), Err: err}
	}
	return fileStat{
		size: uint32(st.Size), mode: fileMode(st.Mode), mtime: unix.TimespecToNsec(st.Mtim), ctime: unix.TimespecToNsec(st.Ctim),
		ino: uint32(st.Ino), uid: st.Uid, gid: st.Gid,
	}, nil
}

// fileMode is the mode as package os has it.
func fileMode(mode uint32) os.FileMode {
	m := os.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		m |= os.ModeSymlink
	case unix.S_IFDIR:
		m |= os.ModeDir
	case unix.S_IFIFO:
		m |= os.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= os.ModeSocket
	case unix.S_IFCHR:
		m |= os.ModeDevice | os.ModeCharDevice
	case unix.S_IFBLK:
		m |= os.ModeDevice
	default:
		m |= os.ModeIrregular
	}
	if mode&unix.S_ISUID != 0 {
		m |= os.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		m |= os.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= os.ModeSticky
	}
	return m
}

const fullStat = true
