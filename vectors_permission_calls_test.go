package rulvar_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go"
)

// permissionRules are the rules of rows for permission_chain.json.
var permissionRules = func() map[string]func(*policyVector) bool {
	rules := map[string]func(*policyVector) bool{
		"domain-rule-of-many-tools": (*policyVector).hasDomainRuleOfManyTools,
		"tool-definition":           (*policyVector).hasWrongTool,
		"input-refused":             func(v *policyVector) bool { return v.got.Error == string(rulvar.ErrInvalidArguments) },
		"rewrite-judged-again":      (*policyVector).canUseRewritesUnderArgvRules,
		"comment":                   func(v *policyVector) bool { return v.without(commentText, "$1") },
		"harmless-redirection":      func(v *policyVector) bool { return v.without(harmlessRedirection, "") },
		"arithmetic":                func(v *policyVector) bool { return v.without(arithmetic, "1") },
		"array-assignment":          func(v *policyVector) bool { return v.without(arrayAssignment, "=x") },
		"reserved-words":            func(v *policyVector) bool { return v.without(reservedWords, "$1$3") },
		"asks-before-can-use-tool":  (*policyVector).asksFirst,
		"line-continuation":         func(v *policyVector) bool { return v.without(lineContinuation, "") },
		"quoted-assignment": func(v *policyVector) bool {
			return v.hasArgvRule() && slices.ContainsFunc(v.commands(), quotedAssignment.MatchString)
		},
	}
	maps.Copy(rules, policyRules)
	for name, holds := range commandRules {
		rules["command-"+name] = func(v *policyVector) bool {
			return v.hasArgvRule() && v.got.Verdict != rulvar.VerdictAllow &&
				slices.ContainsFunc(v.commands(), func(text string) bool { return holds(text, v.patterns()) })
		}
	}
	return rules
}()

func (v *policyVector) toolName() string {
	var def struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(v.Tool, &def.Name) != nil {
		_ = json.Unmarshal(v.Tool, &def)
	}
	return def.Name
}

// patterns returns the argv patterns of all rules.
func (v *policyVector) patterns() (out []string) {
	for _, r := range v.rules() {
		out = append(out, texts(r["argv"])...)
	}
	return out
}

func (v *policyVector) hasArgvRule() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return r["argv"] != nil && slices.Contains(texts(r["tool"]), v.toolName())
	})
}

// canUseAnswer is what the closure of the most specific layer that has one
// answers to the call.
func (v *policyVector) canUseAnswer() json.RawMessage {
	raw := v.Profile["canUseTool"]
	if raw == nil {
		raw = v.Engine["canUseTool"]
	}
	var answers map[string]json.RawMessage
	if raw == nil || json.Unmarshal(raw, &answers) != nil {
		return nil
	}
	if answer, ok := answers[v.toolName()]; ok {
		return answer
	}
	return answers["*"]
}

// The reference does not hold what CanUseTool rewrote against the tables.
func (v *policyVector) canUseRewritesUnderArgvRules() bool {
	d, err := stubDecision(v.canUseAnswer())
	return err == nil && d.Verdict == rulvar.VerdictModify && v.hasArgvRule()
}

// without reports whether the verdict is that of the case without the parts of
// its commands that re finds, or with what stands in for them.
func (v *policyVector) without(re *regexp.Regexp, instead string) bool {
	changed, found := *v, false
	for _, text := range v.commands() {
		rest := re.ReplaceAllString(text, instead)
		if rest == text || !v.hasArgvRule() {
			continue
		}
		found = true
		changed.Input = replacedText(changed.Input, text, rest)
		changed.Engine = replacedTexts(changed.Engine, text, rest)
		changed.Profile = replacedTexts(changed.Profile, text, rest)
	}
	return found && v.again(&changed).Verdict == v.got.Verdict
}

func replacedTexts(layer map[string]json.RawMessage, old, text string) map[string]json.RawMessage {
	layer = maps.Clone(layer)
	for _, closures := range []string{"hooks", "canUseTool"} {
		if layer[closures] != nil {
			layer[closures] = replacedText(layer[closures], old, text)
		}
	}
	return layer
}

// replacedText returns a JSON value in which every string old is text.
func replacedText(value json.RawMessage, old, text string) json.RawMessage {
	var tree any
	if json.Unmarshal(value, &tree) != nil {
		return value
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				v[name] = walk(member)
			}
		case []any:
			for i, element := range v {
				v[i] = walk(element)
			}
		case string:
			if v == old {
				return text
			}
		}
		return v
	}
	out, err := json.Marshal(walk(tree))
	if err != nil {
		return value
	}
	return out
}

// asksFirst: what cannot be judged asks before the closure is called, which
// denies in the recording.
func (v *policyVector) asksFirst() bool {
	var recorded policyOutcome
	if json.Unmarshal(v.Expect, &recorded) != nil || recorded.DecidedBy != "canUseTool" || v.got.DecidedBy != "ask-rule" {
		return false
	}
	return v.hasArgvRule() && slices.ContainsFunc(v.commands(), func(text string) bool {
		return !anyWord.MatchString(text) || !plainCommand(text) || wrapped(text, v.patterns()) || sameProgram(text, v.patterns())
	})
}

// commands returns the command texts of all inputs that come up in the case.
func (v *policyVector) commands() (out []string) {
	for _, input := range v.inputs() {
		var text string
		var form struct {
			Command *string `json:"command"`
		}
		switch {
		case strings.HasPrefix(strings.TrimSpace(string(input)), `"`) && json.Unmarshal(input, &text) == nil:
			out = append(out, text)
		case json.Unmarshal(input, &form) == nil && form.Command != nil:
			out = append(out, *form.Command)
		}
	}
	return out
}

func (v *policyVector) inputs() []json.RawMessage {
	out := []json.RawMessage{v.Input}
	for _, layer := range []map[string]json.RawMessage{v.Engine, v.Profile} {
		var stubs []struct {
			ModifiedInput json.RawMessage `json:"modifiedInput"`
		}
		if layer["hooks"] != nil && json.Unmarshal(layer["hooks"], &stubs) == nil {
			for _, s := range stubs {
				out = append(out, s.ModifiedInput)
			}
		}
	}
	if d, err := stubDecision(v.canUseAnswer()); err == nil && d.Input != nil {
		out = append(out, d.Input)
	}
	return out
}
