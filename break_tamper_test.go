package rulvar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/rulvartest"
)

// tamperer parks a run and damages copies of its store.
type tamperer struct {
	t     *testing.T
	files map[string]string
	names []string
	w     *rulvar.Workflow[string, string]
	model *rulvartest.Provider

	mu  sync.Mutex
	ran []string
}

func newTamperer(t *testing.T, answer *rulvar.ApprovalDecision) *tamperer {
	p := park(t, rulvar.Config{})
	if answer != nil {
		p.resolve(t, *answer)
	}
	d := &tamperer{t: t, files: readStore(t, p.dir), model: rulvartest.NewProvider("test", shipScript)}
	for name := range d.files {
		d.names = append(d.names, name)
	}
	slices.Sort(d.names)
	schema := must(rulvar.SchemaLiteral(json.RawMessage(deploySchema)))
	d.w = askShip(must(rulvar.NewToolWithSchema(rulvar.ToolConfig{Name: "deploy", NeedsApproval: true, Risk: rulvar.RiskExecute}, schema,
		func(_ *rulvar.ToolContext, in json.RawMessage) (string, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.ran = append(d.ran, string(in))
			return "done", nil
		})))
	return d
}

// damage makes other bytes of a file's.
func damage(r *rand.Rand, text []byte) (string, []byte) {
	if len(text) == 0 {
		return "grown", []byte{byte(r.IntN(256))}
	}
	text = bytes.Clone(text)
	lines := bytes.SplitAfter(text, []byte("\n"))
	i, j := r.IntN(len(text)), r.IntN(len(text))
	switch what := r.IntN(9); what {
	case 0:
		text[i] ^= 1 << r.IntN(8)
		return fmt.Sprint("flip ", i), text
	case 1:
		text[i] = `"{}[],:0123456789-aeltrudnyw `[r.IntN(29)]
		return fmt.Sprint("set ", i), text
	case 2:
		return fmt.Sprint("cut ", i), text[:i]
	case 3:
		return fmt.Sprint("headless ", i), text[i:]
	case 4:
		i, j = min(i, j), max(i, j)
		return fmt.Sprint("double ", i, j), slices.Concat(text[:j], text[i:j], text[j:])
	case 5:
		i, j = min(i, j), max(i, j)
		return fmt.Sprint("drop ", i, j), slices.Concat(text[:i], text[j:])
	case 6:
		k := r.IntN(len(lines))
		return fmt.Sprint("drop line ", k), bytes.Join(slices.Delete(lines, k, k+1), nil)
	case 7:
		k := r.IntN(len(lines))
		return fmt.Sprint("double line ", k), bytes.Join(slices.Insert(lines, k, lines[k]), nil)
	default:
		k, l := r.IntN(len(lines)), r.IntN(len(lines))
		lines[k], lines[l] = lines[l], lines[k]
		return fmt.Sprint("swap lines ", k, l), bytes.Join(lines, nil)
	}
}

// open writes the store with one file damaged.
func (d *tamperer) open(t *testing.T, r *rand.Rand) (*rulvar.Engine, string) {
	dir := t.TempDir()
	victim := d.names[r.IntN(len(d.names))]
	what, bad := damage(r, []byte(d.files[victim]))
	for name, text := range d.files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if name == victim {
			text = string(bad)
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	store := must(rulvar.OpenFileStore(dir, nil))
	d.ran = nil
	return rulvartest.NewEngine(t, rulvar.Config{Store: store, Providers: []llm.Provider{d.model}, Model: "test:m", Logger: quietLog()}), victim + ": " + what
}

// go on: resume the damaged run and return whether the tool ran.
func (d *tamperer) resume(ctx context.Context, e *rulvar.Engine) (rulvar.Outcome[string], error) {
	h, err := rulvar.Resume[string](ctx, e, d.w, "r1", nil)
	if err != nil {
		return rulvar.Outcome[string]{}, err
	}
	return h.Result(ctx)
}

func requireTyped(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil {
		var typed *rulvar.Error
		require.ErrorAs(t, err, &typed, what)
	}
}

// Bytes of a parked run's store are changed. Listing, answering and resuming
// make typed errors or go on; and whatever happens the tool runs only when
// somebody has approved, and only with the input that was shown.
func TestBreakTamperedStore(t *testing.T) {
	allow, deny := rulvar.Approve("fine"), rulvar.Reject("no")
	rows := map[string]*rulvar.ApprovalDecision{"open": nil, "approved": &allow, "denied": &deny}
	rounds := 20
	if breakAll() {
		rounds = 3000
	}
	for name, answer := range rows {
		t.Run(name, func(t *testing.T) {
			d := newTamperer(t, answer)
			for seed := range rounds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { d.attack(t, uint64(seed), answer) })
			}
		})
	}
}

func (d *tamperer) attack(t *testing.T, seed uint64, answer *rulvar.ApprovalDecision) {
	const input = `{"service":"api"}`
	ctx := testCtx(t)
	e, what := d.open(t, rand.New(rand.NewPCG(seed, 2)))
	_, err := e.Pending(ctx)
	requireTyped(t, err, what)
	out, err := d.resume(ctx, e)
	require.NoError(t, ctx.Err(), what)
	requireTyped(t, err, what)
	if answer == nil || answer.Decision != "allow" {
		require.Empty(t, d.ran, "%s: nobody has approved", what)
	}
	for _, in := range d.ran {
		require.Equal(t, input, in, what)
	}
	require.LessOrEqual(t, len(d.ran), 1, what)
	if out.Status != rulvar.RunSuspended {
		return
	}
	pending := out.Pending
	for _, p := range pending {
		_, err := e.Resolve(ctx, "r1", p.Key, rulvar.Approve("fine"))
		requireTyped(t, err, what)
	}
	before := len(d.ran)
	_, err = d.resume(ctx, e)
	require.NoError(t, ctx.Err(), what)
	requireTyped(t, err, what)
	for _, in := range d.ran[before:] {
		shown := slices.ContainsFunc(pending, func(p rulvar.Pending) bool { return p.Call != nil && string(p.Call.Input) == in })
		require.True(t, shown, "%s: %s ran and nobody has seen it", what, in)
	}
}
