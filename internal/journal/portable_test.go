package journal_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/journal"
)

// export writes what a store holds of a run.
func export(t testing.TB, s store, runID string) []byte {
	meta, entries, err := s.Load(t.Context(), runID, -1)
	require.NoError(t, err)
	var text bytes.Buffer
	w := journal.NewPortableWriter(&text, runID)
	require.NoError(t, w.Meta(meta))
	for _, e := range entries {
		require.NoError(t, w.Entry(e))
	}
	refs, err := s.List(t.Context(), runID)
	require.NoError(t, err)
	for _, ref := range refs {
		data, err := s.Get(t.Context(), ref)
		require.NoError(t, err)
		require.NoError(t, w.Blob(ref, data))
	}
	require.NoError(t, w.Close())
	return text.Bytes()
}

// rewritten puts a run into an empty store and exports it from there.
func rewritten(t *testing.T, p *journal.Portable) []byte {
	s := journal.NewMemoryStore()
	l := lock(t, s, p.RunID)
	require.NoError(t, s.AppendAll(t.Context(), p.RunID, p.Entries, l))
	if p.Meta != nil {
		require.NoError(t, s.PutMeta(t.Context(), p.Meta, l))
	}
	for _, b := range p.Blobs {
		require.NoError(t, s.Put(t.Context(), b.Ref, b.Data))
	}
	require.NoError(t, l.Release())
	return export(t, s, p.RunID)
}

// TestPortableRecorded carries every recorded run from its store to another
// one, under its own name and under another and back, and loses no byte.
func TestPortableRecorded(t *testing.T) {
	carried, moved := 0, 0
	for _, dir := range recordedStores(t) {
		s := open(t, dir, nil)
		metas, err := s.ListRuns(t.Context(), nil)
		if err != nil {
			continue // its metadata is damaged on purpose
		}
		for _, m := range metas {
			if _, _, err := s.Load(t.Context(), m.RunID, -1); err != nil {
				continue
			}
			carried++
			text := export(t, s, m.RunID)
			p, err := journal.ReadPortable(bytes.NewReader(text))
			require.NoError(t, err, dir)
			require.Equal(t, string(text), string(rewritten(t, p)), dir)

			as, err := p.As("another-run")
			require.NoError(t, err)
			for i, e := range as.Entries {
				if string(e.Raw) != string(p.Entries[i].Raw) {
					moved++
				}
			}
			there := rewritten(t, as)
			require.NotContains(t, string(there), `Ref":"`+m.RunID+"/", "a blob's name was left behind")
			again, err := journal.ReadPortable(bytes.NewReader(there))
			require.NoError(t, err)
			back, err := again.As(m.RunID)
			require.NoError(t, err)
			require.Equal(t, string(text), string(rewritten(t, back)), dir)
		}
	}
	require.Greater(t, carried, 100)
	require.Greater(t, moved, 50)
}

// sealed ends lines as an exporter would.
func sealed(entries, blobs int, lines ...string) string {
	text := strings.Join(lines, "\n") + "\n"
	sum := sha256.Sum256([]byte(text))
	return text + fmt.Sprintf(`{"end":{"entries":%d,"blobs":%d,"sha256":"%s"}}`+"\n", entries, blobs, hex.EncodeToString(sum[:]))
}

const (
	portableHead  = `{"rulvarRun":1,"runId":"r1"}`
	portableMeta  = `{"meta":{"runId":"r1","status":"ok"}}`
	portableEntry = `{"entry":{"seq":4,"scope":"","key":"k","kind":"step","status":"running"}}`
	portableBlob  = `{"blob":"r1/ckpt/4","data":"AAE="}`
)

func TestPortableRefuses(t *testing.T) {
	good := sealed(1, 1, portableHead, portableMeta, portableEntry, portableBlob)
	_, err := journal.ReadPortable(iotest.OneByteReader(strings.NewReader(good)))
	require.NoError(t, err)
	_, err = journal.ReadPortable(strings.NewReader(strings.TrimSuffix(good, "\n") + " \n\n"))
	require.NoError(t, err, "space at the end is none of ours")
	for name, c := range map[string]struct {
		text string
		code errs.Code
		says string
	}{
		"empty":               {"", errs.JournalOrder, "cut off"},
		"not a run":           {`{"hello":1}` + "\n", errs.JournalOrder, `"hello"`},
		"a journal":           {strings.TrimPrefix(portableEntry, `{"entry":`) + "\n", errs.JournalOrder, "line 1"},
		"a later version":     {sealed(0, 0, `{"rulvarRun":2,"runId":"r1","new":[]}`), errs.JournalCompat, "version 2"},
		"no version":          {sealed(0, 0, `{"rulvarRun":0,"runId":"r1"}`, portableMeta), errs.JournalOrder, "first line"},
		"a bad run id":        {sealed(0, 0, `{"rulvarRun":1,"runId":"../r"}`, portableMeta), errs.JournalOrder, "line 1"},
		"empty run":           {sealed(0, 0, portableHead), errs.JournalOrder, "empty"},
		"no end":              {portableHead + "\n" + portableMeta + "\n", errs.JournalOrder, "cut off"},
		"two metadata":        {sealed(0, 0, portableHead, portableMeta, portableMeta), errs.JournalOrder, "second line"},
		"late metadata":       {sealed(1, 0, portableHead, portableEntry, portableMeta), errs.JournalOrder, "second line"},
		"metadata of another": {sealed(0, 0, portableHead, `{"meta":{"runId":"r2"}}`), errs.JournalOrder, `"r2"`},
		"damaged metadata":    {sealed(0, 0, portableHead, `{"meta":{"status":"ok"}}`), errs.JournalOrder, "runId"},
		"the same number":     {sealed(2, 0, portableHead, portableEntry, portableEntry), errs.JournalOrder, "seq 4"},
		"a ref forwards":      {sealed(1, 0, portableHead, `{"entry":{"seq":0,"ref":1,"scope":"","key":"","kind":"step","status":"ok"}}`), errs.JournalOrder, "backwards"},
		"no entry":            {sealed(1, 0, portableHead, `{"entry":{"seq":0}}`), errs.JournalOrder, "scope"},
		"entry behind a blob": {sealed(1, 1, portableHead, portableBlob, portableEntry), errs.JournalOrder, "behind a blob"},
		"blob twice":          {sealed(0, 2, portableHead, portableMeta, portableBlob, portableBlob), errs.JournalOrder, "twice"},
		"blob of another":     {sealed(0, 1, portableHead, portableMeta, `{"blob":"r10/x","data":""}`), errs.JournalOrder, "another run"},
		"blob outside":        {sealed(0, 1, portableHead, portableMeta, `{"blob":"r1/../../x","data":""}`), errs.JournalOrder, "directory"},
		"blob not base64":     {sealed(0, 1, portableHead, portableMeta, `{"blob":"r1/x","data":"A"}`), errs.JournalOrder, "base64"},
		"blob without data":   {sealed(0, 1, portableHead, portableMeta, `{"blob":"r1/x"}`), errs.JournalOrder, "neither"},
		"two in a line":       {sealed(1, 0, portableHead, strings.TrimSuffix(portableMeta, "}")+","+portableEntry[1:]), errs.JournalOrder, "neither"},
		"a member twice":      {sealed(0, 1, portableHead, `{"blob":"r1/x","blob":"r1/y","data":""}`), errs.JournalOrder, "twice"},
		"no object":           {sealed(0, 0, portableHead, `[]`), errs.JournalOrder, "line 2"},
		"a blank line":        {sealed(0, 0, portableHead, "", portableMeta), errs.JournalOrder, "line 2"},
		"not UTF-8":           {sealed(0, 0, portableHead, "{\"meta\":{\"runId\":\"r1\",\"name\":\"\xff\"}}"), errs.JournalOrder, "UTF-8"},
		"too few entries":     {sealed(2, 0, portableHead, portableEntry), errs.JournalOrder, "2 entries"},
		"too few blobs":       {sealed(1, 1, portableHead, portableEntry), errs.JournalOrder, "1 blobs"},
		"an incomplete end":   {portableHead + "\n" + portableMeta + "\n" + `{"end":{"entries":0,"blobs":0}}`, errs.JournalOrder, "sha256"},
		"more behind the end": {good + "x", errs.JournalOrder, "more text"},
		"another hash":        {strings.Replace(good, `"ok"`, `"no"`, 1), errs.JournalOrder, "hash"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := journal.ReadPortable(strings.NewReader(c.text))
			require.ErrorIs(t, err, c.code)
			require.ErrorContains(t, err, c.says)
			require.Nil(t, p)
		})
	}
	for n := range len(good) - 1 {
		_, err := journal.ReadPortable(strings.NewReader(good[:n]))
		require.ErrorIs(t, err, errs.JournalOrder, "cut after %d bytes", n)
	}
	broken := errors.New("the connection was reset")
	for _, n := range []int{0, 10, len(good) / 2, len(good)} {
		_, err := journal.ReadPortable(io.MultiReader(strings.NewReader(good[:n]), iotest.ErrReader(broken)))
		require.ErrorIs(t, err, broken)
	}
}

// TestPortableAs: what names a blob moves with the run, and nothing else does.
func TestPortableAs(t *testing.T) {
	text := sealed(3, 1,
		portableHead,
		`{"meta":{"runId":"r1","status":"ok","workflowSourceRef":"r1/src","note":"r1/src","args":"r1/x"}}`,
		`{"entry": { "seq":0,"scope":"r1/ckpt/4",  "key":"k","kind":"agent","status":"running","value":{"checkpointRef":"r1/a","ref":"r1/b"}} }`,
		`{"entry":{"seq":1,"ref":0,"scope":"r1/ckpt/4","key":"k","kind":"agent","status":"ok","value":"r1/tr/0","transcriptRef":"r1\/tr\u002f0","checkpointRef":"r10/ckpt/0","artifacts":["r1/z",{"ref":"r1/patch/0","data":"r1/tr/0","deep":{"ref":"r1/d"}},{"ref":"r2/t"}],"x":1e2}}`,
		`{"entry":{"seq":3,"scope":"","key":"","kind":"future","status":"odd","artifacts":[],"transcriptRef":"","lone":"\ud800"}}`,
		`{"blob":"r1/tr/0","data":""}`)
	p, err := journal.ReadPortable(strings.NewReader(text))
	require.NoError(t, err)
	as, err := p.As("other")
	require.NoError(t, err)
	require.Equal(t, string(p.Entries[0].Raw), string(as.Entries[0].Raw))
	require.Equal(t, `{ "seq":0,"scope":"r1/ckpt/4",  "key":"k","kind":"agent","status":"running","value":{"checkpointRef":"r1/a","ref":"r1/b"}}`, string(as.Entries[0].Raw))
	require.Equal(t, `{"seq":1,"ref":0,"scope":"r1/ckpt/4","key":"k","kind":"agent","status":"ok","value":"r1/tr/0","transcriptRef":"other/tr/0","checkpointRef":"r10/ckpt/0","artifacts":["r1/z",{"ref":"other/patch/0","data":"r1/tr/0","deep":{"ref":"r1/d"}},{"ref":"r2/t"}],"x":1e2}`, string(as.Entries[1].Raw))
	require.Equal(t, "other/tr/0", *as.Entries[1].TranscriptRef)
	require.Equal(t, string(p.Entries[2].Raw), string(as.Entries[2].Raw))
	require.Equal(t, []journal.PortableBlob{{Ref: "other/tr/0", Data: []byte{}}}, as.Blobs)
	require.Equal(t, "other", as.Meta.RunID)
	require.Equal(t, `"other/src"`, string(as.Meta.Extra["workflowSourceRef"]))
	require.Equal(t, `"r1/src"`, string(as.Meta.Extra["note"]))
	require.Equal(t, `"r1/x"`, string(as.Meta.Args))
	require.Equal(t, `"r1/src"`, string(p.Meta.Extra["workflowSourceRef"]), "the run that was read is as it was")
	_, err = p.As("../x")
	require.ErrorIs(t, err, errs.Config)
}

// TestPortableCarriageReturns: a journal with carriage returns between tokens
// loads, so it must travel.
func TestPortableCarriageReturns(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "r1.jsonl"), []byte("{\"seq\":0,\r\"scope\":\"\",\"key\":\"\",\"kind\":\"x\",\"status\":\"y\"}\r\n"), 0o600))
	p, err := journal.ReadPortable(bytes.NewReader(export(t, open(t, dir, nil), "r1")))
	require.NoError(t, err)
	require.NotEmpty(t, rewritten(t, p))
}

func TestMentions(t *testing.T) {
	e, err := journal.ParseEntry([]byte(`{"seq":0,"scope":"s","key":"","kind":"x","status":"y","value":[{"a":"r\u0031/b","n":1,"l":[true,null,"deep",[]],"o":{}}]}`))
	require.NoError(t, err)
	got := map[string]string{}
	require.NoError(t, e.Mentions(func(path []string, text string) { got[strings.Join(path, ".")] = text }))
	require.Equal(t, map[string]string{"scope": "s", "key": "", "kind": "x", "status": "y", "value..a": "r1/b", "value..l.": "deep"}, got)
	m := &journal.Meta{RunID: "r1", Extra: map[string]json.RawMessage{"x": json.RawMessage(`["r1/y"]`)}}
	got = map[string]string{}
	require.NoError(t, m.Mentions(func(path []string, text string) { got[strings.Join(path, ".")] = text }))
	require.Equal(t, "r1/y", got["x."])
	broken := &journal.Entry{Raw: json.RawMessage(`{"a":["x" {"b`)}
	require.NoError(t, broken.Mentions(func([]string, string) {}))
}

// FuzzReadPortable: a text is refused, or it is a run that is written again as
// one that reads the same, under its own name and another.
func FuzzReadPortable(f *testing.F) {
	good := sealed(1, 1, portableHead, portableMeta, portableEntry, portableBlob)
	f.Add([]byte(good))
	f.Add([]byte(sealed(1, 0, portableHead, `{"entry":{"seq":1,"scope":"","key":"","kind":"agent","status":"ok","transcriptRef":"r1/t","artifacts":[{"ref":"r1/\u0070"}]}}`)))
	f.Add([]byte(good[:len(good)/2]))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := journal.ReadPortable(bytes.NewReader(text))
		if err != nil {
			if !errors.Is(err, errs.JournalOrder) && !errors.Is(err, errs.JournalCompat) {
				t.Fatal(err)
			}
			// The hash keeps chance out; with the right one the rest is tried.
			if p, err = journal.ReadPortable(strings.NewReader(resealed(text))); err != nil {
				return
			}
		}
		first := rewritten(t, p)
		as, err := p.As("other-run")
		require.NoError(t, err)
		require.Len(t, as.Entries, len(p.Entries))
		back, err := as.As(p.RunID)
		require.NoError(t, err)
		again, err := journal.ReadPortable(bytes.NewReader(first))
		require.NoError(t, err)
		require.Equal(t, len(p.Entries), len(again.Entries))
		require.Equal(t, p.Blobs, again.Blobs)
		for i, e := range p.Entries {
			require.Equal(t, string(e.Raw), string(again.Entries[i].Raw))
			if !bytes.Contains(e.Raw, []byte(`\`)) { // a name that moves is spelt plainly
				require.Equal(t, string(e.Raw), string(back.Entries[i].Raw))
			}
		}
	})
}

// resealed gives a text that begins as a run the end that fits it.
func resealed(text []byte) string {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if n := len(lines); n > 1 && strings.HasPrefix(lines[n-1], `{"end"`) {
		lines = lines[:n-1]
	}
	entries, blobs := 0, 0
	for _, l := range lines {
		if strings.HasPrefix(l, `{"entry"`) {
			entries++
		}
		if strings.HasPrefix(l, `{"blob"`) {
			blobs++
		}
	}
	return sealed(entries, blobs, lines...)
}
