package rulvar_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// toolsetRules are the rules of rows for toolset_hash.json.
var toolsetRules = map[string]func(*toolsetVector) bool{
	"lone-surrogate": func(v *toolsetVector) bool {
		return v.anyMember(func(_ string, text json.RawMessage) bool { return loneSurrogate(text) })
	},
	"member-type":        func(v *toolsetVector) bool { return v.anyMember(wrongMemberType) },
	"unknown-risk":       func(v *toolsetVector) bool { return v.anyMember(unknownRisk) },
	"unknown-executor":   func(v *toolsetVector) bool { return v.anyMember(unknownExecutor) },
	"proto-name":         (*toolsetVector).namesProto,
	"definition-refused": func(v *toolsetVector) bool { return v.anyMember(refusedParameters) },
}

func (v *toolsetVector) anyMember(holds func(name string, text json.RawMessage) bool) bool {
	for _, tool := range slices.Concat(v.Contracts, v.Tools) {
		for name, text := range tool {
			if holds(name, text) {
				return true
			}
		}
	}
	return false
}

// wrongMemberType: what a definition cannot have, a typed one above all.
func wrongMemberType(name string, text json.RawMessage) bool {
	var into any
	switch name {
	case "name", "description", "version", "risk", "executor":
		into = new(string)
	case "needsApproval":
		into = new(bool)
	default:
		return false
	}
	return string(text) == "null" || json.Unmarshal(text, into) != nil
}

func unknownRisk(name string, text json.RawMessage) bool {
	var risk string
	return name == "risk" && (json.Unmarshal(text, &risk) != nil || !slices.Contains(knownRisks, risk))
}

func unknownExecutor(name string, text json.RawMessage) bool {
	known := []string{`"inprocess"`, `"subprocess"`, `"container"`}
	return name == "executor" && !slices.Contains(known, string(text))
}

// refusedParameters: a schema with a form, which cannot be used all the same.
func refusedParameters(name string, text json.RawMessage) bool {
	tree, err := jcs.Parse(text)
	if name != "parameters" || err != nil {
		return false
	}
	_, err = jsonschema.Canonical(tree)
	return err == nil && jsonschema.Check(tree) != nil
}

func (v *toolsetVector) namesProto() bool {
	return strings.Contains(string(v.Attestation), `"__proto__"`) || v.anyMember(func(name string, text json.RawMessage) bool {
		return name == "name" && string(text) == `"__proto__"`
	})
}
