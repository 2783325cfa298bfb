package jsonschema

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// fitter walks a reflected schema beside its type, and makes it say what
// encoding/json does. It owns the tree and writes into it.
type fitter struct{ root reflect.Type }

func (f *fitter) fit(tree any, t reflect.Type, way string) (any, error) {
	t = bare(t)
	obj, ok := tree.(map[string]any)
	if !ok {
		if tree == true {
			return map[string]any{}, nil // the same, and other tools prefer it
		}
		return nil, refuseType(f.root, way, "the schema is false, which no value fits")
	}
	if has(t, ownSchemaType) {
		return obj, nil
	}
	var err error
	switch {
	case t == timeType, t == rawType, t == numberType, readsText(t):
	case t.Kind() == reflect.Struct:
		err = f.structType(obj, t, way)
	case t.Kind() == reflect.Map:
		err = f.mapType(obj, t, way)
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		if items, ok := obj["items"]; ok {
			obj["items"], err = f.fit(items, t.Elem(), way+"[]")
		}
	default:
		bound(obj, t)
	}
	return obj, err
}

func (f *fitter) structType(obj map[string]any, t reflect.Type, way string) error {
	props, ok := obj["properties"].(map[string]any)
	if !ok {
		props = map[string]any{}
		obj["properties"] = props
	}
	fields, _ := structFields(t)
	declared := map[string]bool{}
	for _, fd := range fields {
		declared[fd.name] = true
		p, ok := props[fd.name]
		below := way + "." + fd.source.Name
		if !ok {
			if fd.source.Tag.Get("jsonschema") == "-" {
				continue
			}
			return refuseType(f.root, below, "the schema has no member "+quote(fd.name, maxQuoted)+" for this field")
		}
		p, err := f.member(p, fd, below)
		if err != nil {
			return err
		}
		props[fd.name] = p
		_, preset := p.(map[string]any)["default"]
		if (fd.inside || preset) && !tagged(fd, "required") {
			optional(obj, fd.name)
		}
	}
	for _, name := range sortedKeys(props) {
		if !declared[name] && !has(t, extendsType) {
			return refuseType(f.root, way, "the schema has a member "+quote(name, maxQuoted)+" that no field reads")
		}
	}
	sortTexts(obj, "required")
	if list, ok := obj["required"].([]any); ok && len(list) == 0 {
		delete(obj, "required")
	}
	return nil
}

// member fits the schema of one field.
func (f *fitter) member(tree any, fd field, way string) (any, error) {
	if tagged(fd, "nullable") {
		if obj, ok := tree.(map[string]any); ok {
			if both, ok := obj["oneOf"].([]any); ok && len(both) == 2 {
				fitted, err := f.member(both[0], withoutTag(fd), way)
				if err != nil {
					return nil, err
				}
				return orNull(obj, both, fitted), nil
			}
		}
	}
	obj, ok := tree.(map[string]any)
	if ok && fd.quoted {
		quoted(obj, bare(fd.typ))
		return obj, f.check(obj, way)
	}
	fitted, err := f.fit(tree, fd.typ, way)
	if err != nil {
		return nil, err
	}
	obj = fitted.(map[string]any)
	if _, ok := fd.source.Tag.Lookup("jsonschema"); ok {
		sortTexts(obj, "enum")
	}
	return obj, f.check(obj, way)
}

// orNull adds null to what a field may be. The reflector says oneOf, which no
// null fits where the field can be anything; and anyOf is more widely known.
func orNull(obj map[string]any, both []any, fitted any) any {
	if inner, ok := fitted.(map[string]any); ok && len(inner) == 0 {
		return inner
	}
	delete(obj, "oneOf")
	obj["anyOf"] = []any{fitted, both[1]}
	return obj
}

// tagged reports whether the option stands in the tag "jsonschema".
func tagged(fd field, option string) bool {
	return slices.Contains(tagPieces(fd.source.Tag.Get("jsonschema")), option)
}

func withoutTag(fd field) field {
	fd.source.Tag = ""
	return fd
}

// check refuses a default that does not fit.
func (f *fitter) check(obj map[string]any, way string) error {
	value, ok := obj["default"]
	if !ok {
		return nil
	}
	v, err := Compile(obj)
	if err != nil {
		return errs.Wrap(errs.Config, "schema", typeName(f.root)+way, "", err)
	}
	if found := v.Validate(value); found != nil {
		return refuseType(f.root, way, "the default does not fit: "+found[0].Location+" "+found[0].Message)
	}
	return nil
}

// mapType gives an object its key rule: which member names become keys.
func (f *fitter) mapType(obj map[string]any, t reflect.Type, way string) error {
	var elem any = map[string]any{}
	if p, ok := obj["patternProperties"].(map[string]any); ok {
		for _, name := range sortedKeys(p) {
			elem = p[name]
		}
	} else if p, ok := obj["additionalProperties"]; ok {
		elem = p
	}
	elem, err := f.fit(elem, t.Elem(), way+"[key]")
	if err != nil {
		return err
	}
	delete(obj, "patternProperties")
	delete(obj, "additionalProperties")
	pattern := ""
	if !readsText(t.Key()) {
		switch k := t.Key().Kind(); {
		case reflect.Int <= k && k <= reflect.Int64:
			pattern = `^[+-]?[0-9]+$`
		case reflect.Uint <= k && k <= reflect.Uintptr:
			pattern = `^[0-9]+$`
		}
	}
	switch {
	case pattern != "":
		obj["patternProperties"] = map[string]any{pattern: elem}
		obj["additionalProperties"] = false
	case len(elem.(map[string]any)) > 0:
		obj["additionalProperties"] = elem
	}
	return nil
}

// bound adds the range of a sized integer, where a tag has not set a closer one.
func bound(obj map[string]any, t reflect.Type) {
	switch k := t.Kind(); k {
	case reflect.Int8, reflect.Int16, reflect.Int32:
		limit := math.Ldexp(1, t.Bits()-1)
		atLeast(obj, -limit)
		atMost(obj, limit-1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		atLeast(obj, 0)
		atMost(obj, math.Ldexp(1, t.Bits())-1)
	case reflect.Uint, reflect.Uint64:
		atLeast(obj, 0)
	}
}

func atLeast(obj map[string]any, limit float64) {
	if f, ok := float(obj["minimum"]); !ok || f < limit {
		obj["minimum"] = json.Number(strconv.FormatFloat(limit, 'f', -1, 64))
	}
}

func atMost(obj map[string]any, limit float64) {
	if f, ok := float(obj["maximum"]); !ok || f > limit {
		obj["maximum"] = json.Number(strconv.FormatFloat(limit, 'f', -1, 64))
	}
}

func float(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// quoted says what the text of a field with the option ",string" looks like.
func quoted(obj map[string]any, t reflect.Type) {
	pattern := ""
	switch k := t.Kind(); {
	case k == reflect.Bool:
		if _, ok := obj["enum"]; !ok {
			obj["enum"] = []any{"false", "true"}
		}
		return
	case reflect.Int <= k && k <= reflect.Int64:
		pattern = `^(0|-?[1-9][0-9]*)$`
	case reflect.Uint <= k && k <= reflect.Uint64:
		pattern = `^(0|[1-9][0-9]*)$`
	default:
		pattern = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`
	}
	if _, ok := obj["pattern"]; !ok {
		obj["pattern"] = pattern
	}
}

// optional removes a name from "required".
func optional(obj map[string]any, name string) {
	if list, ok := obj["required"].([]any); ok {
		obj["required"] = slices.DeleteFunc(list, func(v any) bool { return v == name })
	}
}

// sortTexts sorts an array of texts under a keyword.
func sortTexts(obj map[string]any, word string) {
	list, ok := obj[word].([]any)
	if !ok {
		return
	}
	for _, v := range list {
		if _, ok := v.(string); !ok {
			return
		}
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
}
