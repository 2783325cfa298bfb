package rulvartest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// runStoreSuites holds a store to all three suites.
func runStoreSuites(t *testing.T, open func(t *testing.T) rulvar.Store, second ...rulvartest.Second) {
	t.Run("journal", func(t *testing.T) { rulvartest.RunJournalStoreSuite(t, open, second...) })
	t.Run("lease", func(t *testing.T) { rulvartest.RunLeaseSuite(t, open, second...) })
	t.Run("transcript", func(t *testing.T) { rulvartest.RunTranscriptStoreSuite(t, open, second...) })
}

func openDir(t *testing.T, dir string, fs *faultfs.FS) rulvar.Store {
	opts := &rulvar.FileStoreOptions{}
	if fs != nil {
		opts.FS = fs
	}
	s, err := rulvar.OpenFileStore(dir, opts)
	require.NoError(t, err)
	return s
}

func TestFileStoreConforms(t *testing.T) {
	dirs := map[rulvar.Store]string{}
	runStoreSuites(t, func(t *testing.T) rulvar.Store {
		dir := t.TempDir()
		s := openDir(t, dir, nil)
		dirs[s] = dir
		return s
	}, func(t *testing.T, first rulvar.Store) rulvar.Store { return openDir(t, dirs[first], nil) })
}

func TestFileStoreOnFaultyDiskConforms(t *testing.T) {
	disks := map[rulvar.Store]*faultfs.FS{}
	runStoreSuites(t, func(t *testing.T) rulvar.Store {
		disk := faultfs.New()
		s := openDir(t, "/d", disk)
		disks[s] = disk
		return s
	}, func(t *testing.T, first rulvar.Store) rulvar.Store { return openDir(t, "/d", disks[first]) })
}

func TestMemoryStoreConforms(t *testing.T) {
	runStoreSuites(t, func(*testing.T) rulvar.Store { return rulvar.NewMemoryStore() },
		// Another goroutine is all the company that a store in memory has.
		func(_ *testing.T, first rulvar.Store) rulvar.Store { return first })
}
