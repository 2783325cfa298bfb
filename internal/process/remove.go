package process

import (
	"io/fs"
	"os"
)

// RemoveAll removes a directory in which a program may have taken away the
// rights of its owner. No link leads out of it, whatever still runs there.
func RemoveAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || os.Chmod(dir, 0o700) != nil {
		return os.RemoveAll(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	_ = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = root.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	root.Close()
	return os.RemoveAll(dir)
}
