package rulvar

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// Intake turns the text that a model sent into the one value that is judged,
// shown to an approver and executed:
//
//	text -> strict JSON -> (one bounded repair) -> folded names refused
//	     -> defaults -> schema -> canonical bytes
//
// Nothing after intake reads the text again.

// unparsedMember wraps argument text that is not acceptable JSON; it is how
// such text stands in an agent's history.
const unparsedMember = "__unparsed"

// takenInput is a call's input after intake, in canonical JSON.
type takenInput struct {
	// given is the input as the model or a hook gave it, before defaults. It
	// is what the approval key is made of. For a repaired call it is the
	// wrapper around the text.
	given json.RawMessage
	// effective is what is judged and what runs.
	effective json.RawMessage
	// repaired says that the text was not JSON and was mended.
	repaired bool
}

// intake decodes, checks and completes raw arguments. issues is not nil where
// they do not fit; each issue names a place.
func (t *Tool) intake(raw []byte) (takenInput, []string) {
	return t.schema.intake(raw)
}

func (s *compiledSchema) intake(raw []byte) (takenInput, []string) {
	text := strings.TrimSpace(string(raw))
	if text == "" || (text == "null" && !s.validator.Valid(nil)) {
		raw = []byte("{}") // models send nothing for a tool without arguments
	}
	tree, err := jcs.ParseStrict(raw)
	if err != nil {
		return s.mend(strings.ToValidUTF8(string(raw), "\uFFFD"), fmt.Sprintf("the arguments are not acceptable JSON: %s", issueText(err)))
	}
	// The wrapper is never input itself, even where an open schema would take
	// it: a tool must not run with text that was refused.
	if inner, ok := unwrapUnparsed(tree); ok {
		return s.mend(inner, "the arguments are not acceptable JSON")
	}
	effective, issues := s.fit(tree)
	if issues != nil {
		return takenInput{}, issues
	}
	return canonicalPair(tree, effective, false)
}

// mend reads text once more, first as it is and then after one repair, and
// takes it only if it fits. why is the issue to report otherwise.
func (s *compiledSchema) mend(text, why string) (takenInput, []string) {
	if strings.ContainsRune(text, '\uFFFD') {
		return takenInput{}, []string{why} // it stands for bytes that were not UTF-8
	}
	tree, err := jcs.ParseStrict([]byte(text))
	if err != nil {
		candidate, ok := jcs.Repair(text)
		if !ok {
			return takenInput{}, []string{why}
		}
		if tree, err = jcs.ParseStrict([]byte(candidate)); err != nil {
			return takenInput{}, []string{why}
		}
	}
	effective, issues := s.fit(tree)
	if issues != nil {
		return takenInput{}, append([]string{why}, issues...)
	}
	return canonicalPair(map[string]any{unparsedMember: strings.ToValidUTF8(text, "\uFFFD")}, effective, true)
}

// fit applies defaults to a tree and validates the result.
func (s *compiledSchema) fit(tree any) (effective any, issues []string) {
	if place, found := s.validator.FoldConflict(tree); found {
		return nil, []string{fmt.Sprintf("%s: the name differs from a declared one only in case: spell it exactly", place)}
	}
	effective, err := s.validator.ApplyDefaults(tree)
	if err != nil {
		return nil, []string{issueText(err)}
	}
	for _, i := range s.validator.Validate(effective) {
		issues = append(issues, fmt.Sprintf("%s: %s", i.Location, i.Message))
	}
	return effective, issues
}

// intakeUntyped is intake for a call that no schema describes.
func intakeUntyped(raw []byte) (takenInput, []string) {
	tree, err := jcs.ParseStrict(raw)
	if err != nil {
		return takenInput{}, []string{fmt.Sprintf("the arguments are not acceptable JSON: %s", issueText(err))}
	}
	return canonicalPair(tree, tree, false)
}

func canonicalPair(given, effective any, repaired bool) (takenInput, []string) {
	g, err := jcs.AppendTree(nil, given)
	if err != nil {
		return takenInput{}, []string{issueText(err)}
	}
	in := takenInput{given: g, effective: g, repaired: repaired}
	if e, err := jcs.AppendTree(nil, effective); err != nil {
		return takenInput{}, []string{issueText(err)}
	} else if string(e) != string(g) {
		in.effective = e
	}
	if tooDeep(in.given) || tooDeep(in.effective) {
		return takenInput{}, []string{tooDeepText}
	}
	return in, nil
}

// maxValueDepth is how many arrays and objects of a value may stand inside each
// other. Records and checkpoints put more around it, and must stay readable.
const maxValueDepth = jcs.MaxDepth - 100

var tooDeepText = fmt.Sprintf("the value is nested deeper than %d", maxValueDepth)

// tooDeep reports whether a JSON text is nested beyond [maxValueDepth].
func tooDeep(text []byte) bool {
	if len(text) <= 2*maxValueDepth {
		return false // each level opens and closes
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxValueDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// unwrapUnparsed reports whether tree is exactly {"__unparsed": text}.
func unwrapUnparsed(tree any) (string, bool) {
	m, ok := tree.(map[string]any)
	if !ok || len(m) != 1 {
		return "", false
	}
	text, ok := m[unparsedMember].(string)
	return text, ok
}

// historyArgs is how argument text stands in an agent's history: as it is
// where it is acceptable JSON, wrapped where it is not.
func historyArgs(raw []byte) json.RawMessage {
	if strings.TrimSpace(string(raw)) == "" {
		return json.RawMessage("{}")
	}
	if _, err := jcs.ParseStrict(raw); err == nil && !tooDeep(raw) {
		return append(json.RawMessage(nil), raw...)
	}
	b := append([]byte(`{"`+unparsedMember+`":`), jcs.AppendString(nil, strings.ToValidUTF8(string(raw), "\uFFFD"))...)
	return append(b, '}')
}

func issueText(err error) string { return strings.TrimPrefix(err.Error(), "rulvar: ") }
