package jsonschema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

// DecodeInto decodes a value into dst, a non-nil pointer, with the rules of
// encoding/json and these exceptions:
//
//   - a member reaches a field only under exactly its name, whatever the case;
//   - a number means its canonical text, so 1.0 and 1e2 are integers;
//   - keys of a map that become equal (as "1" and "01" in a map[int]T) are
//     refused;
//   - elements beyond the length of a Go array are refused;
//   - slices, maps and pointers come out new, nothing of dst is reused.
//
// Types with an UnmarshalJSON get the canonical text of their part. canonical
// is the canonical text of tree, or nil; where it is nil it is made as needed.
//
// The error has code invalid-arguments and names the place in the value, for
// instance "#/n: 300 does not fit uint8". dst is then partly filled. A panic of
// an UnmarshalJSON or UnmarshalText is returned as such an error. DecodeInto
// may be called from several goroutines with different dst.
func DecodeInto(canonical []byte, tree any, dst any) (err error) {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return errs.New(errs.Config, "decode", "", fmt.Sprintf("the destination is a %T, must be a non-nil pointer", dst))
	}
	defer func() {
		if r := recover(); r != nil {
			err = errs.New(errs.InvalidArguments, "decode", "#", fmt.Sprintf("decoding a %s panicked", v.Type().Elem()))
		}
	}()
	d := decoding{root: tree, canonical: canonical}
	if bad := decoderOf(v.Type().Elem())(&d, tree, v.Elem()); bad != nil {
		return errs.Wrap(errs.InvalidArguments, "decode", clip(bad.location(), maxLocation), bad.msg, bad.cause)
	}
	return nil
}

// Decode is [DecodeInto] a new T.
func Decode[T any](canonical []byte, tree any) (T, error) {
	var v T
	err := DecodeInto(canonical, tree, &v)
	return v, err
}

// decoding is one call of DecodeInto.
type decoding struct {
	root      any
	canonical []byte
}

// text returns the canonical text of a part. Its bytes may be kept.
func (d *decoding) text(part any) ([]byte, *misfit) {
	if d.canonical != nil && isRoot(d.root, part) {
		return slices.Clone(d.canonical), nil
	}
	text, err := jcs.AppendTree(nil, part)
	if err != nil {
		return nil, misfitf("%v", err)
	}
	return text, nil
}

// isRoot reports whether part is the whole value; for values without identity
// it says no, and their text is made anew.
func isRoot(root, part any) bool {
	switch r := root.(type) {
	case map[string]any:
		p, ok := part.(map[string]any)
		return ok && reflect.ValueOf(r).UnsafePointer() == reflect.ValueOf(p).UnsafePointer()
	case []any:
		p, ok := part.([]any)
		return ok && len(r) == len(p) && len(r) > 0 && &r[0] == &p[0]
	}
	return false
}

// misfit says that a part does not fit its Go type.
type misfit struct {
	badValue
	cause error
}

func misfitf(format string, args ...any) *misfit {
	return &misfit{badValue: badValue{msg: fmt.Sprintf(format, args...)}}
}

func (m *misfit) under(tok string) *misfit {
	m.toks = append(m.toks, tok)
	return m
}

// wrong says that a part has the wrong JSON type for t.
func wrong(part any, t reflect.Type) *misfit {
	return misfitf("%s does not fit %s", article(part), typeName(t))
}

// typeName names a Go type, cut where it is a long literal.
func typeName(t reflect.Type) string { return clip(t.String(), 80) }

// decoder decodes a part into an addressable, settable value.
type decoder func(d *decoding, part any, dst reflect.Value) *misfit

// decoders holds the decoder of each type that was seen.
var decoders sync.Map // reflect.Type -> decoder

// decoderOf returns the decoder of t, which may refer to itself.
func decoderOf(t reflect.Type) decoder {
	if f, ok := decoders.Load(t); ok {
		return f.(decoder)
	}
	// While the decoder of t is being made, its parts find this one.
	var made sync.WaitGroup
	var f decoder
	made.Add(1)
	late := decoder(func(d *decoding, part any, dst reflect.Value) *misfit {
		made.Wait()
		return f(d, part, dst)
	})
	if other, loaded := decoders.LoadOrStore(t, late); loaded {
		return other.(decoder)
	}
	f = newDecoder(t)
	made.Done()
	decoders.Store(t, f)
	return f
}

var (
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
	numberType          = reflect.TypeFor[json.Number]()
)

// newDecoder returns a decoder for t. The ways of a type to decode itself come
// first, pointers before what they point to.
func newDecoder(t reflect.Type) decoder {
	if t.Kind() != reflect.Pointer && t.Name() != "" {
		switch p := reflect.PointerTo(t); {
		case p.Implements(unmarshalerType):
			return decodeItself
		case p.Implements(textUnmarshalerType):
			return decodeFromText
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return pointerDecoder(t)
	case reflect.Struct:
		return structDecoder(t)
	case reflect.Map:
		return mapDecoder(t)
	case reflect.Slice:
		return sliceDecoder(t)
	case reflect.Array:
		return arrayDecoder(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return decodeAny
		}
	case reflect.Bool:
		return decodeBool
	case reflect.String:
		if t == numberType {
			return decodeNumber
		}
		return decodeString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return decodeUint
	case reflect.Float32, reflect.Float64:
		return decodeFloat
	}
	return func(_ *decoding, part any, dst reflect.Value) *misfit {
		if part == nil {
			return decodeNull(dst)
		}
		return misfitf("no JSON value but null fits %s", typeName(dst.Type()))
	}
}

func decodeItself(d *decoding, part any, dst reflect.Value) *misfit {
	text, bad := d.text(part)
	if bad != nil {
		return bad
	}
	if err := dst.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text); err != nil {
		m := misfitf("does not fit %s", typeName(dst.Type()))
		m.cause = err
		return m
	}
	return nil
}

// decodeNull is what a null does to a value that has no other idea of it.
func decodeNull(dst reflect.Value) *misfit {
	switch dst.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
		dst.SetZero()
	}
	return nil
}

func decodeFromText(_ *decoding, part any, dst reflect.Value) *misfit {
	text, ok := part.(string)
	if !ok {
		if part == nil {
			return decodeNull(dst)
		}
		return wrong(part, dst.Type())
	}
	if err := dst.Addr().Interface().(interface{ UnmarshalText([]byte) error }).UnmarshalText([]byte(text)); err != nil {
		m := misfitf("does not fit %s", typeName(dst.Type()))
		m.cause = err
		return m
	}
	return nil
}

func pointerDecoder(t reflect.Type) decoder {
	elem := decoderOf(t.Elem())
	// A named pointer type has no methods of its own, and an unnamed one has
	// those of its element, so there is nothing else to ask.
	return func(d *decoding, part any, dst reflect.Value) *misfit {
		if part == nil {
			dst.SetZero()
			return nil
		}
		p := reflect.New(t.Elem())
		if bad := elem(d, part, p.Elem()); bad != nil {
			return bad
		}
		dst.Set(p)
		return nil
	}
}
