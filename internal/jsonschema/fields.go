package jsonschema

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a member of a Go struct as encoding/json sees it.
type field struct {
	name   string       // of the JSON member
	index  []int        // the way to it, through embedded structs
	typ    reflect.Type // as declared, pointers included
	source reflect.StructField
	tagged bool // the name comes from a tag
	quoted bool // the option ",string" applies
	inside bool // reached through an embedded pointer
}

// structFields returns the fields of a struct type that encoding/json decodes
// into, in the order of declaration, and the names that it leaves out because
// several fields claim them. Rules are those of encoding/json: fields of
// embedded structs are promoted, of several with one name the one nearest to
// the surface counts, then the one with a tag, then none.
func structFields(t reflect.Type) (fields []field, ambiguous []string) {
	byName := map[string][]field{}
	for _, f := range allFields(t) {
		byName[f.name] = append(byName[f.name], f)
	}
	for _, name := range sortedKeys(byName) {
		rivals := byName[name]
		slices.SortStableFunc(rivals, func(a, b field) int {
			return cmp.Or(cmp.Compare(len(a.index), len(b.index)), compareBool(b.tagged, a.tagged))
		})
		if len(rivals) > 1 {
			ambiguous = append(ambiguous, name)
			if len(rivals[0].index) == len(rivals[1].index) && rivals[0].tagged == rivals[1].tagged {
				continue
			}
		}
		fields = append(fields, rivals[0])
	}
	slices.SortFunc(fields, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return fields, ambiguous
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// allFields returns every candidate, level by level. A field of a type that is
// embedded more than once at a level appears twice, which makes it ambiguous.
func allFields(root reflect.Type) []field {
	type level struct {
		typ    reflect.Type
		index  []int
		inside bool
	}
	var all []field
	var times map[reflect.Type]int // how often a type of this level is embedded
	seen := map[reflect.Type]bool{}
	for next := []level{{typ: root}}; len(next) > 0; {
		current, below := next, map[reflect.Type]int{}
		next = nil
		for _, l := range current {
			if seen[l.typ] {
				continue
			}
			seen[l.typ] = true
			for i := range l.typ.NumField() {
				sf := l.typ.Field(i)
				index := append(slices.Clone(l.index), i)
				f, embedded, ok := newField(sf, index)
				f.inside = l.inside
				if embedded != nil {
					if below[embedded]++; below[embedded] == 1 {
						next = append(next, level{embedded, index, l.inside || sf.Type.Kind() == reflect.Pointer})
					}
				}
				if ok {
					all = append(all, f)
					if times[l.typ] > 1 {
						all = append(all, f)
					}
				}
			}
		}
		times = below
	}
	return all
}

// newField returns the field that sf is, or the struct type whose fields it
// promotes, or neither.
func newField(sf reflect.StructField, index []int) (f field, embedded reflect.Type, ok bool) {
	bare := sf.Type
	if bare.Kind() == reflect.Pointer && bare.Name() == "" {
		bare = bare.Elem()
	}
	if sf.Anonymous {
		if !sf.IsExported() && bare.Kind() != reflect.Struct {
			return field{}, nil, false
		}
	} else if !sf.IsExported() {
		return field{}, nil, false
	}
	tag := sf.Tag.Get("json")
	if tag == "-" {
		return field{}, nil, false
	}
	name, options, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	if sf.Anonymous && name == "" && bare.Kind() == reflect.Struct {
		return field{}, bare, false
	}
	f = field{name: name, index: index, typ: sf.Type, source: sf, tagged: name != ""}
	if name == "" {
		f.name = sf.Name
	}
	switch bare.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		f.quoted = slices.Contains(strings.Split(options, ","), "string")
	}
	return f, nil, true
}

// validName reports whether encoding/json takes the name from the tag.
func validName(s string) bool {
	for _, c := range s {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) {
			return false
		}
	}
	return s != ""
}
