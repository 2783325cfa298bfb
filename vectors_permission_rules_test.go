package rulvar_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// policyRules are the rules of rows about a policy: each says of a case that
// its layers hold what is refused here.
var policyRules = map[string]func(*policyVector) bool{
	"rule-shape":              (*policyVector).hasMisshapenRule,
	"rule-empty":              (*policyVector).hasEmptyRule,
	"rule-impossible-name":    (*policyVector).hasImpossibleName,
	"rule-unknown-risk":       (*policyVector).hasUnknownRisk,
	"rule-rest-in-the-middle": (*policyVector).hasRestInTheMiddle,
	"rule-pattern-words":      (*policyVector).hasPatternThatIsNotPlain,
	"preset-unknown":          (*policyVector).hasUnknownPreset,
	"preset-on-engine":        (*policyVector).hasProfileMemberOnEngine,
	"member-type":             (*policyVector).hasWrongMember,
	"deadline-of-each-layer":  (*policyVector).hasTwoDeadlines,
}

// presetRules are the rules of rows for presets.json.
var presetRules = policyRules

// rules returns the rules of all tables as written.
func (v *policyVector) rules() (out []map[string]json.RawMessage) {
	for _, layer := range []map[string]json.RawMessage{v.Engine, v.Profile} {
		for _, table := range []string{"deny", "ask"} {
			var list []map[string]json.RawMessage
			if layer[table] != nil && json.Unmarshal(layer[table], &list) == nil {
				out = append(out, list...)
			}
		}
	}
	return out
}

func (v *policyVector) anyRule(holds func(map[string]json.RawMessage) bool) bool {
	return slices.ContainsFunc(v.rules(), holds)
}

// texts reads a member that is a string or an array of strings.
func texts(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var many []string
	if json.Unmarshal(raw, &many) != nil {
		return nil
	}
	return many
}

func (v *policyVector) hasMisshapenRule() bool {
	shapes := []string{"tool", "risk", "argv tool", "domains tool"}
	for _, layer := range []map[string]json.RawMessage{v.Engine, v.Profile} {
		for _, table := range []string{"deny", "ask"} {
			var list []map[string]json.RawMessage
			if layer[table] != nil && json.Unmarshal(layer[table], &list) != nil {
				return true
			}
		}
	}
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		if !slices.Contains(shapes, strings.Join(slices.Sorted(maps.Keys(r)), " ")) {
			return true
		}
		for name, raw := range r {
			if texts(raw) == nil || name == "domains" && raw[0] != '[' {
				return true
			}
		}
		return false
	})
}

func (v *policyVector) hasEmptyRule() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		for _, raw := range r {
			if list := texts(raw); len(list) == 0 || slices.ContainsFunc(list, func(s string) bool { return strings.TrimSpace(s) == "" }) {
				return true
			}
		}
		return false
	})
}

var possibleName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (v *policyVector) hasImpossibleName() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return slices.ContainsFunc(texts(r["tool"]), func(s string) bool { return !possibleName.MatchString(s) })
	})
}

var knownRisks = []string{"read", "write", "network", "execute", "destructive"}

func (v *policyVector) hasUnknownRisk() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return slices.ContainsFunc(texts(r["risk"]), func(s string) bool { return s != "undeclared" && !slices.Contains(knownRisks, s) })
	})
}

// A ** that is not the last word never matches in the reference.
func (v *policyVector) hasRestInTheMiddle() bool {
	return slices.ContainsFunc(v.patterns(), func(s string) bool {
		words := strings.Fields(s)
		return len(words) > 0 && slices.Contains(words[:len(words)-1], "**")
	})
}

func (v *policyVector) hasPatternThatIsNotPlain() bool {
	return slices.ContainsFunc(v.patterns(), func(s string) bool { return !plainPattern(s) })
}

// The reference lists a domain rule only where its tool is one string.
func (v *policyVector) hasDomainRuleOfManyTools() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return r["domains"] != nil && strings.HasPrefix(string(r["tool"]), "[")
	})
}

// hasWrongTool: the call is of a tool that cannot be defined.
func (v *policyVector) hasWrongTool() bool {
	var tool recordedTool
	if json.Unmarshal(v.Tool, &tool) != nil {
		return !possibleName.MatchString(v.toolName())
	}
	for name, raw := range tool {
		if wrongMemberType(name, raw) || unknownRisk(name, raw) {
			return true
		}
	}
	return !possibleName.MatchString(v.toolName())
}

func (v *policyVector) hasUnknownPreset() bool {
	raw := v.Profile["preset"]
	if v.Kind == "preset" {
		raw, _ = json.Marshal(v.Preset)
	}
	words := texts(raw)
	return raw != nil && (len(words) != 1 || !slices.Contains([]string{"strict", "standard", "open"}, words[0]))
}

func (v *policyVector) hasProfileMemberOnEngine() bool {
	return v.Engine["preset"] != nil || v.Engine["inheritPermissions"] != nil
}

// hasWrongMember: a member of a layer is null, or a flag is no boolean.
func (v *policyVector) hasWrongMember() bool {
	for _, layer := range []map[string]json.RawMessage{v.Engine, v.Profile} {
		for name, raw := range layer {
			var flag bool
			isFlag := name == "strictApprovals" || name == "inheritPermissions"
			if string(raw) == "null" || isFlag && json.Unmarshal(raw, &flag) != nil {
				return true
			}
		}
	}
	return false
}

func (v *policyVector) hasTwoDeadlines() bool {
	return v.Engine["approvalDeadlineMs"] != nil && v.Profile["approvalDeadlineMs"] != nil
}
