package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// noText is what a model is told where a server says only that a tool failed.
const noText = "the tool failed and does not say why"

// readResult makes a tool's result of a result of tools/call:
//
//	{"content":[{"type":"text","text":…},{"type":"image",…},…],"structuredContent":…,"isError":…}
//
// Structured content is the result; else a text, if all blocks are text; else
// the array of the blocks as the server sent them, also of types that nobody
// here has heard of.
func readResult(text json.RawMessage, output *jsonschema.Validator, limit int) (json.RawMessage, *CallError) {
	fail := func(kind FailureKind, err error) (json.RawMessage, *CallError) {
		return nil, &CallError{Kind: kind, Err: err}
	}
	m, err := members(text)
	if err != nil {
		return fail(FailureResult, fmt.Errorf("the answer is unreadable: %w", err))
	}
	if raw, ok := m["resultType"]; ok && string(raw) != `"complete"` {
		return fail(FailureResult, errors.New("the server asks for more input before it answers, which nobody gives here"))
	}
	var failed bool
	if raw, ok := m["isError"]; ok && (string(raw) == "null" || json.Unmarshal(raw, &failed) != nil) {
		return fail(FailureResult, errors.New("the answer does not say clearly whether the tool failed"))
	}
	blocks, err := readBlocks(m["content"])
	if err != nil {
		return fail(FailureResult, err)
	}
	if failed {
		return fail(FailureTool, errors.New(errorText(blocks)))
	}
	result, err := value(m["structuredContent"], blocks, output)
	if err != nil {
		return fail(FailureResult, err)
	}
	if len(result) > limit {
		return fail(FailureTooLarge, fmt.Errorf("the call was made, but its result has %d bytes, more than %d, and was dropped: ask for less", len(result), limit))
	}
	return result, nil
}

// block is one part of a result.
type block struct {
	kind string
	text string          // of a text block
	raw  json.RawMessage // as the server sent it
}

func readBlocks(content json.RawMessage) ([]block, error) {
	if len(content) == 0 || string(content) == "null" {
		return nil, nil
	}
	var raws []json.RawMessage
	if json.Unmarshal(content, &raws) != nil {
		return nil, errors.New("the answer's content is no list")
	}
	blocks := make([]block, len(raws))
	for i, raw := range raws {
		m, err := members(raw)
		if err != nil {
			return nil, fmt.Errorf("block %d of the answer: %w", i, err)
		}
		b := block{raw: raw}
		if json.Unmarshal(m["type"], &b.kind) != nil || b.kind == "" {
			return nil, fmt.Errorf("block %d of the answer has no type", i)
		}
		if b.kind == "text" {
			if t, ok := m["text"]; !ok || string(t) == "null" || json.Unmarshal(t, &b.text) != nil {
				return nil, fmt.Errorf("block %d of the answer is a text without text", i)
			}
		}
		blocks[i] = b
	}
	return blocks, nil
}

func joined(blocks []block) (text string, all bool) {
	var b strings.Builder
	all = true
	for _, x := range blocks {
		if x.kind != "text" {
			all = false
			continue
		}
		b.WriteString(x.text)
	}
	return b.String(), all
}

func errorText(blocks []block) string {
	text, _ := joined(blocks)
	if strings.TrimSpace(text) == "" {
		return noText
	}
	return foreignText(text)
}

// value chooses what of an answer is the result.
func value(structured json.RawMessage, blocks []block, output *jsonschema.Validator) (json.RawMessage, error) {
	if len(structured) > 0 && string(structured) != "null" {
		clean, err := cleanJSON(structured)
		if err != nil {
			return nil, fmt.Errorf("the answer's structured content is unreadable: %w", err)
		}
		return clean, checkOutput(clean, output)
	}
	if output != nil {
		return nil, errors.New("the tool declares an output schema, and its answer has no structured content")
	}
	text, all := joined(blocks)
	if all {
		return jcs.AppendString(nil, text), nil
	}
	return joinBlocks(blocks)
}

func joinBlocks(blocks []block) (json.RawMessage, error) {
	out := []byte{'['}
	for i, b := range blocks {
		if i > 0 {
			out = append(out, ',')
		}
		if b.kind == "text" {
			out = append(out, `{"type":"text","text":`...)
			out = append(jcs.AppendString(out, b.text), '}')
			continue
		}
		clean, err := cleanJSON(b.raw)
		if err != nil {
			return nil, fmt.Errorf("block %d of the answer is unreadable: %w", i, err)
		}
		out = append(out, clean...)
	}
	return append(out, ']'), nil
}

// checkOutput holds a structured result to the schema that the tool declares.
func checkOutput(text json.RawMessage, output *jsonschema.Validator) error {
	if output == nil {
		return nil
	}
	tree, err := jcs.Parse(text)
	if err != nil {
		return fmt.Errorf("the answer's structured content is unreadable: %w", err)
	}
	issues := output.Validate(tree)
	if len(issues) == 0 {
		return nil
	}
	lines := make([]string, len(issues))
	for i, issue := range issues {
		lines[i] = issue.Location + " " + issue.Message
	}
	return fmt.Errorf("the answer does not fit the output schema that the tool declares: %s", strings.Join(lines, "; "))
}

// cleanJSON returns text as it is if every reader can read it. Lone surrogates
// become U+FFFD; numbers keep their digits.
func cleanJSON(text json.RawMessage) (json.RawMessage, error) {
	if err := jcs.Check(text); err == nil {
		return text, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	clean := bytes.TrimSpace(b.Bytes())
	return clean, jcs.Check(clean)
}
