package jsonschema

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// typeNames are the words of "type".
var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// malformed refuses the value of a keyword.
func malformed(at *place, word, want string, got any) error {
	return refuse(KindMalformed, at, word, word+" is "+article(got)+", must be "+want)
}

// article names the type of a value in a sentence.
func article(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "not a JSON value"
}

func planType(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	words, many := v.([]any)
	if !many {
		words = []any{v}
	}
	if len(words) == 0 {
		return refuse(KindMalformed, at, word, "type is an empty array, which nothing fits; name a type")
	}
	var names []any
	for _, w := range words {
		name, ok := w.(string)
		if !ok || !slices.Contains(typeNames, name) {
			return refuse(KindMalformed, at, word, "type has to be one of "+strings.Join(typeNames, ", ")+", or an array of them")
		}
		if !slices.Contains(names, w) {
			names = append(names, name)
		}
	}
	if many {
		out[word] = names
	} else {
		out[word] = v
	}
	return nil
}

func planEnum(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	list, ok := v.([]any)
	if !ok {
		return malformed(at, word, "an array", v)
	}
	plain, err := planned(list, word, at)
	out[word] = plain
	return err
}

func planValue(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	plain, err := planned(v, word, at)
	out[word] = plain
	return err
}

// planned returns a value of the schema with its numbers in canonical text.
func planned(v any, word string, at *place) (any, error) {
	plain, _, bad := settle(v, 0)
	if bad != nil {
		return nil, refuse(KindMalformed, at, word, word+": "+bad.msg)
	}
	return plain, nil
}

// number reads the value of a numeric keyword.
func number(v any, word string, at *place) (json.Number, error) {
	n, ok := v.(json.Number)
	if !ok {
		return "", malformed(at, word, "a number", v)
	}
	plain, ok := settleNumber(n)
	if !ok {
		return "", refuse(KindMalformed, at, word, word+" is a number out of range")
	}
	return plain, nil
}

func planNumber(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	n, err := number(v, word, at)
	out[word] = n
	return err
}

func planDivisor(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	n, err := number(v, word, at)
	if err != nil {
		return err
	}
	if f, _ := strconv.ParseFloat(string(n), 64); !(f > 0) {
		return refuse(KindMalformed, at, word, word+" must be greater than zero")
	}
	out[word] = n
	return nil
}

// planCount writes a count. Nothing in memory has more than 2^31-1 parts, so
// larger counts are cut to that, which every int of Go can hold.
func planCount(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	n, err := number(v, word, at)
	if err != nil {
		return err
	}
	f, _ := strconv.ParseFloat(string(n), 64)
	if f < 0 || f != math.Trunc(f) {
		return refuse(KindMalformed, at, word, word+" must be a whole number, zero or more")
	}
	out[word] = json.Number(strconv.Itoa(int(min(f, math.MaxInt32))))
	return nil
}

func planBool(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	if _, ok := v.(bool); !ok {
		return malformed(at, word, "true or false", v)
	}
	out[word] = v
	return nil
}

func planPattern(p *plan, out map[string]any, word string, v any, at *place, _ int) error {
	text, ok := v.(string)
	if !ok {
		return malformed(at, word, "a text", v)
	}
	out[word] = text
	return p.pattern(text, word, at)
}

// pattern compiles a pattern of the schema, each text once.
func (p *plan) pattern(text, word string, at *place) error {
	if _, ok := p.patterns[text]; ok {
		return nil
	}
	re, err := compilePattern(text)
	if err != nil {
		return refuse(KindPattern, at, text, word+" "+quote(text, 80)+": "+err.Error())
	}
	p.patterns[text] = re
	return nil
}

// planFormat keeps the formats that are asserted; any other is an annotation.
func planFormat(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	name, ok := v.(string)
	if !ok {
		return malformed(at, word, "a text", v)
	}
	if _, ok := formats[name]; ok {
		out[word] = formatPrefix + name
	}
	return nil
}

// names reads an array of member names. A name that comes twice counts once.
func names(v any, word string, at *place) ([]any, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, malformed(at, word, "an array of texts", v)
	}
	seen := make(map[string]bool, len(list))
	out := make([]any, 0, len(list))
	for _, e := range list {
		name, ok := e.(string)
		if !ok {
			return nil, refuse(KindMalformed, at, word, word+" must hold texts only, not "+article(e))
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out, nil
}

func planNames(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	list, err := names(v, word, at)
	out[word] = list
	return err
}

func planDependentNames(_ *plan, out map[string]any, word string, v any, at *place, _ int) error {
	obj, ok := v.(map[string]any)
	if !ok {
		return malformed(at, word, "an object", v)
	}
	all := make(map[string]any, len(obj))
	for _, name := range sortedKeys(obj) {
		list, err := names(obj[name], word, at.under(word).under(name))
		if err != nil {
			return err
		}
		all[name] = list
	}
	out[word] = all
	return nil
}
