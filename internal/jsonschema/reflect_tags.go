package jsonschema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The reflector passes over every tag that it does not understand. Here each
// piece of a tag has to be one that has an effect on the field.

// tagPieces splits the tag "jsonschema" at commas that have no backslash before
// them, as the reflector does.
func tagPieces(tag string) []string {
	var pieces []string
	for part := range strings.SplitSeq(tag, ",") {
		if n := len(pieces); n > 0 && strings.HasSuffix(pieces[n-1], `\`) {
			pieces[n-1] = strings.TrimSuffix(pieces[n-1], `\`) + "," + part
		} else {
			pieces = append(pieces, part)
		}
	}
	return pieces
}

// keywords that a tag may set, by the type of the schema.
var tagWords = map[string][]string{
	"string":  {"minLength", "maxLength", "pattern", "format", "readOnly", "writeOnly", "default", "example", "enum"},
	"number":  {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "default", "example", "enum"},
	"boolean": {"default"},
	"array":   {"minItems", "maxItems", "uniqueItems", "default", "format", "pattern"},
	"any":     {"oneof_type", "anyof_type"},
}

// field inspects the tags of one field.
func (in *inspector) field(f field, way string) error {
	if f.quoted {
		if t := bare(f.typ); t.Kind() == reflect.String || has(t, ownSchemaType) || readsText(t) {
			return in.refuse(way, "the option string of the json tag would want a text inside a text; remove it")
		}
	}
	tag, ok := f.source.Tag.Lookup("jsonschema")
	if !ok || tag == "" || tag == "-" {
		return nil
	}
	pieces := tagPieces(tag)
	for _, word := range []string{"required", "nullable", "-"} {
		// The reflector looks for these without regard to backslashes.
		if slices.Contains(strings.Split(tag, ","), word) != slices.Contains(pieces, word) {
			return in.refuse(way, "the text "+quote(word, 20)+" between commas of the jsonschema tag is taken for an option; reword it")
		}
	}
	kind := schemaType(f)
	for _, piece := range pieces {
		if piece == "required" || piece == "nullable" {
			continue
		}
		word, value, ok := strings.Cut(piece, "=")
		if !ok {
			return in.refuse(way, "the jsonschema tag holds "+quote(piece, maxQuoted)+", which is no option; write description=..., and a comma in a text as \\\\,")
		}
		if msg := tagFault(f, kind, word, value); msg != "" {
			return in.refuse(way, "jsonschema tag, "+quote(word, maxQuoted)+": "+msg)
		}
	}
	return nil
}

// schemaType returns the type of schema that the reflector sees in a field.
func schemaType(f field) string {
	if f.quoted {
		return "string"
	}
	return typeOfSchema(bare(f.typ))
}

func typeOfSchema(t reflect.Type) string {
	if s := mapped(t); s != nil {
		if s.Type == "integer" {
			return "number"
		}
		return s.Type
	}
	switch {
	case t == timeType:
		return "string"
	case t == rawType, t.Kind() == reflect.Interface:
		return "any"
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return "array"
	}
	return ""
}

// tagFault says what is wrong with a piece of a tag, "" where nothing is.
func tagFault(f field, kind, word, value string) string {
	switch word {
	case "title", "description", "oneof_required", "anyof_required":
		return ""
	}
	known := slices.Contains(tagWords[kind], word)
	if kind == "array" {
		if strings.Contains(value, "=") {
			return "the value of an array's option holds a =, which is not supported"
		}
		elem := typeOfSchema(bare(bare(f.typ).Elem()))
		if !known || word == "format" || word == "pattern" {
			// What an array has no use for is passed on to its elements.
			kind, known = elem, slices.Contains(tagWords[elem], word) && elem != "array" && elem != "any"
		} else if word == "default" && elem != "string" {
			return "only arrays of texts can have a default in a tag"
		}
	}
	if !known {
		return "has no effect on this type; remove it"
	}
	return valueFault(kind, word, value)
}

func valueFault(kind, word, value string) string {
	switch word {
	case "minLength", "maxLength", "minItems", "maxItems":
		if _, err := strconv.ParseUint(value, 10, 31); err != nil {
			return "the value is no count"
		}
	case "readOnly", "writeOnly":
		if _, err := strconv.ParseBool(value); err != nil {
			return "the value is neither true nor false"
		}
	case "uniqueItems":
		if value != "true" {
			return "the value has to be true"
		}
	case "oneof_type", "anyof_type":
		for name := range strings.SplitSeq(value, ";") {
			if !slices.Contains(typeNames, name) {
				return quote(name, maxQuoted) + " is no type"
			}
		}
	default:
		switch kind {
		case "number":
			if _, ok := settleNumber(json.Number(value)); !ok {
				return "the value is no number"
			}
		case "boolean":
			if value != "true" && value != "false" {
				return "the value is neither true nor false"
			}
		}
	}
	return ""
}
