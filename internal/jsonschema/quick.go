package jsonschema

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rulvar/rulvar-go/internal/jcs"
)

// quick is a compiled schema that can only say yes. Most arguments of most
// tools are valid and use a handful of keywords; for those it answers without
// allocating. Whatever it does not know, or what does not fit, is left to the
// validator, whose verdict is the one that counts; a yes here has to be a yes
// there, which the tests hold on every value they see.
type quick struct {
	types              typeSet
	enum               []any // nil: anything
	format             func(any) error
	pattern            jsonschema.Regexp
	minLength, maxLen  int
	low, high          float64 // bounds, themselves allowed
	above, below       float64 // bounds, themselves not allowed
	minItems, maxItems int
	unique             bool
	minProps, maxProps int
	required           []string
	props              map[string]*quick
	patterns           []quickPattern
	additional         *quick
	closed             bool // no other members than those described
	prefix             []*quick
	rest               *quick
	all, any           []*quick
}

type quickPattern struct {
	re    jsonschema.Regexp
	quick *quick
}

// typeSet is a set of JSON types.
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBool
	typeInteger
	typeNumber
	typeText
	typeArray
	typeObject
	typeAny = typeNull | typeBool | typeInteger | typeNumber | typeText | typeArray | typeObject
)

var typeBits = map[string]typeSet{
	"null": typeNull, "boolean": typeBool, "integer": typeInteger, "number": typeNumber | typeInteger,
	"string": typeText, "array": typeArray, "object": typeObject,
}

// quickBuilder makes the quick form of the schemas of one definition. Those
// that have none are nil in done.
type quickBuilder struct {
	done map[*jsonschema.Schema]*quick
}

func newQuick(s *jsonschema.Schema) *quick {
	b := quickBuilder{done: map[*jsonschema.Schema]*quick{}}
	return b.quick(s)
}

// quick returns the quick form of a schema, nil where it has a keyword that is
// not known here or where a part that everything depends on has none.
func (b *quickBuilder) quick(s *jsonschema.Schema) *quick {
	if q, ok := b.done[s]; ok {
		return q
	}
	q := b.make(s)
	b.done[s] = q
	return q
}

func (b *quickBuilder) make(s *jsonschema.Schema) *quick {
	q := &quick{
		types: typeAny, maxLen: math.MaxInt, maxItems: math.MaxInt, maxProps: math.MaxInt,
		low: math.Inf(-1), high: math.Inf(1), above: math.Inf(-1), below: math.Inf(1),
	}
	if s.Bool != nil {
		if *s.Bool {
			return q
		}
		return nil
	}
	if s.Not != nil || len(s.OneOf) > 0 || s.If != nil || s.Contains != nil || s.MultipleOf != nil ||
		len(s.Extensions) > 0 || s.PropertyNames != nil || len(s.Dependencies) > 0 || len(s.DependentRequired) > 0 ||
		len(s.DependentSchemas) > 0 || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil ||
		s.RecursiveRef != nil || s.DynamicRef != nil || s.ContentEncoding != nil || s.ContentMediaType != nil {
		return nil
	}
	if !q.scalars(s) || !b.parts(q, s) {
		return nil
	}
	return q
}

// scalars takes over the keywords without schemas in them.
func (q *quick) scalars(s *jsonschema.Schema) bool {
	if s.Types != nil {
		q.types = 0
		for _, name := range s.Types.ToStrings() {
			q.types |= typeBits[name]
		}
	}
	if s.Enum != nil {
		q.enum = append([]any{}, s.Enum.Values...)
	}
	if s.Const != nil {
		if q.enum != nil {
			return false
		}
		q.enum = []any{*s.Const}
	}
	if s.Format != nil {
		q.format = s.Format.Validate
	}
	if s.Pattern != nil {
		q.pattern = s.Pattern
	}
	for _, c := range []struct {
		from *int
		to   *int
	}{{s.MinLength, &q.minLength}, {s.MaxLength, &q.maxLen}, {s.MinItems, &q.minItems}, {s.MaxItems, &q.maxItems}, {s.MinProperties, &q.minProps}, {s.MaxProperties, &q.maxProps}} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	if s.Minimum != nil {
		q.low, _ = s.Minimum.Float64()
	}
	if s.Maximum != nil {
		q.high, _ = s.Maximum.Float64()
	}
	if s.ExclusiveMinimum != nil {
		q.above, _ = s.ExclusiveMinimum.Float64()
	}
	if s.ExclusiveMaximum != nil {
		q.below, _ = s.ExclusiveMaximum.Float64()
	}
	q.unique = s.UniqueItems
	q.required = s.Required
	return true
}

// parts takes over the schemas of parts, and those of the same value. A part
// without a quick form is kept as nil and fits nothing.
func (b *quickBuilder) parts(q *quick, s *jsonschema.Schema) bool {
	if len(s.Properties) > 0 {
		q.props = make(map[string]*quick, len(s.Properties))
		for name, p := range s.Properties {
			q.props[name] = b.quick(p)
		}
	}
	for re, p := range s.PatternProperties {
		q.patterns = append(q.patterns, quickPattern{re, b.quick(p)})
	}
	switch p := s.AdditionalProperties.(type) {
	case bool:
		q.closed = !p
	case *jsonschema.Schema:
		if q.additional = b.quick(p); q.additional == nil {
			q.closed = true
		}
	}
	for _, p := range s.PrefixItems {
		q.prefix = append(q.prefix, b.quick(p))
	}
	if s.Items2020 != nil {
		if q.rest = b.quick(s.Items2020); q.rest == nil {
			q.maxItems = min(q.maxItems, len(q.prefix))
		}
	}
	for _, p := range append([]*jsonschema.Schema{s.Ref}, s.AllOf...) {
		if p == nil {
			continue
		}
		part := b.quick(p)
		if part == nil {
			return false
		}
		q.all = append(q.all, part)
	}
	for _, p := range s.AnyOf {
		if part := b.quick(p); part != nil {
			q.any = append(q.any, part)
		}
	}
	return len(s.AnyOf) == 0 || len(q.any) > 0
}

// fits reports whether the value surely fits. Every number in it is then plain,
// and its nesting within bounds.
func (q *quick) fits(v any, depth int) bool {
	if q == nil || depth > jcs.MaxDepth || q.enum != nil && !q.listed(v) || q.format != nil && q.format(v) != nil {
		return false
	}
	ok := false
	switch v := v.(type) {
	case string:
		ok = q.types&typeText != 0 && q.fitsText(v)
	case json.Number:
		ok = isPlain(string(v)) && q.fitsNumber(string(v))
	case map[string]any:
		ok = q.types&typeObject != 0 && q.fitsObject(v, depth)
	case []any:
		ok = q.types&typeArray != 0 && q.fitsArray(v, depth)
	case bool:
		ok = q.types&typeBool != 0
	case nil:
		ok = q.types&typeNull != 0
	}
	if !ok {
		return false
	}
	for _, p := range q.all {
		if !p.fits(v, depth) {
			return false
		}
	}
	if len(q.any) == 0 {
		return true
	}
	for _, p := range q.any {
		if p.fits(v, depth) {
			return true
		}
	}
	return false
}

// listed reports whether v is in the enum. Numbers are equal where their texts
// are, both being canonical; arrays and objects are not compared here.
func (q *quick) listed(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	for _, e := range q.enum {
		switch e.(type) {
		case []any, map[string]any:
		default:
			if e == v {
				return true
			}
		}
	}
	return false
}

func (q *quick) fitsText(s string) bool {
	if q.minLength > 0 || q.maxLen < len(s) {
		if n := utf8.RuneCountInString(s); n < q.minLength || n > q.maxLen {
			return false
		}
	}
	return q.pattern == nil || q.pattern.MatchString(s)
}

// fitsNumber compares as float64: two canonical texts stand in the order of
// their float64 values, and are equal only together.
func (q *quick) fitsNumber(s string) bool {
	if q.types&typeNumber == 0 && (q.types&typeInteger == 0 || !isInteger(s)) {
		return false
	}
	if q.low == math.Inf(-1) && q.high == math.Inf(1) && q.above == math.Inf(-1) && q.below == math.Inf(1) {
		return true
	}
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && f >= q.low && f <= q.high && f > q.above && f < q.below
}

// isInteger reports whether a plain number has no fraction.
func isInteger(s string) bool {
	for i := range len(s) {
		if s[i] == '.' {
			return false
		}
	}
	return true
}

func (q *quick) fitsArray(list []any, depth int) bool {
	if len(list) < q.minItems || len(list) > q.maxItems || q.unique && len(list) > 1 {
		return false
	}
	for i, e := range list {
		switch {
		case i < len(q.prefix):
			if !q.prefix[i].fits(e, depth+1) {
				return false
			}
		case q.rest != nil:
			if !q.rest.fits(e, depth+1) {
				return false
			}
		default:
			if !anyFits(e, depth+1) {
				return false
			}
		}
	}
	return true
}

func (q *quick) fitsObject(obj map[string]any, depth int) bool {
	if len(obj) < q.minProps || len(obj) > q.maxProps {
		return false
	}
	for _, name := range q.required {
		if _, ok := obj[name]; !ok {
			return false
		}
	}
	for name, e := range obj {
		p, described := q.props[name]
		if described && !p.fits(e, depth+1) {
			return false
		}
		for _, p := range q.patterns {
			if p.re.MatchString(name) {
				described = true
				if !p.quick.fits(e, depth+1) {
					return false
				}
			}
		}
		if described {
			continue
		}
		if q.closed || q.additional != nil && !q.additional.fits(e, depth+1) || q.additional == nil && !anyFits(e, depth+1) {
			return false
		}
	}
	return true
}

// anyFits reports whether a part that no schema describes is a JSON value.
func anyFits(v any, depth int) bool {
	if settled(v) {
		return true
	}
	if depth > jcs.MaxDepth {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !anyFits(e, depth+1) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, e := range v {
			if !anyFits(e, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}
