package rulvar_test

import (
	"encoding/json"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/worktree"
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

	trees  *worktree.GitProvider // where the scenario has a repository
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
	Fallback          *struct {
		Model string
		On    []rulvar.AttemptEnd
	}

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
