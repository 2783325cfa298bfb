package replay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

func TestCheckVersions(t *testing.T) {
	entry := func(v int) journal.Entry { return journal.Entry{HashVersion: v, Seq: 7} }
	require.NoError(t, checkVersions(nil))
	require.NoError(t, checkVersions([]journal.Entry{entry(1), entry(2)}))
	for v, sub := range map[int]string{0: "HASH_VERSION_TOO_OLD", -3: "HASH_VERSION_TOO_OLD", 3: "HASH_VERSION_TOO_NEW"} {
		err := checkVersions([]journal.Entry{entry(2), entry(v)})
		check(t, err, errs.JournalCompat, "entry 7", "1..2")
		var e *errs.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, sub, e.Data["subCode"])
		require.EqualValues(t, 7, e.Data["entrySeq"])
		require.Equal(t, []int{1, 2}, e.Data["supportedRange"])
		require.NotEmpty(t, e.Data["hint"])
	}
}
