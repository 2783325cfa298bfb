package rulvar_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// fixture is one scenario of testdata/journals: what was done to make its
// store, and what is done with the store then. Its README has the language.
type fixture struct {
	Scenario    string
	RunID       string `json:"runId"`
	Args        json.RawMessage
	Workflow    fixtureWorkflow
	Tools       map[string]fixtureTool
	Adapter     fixtureAdapter
	Engine      map[string]json.RawMessage
	Repo        json.RawMessage
	RunOptions  map[string]json.RawMessage
	History     []fixtureSegment
	Resume      []fixtureSegment
	ListFilters []fixtureFilter

	dir    string
	raw    []byte // scenario.json as it stands
	expect fixtureExpect
}

// fixtureExpect is what the reference was seen to do.
type fixtureExpect struct {
	History         []fixtureRecord
	Before          fixtureBefore
	Lists           []fixtureList
	StoreNormalized []json.RawMessage
	Steps           []fixtureRecord
	Alternatives    []struct{ Steps []fixtureRecord }
}

type fixtureFilter struct {
	Name, Status string
	Statuses     []string
	Tags         []string
}

type fixtureList struct {
	Filter fixtureFilter
	RunIDs []string `json:"runIds"`
}

type fixtureWorkflow struct {
	Name        string
	Kind        string
	Body        []fixtureOp
	Children    map[string]fixtureWorkflow
	ErrorPolicy string
	Args        json.RawMessage
}

// fixtureOp is one call of a workflow. Members whose meaning depends on the op
// stay text; members lists all that were given.
type fixtureOp struct {
	Op, As string
	Catch  bool

	Prompt, Key, Args, Result json.RawMessage

	AgentType, Label, Model, Effort, OnError, Replay, Approach string

	Tools             []string
	Schema, Isolation json.RawMessage
	Limits            *fixtureLimits
	Retry             *fixtureRetry
	MemoizeOutcome    bool

	Deps  []json.RawMessage
	Error string

	Name        string
	Body        []fixtureOp
	Branches    [][]fixtureOp
	Settle      bool
	Items       json.RawMessage
	Stages      [][]fixtureOp
	OnItemError string

	members map[string]json.RawMessage
}

func (o *fixtureOp) UnmarshalJSON(data []byte) error {
	type plain fixtureOp
	if err := json.Unmarshal(data, (*plain)(o)); err != nil {
		return err
	}
	return json.Unmarshal(data, &o.members)
}

type fixtureLimits struct {
	MaxTurns               int
	MaxToolCalls           *int
	MaxOutputTokensPerTurn int
	TimeoutMs              int64
	StreamIdleTimeoutMs    int64
}

type fixtureRetry struct {
	Attempts int
	Backoff  struct{ InitialMs, MaxMs float64 }
}

type fixtureTool struct {
	Description   string
	Parameters    json.RawMessage
	Version       string
	Risk          string
	NeedsApproval bool
	Cases         []fixtureCase
	Default       *fixtureCase
}

// fixtureCase is what a tool does with an input.
type fixtureCase struct {
	Input      json.RawMessage
	Result     json.RawMessage
	Error      *string
	ModelRetry *string
	Data       json.RawMessage
	WriteFile  *struct{ Path, Content string }
	DeleteFile *struct{ Path string }
	ReadFile   *struct{ Path string }
}

type fixtureAdapter struct {
	ID       string
	Model    string
	Provider string
	Caps     struct {
		StructuredOutput string
		ContextWindow    int
		MaxOutputTokens  int
		Pricing          *struct{ InputUsdPerMTok, OutputUsdPerMTok, CacheReadUsdPerMTok, CacheWriteUsdPerMTok float64 }
	}
	DefaultUsage map[string]int64
}

// fixtureSegment is one segment of a run, with what overrides the scenario.
type fixtureSegment struct {
	Title, Mode  string
	RunID        string `json:"runId"`
	Script       []fixtureScript
	Options      map[string]json.RawMessage
	Resolve      []fixtureResolve
	Stop         *fixtureStop
	Cancel       *fixtureCancel
	StepOutcomes map[string][]fixtureStepOutcome
	After        []fixtureAfter

	Workflow *fixtureWorkflow
	Tools    map[string]fixtureTool
	Engine   map[string]json.RawMessage
	Adapter  *fixtureAdapter
}

type fixtureScript struct {
	Match map[string]string
	Turns []fixtureTurn
}

type fixtureTurn struct {
	Text      *string
	JSON      json.RawMessage
	ToolCalls []struct {
		ID, Name string
		Args     json.RawMessage
	}
	Error *struct {
		Message   string
		Retryable bool
		Data      struct{ Kind string }
	}
	Hang          bool
	Usage         map[string]int64
	Finish        json.RawMessage
	RetainedParts []json.RawMessage
}

type fixtureResolve struct {
	Key   string
	Value json.RawMessage
	Via   string
}

type fixtureStop struct {
	At, Tool, Label, AgentType string
	N                          int
}

type fixtureCancel struct {
	AtModelCall int
	Reason      string
}

type fixtureStepOutcome struct {
	Error  *string
	Result json.RawMessage
}

type fixtureAfter struct {
	Op       string
	Key      string
	Value    json.RawMessage
	Ms       int64
	Mutation json.RawMessage
}

// journalsDir is where the fixtures are. RULVAR_JOURNALS names others of the
// same layout.
func journalsDir() string {
	if dir := os.Getenv("RULVAR_JOURNALS"); dir != "" {
		return dir
	}
	return filepath.Join("testdata", "journals")
}

// loadFixtures reads every scenario. A scenario whose text has lone surrogates
// cannot be held in Go strings and comes with its name and directory alone.
func loadFixtures(t *testing.T) []*fixture {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(journalsDir(), "*", "scenario.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, "no scenario in %s", journalsDir())
	sort.Strings(paths)
	var all []*fixture
	for _, path := range paths {
		f := &fixture{dir: filepath.Dir(path)}
		f.Scenario = filepath.Base(f.dir)
		f.raw, err = os.ReadFile(path)
		require.NoError(t, err)
		expect, err := os.ReadFile(filepath.Join(f.dir, "expect.json"))
		require.NoError(t, err)
		all = append(all, f)
		if f.surrogates() {
			continue
		}
		require.NoError(t, readPlain(f.raw, f), path)
		require.NoError(t, readPlain(expect, &f.expect), f.dir)
	}
	return all
}

func (f *fixture) surrogates() bool {
	_, err := jcs.Parse(f.raw)
	return errors.Is(err, jcs.ErrSurrogate)
}

// readPlain decodes text after it was written again in the one form that the
// reference's texts have: no escapes that JSON does not need, numbers as
// ECMAScript prints them, members in their order.
func readPlain(text []byte, v any) error {
	plain, err := plainJSON(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

func plainJSON(text []byte) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	out, err := appendPlain(nil, dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value: %v", err)
	}
	return out, nil
}

func appendPlain(dst []byte, dec *json.Decoder) ([]byte, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	open, nested := tok.(json.Delim)
	if !nested {
		return jcs.AppendTree(dst, tok)
	}
	dst = append(dst, byte(open))
	for first := true; dec.More(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			dst = append(jcs.AppendString(dst, name.(string)), ':')
		}
		if dst, err = appendPlain(dst, dec); err != nil {
			return nil, err
		}
	}
	end, err := dec.Token()
	if err != nil {
		return nil, err
	}
	return append(dst, byte(end.(json.Delim))), nil
}

// in returns the scenario as one of its segments sees it: a segment's own
// workflow and adapter replace the scenario's, its tools and engine members
// are laid over them.
func (f *fixture) in(seg *fixtureSegment) *fixture {
	v := *f
	if seg.Workflow != nil {
		v.Workflow = *seg.Workflow
	}
	if seg.Adapter != nil {
		v.Adapter = *seg.Adapter
	}
	if seg.RunID != "" {
		v.RunID = seg.RunID
	}
	v.Tools, v.Engine = maps.Clone(f.Tools), maps.Clone(f.Engine)
	if v.Tools == nil {
		v.Tools = make(map[string]fixtureTool)
	}
	maps.Copy(v.Tools, seg.Tools)
	maps.Copy(v.Engine, seg.Engine)
	return &v
}

// copyTree copies the files of a store. The placeholders of empty directories
// stay behind.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o700))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	require.NoError(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".keep" {
			return os.Remove(path)
		}
		return err
	}))
}
