package rulvar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// Risk is the declared class of what a tool may do. It is input to policy and
// never part of a tool's identity. The zero value is [RiskUndeclared], a state
// of its own that presets treat with suspicion.
type Risk string

// The risk classes.
const (
	RiskUndeclared  Risk = ""
	RiskRead        Risk = "read"
	RiskWrite       Risk = "write"
	RiskNetwork     Risk = "network"
	RiskExecute     Risk = "execute"
	RiskDestructive Risk = "destructive"

	// RiskControl is the class of the engine's own tools: those with which an
	// orchestrating agent spawns others and finishes, and escalate. A rule by
	// risk cannot name it and a tool cannot declare it, so presets let them
	// pass; a rule by name, a hook and CanUseTool judge them like any tool.
	RiskControl Risk = "control"
)

func (r Risk) known() bool {
	switch r {
	case RiskUndeclared, RiskRead, RiskWrite, RiskNetwork, RiskExecute, RiskDestructive:
		return true
	}
	return false
}

// ExecutorKind names where a tool's code runs.
type ExecutorKind string

// The executor kinds. An engine serves [ExecutorInProcess] always and the
// others only where a [ToolExecutor] is registered for them.
const (
	ExecutorInProcess  ExecutorKind = "inprocess"
	ExecutorSubprocess ExecutorKind = "subprocess"
	ExecutorContainer  ExecutorKind = "container"
)

func (k ExecutorKind) known() bool {
	switch k {
	case ExecutorInProcess, ExecutorSubprocess, ExecutorContainer:
		return true
	}
	return false
}

var toolNamePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// ToolConfig declares a tool. Name, Description, Version and the schema are its
// contract: they enter the toolset hash and with it the identity of every
// agent that has the tool. The other fields are policy and may change freely.
type ToolConfig struct {
	// Name is what the model calls and what rules match: 1 to 64 characters
	// of a-z, A-Z, 0-9, _ and -.
	Name string
	// Description is what the model reads to decide when to call.
	Description string
	// Version is an opaque mark for a change of behaviour under an unchanged
	// name and schema. Empty means absent.
	Version string
	// Risk is what the tool may do. Default: undeclared.
	Risk Risk
	// NeedsApproval turns the chain's terminal default from allow to ask.
	NeedsApproval bool
	// Idempotent says that a call may run twice without harm. A tool that does
	// not say so has its intent recorded before each call, so that a resume
	// can tell an interrupted call; see [Config.OnInterrupted].
	Idempotent bool
	// Executor is where the tool runs. Default: in process. A kind that the
	// engine does not serve is refused when the toolset is registered.
	Executor ExecutorKind
	// ExecutorSpec is handed to the executor as it is. Only its hash enters
	// the authority hash.
	ExecutorSpec json.RawMessage
	// Hosts has the chain enforce domain rules for the tool; without it they
	// are advisory. It is for a tool that connects to nothing but hosts that
	// its input leads to, and that asks [ToolContext.JudgeHost] again before
	// each connection.
	//
	// The chain calls it with the input that would be executed, before anything
	// is dispatched. It asks judge about each host that the input names
	// ("example.com:443", "[2001:db8::1]:443"; deny, ask or pass by the domain
	// rules that name the tool) and answers [Deny], [Ask] or [Pass]. What judge
	// said counts, whatever Hosts makes of it. A pass without a question, another
	// verdict and a panic deny. It must not block and may be called by several
	// goroutines at once.
	Hosts func(input json.RawMessage, judge func(host string) Verdict) Decision
}

// Tool is a typed capability that a model can call: a contract, a policy and a
// handler. It is made by [NewTool] or [NewToolWithSchema], is immutable and may
// be used by any number of agents at once. A Tool is also a [ToolSource] of
// itself.
type Tool struct {
	cfg      ToolConfig
	schema   compiledSchema
	contract []byte // canonical JSON of the contract tuple
	hash     string // sha256 of contract
	invoke   func(*ToolContext, json.RawMessage) (any, error)
	control  bool // it is one of the engine's own: see controlTool
}

// NewTool makes a tool whose input schema is reflected from In, as [SchemaOf]
// does. The handler receives a validated In with defaults applied and may be
// called by several agents at once; what it returns must encode to JSON. In is a
// struct or a map: models demand an object, and an agent that is given a tool with
// another input is refused. A definition that cannot work is an [ErrConfig].
func NewTool[In, Out any](cfg ToolConfig, execute func(*ToolContext, In) (Out, error)) (*Tool, error) {
	s, err := SchemaOf[In]()
	if err != nil {
		return nil, errs.Wrap(errs.Config, "NewTool", toolPath(cfg.Name), "the input type has no schema", err)
	}
	return NewToolWithSchema(cfg, s, execute)
}

// NewToolWithSchema is [NewTool] with an explicit schema: one made by
// [SchemaOf], [SchemaPair] or [SchemaLiteral].
func NewToolWithSchema[In, Out any](cfg ToolConfig, schema Schema[In], execute func(*ToolContext, In) (Out, error)) (*Tool, error) {
	if execute == nil {
		return nil, errs.New(errs.Config, "NewTool", toolPath(cfg.Name), "the handler is nil")
	}
	if schema.decode == nil {
		return nil, errs.New(errs.Config, "NewTool", toolPath(cfg.Name), "the schema is the zero Schema: make it with SchemaOf, SchemaPair or SchemaLiteral")
	}
	decode := schema.decode
	return newTool(cfg, schema.compiledSchema, func(tc *ToolContext, input json.RawMessage) (any, error) {
		in, err := decode(input)
		if err != nil {
			return nil, &argumentError{issues: []string{err.Error()}}
		}
		return execute(tc, in)
	})
}

// MustTool returns t and panics on an error. It is for package-level variables.
func MustTool(t *Tool, err error) *Tool {
	if err != nil {
		panic(err)
	}
	return t
}

func newTool(cfg ToolConfig, schema compiledSchema, invoke func(*ToolContext, json.RawMessage) (any, error)) (*Tool, error) {
	refuse := func(msg string) (*Tool, error) {
		return nil, errs.New(errs.Config, "NewTool", toolPath(cfg.Name), msg)
	}
	if !toolNamePattern.MatchString(cfg.Name) {
		return refuse("a tool name is 1 to 64 characters of a-z, A-Z, 0-9, _ and -")
	}
	if !cfg.Risk.known() {
		return refuse(fmt.Sprintf("unknown risk %q: use read, write, network, execute or destructive, or leave it undeclared", cfg.Risk))
	}
	if cfg.Executor == "" {
		cfg.Executor = ExecutorInProcess
	}
	if !cfg.Executor.known() {
		return refuse(fmt.Sprintf("unknown executor %q: use inprocess, subprocess or container", cfg.Executor))
	}
	if cfg.ExecutorSpec != nil {
		canon, err := jcs.Canonical(cfg.ExecutorSpec)
		if err != nil {
			return nil, errs.Wrap(errs.Config, "NewTool", toolPath(cfg.Name), "the executor spec is not JSON", err)
		}
		cfg.ExecutorSpec = canon
	}
	t := &Tool{cfg: cfg, schema: schema, invoke: invoke}
	contract, err := appendContract(nil, cfg.Name, cfg.Description, schema.canonical, cfg.Version, cfg.Version != "")
	if err != nil {
		return nil, errs.Wrap(errs.Config, "NewTool", toolPath(cfg.Name), "the contract cannot be written as JSON", err)
	}
	t.contract, t.hash = contract, jcs.Sum(contract)
	return t, nil
}

func toolPath(name string) string { return fmt.Sprintf("tool %q", name) }

// Name returns the tool's name.
func (t *Tool) Name() string { return t.cfg.Name }

// Description returns the text that the model reads.
func (t *Tool) Description() string { return t.cfg.Description }

// Version returns the version mark, or "".
func (t *Tool) Version() string { return t.cfg.Version }

// Risk returns the declared risk.
func (t *Tool) Risk() Risk { return t.cfg.Risk }

// NeedsApproval reports whether a call asks where nothing else decides.
func (t *Tool) NeedsApproval() bool { return t.cfg.NeedsApproval }

// Idempotent reports whether the tool may run twice without harm.
func (t *Tool) Idempotent() bool { return t.cfg.Idempotent }

// Executor returns where the tool runs.
func (t *Tool) Executor() ExecutorKind { return t.cfg.Executor }

// ExecutorSpec returns what the executor is handed with each call; nil where the
// tool has none.
func (t *Tool) ExecutorSpec() json.RawMessage { return bytes.Clone(t.cfg.ExecutorSpec) }

// Schema returns the JSON Schema that is shown to the model.
func (t *Tool) Schema() json.RawMessage { return append(json.RawMessage(nil), t.schema.declared...) }

// ContractHash returns the sha256, in hex, of the tool's contract.
func (t *Tool) ContractHash() string { return t.hash }

// Tools implements [ToolSource].
func (t *Tool) Tools(context.Context) ([]*Tool, error) { return []*Tool{t}, nil }

// run calls the handler with judged input. A panic becomes an error whose text
// holds no stack; the stack goes to the log, not to the model.
func (t *Tool) run(tc *ToolContext, input json.RawMessage) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			tc.logPanic(t.cfg.Name, p, debug.Stack())
			out, err = nil, &toolPanicError{tool: t.cfg.Name}
		}
	}()
	return t.invoke(tc, input)
}

type toolPanicError struct{ tool string }

func (e *toolPanicError) Error() string {
	return fmt.Sprintf("tool %q failed unexpectedly", e.tool)
}

// argumentError says that arguments do not fit; issues name the places.
type argumentError struct{ issues []string }

func (e *argumentError) Error() string { return "the arguments do not fit the tool's schema" }

// ModelRetryError is what [ModelRetry] returns.
type ModelRetryError struct {
	// Message tells the model what to do better.
	Message string
	// Data goes to the model beside the message; nil for none.
	Data any
}

// Error returns the message.
func (e *ModelRetryError) Error() string { return e.Message }

// ModelRetry returns an error with which a handler tells the model to correct
// itself. The model sees the message as an error result. From the third such
// answer of one tool in a row the result says that retries are exhausted.
func ModelRetry(message string, data any) error {
	return &ModelRetryError{Message: message, Data: data}
}

// maxModelRetries is how many ModelRetry answers of a tool in a row are plain.
const maxModelRetries = 2

func asModelRetry(err error) (*ModelRetryError, bool) { return errors.AsType[*ModelRetryError](err) }
