package jsonschema

import (
	"encoding/json"
	"reflect"
	"strconv"
)

func decodeBool(_ *decoding, part any, dst reflect.Value) *misfit {
	switch b := part.(type) {
	case bool:
		dst.SetBool(b)
	case nil:
	default:
		return wrong(part, dst.Type())
	}
	return nil
}

func decodeString(_ *decoding, part any, dst reflect.Value) *misfit {
	switch s := part.(type) {
	case string:
		dst.SetString(s)
	case nil:
	default:
		return wrong(part, dst.Type())
	}
	return nil
}

// decodeNumber fills a json.Number, also from a text that is a number.
func decodeNumber(_ *decoding, part any, dst reflect.Value) *misfit {
	var n json.Number
	switch p := part.(type) {
	case json.Number:
		n = p
	case string:
		n = json.Number(p)
	case nil:
		return nil
	default:
		return wrong(part, dst.Type())
	}
	plain, ok := settleNumber(n)
	if !ok {
		return misfitf("%s is no number", quote(string(n), maxQuoted))
	}
	dst.SetString(string(plain))
	return nil
}

// canonicalNumber returns the canonical text of a number. ok is false for a
// part that is no number; a null fills nothing and needs no error.
func canonicalNumber(part any, t reflect.Type) (text string, ok bool, bad *misfit) {
	n, isNumber := part.(json.Number)
	if !isNumber {
		if part == nil {
			return "", false, nil
		}
		return "", false, wrong(part, t)
	}
	plain, fits := settleNumber(n)
	if !fits {
		return "", false, misfitf("the number %s is out of range", clip(string(n), 40))
	}
	return string(plain), true, nil
}

func decodeInt(_ *decoding, part any, dst reflect.Value) *misfit {
	text, ok, bad := canonicalNumber(part, dst.Type())
	if !ok {
		return bad
	}
	n, err := strconv.ParseInt(text, 10, dst.Type().Bits())
	if err != nil {
		return misfitf("%s does not fit %s", clip(text, 40), typeName(dst.Type()))
	}
	dst.SetInt(n)
	return nil
}

func decodeUint(_ *decoding, part any, dst reflect.Value) *misfit {
	text, ok, bad := canonicalNumber(part, dst.Type())
	if !ok {
		return bad
	}
	n, err := strconv.ParseUint(text, 10, dst.Type().Bits())
	if err != nil {
		return misfitf("%s does not fit %s", clip(text, 40), typeName(dst.Type()))
	}
	dst.SetUint(n)
	return nil
}

func decodeFloat(_ *decoding, part any, dst reflect.Value) *misfit {
	text, ok, bad := canonicalNumber(part, dst.Type())
	if !ok {
		return bad
	}
	f, err := strconv.ParseFloat(text, dst.Type().Bits())
	if err != nil {
		return misfitf("%s does not fit %s", clip(text, 40), typeName(dst.Type()))
	}
	dst.SetFloat(f)
	return nil
}
