package journal

import "path/filepath"

// Identity tells this store's runs from another's with the same names: it is
// the directory, absolute and without symbolic links, and the same for each
// store over it. It is empty where that cannot be told.
func (s *FileStore) Identity() string {
	if _, ok := s.fs.(osFS); !ok {
		return "" // another file system's names say nothing here
	}
	dir, err := filepath.Abs(s.dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return ""
	}
	return "file:" + dir
}

// Identity is different for each memory store: its runs are nobody else's.
func (s *MemoryStore) Identity() string { return s.id }
