package jsonschema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

const (
	// maxQuoted is how many runes of a name, value or pattern are shown.
	maxQuoted = 64
	// maxListed is how many values of an enum are shown.
	maxListed = 10
)

// sentence puts a finding into words. It shows what the schema wants and never
// the value itself, which is at the location.
func sentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "is " + typeWord(k.Got) + ", must be " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "must be one of " + listed(k.Want)
	case *kind.Const:
		return "must be " + value(k.Want)
	case *kind.Format:
		return "is no valid " + strings.TrimPrefix(k.Want, formatPrefix)
	case *kind.Pattern:
		return "does not match the pattern " + quote(k.Want, maxQuoted)
	case *kind.MinLength:
		return fmt.Sprintf("has %s, must have at least %d", count(k.Got, "character"), k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %s, may have at most %d", count(k.Got, "character"), k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %s, must have at least %d", count(k.Got, "element"), k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %s, may have at most %d", count(k.Got, "element"), k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("has %s, must have at least %d", count(k.Got, "member"), k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %s, may have at most %d", count(k.Got, "member"), k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("elements %d and %d are equal", min(k.Duplicates[0], k.Duplicates[1]), max(k.Duplicates[0], k.Duplicates[1]))
	case *kind.Contains:
		return "holds no element of the required kind"
	case *kind.MinContains:
		return fmt.Sprintf("holds %s of the required kind, must hold at least %d", count(len(k.Got), "element"), k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("holds %s of a limited kind, may hold at most %d", count(len(k.Got), "element"), k.Want)
	case *kind.Not:
		return "is what the schema excludes"
	default:
		return numberSentence(k)
	}
}

func numberSentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	}
	return "does not fit the schema"
}

func needed(prop, missing string) string {
	return "the member " + quote(missing, maxQuoted) + " is missing, which " + quote(prop, maxQuoted) + " needs"
}

func oneOf(k *kind.OneOf) string {
	if len(k.Subschemas) < 2 {
		return "fits none of the alternatives"
	}
	return fmt.Sprintf("fits alternatives %d and %d, must fit exactly one", k.Subschemas[0], k.Subschemas[1])
}

func typeWord(got string) string {
	switch got {
	case "array", "object":
		return "an " + got
	case "null":
		return got
	}
	return "a " + got
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// listed shows the values of an enum.
func listed(values []any) string {
	if len(values) == 0 {
		return "nothing: the list is empty"
	}
	var b strings.Builder
	for i, v := range values {
		if i == maxListed {
			fmt.Fprintf(&b, " and %d more", len(values)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(value(v))
	}
	return b.String()
}

// value shows a value of the schema.
func value(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v, maxQuoted)
	case json.Number:
		return string(v)
	}
	text, err := jcs.AppendTree(nil, v)
	if err != nil {
		return "the value that the schema names"
	}
	return shown(string(text))
}

// shown cuts and escapes a JSON text, leaving its quotes.
func shown(text string) string {
	q := quote(text, maxQuoted)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// decimal shows a bound as the schema spells it, or nearly.
func decimal(n *big.Rat) string {
	if n.IsInt() {
		return clip(n.RatString(), 40)
	}
	if digits, exact := n.FloatPrec(); exact && digits < 30 {
		return n.FloatString(digits)
	}
	f, _ := n.Float64()
	return fmt.Sprint(f)
}
