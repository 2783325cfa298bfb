package jsonschema

import (
	"maps"
	"slices"
	"strconv"
)

// namesWord is the plan's own spelling of propertyNames; see names.go.
const namesWord = "rulvar-propertyNames"

func planSchema(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	doc, err := p.schema(v, at.under(word), depth)
	out[word] = doc
	return err
}

func planMap(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	obj, ok := v.(map[string]any)
	if !ok {
		return malformed(at, word, "an object of schemas", v)
	}
	at = at.under(word)
	all := make(map[string]any, len(obj))
	for _, name := range sortedKeys(obj) {
		doc, err := p.schema(obj[name], at.under(name), depth+1)
		if err != nil {
			return err
		}
		all[name] = doc
	}
	out[word] = all
	return nil
}

func planPatternMap(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	if obj, ok := v.(map[string]any); ok {
		for _, text := range sortedKeys(obj) {
			if err := p.pattern(text, word, at); err != nil {
				return err
			}
		}
	}
	return planMap(p, out, word, v, at, depth)
}

// planList writes an array of schemas. An empty one would be ignored by some
// validators and refuse everything in others.
func planList(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	list, ok := v.([]any)
	if !ok {
		return malformed(at, word, "an array of schemas", v)
	}
	if len(list) == 0 {
		if word == "allOf" || word == "prefixItems" {
			return nil // asks nothing, in every reading
		}
		return refuse(KindMalformed, at, word, word+" is an empty array, which nothing fits; name an alternative")
	}
	docs, err := p.list(list, at.under(word), depth)
	out[word] = docs
	return err
}

func (p *plan) list(list []any, at *place, depth int) ([]any, error) {
	docs := make([]any, len(list))
	for i, v := range list {
		doc, err := p.schema(v, at.at(i), depth+1)
		if err != nil {
			return nil, err
		}
		docs[i] = doc
	}
	return docs, nil
}

// planItems writes "items": a schema, or in older drafts the tuple that is now
// called prefixItems.
func planItems(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	list, ok := v.([]any)
	if !ok {
		return planSchema(p, out, word, v, at, depth)
	}
	if !p.tuples {
		return refuse(KindMalformed, at, word, `items is an array; write prefixItems, or declare "$schema": "http://json-schema.org/draft-07/schema#"`)
	}
	if len(list) == 0 {
		return nil
	}
	docs, err := p.list(list, at.under(word), depth)
	out["prefixItems"] = docs
	return err
}

// planAdditionalItems plans the rest of a tuple; settleTuple puts it in place.
func planAdditionalItems(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	if !p.tuples {
		return nil
	}
	return planSchema(p, out, word, v, at, depth)
}

// settleTuple spells the tuple of older drafts as draft 2020-12 does. Where
// "items" is no array, "additionalItems" has no meaning.
func settleTuple(out, obj map[string]any, at *place) error {
	rest, ok := out["additionalItems"]
	delete(out, "additionalItems")
	if _, tuple := obj["items"].([]any); !tuple {
		return nil
	}
	if _, both := obj["prefixItems"]; both {
		return refuse(KindMalformed, at, "prefixItems", "prefixItems stands beside an array under items; keep one of them")
	}
	if ok {
		out["items"] = rest
	}
	return nil
}

// planDependencies writes the draft-07 keyword: a list of names or a schema
// under each name.
func planDependencies(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	obj, ok := v.(map[string]any)
	if !ok {
		return malformed(at, word, "an object", v)
	}
	at = at.under(word)
	all := make(map[string]any, len(obj))
	for _, name := range sortedKeys(obj) {
		var err error
		if _, ok := obj[name].([]any); ok {
			all[name], err = names(obj[name], word, at.under(name))
		} else {
			all[name], err = p.schema(obj[name], at.under(name), depth+1)
		}
		if err != nil {
			return err
		}
	}
	out[word] = all
	return nil
}

// planPropertyNames gives the schema of the names an entry of its own, to
// which the keyword that stands for it refers.
func planPropertyNames(p *plan, out map[string]any, word string, v any, at *place, depth int) error {
	doc, err := p.schema(v, at.under(word), depth)
	if err != nil {
		return err
	}
	number := strconv.Itoa(len(p.numbers))
	p.numbers["names:"+number] = len(p.numbers)
	p.defs[number] = doc
	out[namesWord] = "#/$defs/" + number
	p.names = true
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
