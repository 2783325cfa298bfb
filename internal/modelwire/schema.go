package modelwire

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Assertions that decoding under a schema does not know at every service. They
// are told to the model in words; the engine checks them in any case.
var worded = []string{
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
	"format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default",
}

// Annotations that say nothing to a model.
var dropped = []string{"$schema", "$id", "$comment", "$anchor", "title", "examples", "deprecated", "readOnly", "writeOnly"}

// Members of a schema that hold no schema and that decoding understands.
var kept = []string{"type", "enum", "const", "description", "required", "additionalProperties"}

// Strict returns a schema as constrained decoding takes it, and whether it can
// be put so: all objects closed, all their members required, nothing but types,
// enumerations, alternatives and local references.
func Strict(schema json.RawMessage) (json.RawMessage, bool) {
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber()
	var tree any
	if dec.Decode(&tree) != nil {
		return nil, false
	}
	root, ok := tree.(map[string]any)
	if !ok || root["type"] != "object" || !strict(root) {
		return nil, false
	}
	return encode(root), true
}

func strict(node any) bool {
	s, ok := node.(map[string]any)
	if !ok {
		return false // true, false: nothing to decode by
	}
	said := s["type"] != nil || s["enum"] != nil || s["const"] != nil || s["anyOf"] != nil || s["$ref"] != nil
	if !said || !closedObject(s) {
		return false
	}
	for _, k := range dropped {
		delete(s, k)
	}
	putIntoWords(s)
	for k, v := range s {
		switch k {
		case "properties", "$defs", "definitions":
			members, ok := v.(map[string]any)
			if !ok || !all(maps.Values(members), strict) {
				return false
			}
		case "items":
			if !strict(v) {
				return false
			}
		case "anyOf":
			list, ok := v.([]any)
			if !ok || !all(slices.Values(list), strict) {
				return false
			}
		case "$ref":
			if ref, ok := v.(string); !ok || !strings.HasPrefix(ref, "#") {
				return false
			}
		default:
			if !slices.Contains(kept, k) {
				return false
			}
		}
	}
	return true
}

// closedObject reports whether a schema of an object names all its members and
// requires them.
func closedObject(s map[string]any) bool {
	props, hasProps := s["properties"].(map[string]any)
	types, _ := s["type"].([]any)
	if s["type"] != "object" && !hasProps && !slices.Contains(types, any("object")) {
		return true
	}
	required, _ := s["required"].([]any)
	for name := range props {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return s["additionalProperties"] == false
}

// putIntoWords moves assertions into the description.
func putIntoWords(s map[string]any) {
	moved := make(map[string]any)
	for _, k := range worded {
		if v, ok := s[k]; ok {
			moved[k] = v
			delete(s, k)
		}
	}
	if len(moved) == 0 {
		return
	}
	text, _ := s["description"].(string)
	s["description"] = strings.TrimSpace(text + " " + string(encode(moved)))
}

// all reports whether every value fulfils ok. It does not stop at the first
// that does not.
func all(values func(func(any) bool), ok func(any) bool) bool {
	yes := true
	for v := range values {
		yes = ok(v) && yes
	}
	return yes
}

// Members returns a schema member by member, each as it was written.
func Members(schema json.RawMessage) (map[string]any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(members)+2)
	for k, v := range members {
		out[k] = v
	}
	return out, nil
}

// Object is [Members] for the schema of a tool's arguments. Services insist on
// its type and its properties, so they are added where they are missing.
func Object(schema json.RawMessage) (map[string]any, error) {
	out, err := Members(schema)
	if err != nil {
		return nil, err
	}
	if out["type"] == nil {
		out["type"] = "object"
	}
	if out["properties"] == nil {
		out["properties"] = map[string]any{}
	}
	return out, nil
}

// Instruction asks for an answer of a schema in words, where it cannot be
// asked for otherwise.
func Instruction(schema json.RawMessage) string {
	return "Answer with nothing but JSON that fits this JSON Schema:\n" + string(schema)
}
