package rulvar_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go"
)

// policyRules are the rules that rows of differences.json name. Each says of a
// case, from the case alone, that the reference is known to answer otherwise.
var policyRules = map[string]func(*policyVector) bool{
	"rule-shape":                (*policyVector).hasMisshapenRule,
	"rule-empty":                (*policyVector).hasEmptyRule,
	"rule-impossible-name":      (*policyVector).hasImpossibleName,
	"rule-unknown-risk":         (*policyVector).hasUnknownRisk,
	"rule-rest-in-the-middle":   (*policyVector).hasRestInTheMiddle,
	"rule-pattern-words":        (*policyVector).hasPatternThatIsNotPlain,
	"domain-rule-of-many-tools": (*policyVector).hasDomainRuleOfManyTools,
	"tool-unknown-risk":         (*policyVector).toolHasUnknownRisk,
	"preset-unknown":            (*policyVector).hasUnknownPreset,
	"preset-on-engine":          func(v *policyVector) bool { return v.Engine["preset"] != nil },
	"member-null":               (*policyVector).hasNullMember,
	"deadline-of-each-layer": func(v *policyVector) bool {
		return v.Engine["approvalDeadlineMs"] != nil && v.Profile["approvalDeadlineMs"] != nil
	},
	"rewrite-judged-again": (*policyVector).canUseRewritesUnderArgvRules,
	"command-empty": func(v *policyVector) bool {
		return v.argvCommand(func(c string) bool { return !anyWord.MatchString(c) })
	},
	"command-see-through": func(v *policyVector) bool { return v.argvCommand(func(c string) bool { return !plainCommand(c) }) },
	"command-here-document": func(v *policyVector) bool {
		return v.argvCommand(func(c string) bool { return strings.Contains(c, "<<") })
	},
	"command-comment":            func(v *policyVector) bool { return v.argvCommand(comment.MatchString) },
	"command-descriptor-is-word": func(v *policyVector) bool { return v.argvCommand(descriptor.MatchString) },
}

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
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		var keys []string
		for k := range r {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return !slices.Contains(shapes, strings.Join(keys, " "))
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
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return slices.ContainsFunc(texts(r["argv"]), func(s string) bool {
			words := strings.Fields(s)
			return len(words) > 0 && slices.Contains(words[:len(words)-1], "**")
		})
	})
}

// A pattern is words as a shell would split them, then redirections. The
// reference splits at spaces alone.
func (v *policyVector) hasPatternThatIsNotPlain() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return slices.ContainsFunc(texts(r["argv"]), func(s string) bool {
			return strings.ContainsAny(s, "\t\n'\"\\<>&|;#") || slices.ContainsFunc(strings.Fields(s), func(w string) bool {
				return strings.Contains(w, "*") && w != "*" && w != "**"
			})
		})
	})
}

// The reference lists a domain rule only where its tool is one string.
func (v *policyVector) hasDomainRuleOfManyTools() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return r["domains"] != nil && strings.HasPrefix(string(r["tool"]), "[")
	})
}

func (v *policyVector) toolHasUnknownRisk() bool {
	var def map[string]json.RawMessage
	if json.Unmarshal(v.Tool, &def) != nil || def["risk"] == nil {
		return false
	}
	words := texts(def["risk"])
	return string(def["risk"]) == "null" || len(words) != 1 || !slices.Contains(knownRisks, words[0])
}

func (v *policyVector) hasUnknownPreset() bool {
	raw := v.Profile["preset"]
	words := texts(raw)
	return raw != nil && (len(words) != 1 || !slices.Contains([]string{"strict", "standard", "open"}, words[0]))
}

func (v *policyVector) hasNullMember() bool {
	for _, layer := range []map[string]json.RawMessage{v.Engine, v.Profile} {
		for _, raw := range layer {
			if string(raw) == "null" {
				return true
			}
		}
	}
	return false
}

func (v *policyVector) toolName() string {
	var def struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(v.Tool, &def.Name) != nil {
		_ = json.Unmarshal(v.Tool, &def)
	}
	return def.Name
}

func (v *policyVector) hasArgvRule() bool {
	return v.anyRule(func(r map[string]json.RawMessage) bool {
		return r["argv"] != nil && slices.Contains(texts(r["tool"]), v.toolName())
	})
}

// The reference does not hold what CanUseTool rewrote against the tables.
func (v *policyVector) canUseRewritesUnderArgvRules() bool {
	raw := v.Profile["canUseTool"]
	if raw == nil {
		raw = v.Engine["canUseTool"]
	}
	var answers map[string]json.RawMessage
	if raw == nil || json.Unmarshal(raw, &answers) != nil || !v.hasArgvRule() {
		return false
	}
	answer, ok := answers[v.toolName()]
	if !ok {
		answer = answers["*"]
	}
	d, err := stubDecision(answer)
	return err == nil && d.Verdict == rulvar.VerdictModify
}

var (
	anyWord    = regexp.MustCompile(`[^\s;&|]`)
	comment    = regexp.MustCompile(`(^|[\s;&|])#`)
	descriptor = regexp.MustCompile(`[<>]&|&>`)
	plainText  = regexp.MustCompile(`^[a-z0-9_.,:@%+= \t;&|\n-]*$`)
	wrapper    = regexp.MustCompile(`(^|[\s;&|])(env|command|exec|eval|nohup|nice|timeout|time|setsid|stdbuf|sudo|doas|xargs|find|busybox|builtin|script|watch|parallel|trap|coproc|sh|bash|dash|source|if|then|else|elif|while|until|do|for|case|select|function)([\s;&|]|$)`)
)

// plainCommand reports whether a text is only words and separators, so that
// every reader of shell text finds the same commands in it.
func plainCommand(text string) bool { return plainText.MatchString(text) && !wrapper.MatchString(text) }

// argvCommand reports whether argv rules speak of the tool and one of the texts
// that come up as its command is of the given kind.
func (v *policyVector) argvCommand(kind func(string) bool) bool {
	if !v.hasArgvRule() {
		return false
	}
	candidates := []json.RawMessage{v.Input}
	for _, layer := range []map[string]json.RawMessage{v.Engine, v.Profile} {
		var stubs []struct {
			ModifiedInput json.RawMessage `json:"modifiedInput"`
		}
		if layer["hooks"] != nil && json.Unmarshal(layer["hooks"], &stubs) == nil {
			for _, s := range stubs {
				candidates = append(candidates, s.ModifiedInput)
			}
		}
	}
	return slices.ContainsFunc(candidates, func(raw json.RawMessage) bool {
		var form struct {
			Command *string `json:"command"`
		}
		var text string
		if json.Unmarshal(raw, &text) == nil && strings.HasPrefix(strings.TrimSpace(string(raw)), `"`) {
			return kind(text)
		}
		return json.Unmarshal(raw, &form) == nil && form.Command != nil && kind(*form.Command)
	})
}
