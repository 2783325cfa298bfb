package jsonschema

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
)

// structMember is how one member gets into a struct.
type structMember struct {
	index  []int
	decode decoder
}

func structDecoder(t reflect.Type) decoder {
	fields, _ := structFields(t)
	members := make(map[string]structMember, len(fields))
	for _, f := range fields {
		decode := decoderOf(f.typ)
		if f.quoted {
			decode = quotedDecoder(f.typ, decode)
		}
		members[f.name] = structMember{f.index, decode}
	}
	return func(d *decoding, part any, dst reflect.Value) *misfit {
		obj, ok := part.(map[string]any)
		if !ok {
			if part == nil {
				return nil
			}
			return wrong(part, t)
		}
		var first *misfit
		for name, v := range obj {
			m, ok := members[name]
			if !ok {
				continue
			}
			place, bad := reach(dst, m.index)
			if bad == nil {
				bad = m.decode(d, v, place)
			}
			// The same member is named on every run: the first by name.
			if bad != nil && (first == nil || name < first.toks[len(first.toks)-1]) {
				first = bad.under(name)
			}
		}
		return first
	}
}

// reach returns the field at the index, making the embedded pointers on the way.
func reach(v reflect.Value, index []int) (reflect.Value, *misfit) {
	if len(index) == 1 {
		return v.Field(index[0]), nil
	}
	for i, n := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !v.CanSet() {
					return v, misfitf("the embedded pointer to %s cannot be set", typeName(v.Type().Elem()))
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(n)
	}
	return v, nil
}

// quotedDecoder decodes the option ",string": a text that holds the JSON text of
// the value. A null is allowed, outside the text and in it.
func quotedDecoder(t reflect.Type, decode decoder) decoder {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	isText := t.Kind() == reflect.String && t != numberType
	return func(d *decoding, part any, dst reflect.Value) *misfit {
		if part == nil {
			return decode(d, nil, dst)
		}
		text, ok := part.(string)
		if !ok {
			return misfitf("%s does not fit, the value has to be written as a text", article(part))
		}
		inner, ok := literal(text)
		_, innerText := inner.(string)
		if !ok || innerText != isText && inner != nil {
			return misfitf("the text does not hold a %s", typeName(t))
		}
		return decode(d, inner, dst)
	}
}

// literal reads a JSON literal without blanks around it.
func literal(text string) (any, bool) {
	switch text {
	case "null":
		return nil, true
	case "true", "false":
		return text == "true", true
	case "":
		return nil, false
	}
	if text[0] == '"' {
		var s string
		err := json.Unmarshal([]byte(text), &s)
		return s, err == nil && text[len(text)-1] == '"'
	}
	n, ok := settleNumber(json.Number(text))
	return n, ok
}

func mapDecoder(t reflect.Type) decoder {
	key, elem := mapKey(t.Key()), decoderOf(t.Elem())
	return func(d *decoding, part any, dst reflect.Value) *misfit {
		obj, ok := part.(map[string]any)
		switch {
		case part == nil:
			dst.SetZero()
			return nil
		case !ok || key == nil:
			return wrong(part, t)
		}
		out := reflect.MakeMapWithSize(t, len(obj))
		k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		var first *misfit
		note := func(name string, bad *misfit) {
			if first == nil || name < first.toks[len(first.toks)-1] {
				first = bad.under(name)
			}
		}
		for name, v := range obj {
			k.SetZero()
			e.SetZero()
			if bad := key(name, k); bad != nil {
				note(name, bad)
			} else if bad := elem(d, v, e); bad != nil {
				note(name, bad)
			} else {
				out.SetMapIndex(k, e)
			}
		}
		if first != nil {
			return first
		}
		if out.Len() != len(obj) {
			return misfitf("two member names are the same key of %s", typeName(t))
		}
		dst.Set(out)
		return nil
	}
}

// mapKey returns how a member name becomes a key of the type, nil where it
// cannot.
func mapKey(t reflect.Type) func(name string, key reflect.Value) *misfit {
	misfits := func(name string) *misfit {
		return misfitf("the member name %s does not fit %s", quote(name, maxQuoted), typeName(t))
	}
	if reflect.PointerTo(t).Implements(textUnmarshalerType) {
		return func(name string, key reflect.Value) *misfit {
			err := key.Addr().Interface().(interface{ UnmarshalText([]byte) error }).UnmarshalText([]byte(name))
			if err != nil {
				m := misfits(name)
				m.cause = err
				return m
			}
			return nil
		}
	}
	switch t.Kind() {
	case reflect.String:
		return func(name string, key reflect.Value) *misfit {
			key.SetString(name)
			return nil
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(name string, key reflect.Value) *misfit {
			n, err := strconv.ParseInt(name, 10, t.Bits())
			if err != nil {
				return misfits(name)
			}
			key.SetInt(n)
			return nil
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(name string, key reflect.Value) *misfit {
			n, err := strconv.ParseUint(name, 10, t.Bits())
			if err != nil {
				return misfits(name)
			}
			key.SetUint(n)
			return nil
		}
	}
	return nil
}

func sliceDecoder(t reflect.Type) decoder {
	elem := decoderOf(t.Elem())
	bytes := t.Elem().Kind() == reflect.Uint8
	return func(d *decoding, part any, dst reflect.Value) *misfit {
		if part == nil {
			dst.SetZero()
			return nil
		}
		if text, ok := part.(string); ok && bytes {
			// Line breaks are skipped, as encoding/json does.
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return misfitf("the text is not base64")
			}
			dst.SetBytes(data)
			return nil
		}
		list, ok := part.([]any)
		if !ok {
			return wrong(part, t)
		}
		out := reflect.MakeSlice(t, len(list), len(list))
		for i, v := range list {
			if bad := elem(d, v, out.Index(i)); bad != nil {
				return bad.under(strconv.Itoa(i))
			}
		}
		dst.Set(out)
		return nil
	}
}

func arrayDecoder(t reflect.Type) decoder {
	elem := decoderOf(t.Elem())
	return func(d *decoding, part any, dst reflect.Value) *misfit {
		list, ok := part.([]any)
		switch {
		case part == nil:
			return nil
		case !ok:
			return wrong(part, t)
		case len(list) > t.Len():
			return misfitf("%d elements do not fit %s", len(list), typeName(t))
		}
		dst.SetZero()
		for i, v := range list {
			if bad := elem(d, v, dst.Index(i)); bad != nil {
				return bad.under(strconv.Itoa(i))
			}
		}
		return nil
	}
}

// decodeAny fills an empty interface as encoding/json does: numbers are
// float64, and no array or object is shared with the tree.
func decodeAny(_ *decoding, part any, dst reflect.Value) *misfit {
	v, bad := plainValue(part)
	switch {
	case bad != nil:
		return bad
	case v == nil:
		dst.SetZero()
	default:
		dst.Set(reflect.ValueOf(v))
	}
	return nil
}

func plainValue(part any) (any, *misfit) {
	switch p := part.(type) {
	case json.Number:
		f, err := strconv.ParseFloat(string(p), 64)
		if err != nil {
			return nil, misfitf("the number %s is out of range", clip(string(p), 40))
		}
		return f, nil
	case []any:
		out := make([]any, len(p))
		for i, e := range p {
			v, bad := plainValue(e)
			if bad != nil {
				return nil, bad.under(strconv.Itoa(i))
			}
			out[i] = v
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(p))
		for name, e := range p {
			v, bad := plainValue(e)
			if bad != nil {
				return nil, bad.under(name)
			}
			out[name] = v
		}
		return out, nil
	}
	return part, nil
}
