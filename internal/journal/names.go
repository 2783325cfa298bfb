package journal

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// A store is one directory:
//
//	r1.jsonl           the journal of run r1, one entry a line
//	r1.meta.json       its metadata
//	r1.lock            its segment lock, with the holder's name
//	r1/ckpt/0.bin      the blob r1/ckpt/0
//	….tmp              a file that is being written; of no meaning otherwise
const (
	journalSuffix = ".jsonl"
	metaSuffix    = ".meta.json"
	lockSuffix    = ".lock"
	blobSuffix    = ".bin"
	tempSuffix    = ".tmp"
)

const maxRunID = 200

// CheckRunID refuses, with a config error, a run id that could not be a file
// name: it holds 1 to 200 of A-Z a-z 0-9 . _ -, is not . or .., and does not
// end as the store's own files do, in capital letters or not.
func CheckRunID(runID string) error {
	if msg := badSegment(runID); msg != "" {
		return errs.New(errs.Config, "run id", fmt.Sprintf("%.80q", runID), msg)
	}
	if len(runID) > maxRunID {
		return errs.New(errs.Config, "run id", fmt.Sprintf("%.80q", runID), fmt.Sprintf("%d characters, of at most %d", len(runID), maxRunID))
	}
	return nil
}

// badSegment says what keeps s from being one part of a path in the store.
func badSegment(s string) string {
	switch s {
	case "":
		return "it is empty"
	case ".", "..":
		return "it names a directory"
	}
	for i := range len(s) {
		c := s[i]
		if c-'a' > 25 && c-'A' > 25 && c-'0' > 9 && c != '.' && c != '_' && c != '-' {
			return "only A-Z a-z 0-9 . _ - may stand in it"
		}
	}
	for _, suffix := range []string{journalSuffix, metaSuffix, lockSuffix, blobSuffix, tempSuffix} {
		if len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix) {
			return "it ends in " + suffix + ", as the store's own files do"
		}
	}
	return ""
}

// CheckBlobRef refuses, with a config error, a blob reference that is not a
// run id and at least one more part of the same alphabet, separated by /.
func CheckBlobRef(ref string) error {
	run, rest, ok := strings.Cut(ref, "/")
	if !ok {
		return errs.New(errs.Config, "blob ref", fmt.Sprintf("%.80q", ref), "expected <run id>/<name>")
	}
	if err := CheckRunID(run); err != nil {
		return err
	}
	for part := range strings.SplitSeq(rest, "/") {
		if msg := badSegment(part); msg != "" {
			return errs.New(errs.Config, "blob ref", fmt.Sprintf("%.80q", ref), msg)
		}
		if len(part) > maxRunID {
			return errs.New(errs.Config, "blob ref", fmt.Sprintf("%.80q", ref), "a part is too long")
		}
	}
	return nil
}

func (s *FileStore) journalPath(runID string) string {
	return filepath.Join(s.dir, runID+journalSuffix)
}
func (s *FileStore) metaPath(runID string) string { return filepath.Join(s.dir, runID+metaSuffix) }
func (s *FileStore) lockPath(runID string) string { return filepath.Join(s.dir, runID+lockSuffix) }
func (s *FileStore) blobPath(ref string) string {
	return filepath.Join(s.dir, filepath.FromSlash(ref)+blobSuffix)
}
