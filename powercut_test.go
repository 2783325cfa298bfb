package rulvar_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// The power fails before an operation of the disk, and what was not synced is
// lost, or some of it: other engines finish each run of the kill matrix as if
// nothing had happened. Everything that a caller was told about is there, the
// model is not asked again for a turn that is recorded, and no recorded call
// and no recorded step is made again.
//
// By default some of the operations are taken; with RULVAR_KILL_MATRIX=full
// each is, three times, with different losses, and the power fails a second
// time on the way to the end.
func TestPowerCuts(t *testing.T) {
	seeds, limit := 1, 25
	if os.Getenv(fullMatrix) != "" {
		seeds, limit = 3, 0
	}
	for _, r := range crashRuns() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				m := &cutMatrix{run: &r, rng: rand.New(rand.NewPCG(uint64(seed), 7)), again: 0.3}
				m.explore(t, limit)
			}
		})
	}
}

// cutMatrix cuts the power of one run.
type cutMatrix struct {
	run   *crashRun
	rng   *rand.Rand
	again float64 // how many of the lives after a cut are cut again
	want  string  // the result of the life that nothing disturbs
}

// cut is the moment at which the power fails.
type cut struct {
	name    string
	visits  []rulvartest.Visit // the lives before
	effects []byte
	told    told
	disk    *faultfs.FS // as the cut leaves it
}

func (m *cutMatrix) explore(t *testing.T, limit int) {
	l := newLife(t, m.run, faultfs.New(), nil)
	cuts := m.watch(t, l, nil, func(int) bool { return true })
	result, err := l.finish()
	require.NoError(t, err)
	m.want = result
	all := *cuts
	require.NotEmpty(t, all)
	if limit > 0 && len(all) > limit {
		m.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:limit]
	}
	for _, c := range all {
		m.recover(t, c, m.rng.Float64() < m.again)
	}
}

// watch notes the cuts of a life at the chosen operations. Of what the callers
// know nothing may be newer than the disk: it is copied first.
func (m *cutMatrix) watch(t *testing.T, l *life, earlier []rulvartest.Visit, chosen func(n int) bool) *[]cut {
	var cuts []cut
	l.before = func(n int, op faultfs.Op, path string) {
		if !chosen(n) {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		c := cut{name: fmt.Sprintf("before operation %d, %s %s", n, op, path), told: l.told.clone()}
		c.visits = append(slices.Clone(earlier), rulvartest.Visit{Killed: "power", Points: slices.Clone(l.points)})
		var err error
		if c.effects, err = os.ReadFile(filepath.Join(l.dir, effectsFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		c.disk = l.disk.Crash(m.rng)
		cuts = append(cuts, c)
	}
	return &cuts
}

// recover lives on after a cut and holds what becomes of the run to the laws.
func (m *cutMatrix) recover(t *testing.T, c cut, again bool) {
	t.Helper()
	store := diskStore(t, c.disk)
	meta, entries, err := store.Load(t.Context(), crashRunID, -1)
	if c.told.groups > 0 && errors.Is(err, rulvar.ErrJournalOrder) {
		return // one write of several records, torn in the middle, is refused
	}
	require.NoError(t, err, c.name)
	c.keeps(t, store, meta, entries)
	recorded := recordedPoints(t, store, entries)
	died := &c.visits[len(c.visits)-1]
	for _, en := range entries {
		if _, known := c.told.lines[en.Seq]; !known { // it is durable, and the power failed before its caller heard of it
			died.Points = append(died.Points, "append:"+pointWord(en)+":after")
		}
	}
	l := newLife(t, m.run, c.disk, c.effects)
	l.told = whatStands(t, store, meta, entries)
	var second *[]cut
	if again {
		at := 1 + m.rng.IntN(40)
		second = m.watch(t, l, c.visits, func(n int) bool { return n == at })
	}
	result, err := l.finish()
	require.NoError(t, err, c.name)
	require.Equal(t, m.want, result, c.name)
	for _, point := range recorded {
		require.NotContains(t, l.points, point, "%s: it was recorded", c.name)
	}
	_, entries, err = store.Load(t.Context(), crashRunID, -1)
	require.NoError(t, err, c.name)
	visits := append(slices.Clone(c.visits), rulvartest.Visit{Points: l.points, Result: result})
	end := crashEndOf(t, store, entries, l.dir, visits)
	end.laws(t)
	m.run.check(t, end)
	if second != nil && len(*second) > 0 {
		next := (*second)[0]
		next.name = c.name + ", then " + next.name
		m.recover(t, next, false)
	}
}

// whatStands is what the lives after a cut rely on: all that the disk holds.
func whatStands(t *testing.T, store *rulvar.FileStore, meta *rulvar.RunMeta, entries []*rulvar.Entry) told {
	t.Helper()
	o := told{lines: map[int64]string{}, files: map[string]promised{"meta": {kept: metaText(meta)}}}
	for _, en := range entries {
		o.lines[en.Seq] = string(en.Raw)
	}
	refs, err := store.List(t.Context(), crashRunID)
	require.NoError(t, err)
	for _, ref := range refs {
		blob, err := store.Get(t.Context(), ref)
		require.NoError(t, err)
		o.files[ref] = promised{kept: string(blob)}
	}
	return o
}

// keeps requires what the callers were told of.
func (c *cut) keeps(t *testing.T, store *rulvar.FileStore, meta *rulvar.RunMeta, entries []*rulvar.Entry) {
	t.Helper()
	lines := map[int64]string{}
	for _, en := range entries {
		lines[en.Seq] = string(en.Raw)
	}
	for seq, line := range c.told.lines {
		require.Equal(t, line, lines[seq], "%s: a record is lost", c.name)
	}
	for name, p := range c.told.files {
		text := metaText(meta)
		if name != "meta" {
			blob, err := store.Get(context.Background(), name)
			require.NoError(t, err, c.name)
			text = string(blob)
		}
		require.True(t, p.allows(text), "%s: %s is lost", c.name, name)
	}
	// A tool that has run under an approval has used it durably.
	if bytes.Contains(c.effects, []byte("deploy")) {
		end := crashEnd{entries: entries}
		require.Positive(t, end.count("decision", "approval_consumed"), c.name)
	}
}
