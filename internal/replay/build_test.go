package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/journal"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// log builds a journal; every method appends and returns the sequence number.
type log []journal.Entry

func (l *log) add(e journal.Entry) int64 {
	e.Seq = int64(len(*l))
	if e.HashVersion == 0 {
		e.HashVersion = journal.HashVersion
	}
	*l = append(*l, e)
	return e.Seq
}

func (l *log) running(kind journal.Kind, scope, key string) int64 {
	return l.add(journal.Entry{Kind: kind, Status: journal.StatusRunning, Scope: scope, Key: key})
}

// end appends the terminal of a running entry.
func (l *log) end(ref int64, status journal.Status, value string) int64 {
	s := (*l)[ref]
	e := journal.Entry{Kind: s.Kind, Status: status, Scope: s.Scope, Key: s.Key, Ordinal: s.Ordinal,
		HashVersion: s.HashVersion, Ref: &ref}
	if value != "" {
		e.Value = json.RawMessage(value)
	}
	return l.add(e)
}

// op appends a running entry and its terminal and returns the first.
func (l *log) op(kind journal.Kind, scope, key string, status journal.Status) int64 {
	seq := l.running(kind, scope, key)
	l.end(seq, status, fmt.Sprintf(`"%d"`, seq))
	return seq
}

func (l *log) suspended(kind journal.Kind, scope, key, value string) int64 {
	return l.add(journal.Entry{Kind: kind, Status: journal.StatusSuspended, Scope: scope, Key: key,
		Value: json.RawMessage(value)})
}

func (l *log) resolve(target int64, value string) int64 {
	return l.add(journal.Entry{Kind: journal.KindResolution, Status: journal.StatusOK, Ref: &target,
		Resolution: json.RawMessage(fmt.Sprintf(`{"target":%d,"by":"external","value":%s}`, target, value))})
}

func (l *log) abandon(target int64) int64 {
	return l.add(journal.Entry{Kind: journal.KindAbandon, Status: journal.StatusOK, Ref: &target,
		Abandon: json.RawMessage(fmt.Sprintf(`{"target":%d,"authorizedBy":"op","reason":"r"}`, target))})
}

func (l *log) decision(value string) int64 {
	return l.add(journal.Entry{Kind: journal.KindDecision, Status: journal.StatusOK, Value: json.RawMessage(value)})
}

func (l *log) settle(status string) int64 {
	return l.decision(fmt.Sprintf(`{"decisionType":"run_settle","runStatus":%q,"segment":1}`, status))
}

func mustFold(t require.TestingT, l log) *replay.Fold {
	f, err := newFold(l, nil)
	require.NoError(t, err)
	return f
}

func mustMatcher(t require.TestingT, l log, invalidate ...int64) *replay.Matcher {
	m, err := newMatcher(l, mustFold(t, l), invalidate)
	require.NoError(t, err)
	return m
}

// decodeLines reads a journal file as the tests need it: JSON values one after
// another, whatever stands between them; a torn tail ends it.
func decodeLines(src []byte) []journal.Entry {
	var list []journal.Entry
	dec := json.NewDecoder(bytes.NewReader(src))
	for {
		var line struct {
			HashVersion, V, Seq, Ordinal      int64
			Ref                               *int64
			Scope, Key                        string
			Kind                              journal.Kind
			Status                            journal.Status
			Value, Error, Resolution, Abandon json.RawMessage
			MemoizeOutcome                    bool
			DeadlineAt                        string
		}
		if err := dec.Decode(&line); err != nil {
			return list
		}
		v := line.HashVersion
		if v == 0 {
			v = max(line.V, 1)
		}
		list = append(list, journal.Entry{HashVersion: int(v), Seq: line.Seq, Ref: line.Ref, Scope: line.Scope,
			Key: line.Key, Ordinal: line.Ordinal, Kind: line.Kind, Status: line.Status, Value: line.Value,
			Error: line.Error, Resolution: line.Resolution, Abandon: line.Abandon,
			MemoizeOutcome: line.MemoizeOutcome, DeadlineAt: line.DeadlineAt})
	}
}

func check(t *testing.T, err error, code error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, code)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
}

// The package reads entries by pointer, as stores return them; tests list them
// by value.

func pointers(entries []journal.Entry) []*journal.Entry {
	out := make([]*journal.Entry, len(entries))
	for i := range entries {
		out[i] = &entries[i]
	}
	return out
}

func newFold(entries []journal.Entry, validate replay.ValidateFunc) (*replay.Fold, error) {
	return replay.NewFold(pointers(entries), validate)
}

func newMatcher(prior []journal.Entry, fold *replay.Fold, invalidate []int64) (*replay.Matcher, error) {
	return replay.NewMatcher(pointers(prior), fold, invalidate)
}

func seedOrdinals(prior []journal.Entry) *replay.Ordinals {
	return replay.SeedOrdinals(pointers(prior))
}

func checkVersions(entries []journal.Entry) error { return replay.CheckVersions(pointers(entries)) }
