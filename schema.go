package rulvar

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// Schema is a compiled JSON Schema with a decoder to T. It is made by
// [SchemaOf], [SchemaPair] or [SchemaLiteral], is immutable and may be used by
// any number of goroutines. The zero Schema is refused wherever one is taken.
//
// The supported subset is draft 2020-12 without remote, dynamic or recursive
// references; patterns are RE2. Formats are asserted.
type Schema[T any] struct {
	compiledSchema
	decode func(json.RawMessage) (T, error)
}

// compiledSchema is the part of a schema that does not depend on T.
type compiledSchema struct {
	declared  json.RawMessage // what a model is shown
	canonical []byte          // what is hashed
	hash      string
	validator *jsonschema.Validator
	object    bool // the root accepts objects only, as providers demand of tools
}

// JSON returns the schema as it is shown to a model.
func (s Schema[T]) JSON() json.RawMessage { return append(json.RawMessage(nil), s.declared...) }

// Hash returns the sha256, in hex, of the canonical schema. Titles,
// descriptions, defaults and examples do not enter it.
func (s Schema[T]) Hash() string { return s.hash }

// SchemaOf reflects the schema of a Go type. Names and optional members follow
// encoding/json (omitempty and omitzero make a member optional); bounds,
// enumerations, defaults and descriptions come from `jsonschema:"…"` tags.
// Objects are closed. A type that JSON cannot carry faithfully (recursive,
// func, chan, an interface other than any, a custom marshaler without a
// schema) is an [ErrConfig] that names the type and the field.
func SchemaOf[T any]() (Schema[T], error) {
	t := reflect.TypeFor[T]()
	tree, err := jsonschema.Reflect(t)
	if err != nil {
		return Schema[T]{}, errs.Wrap(errs.Config, "SchemaOf", t.String(), "", err)
	}
	declared, err := jcs.AppendTree(nil, tree)
	if err != nil {
		return Schema[T]{}, errs.Wrap(errs.Config, "SchemaOf", t.String(), "", err)
	}
	c, err := compileSchema(tree, declared)
	if err != nil {
		return Schema[T]{}, errs.Wrap(errs.Config, "SchemaOf", t.String(), "", err)
	}
	return Schema[T]{compiledSchema: c, decode: decodeAs[T]}, nil
}

// SchemaPair takes a schema and a decoder that may refuse what the schema
// lets through. The decoder gets validated canonical JSON with defaults
// applied. A panic of the decoder is a refusal.
func SchemaPair[T any](schema json.RawMessage, decode func(json.RawMessage) (T, error)) (Schema[T], error) {
	if decode == nil {
		return Schema[T]{}, errs.New(errs.Config, "SchemaPair", "", "the decoder is nil")
	}
	c, err := parseSchema(schema)
	if err != nil {
		return Schema[T]{}, errs.Wrap(errs.Config, "SchemaPair", "", "", err)
	}
	return Schema[T]{compiledSchema: c, decode: guardDecoder(decode)}, nil
}

// SchemaLiteral takes a schema as it is. Values are validated and handed on as
// canonical JSON.
func SchemaLiteral(schema json.RawMessage) (Schema[json.RawMessage], error) {
	c, err := parseSchema(schema)
	if err != nil {
		return Schema[json.RawMessage]{}, errs.Wrap(errs.Config, "SchemaLiteral", "", "", err)
	}
	return Schema[json.RawMessage]{compiledSchema: c, decode: func(in json.RawMessage) (json.RawMessage, error) { return in, nil }}, nil
}

func parseSchema(text json.RawMessage) (compiledSchema, error) {
	tree, err := jcs.Parse(text)
	if err != nil {
		return compiledSchema{}, err
	}
	return compileSchema(tree, append(json.RawMessage(nil), text...))
}

func compileSchema(tree any, declared json.RawMessage) (compiledSchema, error) {
	if err := jsonschema.Check(tree); err != nil {
		return compiledSchema{}, err
	}
	canonTree, err := jsonschema.Canonical(tree)
	if err != nil {
		return compiledSchema{}, err
	}
	canonical, err := jcs.AppendTree(nil, canonTree)
	if err != nil {
		return compiledSchema{}, err
	}
	validator, err := jsonschema.Compile(tree)
	if err != nil {
		return compiledSchema{}, err
	}
	root, _ := canonTree.(map[string]any)
	return compiledSchema{
		declared: declared,

		canonical: canonical,
		hash:      jcs.Sum(canonical),
		validator: validator,
		object:    root["type"] == "object",
	}, nil
}

// closed reports whether every object of the canonical schema is closed and
// requires all its members, which providers demand of a native schema.
func (s *compiledSchema) closed() bool {
	tree, err := jcs.Parse(s.canonical)
	return err == nil && closedTree(tree)
}

func closedTree(tree any) bool {
	switch t := tree.(type) {
	case []any:
		for _, v := range t {
			if !closedTree(v) {
				return false
			}
		}
	case map[string]any:
		props, isObject := t["properties"].(map[string]any)
		if t["type"] == "object" || isObject {
			required, _ := t["required"].([]any)
			if t["additionalProperties"] != false || len(required) < len(props) {
				return false
			}
		}
		for _, v := range t {
			if !closedTree(v) {
				return false
			}
		}
	}
	return true
}

func decodeAs[T any](in json.RawMessage) (T, error) {
	var v T
	tree, err := jcs.Parse(in)
	if err != nil {
		return v, err
	}
	err = jsonschema.DecodeInto(in, tree, &v)
	return v, err
}

func guardDecoder[T any](decode func(json.RawMessage) (T, error)) func(json.RawMessage) (T, error) {
	return func(in json.RawMessage) (v T, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the decoder failed unexpectedly")
			}
		}()
		return decode(in)
	}
}
