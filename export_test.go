package rulvar

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// What the recorded toolsets need and users must not have: contracts under
// names that no tool can have, and an empty version told from none.

// ContractTool makes a tool that has a contract and nothing else. Neither its
// name nor its schema is checked.
func ContractTool(name, description string, parameters json.RawMessage, version *string) (*Tool, error) {
	tree, err := jcs.Parse(parameters)
	if err != nil {
		return nil, errs.Wrap(errs.Config, "tool", toolPath(name), "", err)
	}
	form, err := jsonschema.Canonical(tree)
	if err != nil {
		return nil, err
	}
	canonical, err := jcs.AppendTree(nil, form)
	if err != nil {
		return nil, err
	}
	t := &Tool{cfg: ToolConfig{Name: name, Description: description}, schema: compiledSchema{canonical: canonical}}
	return t.Versioned(version)
}

// Versioned gives t, which nobody else may have yet, the contract with that
// version; nil is none.
func (t *Tool) Versioned(version *string) (*Tool, error) {
	var err error
	if version != nil {
		t.cfg.Version = *version
	}
	t.contract, err = appendContract(nil, t.cfg.Name, t.cfg.Description, t.schema.canonical, t.cfg.Version, version != nil)
	t.hash = jcs.Sum(t.contract)
	return t, err
}

// ContractText returns the canonical contract of a tool.
func (t *Tool) ContractText() string { return string(t.contract) }

// ToolsetText returns the text whose sha256 is [ToolsetHash].
func ToolsetText(tools []*Tool) string {
	text := []byte{'['}
	for i, t := range sortTools(append([]*Tool(nil), tools...)) {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, t.contract...)
	}
	return string(append(text, ']'))
}

// AuthorityText returns the text whose sha256 is the authority hash.
func AuthorityText(tools []*Tool) string { return string(appendAuthority(nil, tools)) }

// ResolveUnder does what a spawn does with an agent's tools, under an engine
// with the given executors.
func ResolveUnder(executors map[ExecutorKind]ToolExecutor, tools []*Tool) ([]*Tool, error) {
	e := &Engine{cfg: Config{Executors: executors}}
	var sources []ToolSource
	for _, t := range tools {
		if err := e.checkExecutor(t); err != nil {
			return nil, err
		}
		sources = append(sources, t)
	}
	return resolveToolset(context.Background(), sources, nil)
}

// Hurry shortens how long a run waits for a provider that does not heed its
// context and for a listener that blocks, until the returned function is called.
func Hurry(grace time.Duration) (restore func()) {
	stream, listener := streamGrace, listenerGrace
	streamGrace, listenerGrace = grace, grace
	return func() { streamGrace, listenerGrace = stream, listener }
}

// ArmedDeadlines counts the timers of suspensions.
func (e *Engine) ArmedDeadlines() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.timers)
}

// WithReadonly is the chain of an agent under readonly isolation.
func (c *PermissionChain) WithReadonly() *PermissionChain { return c.withReadonly() }
