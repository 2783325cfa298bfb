package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// definition is a tool as the server describes it. Title, annotations and icons
// are not read.
type definition struct {
	wire        string
	description string
	input       json.RawMessage // the text that the server sent
	output      json.RawMessage // nil where there is none
}

// readDefinition reads one tool of a list. The name is returned, as far as it
// can be read, also with an error.
func readDefinition(text json.RawMessage) (d definition, err error) {
	m, err := members(text)
	if err != nil {
		return d, err
	}
	if json.Unmarshal(m["name"], &d.wire) != nil {
		return d, errors.New("its name is no text")
	}
	if raw, ok := m["description"]; ok && json.Unmarshal(raw, &d.description) != nil {
		return d, errors.New("its description is no text")
	}
	d.input = m["inputSchema"]
	if !isObject(d.input) {
		return d, errors.New("its input schema is not a JSON object")
	}
	if raw := m["outputSchema"]; len(raw) > 0 && string(raw) != "null" {
		if d.output = raw; !isObject(raw) {
			return d, errors.New("its output schema is not a JSON object")
		}
	}
	return d, nil
}

func isObject(text json.RawMessage) bool { return len(text) > 0 && text[0] == '{' }

// maxReported is how many bad tools an error names.
const maxReported = 5

// build makes tools of a list.
func (s *Source) build(raw []json.RawMessage) (*listing, error) {
	l := &listing{}
	var bad []SkippedTool
	defs, seen := s.definitions(raw, &bad)
	names := make(map[string]string, len(defs)) // server's name by ours
	for _, d := range defs {
		t, err := s.tool(&d)
		if err == nil {
			if other, taken := names[t.Name()]; taken {
				err = fmt.Errorf("its name %q is that of the tool %q too", t.Name(), other)
			}
		}
		if err != nil {
			bad = append(bad, SkippedTool{d.wire, err})
			continue
		}
		names[t.Name()] = d.wire
		l.tools = append(l.tools, t)
		l.report.Imported = append(l.report.Imported, ImportedTool{Wire: d.wire, Name: t.Name()})
	}
	if len(bad) > 0 && !s.opts.Lenient {
		return nil, s.fault("", badTools(bad))
	}
	for _, b := range bad {
		s.opts.Logger.Warn("mcp: a tool was left out", "source", s.id, "tool", clip(b.Wire), "error", b.Err)
	}
	l.report.Skipped = bad
	l.report.Unmatched = s.opts.unmatched(seen)
	if len(l.report.Unmatched) > 0 {
		s.opts.Logger.Warn("mcp: options name tools that the server does not have", "source", s.id, "tools", l.report.Unmatched)
	}
	return l, nil
}

// definitions reads the tools that are admitted. Of tools with one name none is
// taken: what is shown to a model might not be what is called.
func (s *Source) definitions(raw []json.RawMessage, bad *[]SkippedTool) (defs []definition, seen map[string]int) {
	seen = make(map[string]int, len(raw))
	for i, text := range raw {
		d, err := readDefinition(text)
		if d.wire != "" {
			seen[d.wire]++
		}
		switch {
		case d.wire != "" && !s.opts.admits(d.wire):
		case err != nil:
			*bad = append(*bad, SkippedTool{clip(d.wire), fmt.Errorf("entry %d: %w", i, err)})
		default:
			defs = append(defs, d)
		}
	}
	defs = slices.DeleteFunc(defs, func(d definition) bool { return seen[d.wire] > 1 })
	for _, d := range slices.Sorted(maps.Keys(seen)) {
		if seen[d] > 1 && s.opts.admits(d) {
			*bad = append(*bad, SkippedTool{clip(d), fmt.Errorf("the server lists %d tools of this name", seen[d])})
		}
	}
	return defs, seen
}

func badTools(bad []SkippedTool) error {
	lines := make([]string, 0, maxReported)
	for _, b := range bad[:min(len(bad), maxReported)] {
		lines = append(lines, fmt.Sprintf("tool %q: %v", clip(b.Wire), b.Err))
	}
	if more := len(bad) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("tools cannot be imported (deny them, or set Options.Lenient to leave them out): %s", strings.Join(lines, "; "))
}

// unmatched returns the names in the options that the server does not have.
func (o *Options) unmatched(seen map[string]int) []string {
	var names []string
	add := func(name string) {
		if seen[name] == 0 {
			names = append(names, name)
		}
	}
	for _, name := range slices.Concat(o.Allow, o.Deny) {
		add(name)
	}
	for name := range o.Risk {
		add(name)
	}
	for name := range o.Approval {
		add(name)
	}
	for name := range o.Idempotent {
		add(name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tool makes a tool of a definition.
func (s *Source) tool(d *definition) (*rulvar.Tool, error) {
	name, err := toolName(s.opts.Prefix, d.wire, s.opts.Names)
	if err != nil {
		return nil, err
	}
	if n := len(d.input) + len(d.output) + len(d.description); n > s.opts.MaxSchemaBytes {
		return nil, fmt.Errorf("its description and schemas have %d bytes, more than %d (Options.MaxSchemaBytes)", n, s.opts.MaxSchemaBytes)
	}
	schema, err := rulvar.SchemaLiteral(d.input)
	if err != nil {
		return nil, fmt.Errorf("its input schema: %w", err)
	}
	c := &caller{source: s, wire: d.wire}
	if d.output != nil {
		if c.output, err = compileOutput(d.output); err != nil {
			return nil, fmt.Errorf("its output schema: %w", err)
		}
	}
	t, err := rulvar.NewToolWithSchema(rulvar.ToolConfig{
		Name: name, Description: d.description, Risk: s.opts.Risk[d.wire],
		NeedsApproval: s.opts.asks(d.wire), Idempotent: s.opts.Idempotent[d.wire],
	}, schema, c.execute)
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Err == nil {
		return nil, errors.New(e.Msg)
	}
	return t, err
}

func compileOutput(text json.RawMessage) (*jsonschema.Validator, error) {
	tree, err := jcs.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := jsonschema.Check(tree); err != nil {
		return nil, err
	}
	return jsonschema.Compile(tree)
}
