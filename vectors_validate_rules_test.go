package rulvar_test

import (
	"encoding/json"
	"math"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// validateRules are the rules of rows for validate.json. The definition-… ones
// say why a schema cannot be defined here; the others say where draft 2020-12
// and the reference's validator part.
var validateRules = map[string]func(*schemaVector) bool{
	"definition-malformed":     refusedAs(jsonschema.KindMalformed),
	"definition-pattern":       refusedAs(jsonschema.KindPattern),
	"definition-recursive":     refusedAs(jsonschema.KindRecursive),
	"definition-remote":        refusedAs(jsonschema.KindRemote),
	"definition-unresolved":    refusedAs(jsonschema.KindUnresolved),
	"definition-dynamic":       refusedAs(jsonschema.KindDynamic),
	"definition-rebase":        refusedAs(jsonschema.KindRebase),
	"definition-dialect":       refusedAs(jsonschema.KindDialect),
	"definition-too-large":     refusedAs(jsonschema.KindTooLarge),
	"not-json":                 refusedAs(notJSON),
	"exact-numbers":            (*schemaVector).inexactDivision,
	"array-is-no-object":       (*schemaVector).mixesArraysAndObjects,
	"contains-always-asked":    (*schemaVector).onlyMaxContains,
	"failed-subschemas":        (*schemaVector).looksUnevaluated,
	"inherited-members":        (*schemaVector).namesInherited,
	"formats-of-the-standard":  (*schemaVector).formatsPart,
	"format-regex":             (*schemaVector).namesProperty,
	"format-url":               func(v *schemaVector) bool { return slices.Contains(v.members("format"), any("url")) },
	"unknown-keyword":          (*schemaVector).hasUnknownKeyword,
	"locations-first-failure":  fewerLocations("type", "const", "enum", "format"),
	"locations-under-contains": fewerLocations("contains"),
	"locations-under-not":      fewerLocations("not"),
}

// formatsParted are the texts on which the documents that draft 2020-12 names
// and the reference part, by format.
var formatsParted = map[string]*regexp.Regexp{
	"time":          regexp.MustCompile(`\d([+-]\d\d(\d\d)?)?$|[+-](2[4-9]|[3-9]\d):|:60`), // a whole offset
	"date-time":     regexp.MustCompile(`\d([+-]\d\d(\d\d)?)?$|[+-](2[4-9]|[3-9]\d):|:60|\s`),
	"duration":      regexp.MustCompile(`[.,]|H\d+S|Y\d+D`), // no fractions, no gaps
	"email":         regexp.MustCompile(`^"|@\[`),
	"ipv4":          regexp.MustCompile(`(^|\.)0\d`), // which some read as octal
	"uuid":          regexp.MustCompile(`(?i)^urn:uuid:`),
	"uri":           regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:([?#]|$)|//[^/?#]*:[^0-9/?#]|^[^/]*:/?[^/]*\[`), // a scheme alone; a port is a number; no brackets in a path
	"uri-reference": regexp.MustCompile(`^([^A-Za-z/?#][^/?#]*|[A-Za-z][^/?#:]*[^A-Za-z0-9+.:/?#-][^/?#:]*)?:|//[^/?#]*:[^0-9/?#]|"`),
}

func refusedAs(kind string) func(*schemaVector) bool {
	return func(v *schemaVector) bool { return v.ours.refusal == kind }
}

// turned: the schema may turn a verdict round, so that the direction of the
// whole says nothing about the part that differs.
func (v *schemaVector) turned() bool { return v.has("not", "oneOf", "if", "maxContains", "anyOf") }

// inexactDivision: a number of the value is a multiple of a divisor and the
// remainder of doubles says it is none, or the other way round. The reference
// takes a remainder for none when it is below 2^-23.
func (v *schemaVector) inexactDivision() bool {
	found := false
	walk("", v.instance, func(_ string, value any) {
		for _, divisor := range v.members("multipleOf") {
			found = found || divisionDiffers(value, divisor)
		}
	})
	return found
}

func divisionDiffers(value, divisor any) bool {
	a, b := exactNumber(value), exactNumber(divisor)
	if a == nil || b == nil || b.Sign() == 0 {
		return false
	}
	x, _ := a.Float64()
	y, _ := b.Float64()
	rest := math.Mod(x, y)
	const near = 1.1920929e-7
	return (math.Abs(rest) < near || math.Abs(y-rest) < near) != new(big.Rat).Quo(a, b).IsInt()
}

// exactNumber is the value of a number as it is written in canonical text.
func exactNumber(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	text, err := jcs.AppendTree(nil, n)
	if err != nil {
		return nil
	}
	r, _ := new(big.Rat).SetString(string(text))
	return r
}

// mixesArraysAndObjects: values are compared, and there are arrays and objects
// among them, which the reference compares by keys and indices.
func (v *schemaVector) mixesArraysAndObjects() bool {
	arrays, objects := 0, 0
	count := func(_ string, value any) {
		switch value.(type) {
		case []any:
			arrays++
		case map[string]any:
			objects++
		}
	}
	walk("", v.instance, count)
	for _, value := range slices.Concat(v.members("const"), v.members("enum")) {
		walk("", value, count)
	}
	return v.has("const", "enum", "uniqueItems") && arrays > 0 && objects > 0
}

// onlyMaxContains: without minContains at least one element has to fit,
// whether or not maxContains is there.
func (v *schemaVector) onlyMaxContains() bool {
	return v.has("contains") && v.has("maxContains") && (!v.ours.valid || v.turned())
}

// looksUnevaluated: what a failed subschema looked at counts as not evaluated.
func (v *schemaVector) looksUnevaluated() bool {
	return v.has("unevaluatedItems", "unevaluatedProperties") &&
		v.has("if", "dependentSchemas", "$ref") && (!v.ours.valid || v.turned())
}

// namesInherited: only members that an object has itself are members, in the
// value as in the tables of keywords and formats.
func (v *schemaVector) namesInherited() bool {
	found := false
	see := func(name string, value any) {
		text, _ := value.(string)
		found = found || inheritedName(name) || inheritedName(text)
	}
	walk("", v.schema, see)
	walk("", v.instance, see)
	return found
}

// inheritedName reports whether every JavaScript object has a member of the name.
func inheritedName(name string) bool {
	switch name {
	case "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
		"__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__":
		return true
	}
	return false
}

// formatsPart: a format is asserted, and the value holds a text of which the
// documents of the standard say something else than the reference.
func (v *schemaVector) formatsPart() bool {
	parts := false
	for name, texts := range formatsParted {
		if !slices.Contains(v.members("format"), any(name)) {
			continue
		}
		walk("", v.instance, func(name string, value any) {
			text, isText := value.(string)
			parts = parts || isText && texts.MatchString(text) || name != "" && texts.MatchString(name)
		})
	}
	return parts
}

// namesProperty: a text that only has to be an expression names a property of
// Unicode, and names are not looked up for that.
func (v *schemaVector) namesProperty() bool {
	text, _ := v.instance.(string)
	return slices.Contains(v.members("format"), any("regex")) && (strings.Contains(text, `\p{`) || strings.Contains(text, `\P{`))
}

// hasUnknownKeyword: what stands under an unknown keyword is not read; the
// reference reads schemas in it, and "id" as an identifier, and throws.
func (v *schemaVector) hasUnknownKeyword() bool {
	return v.theirs.threw && unknownKeyword(v.schema)
}

const keywords = " $schema $id $ref $anchor $dynamicRef $dynamicAnchor $recursiveRef $vocabulary $comment $defs definitions type enum const" +
	" multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern format maxItems minItems uniqueItems" +
	" maxContains minContains contains maxProperties minProperties required dependentRequired properties patternProperties" +
	" additionalProperties propertyNames dependentSchemas dependencies items prefixItems additionalItems unevaluatedItems" +
	" unevaluatedProperties allOf anyOf oneOf not if then else title description default deprecated readOnly writeOnly examples" +
	" contentEncoding contentMediaType contentSchema "

func unknownKeyword(schema any) bool {
	switch schema := schema.(type) {
	case []any:
		return slices.ContainsFunc(schema, unknownKeyword)
	case map[string]any:
		for name, value := range schema {
			if !strings.Contains(keywords, " "+name+" ") {
				return true
			}
			named, ok := value.(map[string]any)
			if !ok || !slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}, name) {
				named = map[string]any{"": value}
			}
			for _, below := range named {
				if unknownKeyword(below) {
					return true
				}
			}
		}
	}
	return false
}

// fewerLocations: a keyword of these is at work, both call the value wrong, and
// what the recording tells besides are places in the value below one that is
// told here.
func fewerLocations(keywords ...string) func(*schemaVector) bool {
	return func(v *schemaVector) bool {
		for _, at := range v.ours.locations {
			if !slices.Contains(v.theirs.locations, at) {
				return false
			}
		}
		for _, at := range v.theirs.locations {
			if !v.below(at) || !v.holds(at) {
				return false
			}
		}
		return v.has(keywords...)
	}
}

// below reports whether a place is one that is told here, or stands below one.
func (v *schemaVector) below(at string) bool {
	return slices.ContainsFunc(v.ours.locations, func(told string) bool { return at == told || strings.HasPrefix(at, told+"/") })
}

// holds reports whether the value has a place.
func (v *schemaVector) holds(at string) bool {
	value := v.instance
	for _, token := range strings.Split(at, "/")[1:] {
		token, err := url.PathUnescape(token)
		if err != nil {
			return false
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch parent := value.(type) {
		case map[string]any:
			member, ok := parent[token]
			if !ok {
				return false
			}
			value = member
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(parent) {
				return false
			}
			value = parent[i]
		default:
			return false
		}
	}
	return true
}
