package jsonschema

import (
	"encoding"
	"encoding/json"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	invopop "github.com/invopop/jsonschema"
)

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
	urlType  = reflect.TypeFor[url.URL]()

	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	ownSchemaType     = reflect.TypeFor[interface{ JSONSchema() *invopop.Schema }]()
	extendsType       = reflect.TypeFor[interface{ JSONSchemaExtend(*invopop.Schema) }]()
	aliasType         = reflect.TypeFor[interface{ JSONSchemaAlias() any }]()
	propertyType      = reflect.TypeFor[interface{ JSONSchemaProperty(string) any }]()
)

// has reports whether t or *t has the methods of an interface.
func has(t, methods reflect.Type) bool {
	return t.Implements(methods) || reflect.PointerTo(t).Implements(methods)
}

func readsText(t reflect.Type) bool { return has(t, textUnmarshalerType) }

// inspector walks a type before the reflector does, and finds what that would
// get wrong.
type inspector struct {
	root  reflect.Type
	open  map[reflect.Type]bool
	sizes map[reflect.Type]int // finished types: how many schemas they make
}

func inspect(t reflect.Type) error {
	in := inspector{root: t, open: map[reflect.Type]bool{}, sizes: map[reflect.Type]int{}}
	_, err := in.typ(t, "")
	return err
}

func (in *inspector) refuse(way, msg string) error { return refuseType(in.root, way, msg) }

// typ inspects t, which is at the given way from the root, and returns how many
// schemas it makes.
func (in *inspector) typ(t reflect.Type, way string) (int, error) {
	if size, ok := in.sizes[t]; ok {
		return size, nil
	}
	if in.open[t] {
		return 0, in.refuse(way, "the type "+typeName(t)+" contains itself; recursive schemas are not supported, bound the nesting")
	}
	in.open[t] = true
	defer delete(in.open, t)
	size, err := in.kind(t, way)
	if err != nil {
		return 0, err
	}
	if size++; size > MaxSubschemas {
		return 0, in.refuse(way, "the type makes more than 5000 schemas")
	}
	in.sizes[t] = size
	return size, nil
}

// kind inspects the parts of t and adds up what they make.
func (in *inspector) kind(t reflect.Type, way string) (int, error) {
	if t.Kind() == reflect.Pointer {
		return in.typ(t.Elem(), way)
	}
	if done, err := in.special(t, way); done || err != nil {
		return 0, err
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return 0, nil
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return 0, nil
		}
		return 0, in.refuse(way, "no JSON value becomes the interface "+typeName(t)+"; use a concrete type, or any")
	case reflect.Slice, reflect.Array:
		return in.typ(t.Elem(), way+"[]")
	case reflect.Map:
		return in.mapType(t, way)
	case reflect.Struct:
		return in.structType(t, way)
	}
	return 0, in.refuse(way, "no JSON value becomes a "+typeName(t)+"; leave the field out with json:\"-\"")
}

// special inspects types that are not described by their kind.
func (in *inspector) special(t reflect.Type, way string) (done bool, err error) {
	switch {
	case t == timeType, t == rawType, t == numberType:
		return true, nil
	case t == urlType:
		return false, in.refuse(way, "url.URL is read from an object of its fields; use a text, or a type with UnmarshalText")
	case has(t, aliasType), has(t, propertyType):
		return false, in.refuse(way, "the methods JSONSchemaAlias and JSONSchemaProperty of "+typeName(t)+" are not supported; use JSONSchema")
	case has(t, ownSchemaType):
		if borrowed(t) {
			return false, in.refuse(way, "JSONSchema comes from a type that "+typeName(t)+" embeds, and does not describe the rest; declare it on the type itself")
		}
		if reflect.New(t).Interface().(interface{ JSONSchema() *invopop.Schema }).JSONSchema() == nil {
			return false, in.refuse(way, "JSONSchema of "+typeName(t)+" returns nil")
		}
		return true, nil
	case has(t, marshalerType), has(t, unmarshalerType):
		return false, in.refuse(way, "the type "+typeName(t)+" has its own JSON form; add a method JSONSchema to it, or give the schema explicitly")
	case readsText(t):
		return true, nil
	case has(t, textMarshalerType):
		return false, in.refuse(way, "the type "+typeName(t)+" writes itself as text but cannot read it; add UnmarshalText")
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		if e := t.Elem(); readsText(e) || has(e, unmarshalerType) || has(e, marshalerType) || has(e, textMarshalerType) {
			return false, in.refuse(way, "the elements of "+typeName(t)+" have their own form; use another element type than a byte")
		}
		return true, nil
	}
	return false, nil
}

// borrowed reports whether the JSONSchema method of t is that of an embedded
// type. A promoted method is code that the compiler made, which has no file.
func borrowed(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	embeds := false
	for i := range t.NumField() {
		sf := t.Field(i)
		embeds = embeds || sf.Anonymous && has(bare(sf.Type), ownSchemaType)
	}
	if !embeds {
		return false
	}
	for _, receiver := range []reflect.Type{t, reflect.PointerTo(t)} {
		if m, ok := receiver.MethodByName("JSONSchema"); ok {
			pc := m.Func.Pointer()
			if file, _ := runtime.FuncForPC(pc).FileLine(pc); file != "<autogenerated>" {
				return false
			}
		}
	}
	return true
}

func (in *inspector) mapType(t reflect.Type, way string) (int, error) {
	if mapKey(t.Key()) == nil {
		return 0, in.refuse(way, "a member name cannot become a "+typeName(t.Key())+"; use text or integer keys")
	}
	return in.typ(t.Elem(), way+"[key]")
}

func (in *inspector) structType(t reflect.Type, way string) (int, error) {
	if err := in.tags(t, way); err != nil {
		return 0, err
	}
	fields, ambiguous := structFields(t)
	if len(ambiguous) > 0 {
		return 0, in.refuse(way, "several fields claim the member "+quote(ambiguous[0], maxQuoted)+"; rename all but one")
	}
	size := 0
	for _, f := range fields {
		below := way + "." + f.source.Name
		n, err := in.typ(f.typ, below)
		if err != nil {
			return 0, err
		}
		size += n
		if err := in.field(f, below); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// tags looks at the json tags of all fields, also at those that encoding/json
// and the reflector disagree about.
func (in *inspector) tags(t reflect.Type, way string) error {
	for i := range t.NumField() {
		sf := t.Field(i)
		below := way + "." + sf.Name
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" && sf.Tag.Get("json") != "-" {
			return in.refuse(below, `the tag json:"-," names a member "-"; write json:"-" to leave the field out, or choose a name`)
		}
		if name == "-" || !sf.Anonymous && !sf.IsExported() {
			continue
		}
		if name != "" && !validName(name) {
			return in.refuse(below, "the name in the json tag is not one that encoding/json takes")
		}
		for option := range strings.SplitSeq(options, ",") {
			if !slices.Contains([]string{"", "omitempty", "omitzero", "string", "inline"}, option) || option == "inline" && !sf.Anonymous {
				return in.refuse(below, "the option "+quote(option, maxQuoted)+" of the json tag is not known")
			}
		}
		if err := in.embedded(sf, name, below); err != nil {
			return err
		}
	}
	return nil
}

// embedded inspects a field that is promoted or is a field by its type's name.
func (in *inspector) embedded(sf reflect.StructField, name, way string) error {
	if !sf.Anonymous || name != "" {
		return nil
	}
	elem := sf.Type
	if elem.Kind() == reflect.Pointer {
		elem = elem.Elem()
	}
	switch {
	case elem.Kind() != reflect.Struct && !sf.IsExported():
		return in.refuse(way, "the embedded type is not exported, so nothing can be read into it")
	case sf.Type.Kind() == reflect.Pointer && !sf.IsExported():
		return in.refuse(way, "the embedded pointer is not exported, so nothing can be read into it")
	case elem.Kind() == reflect.Struct:
		// Its own forms are those of the outer type, which was looked at; what
		// is left is walked as part of the outer type.
		if in.open[elem] {
			return in.refuse(way, "the type "+typeName(elem)+" contains itself")
		}
		in.open[elem] = true
		defer delete(in.open, elem)
		return in.tags(elem, way)
	}
	return nil
}
