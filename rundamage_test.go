package rulvar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/journal/faultfs"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// damaged is a run whose files are changed before it is resumed: of two
// agents, one has ended and one waits in the middle of its turn, with its
// approval given.
type damaged struct {
	files map[string]string // under the store's directory
	names []string
}

// damagedRun makes the run: "Look" has ended, "Ship api" waits, and is approved.
func damagedRun(t testing.TB) *damaged {
	t.Helper()
	disk := faultfs.New()
	v := newVictim(t, disk)
	h, err := rulvar.Run(v.ctx, v.engine, v.workflow, "api", &rulvar.RunOptions{RunID: "r1"})
	require.NoError(t, err)
	out, err := h.Result(v.ctx)
	require.NoError(t, err)
	require.Equal(t, rulvar.RunSuspended, out.Status)
	_, err = v.engine.Resolve(v.ctx, "r1", out.Pending[0].Key, rulvar.Approve("fine"))
	require.NoError(t, err)
	d := &damaged{files: map[string]string{}}
	for _, name := range []string{"r1.jsonl", "r1.meta.json", "r1/ckpt/2.bin", "r1/tr/0.bin"} {
		d.files[name] = diskText(t, disk, "/d/"+name)
		require.NotEmpty(t, d.files[name], name)
		d.names = append(d.names, name)
	}
	return d
}

// victim is an engine over the files, and what its tool and its log have seen.
type victim struct {
	ctx      context.Context
	disk     *faultfs.FS
	engine   *rulvar.Engine
	workflow *rulvar.Workflow[string, string]
	log      *bytes.Buffer

	mu  sync.Mutex
	ran []string
}

func newVictim(t testing.TB, disk *faultfs.FS) *victim {
	t.Helper()
	v := &victim{ctx: t.Context(), disk: disk, log: new(bytes.Buffer)}
	schema := must(rulvar.SchemaLiteral(json.RawMessage(deploySchema)))
	look := must(rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "look", Risk: rulvar.RiskRead}, schema,
		func(*rulvar.ToolContext, json.RawMessage) (string, error) { return "fine", nil }))
	deploy := must(rulvar.NewToolWithSchema(deployConfig, schema, func(_ *rulvar.ToolContext, in json.RawMessage) (string, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.ran = append(v.ran, string(in))
		return "done", nil
	}))
	v.workflow = rulvar.DefineWorkflow("ship", func(c *rulvar.Ctx, service string) (string, error) {
		if _, err := rulvar.Agent[string](c, "Look", &rulvar.AgentOptions{Tools: []rulvar.ToolSource{look}}); err != nil {
			return "", err
		}
		return rulvar.Agent[string](c, "Ship "+service, &rulvar.AgentOptions{Tools: []rulvar.ToolSource{deploy}})
	})
	log := slog.New(slog.NewTextHandler(v.log, nil))
	store := must(rulvar.OpenFileStore("/d", &rulvar.FileStoreOptions{FS: disk, Logger: log}))
	v.engine = rulvartest.NewEngine(t, rulvar.Config{
		Store: store, Providers: []llm.Provider{rulvartest.NewProvider("test", lookScript, shipScript)}, Model: "test:m", Logger: quietLog(),
	})
	return v
}

func diskText(t testing.TB, disk *faultfs.FS, name string) string {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_RDONLY, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		require.ErrorIs(t, err, io.EOF)
	}
	return string(b)
}

// diskOf is a disk with the run's files.
func diskOf(t testing.TB, files map[string]string) *faultfs.FS {
	t.Helper()
	disk := faultfs.New()
	for _, dir := range []string{"/d", "/d/r1", "/d/r1/ckpt", "/d/r1/tr"} {
		require.NoError(t, disk.Mkdir(dir, 0o700))
	}
	for name, text := range files {
		f, err := disk.OpenFile(path.Join("/d", name), os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte(text), 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	return disk
}

// attack resumes the run with one file changed. What is not noticed, and not
// every change can be in a format without checksums, must be read as it
// stands: no line is passed over. What is noticed is named.
func (d *damaged) attack(t testing.TB, name, text, what string) {
	t.Helper()
	files := maps.Clone(d.files)
	files[name] = text
	v := newVictim(t, diskOf(t, files))
	_, entries, loadErr := must(rulvar.OpenFileStore("/d", &rulvar.FileStoreOptions{FS: v.disk})).Load(v.ctx, "r1", -1)
	_, err := v.engine.Pending(v.ctx)
	requireNamed(t, err, name, what)
	h, err := rulvar.Resume[string](v.ctx, v.engine, v.workflow, "r1", nil)
	if err == nil {
		_, err = h.Result(v.ctx)
	}
	requireNamed(t, err, name, what)
	require.LessOrEqual(t, len(v.ran), 1, what)
	for _, in := range v.ran {
		require.Equal(t, `{"service":"api"}`, in, "%s: nobody has seen this", what)
	}
	if loadErr != nil {
		require.Error(t, err, "%s: what could not be loaded was resumed", what)
		require.Empty(t, v.ran, what)
		require.Equal(t, text, diskText(t, v.disk, "/d/"+name), "%s: a damaged file was changed", what)
		return
	}
	if name == "r1.jsonl" {
		d.nothingSkipped(t, v, text, entries, what)
	}
}

// nothingSkipped holds the records that were read to the lines that stand
// there. Only a torn end may lack, and the next append tells the log.
func (d *damaged) nothingSkipped(t testing.TB, v *victim, text string, entries []*rulvar.Entry, what string) {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.Trim(line, " \t\r"); line != "" {
			lines = append(lines, line)
		}
	}
	whole := min(len(lines), len(entries))
	require.GreaterOrEqual(t, whole, len(lines)-1, "%s: lines were passed over", what)
	for i := range whole {
		if i == len(lines)-1 { // it may hold several, or one and a torn one
			require.True(t, strings.HasPrefix(lines[i], string(entries[i].Raw)), what)
			continue
		}
		require.Equal(t, lines[i], string(entries[i].Raw), what)
	}
	after := diskText(t, v.disk, "/d/r1.jsonl")
	if whole < len(lines) && !strings.Contains(after, strings.TrimRight(text, "\n")) {
		require.Contains(t, v.log.String(), "repaired the torn end", what)
	}
}

// requireNamed requires of an error that it is typed, and of one about damage
// that it says where.
func requireNamed(t testing.TB, err error, name, what string) {
	t.Helper()
	if err == nil {
		return
	}
	e, ok := errors.AsType[*rulvar.Error](err)
	require.True(t, ok, "%s: not typed: %v", what, err)
	switch {
	case name == "r1.meta.json" && e.Code == rulvar.ErrJournalOrder, e.Data["file"] != nil:
		require.Equal(t, "/d/"+name, e.Data["file"], what)
		require.Positive(t, e.Data["line"], what)
		require.GreaterOrEqual(t, e.Data["offset"], int64(0), what)
	case strings.HasPrefix(name, "r1/ckpt/"):
		require.ErrorIs(t, err, rulvar.ErrJournalIntegrity, what)
		require.Equal(t, strings.TrimSuffix(name, ".bin"), e.Data["blob"], what)
	default:
		require.NotEmpty(t, e.Code, what)
		require.NotEmpty(t, e.Msg+e.Path, what)
	}
}

// Bytes anywhere in any file of a run are flipped, cut off, written twice or
// put in.
func TestDamageAnywhereInARun(t *testing.T) {
	d := damagedRun(t)
	stride := 23
	if breakAll() {
		stride = 1
	}
	for _, name := range d.names {
		t.Run(path.Base(path.Dir(name))+" "+path.Base(name), func(t *testing.T) {
			t.Parallel()
			text := d.files[name]
			for at := 0; at < len(text); at += stride {
				end := min(len(text), at+1+at%97)
				flipped := []byte(text)
				flipped[at] ^= 1 << (at % 8)
				d.attack(t, name, string(flipped), fmt.Sprintf("%s: flip %d", name, at))
				d.attack(t, name, text[:at], fmt.Sprintf("%s: cut at %d", name, at))
				d.attack(t, name, text[:end]+text[at:], fmt.Sprintf("%s: twice %d to %d", name, at, end))
				d.attack(t, name, text[:at]+`x"}{1`[at%5:]+text[at:], fmt.Sprintf("%s: insert at %d", name, at))
				d.attack(t, name, text[:at]+text[end:], fmt.Sprintf("%s: without %d to %d", name, at, end))
			}
		})
	}
}

// FuzzDamagedRun puts any bytes in the place of any others.
func FuzzDamagedRun(f *testing.F) {
	d := damagedRun(f)
	f.Add(uint8(0), uint16(0), uint16(0), []byte("\ufeff"))
	f.Add(uint8(0), uint16(300), uint16(1), []byte("\n"))
	f.Add(uint8(0), uint16(900), uint16(5000), []byte{})
	f.Add(uint8(1), uint16(20), uint16(7), []byte("r2"))
	f.Add(uint8(2), uint16(1), uint16(6), []byte(`{"v":2`))
	f.Add(uint8(2), uint16(500), uint16(1), []byte("\x00"))
	f.Add(uint8(3), uint16(0), uint16(5000), []byte("{}"))
	f.Fuzz(func(t *testing.T, which uint8, at, gone uint16, in []byte) {
		name := d.names[int(which)%len(d.names)]
		text := d.files[name]
		from := min(int(at), len(text))
		to := min(from+int(gone), len(text))
		d.attack(t, name, string(slices.Concat([]byte(text[:from]), in, []byte(text[to:]))), name)
	})
}
