package jsonschema_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// genType makes types that have a schema.
func genType(depth int) *rapid.Generator[reflect.Type] {
	return rapid.Custom(func(t *rapid.T) reflect.Type {
		leaves := []reflect.Type{
			typeOf[bool](), typeOf[string](), typeOf[int](), typeOf[int8](), typeOf[int16](), typeOf[int32](), typeOf[int64](),
			typeOf[uint](), typeOf[uint8](), typeOf[uint16](), typeOf[uint32](), typeOf[uint64](), typeOf[float64](),
			typeOf[any](), typeOf[json.RawMessage](), typeOf[json.Number](), typeOf[[]byte](), typeOf[time.Time](), typeOf[netip.Addr](),
			typeOf[Same](), typeOf[base](), typeOf[level](), typeOf[map[int8]string](), typeOf[struct{}](),
		}
		leaf := rapid.SampledFrom(leaves)
		if depth == 0 {
			return leaf.Draw(t, "leaf")
		}
		switch rapid.SampledFrom([]string{"leaf", "pointer", "slice", "array", "map", "struct", "struct", "struct"}).Draw(t, "kind") {
		case "pointer":
			return reflect.PointerTo(genType(depth-1).Draw(t, "elem"))
		case "slice":
			return reflect.SliceOf(genType(depth-1).Draw(t, "elem"))
		case "array":
			return reflect.ArrayOf(rapid.IntRange(0, 3).Draw(t, "length"), genType(depth-1).Draw(t, "elem"))
		case "map":
			key := rapid.SampledFrom([]reflect.Type{typeOf[string](), typeOf[int](), typeOf[uint16]()}).Draw(t, "key")
			return reflect.MapOf(key, genType(depth-1).Draw(t, "elem"))
		case "struct":
			var fields []reflect.StructField
			for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
				f := reflect.StructField{Name: fmt.Sprint("F", i), Type: genType(depth-1).Draw(t, "field")}
				switch rapid.IntRange(0, 4).Draw(t, "tag") {
				case 0:
					f.Tag = reflect.StructTag(fmt.Sprintf(`json:"f%d,omitempty"`, i))
				case 1:
					f.Tag = reflect.StructTag(fmt.Sprintf(`json:"f%d,omitzero" jsonschema:"description=a\\, b"`, i))
				case 2:
					f.Tag = `json:",string"`
					if f.Type.Kind() == reflect.String || f.Type == typeOf[json.Number]() || f.Type == typeOf[level]() || f.Type.Kind() == reflect.Pointer {
						f.Tag = ""
					}
				case 3:
					f.Tag = `jsonschema:"nullable"`
				}
				fields = append(fields, f)
			}
			return reflect.StructOf(fields)
		}
		return leaf.Draw(t, "leaf")
	})
}

// genValue makes a value that fits the schema of a Go type.
func genValue(t *rapid.T, schema any) any {
	obj := schema.(map[string]any)
	if alternatives, ok := obj["anyOf"].([]any); ok {
		return genValue(t, rapid.SampledFrom(alternatives).Draw(t, "alternative"))
	}
	if list, ok := obj["enum"].([]any); ok {
		return rapid.SampledFrom(list).Draw(t, "enum")
	}
	switch obj["type"] {
	case "null":
		return nil
	case "boolean":
		return rapid.Bool().Draw(t, "bool")
	case "integer":
		low, high := bound(obj, "minimum", -1<<53+1), bound(obj, "maximum", 1<<53-1)
		n := rapid.Int64Range(low, high).Draw(t, "integer")
		return json.Number(fmt.Sprintf(rapid.SampledFrom([]string{"%d", "%d.0", "%de0", "%d.000e0"}).Draw(t, "spelling"), n))
	case "number":
		return json.Number(rapid.SampledFrom([]string{"0", "-1.5", "1e100", "1E-7", "123456789012", "-0"}).Draw(t, "number"))
	case "string":
		return genText(t, obj)
	case "array":
		list := []any{}
		for range rapid.Int64Range(bound(obj, "minItems", 0), bound(obj, "maxItems", 3)).Draw(t, "length") {
			list = append(list, genValue(t, obj["items"]))
		}
		return list
	case "object":
		return genObject(t, obj)
	}
	return rapid.SampledFrom([]any{nil, true, "x", json.Number("1.5"), []any{json.Number("1")}, map[string]any{"b": nil, "a": "é<"}}).Draw(t, "any")
}

func bound(obj map[string]any, word string, otherwise int64) int64 {
	n, ok := obj[word].(json.Number)
	if !ok {
		return otherwise
	}
	v, err := n.Int64()
	if err != nil {
		panic(err)
	}
	return v
}

func genText(t *rapid.T, obj map[string]any) any {
	switch {
	case obj["format"] == "date-time":
		return rapid.SampledFrom([]string{"2024-02-29T23:59:59Z", "0001-01-01T00:00:00.5-23:59"}).Draw(t, "time")
	case obj["contentEncoding"] == "base64":
		return base64.StdEncoding.EncodeToString(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case obj["pattern"] != nil:
		return rapid.SampledFrom([]string{"0", "17", "120"}).Draw(t, "digits")
	}
	return rapid.SampledFrom([]string{"::1", "1.2.3.4"}).Draw(t, "text") // a netip.Addr may read it
}

func genObject(t *rapid.T, obj map[string]any) any {
	out := map[string]any{}
	required := map[any]bool{}
	if list, ok := obj["required"].([]any); ok {
		for _, name := range list {
			required[name] = true
		}
	}
	if props, ok := obj["properties"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(props)) {
			if required[name] || rapid.Bool().Draw(t, "present") {
				out[name] = genValue(t, props[name])
			}
		}
	}
	keys := rapid.SampledFrom([]string{"1", "20", "125"})
	if rapid.Bool().Draw(t, "more") {
		if patterns, ok := obj["patternProperties"].(map[string]any); ok {
			for _, p := range patterns {
				out[keys.Draw(t, "key")] = genValue(t, p)
			}
		}
		if p, ok := obj["additionalProperties"].(map[string]any); ok {
			out["k"] = genValue(t, p)
		}
	}
	return out
}

// For every type: what fits its schema decodes, what was decoded is written
// back as something that fits and decodes too, and encoding/json reads the
// canonical text in the same way.
func TestReflectedValuesDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := genType(3).Draw(t, "type")
		schema, err := jsonschema.Reflect(typ)
		require.NoError(t, err, "%s", typ)
		v, err := jsonschema.Compile(schema)
		require.NoError(t, err)
		value := genValue(t, schema)
		require.Nil(t, v.Validate(value), "%s <- %v", typ, value)
		require.True(t, v.Valid(value))
		_, found := v.FoldConflict(value)
		require.False(t, found)

		dst := reflect.New(typ)
		require.NoError(t, jsonschema.DecodeInto(nil, value, dst.Interface()), "%s <- %v", typ, value)
		canonical, err := jcs.AppendTree(nil, value)
		require.NoError(t, err)
		std := reflect.New(typ)
		require.NoError(t, json.Unmarshal(canonical, std.Interface()), "%s", canonical)
		require.Equal(t, std.Elem().Interface(), dst.Elem().Interface())

		written, err := json.Marshal(dst.Interface())
		require.NoError(t, err)
		again, err := jcs.Parse(written)
		require.NoError(t, err)
		if !holdsNil(dst.Elem()) { // a nil slice or pointer is written as null, which the schema does not know
			require.Nil(t, v.Validate(again), "%s -> %s", canonical, written)
		}
		second := reflect.New(typ)
		require.NoError(t, jsonschema.DecodeInto(written, again, second.Interface()))
	})
}

// holdsNil reports whether v holds a nil that encoding/json writes as null.
func holdsNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || holdsNil(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.IsNil() {
			return true
		}
		for i := range v.Len() {
			if holdsNil(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if holdsNil(v.MapIndex(k)) {
				return true
			}
		}
		return v.IsNil()
	case reflect.Struct:
		if v.Type() == typeOf[time.Time]() || v.Type() == typeOf[netip.Addr]() {
			return v.IsZero()
		}
		for i := range v.NumField() {
			if holdsNil(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// A value that does not fit never makes decoding panic, and the error names a
// place.
func TestDecodeAnythingIntoAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ, other := genType(2).Draw(t, "type"), genType(2).Draw(t, "other")
		schema, err := jsonschema.Reflect(other)
		require.NoError(t, err)
		value := genValue(t, schema)
		err = jsonschema.DecodeInto(nil, value, reflect.New(typ).Interface())
		if err != nil {
			require.NotContains(t, err.Error(), "panicked")
			require.Contains(t, err.Error(), "#")
		}
	})
}
