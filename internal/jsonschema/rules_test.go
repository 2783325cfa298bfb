package jsonschema_test

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// rules are the named rules of differences.json for the files of this package.
// Each says of one case whether its reason applies there.
var rules = map[string]func(*judged) bool{
	"error-order":              errorOrder,
	"proto-member":             protoMember,
	"array-index-spelling":     arrayIndexSpelling,
	"anchor-order":             anchorOrder,
	"null-target":              nullTarget,
	"root-not-a-schema":        rootNotASchema,
	"number-overflow":          numberOverflow,
	"definition-malformed":     refusedAs(jsonschema.KindMalformed),
	"definition-pattern":       refusedAs(jsonschema.KindPattern),
	"definition-recursive":     refusedAs(jsonschema.KindRecursive),
	"definition-remote":        refusedAs(jsonschema.KindRemote),
	"definition-unresolved":    refusedAs(jsonschema.KindUnresolved),
	"definition-dynamic":       refusedAs(jsonschema.KindDynamic),
	"definition-rebase":        refusedAs(jsonschema.KindRebase),
	"instance-not-json":        instanceNotJSON,
	"exact-numbers":            exactNumbers,
	"array-is-no-object":       arrayIsNoObject,
	"contains-always-asked":    containsAlwaysAsked,
	"failed-subschemas":        failedSubschemas,
	"inherited-members":        inheritedMembers,
	"formats-of-the-standard":  formatOf(standardFormats...),
	"format-url":               formatOf("url"),
	"unknown-keyword":          unknownKeyword,
	"locations-first-failure":  locationsFirstFailure,
	"locations-under-contains": locationsUnder("contains"),
	"locations-under-not":      locationsUnder("not"),
}

// standardFormats are the asserted formats that draft 2020-12 names.
var standardFormats = []string{
	"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference",
	"uri-template", "uuid", "regex", "json-pointer", "relative-json-pointer",
}

// walk calls see with every value of a tree and the member name it stands under.
func walk(name string, v any, see func(name string, v any)) {
	see(name, v)
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk("", e, see)
		}
	case map[string]any:
		for k, e := range v {
			walk(k, e, see)
		}
	}
}

// has reports whether a member of that name stands anywhere in the schema.
func (j *judged) has(names ...string) bool {
	found := false
	walk("", j.schema, func(name string, _ any) { found = found || slices.Contains(names, name) })
	return found
}

// member returns the first value under that name, in any order.
func (j *judged) member(name string) (value any) {
	walk("", j.schema, func(n string, v any) {
		if n == name {
			value = v
		}
	})
	return value
}

func refusedAs(kind string) func(*judged) bool {
	return func(j *judged) bool { return j.ours.refusal == kind }
}

// errorOrder: a tree has no order of members, so of several wrong references
// the first by name is reported.
func errorOrder(j *judged) bool {
	refs := 0
	walk("", j.schema, func(name string, _ any) {
		if strings.HasPrefix(name, "$ref") || strings.HasPrefix(name, "$dynamic") {
			refs++
		}
	})
	return refs > 1 && j.ours.refusal != "" && j.theirs.refusal != "" && j.theirs.refusal != "internal"
}

func protoMember(j *judged) bool {
	if j.has("__proto__") {
		return true
	}
	ref, _ := j.member("$ref").(string)
	return strings.Contains(ref, "__proto__")
}

// arrayIndexSpelling: an index in a pointer is decimal digits without leading
// zeros, and nothing else.
func arrayIndexSpelling(j *judged) bool {
	odd := false
	walk("", j.schema, func(name string, v any) {
		if ref, ok := v.(string); ok && name == "$ref" && strings.HasPrefix(ref, "#/") {
			for tok := range strings.SplitSeq(ref, "/") {
				if tok == "" || tok[0] == '0' && tok != "0" || strings.ContainsAny(tok, "xXeE.+ \t") {
					odd = true
				}
			}
		}
	})
	return odd && j.ours.refusal == jsonschema.KindUnresolved && j.Quirk
}

func anchorOrder(j *judged) bool {
	seen, twice := map[any]bool{}, false
	walk("", j.schema, func(name string, v any) {
		if _, ok := v.(string); ok && name == "$anchor" {
			twice = twice || seen[v]
			seen[v] = true
		}
	})
	return twice
}

func nullTarget(j *judged) bool {
	return j.theirs.refusal == "internal" && j.ours.refusal == jsonschema.KindUnresolved
}

func rootNotASchema(j *judged) bool {
	switch j.schema.(type) {
	case bool, map[string]any:
		return false
	}
	return j.ours.refusal == jsonschema.KindMalformed && j.theirs.refusal == "internal"
}

func numberOverflow(j *judged) bool {
	return j.ours.refusal == "not-json" && j.theirs.refusal == "internal"
}

func instanceNotJSON(j *judged) bool {
	return j.schema != nil && j.ours.refusal == "not-json"
}

// exactNumbers: here the verdict is that of exact arithmetic on the canonical
// text of both numbers.
func exactNumbers(j *judged) bool {
	divisor, value := exact(j.member("multipleOf")), exact(j.instance)
	if divisor == nil || value == nil {
		return false
	}
	return j.ours.valid == new(big.Rat).Quo(value, divisor).IsInt()
}

func exact(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	text, err := jcs.AppendTree(nil, n)
	if err != nil {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return nil
	}
	return r
}

// arrayIsNoObject: an array and an object are never equal.
func arrayIsNoObject(j *judged) bool {
	arrays, objects := 0, 0
	note := func(_ string, v any) {
		switch v.(type) {
		case []any:
			arrays++
		case map[string]any:
			objects++
		}
	}
	if j.has("uniqueItems") {
		list, _ := j.instance.([]any)
		for _, e := range list {
			walk("", e, note)
		}
		return j.ours.valid && arrays > 0 && objects > 0
	}
	if !j.has("const", "enum") {
		return false
	}
	walk("", j.member("const"), note)
	walk("", j.member("enum"), note)
	walk("", j.instance, note)
	return !j.ours.valid && arrays > 0 && objects > 0
}

// containsAlwaysAsked: without minContains at least one element has to fit,
// whether or not maxContains is there.
func containsAlwaysAsked(j *judged) bool {
	return j.has("contains") && j.has("maxContains") && !j.has("minContains") && !j.ours.valid
}

// failedSubschemas: what a failed subschema looked at counts as not evaluated.
func failedSubschemas(j *judged) bool {
	return j.has("unevaluatedItems", "unevaluatedProperties") &&
		j.has("if", "dependentSchemas", "anyOf", "oneOf", "allOf", "$ref") && !j.ours.valid
}

// inheritedMembers: only members that an object has itself are members.
func inheritedMembers(j *judged) bool {
	text, err := jcs.AppendTree(nil, j.schema)
	if err != nil {
		return false
	}
	for _, name := range []string{"toString", "constructor", "valueOf", "hasOwnProperty", "__proto__", "isPrototypeOf", "toLocaleString", "propertyIsEnumerable"} {
		if strings.Contains(string(text), `"`+name+`"`) {
			return j.Quirk
		}
	}
	return false
}

func formatOf(names ...string) func(*judged) bool {
	return func(j *judged) bool {
		name, _ := j.member("format").(string)
		_, isText := j.instance.(string)
		return slices.Contains(names, name) && isText && j.ours.refusal == "" && j.theirs.refusal == ""
	}
}

// unknownKeyword: what stands under an unknown keyword is not read.
func unknownKeyword(j *judged) bool {
	top, _ := j.schema.(map[string]any)
	for name := range top {
		if strings.HasPrefix(name, "x-") || name == "~standard" {
			return j.ours.valid && j.theirs.refusal == "throws"
		}
	}
	return false
}

// locationsFirstFailure: a value that fails type, const, enum or format is not
// looked at further.
func locationsFirstFailure(j *judged) bool {
	return j.has("type", "const", "enum", "format") && subset(j.ours.locations, j.theirs.locations)
}

func locationsUnder(keyword string) func(*judged) bool {
	return func(j *judged) bool {
		return j.has(keyword) && subset(j.ours.locations, j.theirs.locations)
	}
}

func subset(some, all []string) bool {
	for _, s := range some {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return len(some) > 0
}
