package jcs

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Marshal returns the canonical form of any Go value that encoding/json can
// write, with its rules for tags, marshalers and nil (a nil slice is null).
//
// The error is the encoder's, or a *[SyntaxError]: for an integer that would
// be written as another number ([ErrInexact], anything beyond 2^53 that is not
// its own shortest float64), and for a string that is not valid UTF-8
// ([ErrUTF8]), which encoding/json would replace without a word. Strings that
// a json.Marshaler has already turned into text are beyond reach.
func Marshal(v any) ([]byte, error) {
	buf := encodings.Get().(*bytes.Buffer)
	defer keepEncoding(buf)
	buf.Reset()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	text := buf.Bytes()
	if replaced(text) {
		w := stringWalk{seen: map[visit]bool{}}
		if err := w.value(reflect.ValueOf(v), 0); err != nil {
			return nil, err.located()
		}
	}
	out, err := appendText(make([]byte, 0, len(text)), view(text), 0, exact)
	if err != nil {
		err.Offset = -1 // the text is not one that the caller knows
		return nil, err.located()
	}
	return out, nil
}

var encodings = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepEncoding is keepBuffer for the encoder's buffers.
func keepEncoding(buf *bytes.Buffer) {
	if buf.Cap() <= 1<<20 {
		encodings.Put(buf)
	}
}

// replaced reports whether text holds U+FFFD in either spelling, which is
// where the encoder may have dropped invalid bytes.
func replaced(text []byte) bool {
	return bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte("\ufffd"))
}

// stringWalk looks for strings that are not valid UTF-8 in a value that
// encoding/json has written. It goes where the encoder goes, which has also
// refused cycles; seen guards what the encoder leaves out, such as a struct
// that embeds a pointer to itself.
type stringWalk struct {
	seen map[visit]bool
}

type visit struct {
	at  uintptr
	typ reflect.Type
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// value looks at v and what it holds.
func (w *stringWalk) value(v reflect.Value, depth int) *SyntaxError {
	if !v.IsValid() {
		return nil
	}
	if depth > 2*MaxDepth {
		return tooDeep()
	}
	if v.Type().Implements(jsonMarshaler) || v.CanAddr() && v.Addr().Type().Implements(jsonMarshaler) {
		return nil
	}
	if text, ok := marshaledText(v); ok {
		return checkUTF8(text)
	}
	switch v.Kind() {
	case reflect.String:
		return checkUTF8(v.String())
	case reflect.Pointer:
		key := visit{v.Pointer(), v.Type()}
		if v.IsNil() || w.seen[key] {
			return nil
		}
		w.seen[key] = true
		return w.value(v.Elem(), depth+1)
	case reflect.Interface:
		return w.value(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		return w.list(v, depth)
	case reflect.Map:
		return w.members(v, depth)
	case reflect.Struct:
		return w.fields(v, depth)
	default:
		return nil
	}
}

// list looks at the elements of v.
func (w *stringWalk) list(v reflect.Value, depth int) *SyntaxError {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return nil // written as base64, or as numbers
	}
	for i := range v.Len() {
		if err := w.value(v.Index(i), depth+1); err != nil {
			return err.under(strconv.Itoa(i))
		}
	}
	return nil
}

// members looks at the keys and values of the map v.
func (w *stringWalk) members(v reflect.Value, depth int) *SyntaxError {
	for it := v.MapRange(); it.Next(); {
		name, isText := it.Key().String(), it.Key().Kind() == reflect.String
		if text, ok := marshaledText(it.Key()); ok && !isText {
			name, isText = text, true
		}
		if isText {
			if err := checkUTF8(name); err != nil {
				err.Msg = "map key is not valid UTF-8"
				return err.under(name)
			}
		}
		if err := w.value(it.Value(), depth+1); err != nil {
			return err.under(name)
		}
	}
	return nil
}

// fields looks at the fields that the encoder writes.
func (w *stringWalk) fields(v reflect.Value, depth int) *SyntaxError {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous || v.Field(i).IsZero() {
			continue // not written, or holding nothing
		}
		err := w.value(v.Field(i), depth+1)
		switch {
		case err == nil:
		case name != "":
			return err.under(name)
		case f.Anonymous:
			return err
		default:
			return err.under(f.Name)
		}
	}
	return nil
}

// marshaledText returns what v's MarshalText method gives, where it has one
// that the encoder would call.
func marshaledText(v reflect.Value) (string, bool) {
	if v.CanAddr() && !v.Type().Implements(textMarshaler) {
		v = v.Addr()
	}
	if !v.Type().Implements(textMarshaler) || !v.CanInterface() {
		return "", false
	}
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return "", false
	}
	text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	return string(text), err == nil
}

// checkUTF8 returns an error where s is not valid UTF-8.
func checkUTF8(s string) *SyntaxError {
	if utf8.ValidString(s) {
		return nil
	}
	return refuse(ErrUTF8, -1, "string is not valid UTF-8")
}
