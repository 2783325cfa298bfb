package replay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

func TestOrdinals(t *testing.T) {
	var l log
	seq := l.running(journal.KindAgent, "", "k")
	l[seq].Ordinal = 4
	end := l.end(seq, journal.StatusOK, `1`)
	l[end].Ordinal = 99 // terminals do not count
	l.decision(`{"decisionType":"x"}`)
	l.add(journal.Entry{Kind: journal.KindStep, Status: journal.StatusRunning, Key: "far", Ordinal: 1<<63 - 1})
	o := seedOrdinals(l)
	require.EqualValues(t, 5, o.Next("", 2, "k"))
	require.EqualValues(t, 6, o.Next("", 2, "k"))
	require.EqualValues(t, 0, o.Next("", 1, "k"))
	require.EqualValues(t, 0, o.Next("par:0:0", 2, "k"))
	require.EqualValues(t, 1, o.Next("", 2, ""), "decisions share the counter of the empty key")
	require.Equal(t, int64(1<<53-1), o.Next("", 2, "far"), "no overflow")
	require.EqualValues(t, 0, (&replay.Ordinals{}).Next("", 2, "k"))
}
