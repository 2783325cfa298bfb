package replay

import (
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// The range of hash versions whose keys this library can derive again.
const (
	MinHashVersion = 1
	MaxHashVersion = journal.HashVersion
)

// Sub-codes of a [errs.JournalCompat] error, in its Data under "subCode".
const (
	HashVersionTooOld = "HASH_VERSION_TOO_OLD"
	HashVersionTooNew = "HASH_VERSION_TOO_NEW"
)

// CheckVersions refuses a journal with an entry whose hash version lies
// outside [MinHashVersion]..[MaxHashVersion]: its keys could not be derived,
// so completed work would be paid again. The error has code
// [errs.JournalCompat] and in Data: subCode (string), entrySeq (int64),
// supportedRange ([]int, lowest and highest), hint (string). It is called
// before anything is written.
func CheckVersions(entries []*journal.Entry) error {
	for i := range entries {
		v := entries[i].HashVersion
		if v >= MinHashVersion && v <= MaxHashVersion {
			continue
		}
		sub, hint := HashVersionTooNew, "open this run with a newer version of the library"
		if v < MinHashVersion {
			sub, hint = HashVersionTooOld, "the entry names no version that ever existed; the journal is damaged"
		}
		err := errs.New(errs.JournalCompat, "check hash versions", fmt.Sprintf("entry %d", entries[i].Seq),
			fmt.Sprintf("hash version %d is outside the supported range %d..%d: %s", v, MinHashVersion, MaxHashVersion, hint))
		err.Data = map[string]any{
			"subCode":        sub,
			"entrySeq":       entries[i].Seq,
			"supportedRange": []int{MinHashVersion, MaxHashVersion},
			"hint":           hint,
		}
		return err
	}
	return nil
}
