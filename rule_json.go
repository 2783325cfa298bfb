package rulvar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// A rule in JSON is an object of one of four shapes:
//
//	{"tool": names}
//	{"risk": risks}
//	{"tool": names, "argv": patterns}
//	{"tool": names, "domains": hosts}
//
// Each list is one string or an array of strings, and is written again as it
// was read. No other member is allowed: a member that is passed over would be
// a rule that silently does something else.

// MarshalJSON writes the rule in the shape it was declared in. A rule that is
// wrong is an [ErrConfig].
func (r Rule) MarshalJSON() ([]byte, error) {
	if f := r.problem(); f != nil {
		return nil, f.at("marshal rule", "")
	}
	return []byte(r.spec.text), nil
}

// UnmarshalJSON reads a rule. An unknown, repeated or conflicting member, a
// wrong type and a rule that could never match are an [ErrConfig] that names
// the member; r is then unchanged.
func (r *Rule) UnmarshalJSON(data []byte) error {
	read, fault := readRule(data)
	if fault != nil {
		return fault.at("unmarshal rule", "")
	}
	*r = read
	return nil
}

func readRule(data []byte) (Rule, *ruleFault) {
	members, why := strictMembers(data)
	if why != "" {
		return Rule{}, &ruleFault{"", why}
	}
	spec := &ruleSpec{}
	for _, key := range sortedKeys(members) {
		var list *wordList
		switch key {
		case "tool":
			list = &spec.tool
		case "risk":
			list = &spec.risk
		case "argv":
			list = &spec.argv
		case "domains":
			list = &spec.domains
		default:
			return Rule{}, &ruleFault{key, "unknown member of a rule: use tool, risk, argv or domains"}
		}
		if why := list.read(members[key]); why != "" {
			return Rule{}, &ruleFault{key, why}
		}
	}
	if f := spec.shape(members); f != nil {
		return Rule{}, f
	}
	rule := newRule(spec)
	return rule, spec.fault
}

// shape decides which of the four shapes the members make.
func (s *ruleSpec) shape(members map[string]json.RawMessage) *ruleFault {
	_, tool := members["tool"]
	_, risk := members["risk"]
	_, argv := members["argv"]
	_, domains := members["domains"]
	switch {
	case risk && len(members) > 1:
		return &ruleFault{"risk", "a risk rule has no other member: make a second rule"}
	case risk:
		s.kind = ruleRisk
	case argv && domains:
		return &ruleFault{"domains", "a rule has argv or domains, not both: make two rules"}
	case argv && !tool:
		return &ruleFault{"argv", "an argv rule must name its tool"}
	case domains && !tool:
		return &ruleFault{"domains", "a domain rule must name its tool"}
	case argv:
		s.kind = ruleArgv
	case domains:
		s.kind = ruleDomains
	case tool:
		s.kind = ruleTool
	default:
		return &ruleFault{"", "the rule is empty: it needs tool or risk"}
	}
	return nil
}

func (l *wordList) read(raw json.RawMessage) (why string) {
	const want = "want a string or an array of strings"
	switch raw[0] {
	case '"':
		l.words, l.array = make([]string, 1), false
		if json.Unmarshal(raw, &l.words[0]) != nil {
			return want
		}
		return ""
	case '[':
		l.words, l.array = nil, true
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) != nil {
			return want
		}
		for i, e := range elements {
			var word string
			if e[0] != '"' || json.Unmarshal(e, &word) != nil {
				return fmt.Sprintf("%s; element %d is neither", want, i)
			}
			l.words = append(l.words, word)
		}
		return ""
	}
	return want
}

func (s *ruleSpec) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for _, m := range []struct {
		key  string
		list wordList
		on   bool
	}{
		{"tool", s.tool, s.kind != ruleRisk},
		{"risk", s.risk, s.kind == ruleRisk},
		{"argv", s.argv, s.kind == ruleArgv},
		{"domains", s.domains, s.kind == ruleDomains},
	} {
		if !m.on {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, m.key...)
		dst = append(dst, `":`...)
		dst = m.list.appendJSON(dst)
	}
	return append(dst, '}')
}

func (l wordList) appendJSON(dst []byte) []byte {
	if !l.array && len(l.words) == 1 {
		return appendWord(dst, l.words[0])
	}
	dst = append(dst, '[')
	for i, w := range l.words {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendWord(dst, w)
	}
	return append(dst, ']')
}

// appendWord writes a word. Only a rule that is refused anyway holds a word
// that is not valid UTF-8; its text is for an error message.
func appendWord(dst []byte, w string) []byte {
	return jcs.AppendString(dst, strings.ToValidUTF8(w, "\uFFFD"))
}

// strictMembers reads the members of one JSON object: names are exact, none is
// repeated, text is valid. why says what is wrong.
func strictMembers(data []byte) (members map[string]json.RawMessage, why string) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return nil, "want a JSON object"
	}
	if _, err := jcs.ParseStrict(data); err != nil {
		return nil, issueText(err)
	}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, issueText(err)
	}
	return members, ""
}

func sortedKeys(members map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(members))
	for k := range members {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// configFault is a fault of a policy that is not in one rule.
func configFault(op, path, format string, args ...any) error {
	return errs.New(errs.Config, op, path, fmt.Sprintf(format, args...))
}
