package jsonschema

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// NoSchemaHash is the hash that stands where no schema is declared: that of the
// schema true, which accepts everything.
const NoSchemaHash = "b5bea41b6c623f7c09f1bf24dcae58ebab3c0cdd90ad966bc43a45b44867e12b"

const (
	// MaxCanonicalSize bounds the canonical form in bytes (about; names and
	// strings count their length and a little more). References are inlined,
	// so a few hundred bytes can stand for gigabytes.
	MaxCanonicalSize = 4 << 20
	// maxDepth bounds the nesting of a schema, before and after inlining. It
	// is below the bound of package jcs, so a canonical form can be hashed.
	maxDepth = 500
)

// Canonical returns the canonical form of a schema, the one that is hashed:
//
//	dropped    title description default deprecated readOnly writeOnly
//	           examples $comment, and $defs definitions $anchor
//	$ref       replaced by the canonical form of its target; where other
//	           keywords stand beside it, the target becomes the last element
//	           of allOf
//	recursion  additionalProperties items contains not if then else
//	           propertyNames unevaluatedItems unevaluatedProperties
//	           contentSchema; properties patternProperties dependentSchemas;
//	           allOf anyOf oneOf prefixItems
//	the rest   copied as it is, unknown keywords too
//
// A *[RefError] is returned for references that are remote, recursive, dynamic
// or lead nowhere, and for forms beyond [MaxCanonicalSize] or 500 levels.
// Canonical looks at nothing else: whether the schema can be used is for
// [Check] to say. Two trees that differ only in the order of members, in
// spelling of numbers or in annotations have one canonical form.
func Canonical(tree any) (any, error) {
	switch tree.(type) {
	case bool, map[string]any, []any:
	default:
		return nil, refuse(KindMalformed, nil, "", "a schema is an object, true or false")
	}
	c := canonicalizer{resolver: resolver{root: tree}, done: map[string]canonical{}, active: map[string]bool{"": true}}
	out, err := c.schema(tree, nil, 0)
	if err != nil {
		return nil, err
	}
	return out.tree, nil
}

// Hash returns the SHA-256 of the canonical form of a schema, 64 lower-case
// hexadecimal letters. Besides the errors of [Canonical], a schema that has no
// canonical text (a number out of range) is refused as malformed.
func Hash(tree any) (string, error) {
	c, err := Canonical(tree)
	if err != nil {
		return "", err
	}
	sum, err := jcs.Hash(c)
	if err != nil {
		return "", refuse(KindMalformed, nil, "", "the schema has no canonical form: "+err.Error())
	}
	return sum, nil
}

// canonicalizer makes one canonical form.
type canonicalizer struct {
	resolver
	done   map[string]canonical // finished targets by key
	active map[string]bool      // targets being expanded
}

// canonical is a finished part: its tree, its weight in bytes, and how many
// levels it has.
type canonical struct {
	tree   any
	size   int
	levels int
}

// add counts a part that stands one level below c.
func (c *canonical) add(part canonical) {
	c.size = min(c.size+part.size, MaxCanonicalSize+1)
	c.levels = max(c.levels, part.levels+1)
}

// schema returns the canonical form of the schema v. What is neither an object
// nor an array is copied: the keywords of a canonical form may hold anything.
func (c *canonicalizer) schema(v any, at *place, depth int) (canonical, error) {
	switch v := v.(type) {
	case map[string]any:
		if depth > maxDepth {
			return canonical{}, tooDeep(at)
		}
		return c.object(v, at, depth)
	case []any:
		// The tuple of older drafts under "items". The reference hashes the
		// elements under their indices, as they are.
		obj := make(map[string]any, len(v))
		for i, e := range v {
			obj[strconv.Itoa(i)] = e
		}
		return c.copied(obj, at, depth)
	default:
		return c.copied(v, at, depth)
	}
}

func (c *canonicalizer) object(obj map[string]any, at *place, depth int) (canonical, error) {
	for _, word := range [...]string{"$dynamicRef", "$dynamicAnchor"} {
		if _, ok := obj[word]; ok {
			return canonical{}, refuse(KindDynamic, at, word, word+" is not supported; use $ref")
		}
	}
	var inlined canonical
	ref, isRef := obj["$ref"].(string)
	if isRef {
		var err error
		if inlined, err = c.reference(ref, at, depth); err != nil {
			return canonical{}, err
		}
	}
	out := make(map[string]any, len(obj))
	sum := canonical{tree: out, size: 2}
	for _, name := range sortedKeys(obj) {
		role := canonicalRoles[name]
		if role == roleDrop || isRef && name == "$ref" {
			continue
		}
		part, err := c.keyword(role, obj[name], at.under(name), depth+1)
		if err != nil {
			return canonical{}, err
		}
		out[name] = part.tree
		sum.add(part)
		sum.size += len(name) + 4
	}
	if isRef {
		if len(out) == 0 {
			return inlined, nil
		}
		all, _ := out["allOf"].([]any)
		out["allOf"] = append(slices.Clip(all), inlined.tree)
		sum.add(inlined)
		sum.levels = max(sum.levels, inlined.levels+2)
		sum.size += 12
	}
	return sum, sum.within(at, depth)
}

// within refuses a part that is beyond the bounds.
func (c *canonical) within(at *place, depth int) error {
	if c.size > MaxCanonicalSize {
		return refuse(KindTooLarge, at, "", "with its references inlined the schema is larger than 4 MiB")
	}
	if c.levels+depth > maxDepth {
		return tooDeep(at)
	}
	return nil
}

func tooDeep(at *place) error {
	return refuse(KindTooLarge, at, "", "the schema is nested more than 500 levels deep")
}

// keyword returns the canonical form of a keyword's value.
func (c *canonicalizer) keyword(role role, v any, at *place, depth int) (canonical, error) {
	switch role {
	case roleSchema:
		return c.schema(v, at, depth)
	case roleMap:
		if obj, ok := v.(map[string]any); ok {
			return c.members(obj, at, depth)
		}
	case roleList:
		if list, ok := v.([]any); ok {
			return c.elements(list, at, depth)
		}
	}
	return c.copied(v, at, depth)
}

func (c *canonicalizer) members(obj map[string]any, at *place, depth int) (canonical, error) {
	out := make(map[string]any, len(obj))
	sum := canonical{tree: out, size: 2}
	for _, name := range sortedKeys(obj) {
		part, err := c.schema(obj[name], at.under(name), depth+1)
		if err != nil {
			return canonical{}, err
		}
		out[name] = part.tree
		sum.add(part)
		sum.size += len(name) + 4
	}
	return sum, sum.within(at, depth)
}

func (c *canonicalizer) elements(list []any, at *place, depth int) (canonical, error) {
	out := make([]any, len(list))
	sum := canonical{tree: out, size: 2}
	for i, v := range list {
		part, err := c.schema(v, at.at(i), depth+1)
		if err != nil {
			return canonical{}, err
		}
		out[i] = part.tree
		sum.add(part)
		sum.size++
	}
	return sum, sum.within(at, depth)
}

// copied measures a value that is taken over as it is.
func (c *canonicalizer) copied(v any, at *place, depth int) (canonical, error) {
	sum := canonical{tree: v}
	sum.size, sum.levels = weigh(v, MaxCanonicalSize+1, maxDepth+1)
	return sum, sum.within(at, depth)
}

// reference returns the canonical form of what ref leads to.
func (c *canonicalizer) reference(ref string, at *place, depth int) (canonical, error) {
	t, err := c.follow(ref, at)
	if err != nil {
		return canonical{}, err
	}
	if part, ok := c.done[t.key]; ok {
		return part, part.within(at, depth)
	}
	if c.active[t.key] {
		return canonical{}, recursive(ref, at)
	}
	if len(c.active) > maxDepth { // a chain of references takes stack without nesting
		return canonical{}, tooDeep(at)
	}
	c.active[t.key] = true
	part, err := c.schema(t.node, t.at, depth)
	delete(c.active, t.key)
	if err != nil {
		return canonical{}, err
	}
	c.done[t.key] = part
	return part, nil
}

// follow returns the target of ref, which has to be in the document and
// something that can be a schema.
func (r *resolver) follow(ref string, at *place) (target, error) {
	if !local(ref) {
		return target{}, refuse(KindRemote, at, ref, "$ref "+quote(ref, 80)+" leaves the document; copy the schema under $defs and write #/$defs/name")
	}
	t, ok := r.find(ref)
	if ok {
		switch t.node.(type) {
		case bool, map[string]any, []any:
			return t, nil
		}
	}
	return target{}, refuse(KindUnresolved, at, ref, "$ref "+quote(ref, 80)+" leads to no schema of this document")
}

func recursive(ref string, at *place) error {
	return refuse(KindRecursive, at, ref, "$ref "+quote(ref, 80)+" leads back to itself; recursive schemas are not supported, bound the nesting")
}

// weigh returns the size and the levels of a value, looking no further than
// the limits.
func weigh(v any, limit, levels int) (size, deep int) {
	if limit <= 0 || levels <= 0 {
		return limit, levels
	}
	switch v := v.(type) {
	case string:
		return len(v) + 3, 0
	case json.Number:
		return len(v) + 1, 0
	case []any:
		size = 2
		for _, e := range v {
			s, d := weigh(e, limit-size, levels-1)
			size, deep = size+s+1, max(deep, d+1)
			if size > limit || deep > levels {
				break
			}
		}
	case map[string]any:
		size = 2
		for name, e := range v {
			s, d := weigh(e, limit-size, levels-1)
			size, deep = size+s+len(name)+4, max(deep, d+1)
			if size > limit || deep > levels {
				break
			}
		}
	default:
		return 5, 0
	}
	return size, deep
}
