package jsonschema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	invopop "github.com/invopop/jsonschema"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// Reflect returns the schema of a Go type: the values that DecodeInto accepts
// for it, as far as a schema can say. Pointers at the root are looked through.
//
//	struct          closed object; a field is required unless it has omitempty or
//	                omitzero, or a default, or is reached through an embedded
//	                pointer; the tag jsonschema:"required" asks for it always.
//	                "required" is sorted, so that moving a field changes no hash
//	struct{}        {"type":"object","properties":{},"additionalProperties":false}
//	*T              as T: a pointer is no more optional than its T; null is
//	                allowed with the tag jsonschema:"nullable" (then anyOf)
//	int8 ... uint64 integer with the bounds of the type; int and int64 have
//	                none, since no number here is that large
//	[]byte          base64 text
//	map[K]T         object of T; integer keys as encoding/json reads them
//	any, RawMessage {}
//	time.Time       text, date-time; a type with UnmarshalText: text
//	json.Number     number
//
// Names and options come from the tag "json", the rest from the tags of
// invopop/jsonschema: jsonschema:"description=the file,minLength=1,enum=a,enum=b"
// (a comma in a value is written \\,), jsonschema_description and
// jsonschema_extras. A type can give its own schema with a method
// JSONSchema() *jsonschema.Schema of that package.
//
// Refused with code config, naming the type and the way to the field: types
// that contain themselves; func, chan, complex, uintptr and unsafe pointers;
// interfaces with methods; types with their own JSON encoding (MarshalJSON,
// UnmarshalJSON) and no JSONSchema method; url.URL; two fields for one member;
// the tag json:"-,"; the option ",string" on texts; a tag that is not
// understood or cannot apply; a default that does not fit its own schema.
//
// The result is kept by type and shared: it is read-only. Reflect may be called
// from several goroutines. It panics for no type, also where a method of the
// type does.
func Reflect(t reflect.Type) (any, error) {
	if t == nil {
		return nil, errs.New(errs.Config, "schema", "", "there is no type")
	}
	if r, ok := reflected.Load(t); ok {
		return r.(reflection).tree, r.(reflection).err
	}
	tree, err := reflectType(t)
	reflected.Store(t, reflection{tree, err})
	return tree, err
}

// reflected holds the result for each type.
var reflected sync.Map // reflect.Type -> reflection

type reflection struct {
	tree any
	err  error
}

func reflectType(t reflect.Type) (tree any, err error) {
	defer func() {
		if r := recover(); r != nil {
			tree, err = nil, refuseType(t, "", fmt.Sprintf("reflection failed: %v", r))
		}
	}()
	t = bare(t)
	if err := inspect(t); err != nil {
		return nil, err
	}
	text, err := json.Marshal(newReflector().ReflectFromType(t))
	if err != nil {
		return nil, refuseType(t, "", "the schema cannot be encoded: "+err.Error())
	}
	tree, err = jcs.Parse(text)
	if err != nil {
		return nil, refuseType(t, "", "the schema cannot be read: "+err.Error())
	}
	if obj, ok := tree.(map[string]any); ok {
		delete(obj, "$schema") // these name the package, and would be hashed
		delete(obj, "$id")
	}
	f := fitter{root: t}
	if tree, err = f.fit(tree, t, ""); err != nil {
		return nil, err
	}
	if err := Check(tree); err != nil {
		return nil, errs.Wrap(errs.Config, "schema", typeName(t), "", err)
	}
	return tree, nil
}

// refuseType returns the error for a type and the way to a part of it.
func refuseType(root reflect.Type, way, msg string) error {
	return errs.New(errs.Config, "schema", typeName(root)+way, msg)
}

// bare looks through pointers.
func bare(t reflect.Type) reflect.Type {
	for i := 0; t.Kind() == reflect.Pointer && i < maxDepth; i++ {
		t = t.Elem()
	}
	return t
}

// newReflector returns a reflector that makes one tree without references.
// That would never end for a type that contains itself, which is why [inspect]
// runs first; the count in the mapper, which is asked about every type, holds
// should a method of a type lead elsewhere.
func newReflector() *invopop.Reflector {
	asked := 0
	return &invopop.Reflector{
		Anonymous:      true,
		DoNotReference: true,
		Mapper: func(t reflect.Type) *invopop.Schema {
			if asked++; asked > 4*MaxSubschemas {
				panic("the type does not come to an end")
			}
			return mapped(t)
		},
	}
}

// mapped returns the schema of a type that is not left to the reflector, a new
// one on each call since tags are written into it; else nil.
func mapped(t reflect.Type) *invopop.Schema {
	if c, ok := reflect.New(t).Interface().(interface{ JSONSchema() *invopop.Schema }); ok {
		s := *c.JSONSchema()
		return &s
	}
	switch {
	case t == timeType, t == rawType:
		return nil
	case t == numberType:
		return &invopop.Schema{Type: "number"}
	case readsText(t):
		return &invopop.Schema{Type: "string"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &invopop.Schema{Type: "string", ContentEncoding: "base64"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &invopop.Schema{Type: "boolean"}
	case reflect.String:
		return &invopop.Schema{Type: "string"}
	case reflect.Float32, reflect.Float64:
		return &invopop.Schema{Type: "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &invopop.Schema{Type: "integer"}
	}
	return nil
}
