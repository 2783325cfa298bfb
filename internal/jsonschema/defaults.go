package jsonschema

import (
	"maps"
	"slices"

	"github.com/rulvar/rulvar-go/internal/errs"
)

// MaxDefaults bounds what defaults may add to one value, in bytes (about). A
// short text such as [{},{},...] could otherwise grow without measure.
const MaxDefaults = 1 << 20

// ApplyDefaults returns the value with absent members filled in from "default"
// of the properties that describe them, also below: through properties,
// patternProperties, additionalProperties, prefixItems, items, $ref and allOf,
// and in values that were filled in. Alternatives (anyOf, oneOf, if) fill
// nothing in. A member that is there is never touched, null included, and where
// two schemas give a default the outer one counts, then the first.
//
// A default that does not fit its own schema is passed over. The value itself
// is not changed, and it is the result where nothing was filled in; parts that
// are filled in belong to the schema, so the result is read-only.
//
// The error, code invalid-arguments, says that the defaults would add more than
// [MaxDefaults].
func (v *Validator) ApplyDefaults(tree any) (any, error) {
	f := filler{room: MaxDefaults}
	out, _ := f.fill(v.shape, tree)
	if f.room < 0 {
		return nil, errs.New(errs.InvalidArguments, "defaults", "#", "the defaults of the schema would add more than 1 MiB; send the members")
	}
	return out, nil
}

// ApplyDefaults is [Validator.ApplyDefaults] with a schema that is compiled for
// the call. Where that fails, or the defaults would add too much, the value is
// returned as it is.
func ApplyDefaults(schema, tree any) any {
	v, err := Compile(schema)
	if err != nil {
		return tree
	}
	out, err := v.ApplyDefaults(tree)
	if err != nil {
		return tree
	}
	return out
}

// filler fills defaults in while there is room.
type filler struct{ room int }

// fill returns v with defaults filled in, and whether that is another value.
func (f *filler) fill(sh *shape, v any) (any, bool) {
	if sh == nil || !sh.fills {
		return v, false
	}
	var out any
	var changed bool
	switch v := v.(type) {
	case map[string]any:
		out, changed = f.object(sh, v)
	case []any:
		out, changed = f.list(sh, v)
	default:
		return v, false
	}
	for _, p := range sh.same {
		filled, more := f.fill(p, out)
		out, changed = filled, changed || more
	}
	return out, changed
}

func (f *filler) object(sh *shape, obj map[string]any) (any, bool) {
	out, copied := obj, false
	set := func(name string, v any) {
		if !copied {
			out, copied = make(map[string]any, len(obj)+len(sh.absent)), true
			maps.Copy(out, obj)
		}
		out[name] = v
	}
	for _, name := range sh.absent {
		if _, ok := out[name]; ok {
			continue
		}
		value := sh.props[name].preset.value
		size, _ := weigh(value, f.room+1, maxDepth)
		if f.room -= size + len(name) + 4; f.room < 0 {
			return obj, false
		}
		set(name, value)
	}
	for _, name := range sortedKeys(out) {
		child, changed := out[name], false
		sh.member(name, func(p *shape) {
			filled, more := f.fill(p, child)
			child, changed = filled, changed || more
		})
		if changed {
			set(name, child)
		}
	}
	return out, copied
}

func (f *filler) list(sh *shape, list []any) (any, bool) {
	out, copied := list, false
	for i, child := range list {
		p := sh.rest
		if i < len(sh.prefix) {
			p = sh.prefix[i]
		}
		if filled, changed := f.fill(p, child); changed {
			if !copied {
				out, copied = slices.Clone(list), true
			}
			out[i] = filled
		}
	}
	return out, copied
}

// member calls use with each shape that describes the member of that name.
func (sh *shape) member(name string, use func(*shape)) {
	described := false
	if p, ok := sh.props[name]; ok {
		described = true
		use(p)
	}
	for _, p := range sh.patterns {
		if p.re.MatchString(name) {
			described = true
			use(p.shape)
		}
	}
	if !described && sh.additional != nil {
		use(sh.additional)
	}
}
