package journal_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

func step(value string) *journal.Entry {
	return &journal.Entry{
		Kind: journal.KindStep, Status: journal.StatusRunning, Scope: "", Key: "k", SpanID: "s1",
		StartedAt: "2026-11-30T09:19:01.063Z", Value: json.RawMessage(value),
	}
}

func TestAppendLoad(t *testing.T) {
	s, err := journal.Open(t.TempDir(), nil)
	require.NoError(t, err)
	ctx := t.Context()
	err = s.Append(ctx, "r1", step(`1`), nil)
	require.ErrorIs(t, err, errs.Config)
	l, err := s.Lock(ctx, "r1", "me")
	require.NoError(t, err)
	for i := range 10 {
		e := step(`{"a":1}`)
		require.NoError(t, s.Append(ctx, "r1", e, l))
		require.Equal(t, int64(i), e.Seq)
	}
	require.NoError(t, s.PutMeta(ctx, &journal.Meta{RunID: "r1", Status: "running"}, l))
	_, err = s.Lock(ctx, "r1", "you")
	require.ErrorIs(t, err, errs.LeaseHeld)
	require.ErrorContains(t, err, "me (process")
	m, es, err := s.Load(ctx, "r1", 4)
	require.NoError(t, err)
	require.Equal(t, "running", m.Status)
	require.Len(t, es, 5)
	require.NoError(t, l.Release())
	require.NoError(t, s.Put(ctx, "r1/ckpt/0", []byte("x")))
	refs, err := s.List(ctx, "r1")
	require.NoError(t, err)
	require.Equal(t, []string{"r1/ckpt/0"}, refs)
	require.NoError(t, s.Delete(ctx, "r1"))
	m, es, err = s.Load(ctx, "r1", -1)
	require.NoError(t, err)
	require.Nil(t, m)
	require.Empty(t, es)
}
