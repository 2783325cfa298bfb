package jsonschema

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	// MaxSubschemas is how many schemas a definition may hold, each target of
	// references counted once. Compiling takes time in their square.
	MaxSubschemas = 5_000
	// MaxExpanded is how many schemas a definition may amount to, with each
	// target counted as often as references lead to it. It bounds the work that
	// one value can cause.
	MaxExpanded = 50_000
)

// plan turns a schema into the document that the validator compiles. In it
// nothing is left to interpret:
//
//	{
//	  ...               the root, known keywords only
//	  "$defs": {
//	    "0": {...},     one entry for each target of a reference
//	    "1": {...}
//	  }
//	}
//	"$ref"              "#/$defs/0", nothing else
//	numbers             their canonical text; counts at most 2^31-1
//	tuples              prefixItems and items, as draft 2020-12 spells them
//	no $schema, $id, $anchor, no annotation but "default"
//
// Making it is the check of a definition: whatever is wrong with a schema, and
// would only show when it is used, is found here.
type plan struct {
	resolver
	tuples  bool           // "items" may be an array, as in draft-07
	defs    map[string]any // the entries, by number
	numbers map[string]int // target key -> number
	active  map[string]bool
	names   bool // propertyNames occurs

	count    int         // schemas so far
	expanded int         // the same with references followed
	weights  map[int]int // of the finished targets, by number

	patterns map[string]*pattern // by their source
}

// newPlan makes the plan of a schema. The error is a *RefError.
func newPlan(tree any) (*plan, any, error) {
	p := &plan{
		resolver: resolver{root: tree},
		defs:     map[string]any{}, numbers: map[string]int{}, active: map[string]bool{"": true},
		patterns: map[string]*pattern{}, weights: map[int]int{},
	}
	if obj, ok := tree.(map[string]any); ok {
		if err := p.header(obj); err != nil {
			return nil, nil, err
		}
	}
	doc, err := p.schema(tree, nil, 0)
	if err != nil {
		return nil, nil, err
	}
	if len(p.defs) > 0 {
		doc.(map[string]any)["$defs"] = p.defs
	}
	return p, doc, nil
}

// header reads "$schema" and "$id" of the document.
func (p *plan) header(obj map[string]any) error {
	if v, ok := obj["$schema"]; ok {
		name, _ := v.(string)
		name = strings.TrimSuffix(name, "#")
		name = strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
		switch name {
		case "json-schema.org/draft/2020-12/schema", "json-schema.org/schema":
		case "json-schema.org/draft/2019-09/schema", "json-schema.org/draft-07/schema":
			p.tuples = true
		default:
			text, _ := v.(string)
			return refuse(KindDialect, nil, text, "$schema "+quote(text, 80)+" is not known; use https://json-schema.org/draft/2020-12/schema, the one of 2019-09, or draft-07")
		}
	}
	if v, ok := obj["$id"]; ok {
		id, isText := v.(string)
		if _, err := url.Parse(id); !isText || err != nil {
			return refuse(KindMalformed, nil, "$id", "$id is not a URI reference")
		}
	}
	return nil
}

// schema returns the plan of the schema v.
func (p *plan) schema(v any, at *place, depth int) (any, error) {
	p.count++
	if p.count > MaxSubschemas {
		return nil, refuse(KindTooLarge, at, "", "the definition holds more than 5000 schemas")
	}
	if err := p.expand(1, at); err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, tooDeep(at)
	}
	switch v := v.(type) {
	case bool:
		return v, nil
	case map[string]any:
		return p.object(v, at, depth)
	default:
		return nil, refuse(KindMalformed, at, "", "a schema is an object, true or false, not "+article(v))
	}
}

func (p *plan) object(obj map[string]any, at *place, depth int) (any, error) {
	if err := unsupported(obj, at); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(obj))
	for _, word := range sortedKeys(obj) {
		if write := planners[word]; write != nil {
			if err := write(p, out, word, obj[word], at, depth+1); err != nil {
				return nil, err
			}
		}
	}
	if err := settleTuple(out, obj, at); err != nil {
		return nil, err
	}
	v, ok := obj["$ref"]
	if !ok {
		return out, nil
	}
	ref, ok := v.(string)
	if !ok {
		return nil, malformed(at, "$ref", "a text", v)
	}
	number, err := p.reference(ref, at)
	if err != nil {
		return nil, err
	}
	out["$ref"] = "#/$defs/" + strconv.Itoa(number)
	return out, nil
}

// unsupported refuses the keywords that would change what references mean.
func unsupported(obj map[string]any, at *place) error {
	for _, word := range [...]string{"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"} {
		if _, ok := obj[word]; ok {
			return refuse(KindDynamic, at, word, word+" is not supported; use $ref")
		}
	}
	if at == nil {
		return nil
	}
	if v, ok := obj["$id"]; ok {
		text, _ := v.(string)
		return refuse(KindRebase, at, text, "$id below the root would move where references are looked up; remove it")
	}
	return nil
}

// expand counts n schemas more.
func (p *plan) expand(n int, at *place) error {
	if p.expanded += n; p.expanded > MaxExpanded {
		return refuse(KindTooLarge, at, "", "with its references followed the definition amounts to more than 50000 schemas")
	}
	return nil
}

// reference returns the number of the target of ref, planning it the first
// time.
func (p *plan) reference(ref string, at *place) (int, error) {
	t, err := p.follow(ref, at)
	if err != nil {
		return 0, err
	}
	if opaque(t.at) {
		return 0, refuse(KindUnresolved, at, ref, "$ref "+quote(ref, 80)+" leads into a value, which is no schema; move the schema under $defs")
	}
	if t.twice {
		return 0, refuse(KindMalformed, at, ref, "$ref "+quote(ref, 80)+": the anchor stands at two places; rename one")
	}
	if decoded, err := url.PathUnescape(ref); err != nil || decoded != ref {
		return 0, refuse(KindUnresolved, at, ref, "$ref "+quote(ref, 80)+": percent escapes in references are read in two ways; write the name itself")
	}
	if p.active[t.key] {
		return 0, recursive(ref, at)
	}
	if number, ok := p.numbers[t.key]; ok {
		return number, p.expand(p.weights[number], at)
	}
	if len(p.active) > maxDepth {
		return 0, tooDeep(at)
	}
	number := len(p.numbers)
	p.numbers[t.key] = number
	p.active[t.key] = true
	before := p.expanded
	doc, err := p.schema(t.node, t.at, 1)
	delete(p.active, t.key)
	if err != nil {
		return 0, err
	}
	p.weights[number] = p.expanded - before
	p.defs[strconv.Itoa(number)] = doc
	return number, nil
}
