package modelwire

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rulvar/rulvar-go/llm"
)

// ResultText is a tool's result as a service takes it: a text as it is,
// another value as JSON.
func ResultText(p llm.Part) string {
	var text string
	if json.Unmarshal(p.Result, &text) == nil {
		return text
	}
	return string(p.Result)
}

// ArgsText is the argument text of a call as the model sent it: what was not
// acceptable JSON stands in a wrapper.
func ArgsText(args json.RawMessage) string {
	var w struct {
		Unparsed *string `json:"__unparsed"`
	}
	if json.Unmarshal(args, &w) == nil && w.Unparsed != nil {
		return *w.Unparsed
	}
	if len(args) == 0 {
		return "{}"
	}
	return string(args)
}

// ArgsObject is the arguments of a call as a JSON object, for services that
// take nothing else.
func ArgsObject(args json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(args)
	switch {
	case len(trimmed) == 0:
		return json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid(trimmed) && !bytes.Contains(trimmed, []byte(`\u`)):
		return trimmed
	}
	// Escapes may hide half a surrogate pair, which services refuse.
	var tree any
	dec := json.NewDecoder(bytes.NewReader(trimmed))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		tree = string(trimmed)
	}
	if _, ok := tree.(map[string]any); !ok {
		tree = map[string]any{"__unparsed": tree}
	}
	return encode(tree)
}

// Image returns the URL or the base64 text of an image.
func Image(p llm.Part) (url, base64 string, err error) {
	var wrapper struct {
		Bytes string `json:"__rulvarBytes"`
	}
	var text string
	switch {
	case json.Unmarshal(p.Data, &text) == nil:
	case json.Unmarshal(p.Data, &wrapper) == nil && wrapper.Bytes != "":
		text = wrapper.Bytes
	default:
		return "", "", Unsendable("an image has no data")
	}
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		return text, "", nil
	}
	return "", text, nil
}

// Blank reports whether a text says nothing: services refuse such parts.
func Blank(text string) bool { return strings.TrimSpace(text) == "" }

// encode writes JSON as the journal does, without escaping what HTML would.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null") // only trees that were JSON come here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Compact writes a JSON text without white space, as a checkpoint stores it,
// so that the bytes stay the same ever after. It fails on what is no JSON.
func Compact(raw []byte) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// WholeArguments reports whether an argument text is a whole JSON object: what
// an answer that ran out of tokens leaves behind often is not.
func WholeArguments(text string) bool {
	t := strings.TrimSpace(text)
	return strings.HasPrefix(t, "{") && json.Valid([]byte(t))
}
