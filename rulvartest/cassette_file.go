package rulvartest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/llm"
)

// A cassette is a file of JSON lines:
//
//	{"v":1,"kind":"rulvar-cassette","provider":"anthropic"}
//	{"model":"claude-opus-5-5","capabilities":{…}}
//	{"hash":"…","occurrence":0,"request":{…},"events":[…]}
//	{"hash":"…","occurrence":1,"request":{…},"events":[…],"error":{…}}
//
// The first line says what it is. hash is the SHA-256 of the canonical form of
// the request without the bound on the answer's length.
const (
	cassetteVersion = 1
	cassetteKind    = "rulvar-cassette"
	maxCassetteLine = 64 << 20
)

type cassetteLine struct {
	V        int    `json:"v,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Provider string `json:"provider,omitempty"`

	Model        string                `json:"model,omitempty"`
	Capabilities *cassetteCapabilities `json:"capabilities,omitempty"`

	cassetteRow
}

type cassetteRow struct {
	Hash       string          `json:"hash,omitempty"`
	Occurrence int             `json:"occurrence,omitempty"`
	Request    json.RawMessage `json:"request,omitempty"`
	Events     []cassetteEvent `json:"events,omitempty"`
	Error      *cassetteFault  `json:"error,omitempty"`
}

type cassetteEvent struct {
	Type      llm.StreamEventType `json:"type"`
	Text      string              `json:"text,omitempty"`
	ID        string              `json:"id,omitempty"`
	Name      string              `json:"name,omitempty"`
	Arguments string              `json:"arguments,omitempty"`
	Block     json.RawMessage     `json:"block,omitempty"`
	Finish    llm.FinishReason    `json:"finish,omitempty"`
	Usage     *llm.Usage          `json:"usage,omitempty"`
}

func wireEvent(ev llm.StreamEvent) *cassetteEvent {
	w := &cassetteEvent{Type: ev.Type, Text: ev.Text, ID: ev.ID, Name: ev.Name, Arguments: ev.Arguments, Block: ev.Block, Finish: ev.Finish}
	if ev.Usage != (llm.Usage{}) {
		w.Usage = &ev.Usage
	}
	return w
}

func (w *cassetteEvent) event() llm.StreamEvent {
	ev := llm.StreamEvent{Type: w.Type, Text: w.Text, ID: w.ID, Name: w.Name, Arguments: w.Arguments, Block: w.Block, Finish: w.Finish}
	if w.Usage != nil {
		ev.Usage = *w.Usage
	}
	return ev
}

type cassetteFault struct {
	Kind         llm.ErrorKind `json:"kind"`
	Message      string        `json:"message"`
	Retryable    bool          `json:"retryable,omitempty"`
	RetryAfterMs int64         `json:"retryAfterMs,omitempty"`
}

func (c *Cassette) wireFault(err error) *cassetteFault {
	pe, ok := errors.AsType[*llm.Error](err)
	if !ok { // as the engine takes it
		pe = &llm.Error{Kind: llm.KindTransport, Message: err.Error(), Retryable: true}
	}
	return &cassetteFault{Kind: pe.Kind, Message: c.hide(pe.Message), Retryable: pe.Retryable, RetryAfterMs: pe.RetryAfter.Milliseconds()}
}

func (f *cassetteFault) fault() error {
	after := time.Duration(min(max(f.RetryAfterMs, 0), math.MaxInt32)) * time.Millisecond
	return &llm.Error{Kind: f.Kind, Message: f.Message, Retryable: f.Retryable, RetryAfter: after}
}

type cassetteCapabilities struct {
	StructuredOutput llm.StructuredOutputTier `json:"structuredOutput,omitempty"`
	ContextWindow    int                      `json:"contextWindow,omitempty"`
	MaxOutputTokens  int                      `json:"maxOutputTokens,omitempty"`
	RetentionKey     string                   `json:"retentionKey,omitempty"`
	Pricing          *llm.Pricing             `json:"pricing,omitempty"`
}

func wireCapabilities(c llm.Capabilities) *cassetteCapabilities {
	return &cassetteCapabilities{c.StructuredOutput, c.ContextWindow, c.MaxOutputTokens, c.RetentionKey, c.Pricing}
}

func (w *cassetteCapabilities) capabilities() llm.Capabilities {
	return llm.Capabilities{
		StructuredOutput: w.StructuredOutput, ContextWindow: w.ContextWindow, MaxOutputTokens: w.MaxOutputTokens,
		RetentionKey: w.RetentionKey, Pricing: w.Pricing,
	}
}

// write adds a line to the file.
func (c *Cassette) write(line *cassetteLine) error {
	refuse := func(err error) error {
		return errs.Wrap(errs.Config, "cassette", c.path, "it cannot be written", err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return refuse(err)
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil { // testdata, the first time
		return refuse(err)
	}
	f, err := os.OpenFile(c.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return refuse(err)
	}
	_, err = f.Write(b.Bytes())
	if err := errors.Join(err, f.Close()); err != nil {
		return refuse(err)
	}
	return nil
}

// read takes over what a file holds.
func (c *Cassette) read(r io.Reader) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxCassetteLine)
	n := 0
	for scanner.Scan() {
		n++
		if err := c.readLine(n, scanner.Bytes()); err != nil {
			return errs.Wrap(errs.Config, "OpenCassette", fmt.Sprintf("%s:%d", c.path, n), "it is no line of a cassette", err)
		}
	}
	if err := scanner.Err(); err != nil {
		return errs.Wrap(errs.Config, "OpenCassette", fmt.Sprintf("%s:%d", c.path, n+1), "it cannot be read", err)
	}
	if n == 0 {
		return errs.New(errs.Config, "OpenCassette", c.path, "it is empty: delete it to record anew")
	}
	return nil
}

func (c *Cassette) readLine(n int, text []byte) error {
	var line cassetteLine
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("something stands behind the object")
	}
	switch {
	case n == 1:
		if line.Kind != cassetteKind || line.V != cassetteVersion || line.Provider == "" {
			return fmt.Errorf("it does not begin with kind %s, version %d and a provider", cassetteKind, cassetteVersion)
		}
		c.id = line.Provider
		return nil
	case line.Capabilities != nil && line.Model != "":
		c.caps[line.Model] = line.Capabilities.capabilities()
		return nil
	case line.Hash == "" || line.Occurrence < 0:
		return errors.New("it is neither an answer nor a model")
	}
	row := line.cassetteRow
	if err := row.check(); err != nil {
		return err
	}
	key := rowKey{row.Hash, row.Occurrence}
	if c.rows[key] != nil || row.Occurrence != c.count[row.Hash] {
		return fmt.Errorf("answer %d to its request is there twice, or an earlier one is missing", row.Occurrence)
	}
	c.rows[key] = &row
	c.count[row.Hash]++
	return nil
}

// check holds an answer to the contract of a stream: one end, at its end.
func (r *cassetteRow) check() error {
	for i, ev := range r.Events {
		last := i == len(r.Events)-1 && r.Error == nil
		if (ev.Type == llm.StreamFinish) != last {
			return errors.New("the answer has no end, or goes on behind it")
		}
	}
	if len(r.Events) == 0 && r.Error == nil {
		return errors.New("the answer is empty")
	}
	return nil
}
