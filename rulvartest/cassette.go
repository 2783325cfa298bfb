package rulvartest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/modelwire"
	"github.com/rulvar/rulvar-go/llm"
)

// Cassette is a model that repeats what another has said. It keeps the answers
// of a real model in a file, so that tests go through real conversations
// without a key, a network or a bill:
//
//	opts := &rulvartest.CassetteOptions{ID: "anthropic"}
//	if os.Getenv("ANTHROPIC_API_KEY") != "" {
//		opts.Live, err = anthropic.New(nil)
//	}
//	model, err := rulvartest.OpenCassette("testdata/release.jsonl", opts)
//	e := rulvartest.NewEngine(t, rulvar.Config{Providers: []llm.Provider{model}, Model: "anthropic:claude-opus-5-5"})
//
// A request that the file holds is answered from it. One that it lacks goes to
// the live model, and the answer is added to the file; without a live model it
// fails. To record anew, delete the file. A request is known by its model, its
// messages, its tools, its schema and its effort. The same request made again
// has its own answer in the file.
//
// What looks like a key is not written. Commit a cassette like source code, and
// read it before: prompts, results of tools and answers are in it.
//
// It is safe for concurrent use. The requests of branches that run at once may
// change places from run to run; what they ask should tell them apart.
type Cassette struct {
	path string
	id   string
	live llm.Provider
	hide func(string) string

	mu    sync.Mutex
	rows  map[rowKey]*cassetteRow
	count map[string]int // recorded, by hash
	asked map[string]int
	caps  map[string]llm.Capabilities
	err   error // why nothing can be written any more
}

type rowKey struct {
	hash       string
	occurrence int
}

// CassetteOptions say how to use a cassette.
type CassetteOptions struct {
	// Live answers what the file lacks. Default: nobody.
	Live llm.Provider
	// ID is the name before the colon in a model reference. Default: that of
	// Live, or of the model that was recorded.
	ID string
	// Hide changes texts of requests and answers before they are compared and
	// written. It takes out what must not be in the file, or differs from run
	// to run: paths, dates. It must leave JSON what it is, and a text that it
	// has changed alone. What looks like a key is taken out in any case.
	Hide func(text string) string
}

// OpenCassette reads the cassette at path, or starts a new one where there is
// none and Live is set, in a directory that is made where it is missing. Nil
// options are the defaults. A file that is no cassette is an [rulvar.ErrConfig]
// that names the line.
func OpenCassette(path string, opts *CassetteOptions) (*Cassette, error) {
	o := CassetteOptions{}
	if opts != nil {
		o = *opts
	}
	c := &Cassette{
		path: path, live: o.Live, hide: modelwire.HideShapes,
		rows: make(map[rowKey]*cassetteRow), count: make(map[string]int), asked: make(map[string]int),
		caps: make(map[string]llm.Capabilities),
	}
	if o.Hide != nil {
		c.hide = func(text string) string { return modelwire.HideShapes(o.Hide(text)) }
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && o.Live != nil:
		c.id = o.Live.ID()
		err = c.write(&cassetteLine{V: cassetteVersion, Kind: cassetteKind, Provider: c.id})
	case err == nil:
		err = c.read(f)
		_ = f.Close()
	default:
		err = errs.Wrap(errs.Config, "OpenCassette", path, "it cannot be opened, and there is no live model to record", err)
	}
	if err != nil {
		return nil, err
	}
	if o.ID != "" {
		c.id = o.ID
	}
	return c, nil
}

// ID implements [llm.Provider].
func (c *Cassette) ID() string { return c.id }

// Capabilities implements [llm.Provider]: what the recorded model has said
// of itself.
func (c *Cassette) Capabilities(model string) llm.Capabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	caps, ok := c.caps[model]
	if !ok && c.live != nil {
		caps = c.live.Capabilities(model)
		c.caps[model] = caps
		c.note(c.write(&cassetteLine{Model: model, Capabilities: wireCapabilities(caps)}))
	}
	return caps
}

// note keeps the first failure to write: later requests report it.
func (c *Cassette) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Stream implements [llm.Provider].
func (c *Cassette) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		asked, err := c.wireRequest(req)
		if err != nil {
			yield(llm.StreamEvent{}, err)
			return
		}
		row, occurrence, err := c.claim(asked)
		switch {
		case err != nil:
			yield(llm.StreamEvent{}, err)
		case row != nil:
			row.replay(ctx, yield)
		case c.live == nil:
			yield(llm.StreamEvent{}, c.miss(asked, occurrence))
		default:
			c.record(ctx, req, &cassetteRow{Hash: asked.hash, Request: asked.json}, yield)
		}
	}
}

// claim finds the answer to a request. Equal requests get the recorded answers
// in turn, in the order in which they begin.
func (c *Cassette) claim(asked *cassetteRequest) (row *cassetteRow, occurrence int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, 0, &llm.Error{Kind: llm.KindTerminal, Message: c.err.Error(), Err: c.err}
	}
	occurrence = c.asked[asked.hash]
	c.asked[asked.hash]++
	return c.rows[rowKey{asked.hash, occurrence}], occurrence, nil
}

// replay repeats a recorded answer.
func (r *cassetteRow) replay(ctx context.Context, yield func(llm.StreamEvent, error) bool) {
	for i := range r.Events {
		if ctx.Err() != nil {
			yield(llm.StreamEvent{}, context.Cause(ctx))
			return
		}
		if !yield(r.Events[i].event(), nil) {
			return
		}
	}
	if r.Error != nil {
		yield(llm.StreamEvent{}, r.Error.fault())
	}
}

// record passes an answer on and keeps it. One that the consumer leaves, or
// that was cancelled, is not kept.
func (c *Cassette) record(ctx context.Context, req *llm.Request, row *cassetteRow, yield func(llm.StreamEvent, error) bool) {
	ended := false
	keep := func(ev llm.StreamEvent, err error) {
		switch {
		case err != nil && ctx.Err() == nil:
			row.Error, ended = c.wireFault(err), true
		case err == nil:
			row.Events = append(row.Events, *wireEvent(ev))
			ended = ev.Type == llm.StreamFinish
		}
	}
	for ev, err := range c.live.Stream(ctx, req) {
		keep(ev, err)
		if ended {
			if err := c.add(row); err != nil {
				yield(llm.StreamEvent{}, err)
				return
			}
		}
		if !yield(ev, err) || ended || err != nil {
			break
		}
	}
}

func (c *Cassette) add(row *cassetteRow) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.hideEvents(row)
	row.Occurrence = c.count[row.Hash]
	if err == nil {
		err = c.write(&cassetteLine{cassetteRow: *row})
	}
	if err != nil {
		c.note(err)
		return &llm.Error{Kind: llm.KindTerminal, Message: err.Error(), Err: err}
	}
	c.rows[rowKey{row.Hash, row.Occurrence}] = row
	c.count[row.Hash]++
	return nil
}

// miss says what the file lacks.
func (c *Cassette) miss(asked *cassetteRequest, occurrence int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	msg := fmt.Sprintf("%s holds no answer to this request", c.path)
	if n := c.count[asked.hash]; n > 0 {
		msg = fmt.Sprintf("%s holds %d answers to this request, which was made for the %d. time", c.path, n, occurrence+1)
	} else if near := c.nearest(asked); near != "" {
		msg += "; the nearest that it holds differs in " + near
	}
	return &llm.Error{Kind: llm.KindTerminal, Message: msg + "; record it with a live model"}
}
